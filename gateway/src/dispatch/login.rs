//! `authenticate` and `logout`, where callers log in at the agent themselves. A session carries the request to a worker, and
//! nothing else: it is in no list, and ends with the answer.

use baton_protocol::limits::{self, MAX_LIST};
use baton_protocol::{ErrorCode, LOGIN_DIRECTORY, Method};
use baton_session::command::CommandKind;
use baton_session::store::SessionSetup;

use super::params::Place;
use super::{Call, Outcome, Problem, invalid, too_long};
use crate::agents;

const NO_LOGIN: &str =
    "nobody logs in at this agent through Baton: its operator does (--agent-auth operator)";

impl Call<'_> {
    pub(super) async fn login(&self) -> Result<Outcome, Problem> {
        let message = self.message.inbound;
        limits::check("params", message.params().len(), MAX_LIST).map_err(too_long)?;
        let agent = self.agent().await?;
        let known = agents::known(self.app, self.pass.caller.rights()).await?;
        let card = known.agents.iter().find(|(card, _)| card.name == agent);
        if !card.is_some_and(|(card, _)| agents::takes_logins(card)) {
            return Err(Problem::Rpc(ErrorCode::MethodNotFound, NO_LOGIN.into()));
        }
        let has_method = || {
            let params: Option<serde_json::Value> = serde_json::from_str(message.params()).ok();
            params.is_some_and(|params| params["methodId"].is_string())
        };
        if message.method() == Some(Method::Authenticate) && !has_method() {
            return Err(invalid(
                "params.methodId must be the id of one of authMethods, a string",
            ));
        }
        let place = Place {
            cwd: LOGIN_DIRECTORY.into(),
            setup: SessionSetup::default(),
        };
        self.create(agent, place, CommandKind::Extension).await
    }
}
