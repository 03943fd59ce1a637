//! A question of an agent to the client. It is answered exactly once: whoever drops it has answered
//! that there is no answer, since an agent may wait for ever.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::message::Reply;
use super::peer::Peer;
use crate::agent::{Stage, raw};
use crate::rpc::Failure;

const PERMISSION: &str = "session/request_permission";

pub struct Question {
    peer: Arc<Peer>,
    id: Box<RawValue>,
    answered: bool,
}

impl Question {
    pub fn new(peer: Arc<Peer>, id: Box<RawValue>) -> Self {
        Self {
            peer,
            id,
            answered: false,
        }
    }

    /// Asks the client, for as long as it takes.
    pub async fn put(self, stage: Stage<'_>, method: String, params: Box<RawValue>) {
        let reply = match stage {
            // A client that cancels need not say of every question that it is off.
            Stage::Turn(turn) if method == PERMISSION => tokio::select! {
                reply = turn.request(&method, params) => reply,
                () = turn.cancelled() => Ok(raw(&json!({ "outcome": { "outcome": "cancelled" } }))),
            },
            Stage::Turn(turn) => turn.request(&method, params).await,
            // A turn may begin before there is an answer.
            Stage::Rest(rest) => {
                let reply = rest.request(&method, params);
                tokio::spawn(async move { self.answer(&reply.await) });
                return;
            }
        };
        self.answer(&reply);
    }

    pub fn refuse(self, why: &str) {
        self.answer(&Err(Failure::invalid_params(why)));
    }

    fn answer(mut self, reply: &Reply) {
        self.answered = true;
        self.peer.answer(&self.id, reply);
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.answered {
            let gone = Failure::internal("the turn ended before there was an answer");
            self.peer.answer(&self.id, &Err(gone));
        }
    }
}
