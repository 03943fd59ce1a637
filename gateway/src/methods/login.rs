//! `authenticate` and `logout`, where callers log in at the agent themselves. A session carries the
//! request to a worker, and nothing else: it is in no list, and nobody can use it for anything
//! else.

use baton_protocol::limits::{self, MAX_LIST};
use baton_protocol::{ErrorCode, LOGIN_DIRECTORY, Method};
use baton_session::command::CommandKind;
use baton_session::store::SessionSetup;
use serde_json::Value;

use super::params::SessionPlace;
use super::{MethodCall, MethodError, MethodOutcome, invalid, too_long};
use crate::agents;

const NO_LOGIN: &str =
    "nobody logs in at this agent through Baton: its operator does (--agent-auth operator)";

impl MethodCall<'_> {
    pub(super) async fn login(&self) -> Result<MethodOutcome, MethodError> {
        let message = self.message.inbound;
        limits::check("params", message.params().len(), MAX_LIST).map_err(too_long)?;
        let agent = self.agent().await?;
        let rights = self.access.caller.rights();
        let directory = self.services.agents.directory(rights).await?;
        let card = directory.agents.iter().find(|(card, _)| card.name == agent);
        if !card.is_some_and(|(card, _)| agents::takes_logins(card)) {
            return Err(MethodError::Rpc(ErrorCode::MethodNotFound, NO_LOGIN.into()));
        }
        let params: Value = serde_json::from_str(message.params()).unwrap_or_default();
        if message.method() == Some(Method::Authenticate) && !params["methodId"].is_string() {
            return Err(invalid(
                "params.methodId must be the id of one of authMethods, a string",
            ));
        }
        let place = SessionPlace {
            cwd: LOGIN_DIRECTORY.into(),
            setup: SessionSetup::default(),
        };
        self.create(agent, place, CommandKind::Extension).await
    }
}
