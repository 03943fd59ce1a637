//! A request of an agent to the client. It is answered exactly once: a dropped one is answered with
//! an error, since an agent may wait for ever.

use std::sync::Arc;

use baton_protocol::Method;
use serde_json::json;
use serde_json::value::RawValue;

use super::connection::AgentConnection;
use crate::agent::ListenContext;
use crate::agent_policy::{AgentAnswer, AgentPolicy};
use crate::rpc::Failure;

pub struct AgentRequest {
    connection: Arc<AgentConnection>,
    id: Box<RawValue>,
    /// Filters the answer that the agent gets.
    policy: Arc<AgentPolicy>,
    answered: bool,
}

impl AgentRequest {
    pub fn new(
        connection: Arc<AgentConnection>,
        id: Box<RawValue>,
        policy: Arc<AgentPolicy>,
    ) -> Self {
        Self {
            connection,
            id,
            policy,
            answered: false,
        }
    }

    /// Asks the client, for as long as it takes.
    pub async fn put(self, stage: ListenContext<'_>, method: String, params: Box<RawValue>) {
        let answer = match stage {
            // A client that cancels need not say of every question that it is off.
            ListenContext::Turn(turn) if Method::of(&method) == Method::RequestPermission => {
                tokio::select! {
                    reply = turn.request(&method, params) => self.policy.answer(&method, reply),
                    () = turn.cancelled() => {
                        AgentAnswer::own(Ok(json!({ "outcome": { "outcome": "cancelled" } })))
                    }
                }
            }
            ListenContext::Turn(turn) => {
                let reply = turn.request(&method, params).await;
                self.policy.answer(&method, reply)
            }
            // A turn may begin before there is an answer.
            ListenContext::Rest(rest) => {
                let reply = rest.request(&method, params);
                tokio::spawn(async move {
                    let answer = self.policy.answer(&method, reply.await);
                    self.answer(&answer);
                });
                return;
            }
        };
        self.answer(&answer);
    }

    pub fn refuse(self, why: &str) {
        self.answer(&AgentAnswer::own(Err(Failure::invalid_params(why))));
    }

    fn answer(mut self, answer: &AgentAnswer) {
        self.answered = true;
        self.connection.answer(&self.id, answer);
    }
}

impl Drop for AgentRequest {
    fn drop(&mut self) {
        if !self.answered {
            let gone = Failure::internal("the turn ended before there was an answer");
            self.connection
                .answer(&self.id, &AgentAnswer::own(Err(gone)));
        }
    }
}
