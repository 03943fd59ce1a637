//! `session/load` and `session/resume`.

use baton_protocol::ErrorCode;
use baton_protocol::limits::echo;
use baton_session::route::DeliveryPath;
use baton_session::store::{AttachOutcome, AttachParams};
use baton_session::token::TokenScope;

use super::{Call, Outcome, Problem, invalid, params, unknown_session};

const TOKEN_OF_CLOSED: &str = "the session is closed, and a session token alone does not open it again: load or resume it on a \
    connection of its owner";

impl Call<'_> {
    pub(super) async fn attach(&self, replay: bool) -> Result<Outcome, Problem> {
        let session = self.session().await?;
        let message = self.message.inbound;
        let observe = self.pass.scope() == TokenScope::Observe || params::observes(message)?;
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
            only_open: self.pass.alone,
        };
        loop {
            match self.app.store.attach(&attach).await? {
                AttachOutcome::Done(attachment) => {
                    self.joined(&attach.session, observe);
                    // So that the connection's outbox names every session it has opened.
                    if attachment.latest().map(|latest| latest.via) == Some(DeliveryPath::Session) {
                        self.watch(&attach.session, attachment.head).await?;
                    }
                    return Ok(Outcome::Attached(attach.session, attachment));
                }
                AttachOutcome::NotFound => return Err(unknown_session(attach.session.as_str())),
                AttachOutcome::Closed => {
                    return Err(Problem::Rpc(
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
