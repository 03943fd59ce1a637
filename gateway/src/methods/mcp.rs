//! `mcp/message`: what an MCP server that lives in the client says while a request of the agent
//! runs. It names that request and no session. The worker has put the session's id before the
//! request's.

use baton_session::command::CommandKind;

use super::{MethodCall, MethodError, MethodOutcome, params};

impl MethodCall<'_> {
    pub(super) async fn mcp_message(&self) -> Result<MethodOutcome, MethodError> {
        let request = params::request_id(self.message.inbound);
        let request: Option<String> = request.and_then(|id| serde_json::from_str(id).ok());
        match self.routed_session(request).await? {
            Some(session) => self.enqueue(CommandKind::Extension, session).await,
            // Nobody waits for the answer to a notification.
            None => Ok(MethodOutcome::Taken),
        }
    }
}
