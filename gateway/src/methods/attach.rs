//! `session/load` and `session/resume`.

use baton_protocol::ErrorCode;
use baton_protocol::limits::echo;
use baton_session::route::DeliveryPath;
use baton_session::store::{AttachOutcome, AttachParams};
use baton_session::token::TokenScope;

use super::{MethodCall, MethodError, MethodOutcome, invalid, params, unknown_session};

const TOKEN_OF_CLOSED: &str = "the session is closed, and a session token alone does not open it \
    again: load or resume it on a \
    connection of its owner";

impl MethodCall<'_> {
    pub(super) async fn attach(&self, replay: bool) -> Result<MethodOutcome, MethodError> {
        let session = self.session().await?;
        let message = self.message.inbound;
        let observe = self.access.scope() == TokenScope::Observe || params::observes(message)?;
        let place = match (observe, replay) {
            (true, _) => params::watched_place(message)?,
            (false, true) => params::whole_place(message)?,
            (false, false) => params::changed_place(message)?,
        };
        let mut attach = AttachParams {
            session,
            principal: self.connection.principal.clone(),
            connection: self.connection.id.clone(),
            request: self.request().expect("only requests get here"),
            cwd: place.cwd,
            replay,
            one_shot: self.message.one_shot,
            watched: false,
            setup: place.setup,
            observe,
            // A closed session has no token any more; its principal may still open it.
            only_open: self.access.without_connection,
        };
        loop {
            match self.services.store.attach(&attach).await? {
                AttachOutcome::Done(attachment) => {
                    self.record_join(&attach.session, observe);
                    // So that the connection's outbox names every session it has opened.
                    if attachment.latest().map(|latest| latest.via) == Some(DeliveryPath::Session) {
                        self.watch(&attach.session, attachment.head).await?;
                    }
                    return Ok(MethodOutcome::Attached(attach.session, attachment));
                }
                AttachOutcome::NotFound => return Err(unknown_session(attach.session.as_str())),
                AttachOutcome::Closed => {
                    return Err(MethodError::Rpc(
                        ErrorCode::SessionClosed,
                        TOKEN_OF_CLOSED.into(),
                    ));
                }
                AttachOutcome::WrongCwd(cwd) => {
                    return Err(invalid(format!(
                        "params.cwd is {}, but the session lives in {}",
                        echo(&attach.cwd),
                        echo(&cwd)
                    )));
                }
                AttachOutcome::Unwatched { head } => {
                    self.watch(&attach.session, head).await?;
                    attach.watched = true;
                }
            }
        }
    }
}
