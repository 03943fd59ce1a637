//! Requests of the agent to this client. After a takeover the open ones are sent again to the new
//! controller; if that is the same user, the known answer is used.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

/// Answers that are remembered. Older answers have been delivered long ago.
const MAX_REMEMBERED_ANSWERS: usize = 32;
/// A larger answer is the content of a file, which can be read again.
const MAX_REMEMBERED_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub struct AgentRequests {
    /// With their answers, if there are any.
    asked: HashMap<String, Option<Bytes>>,
    /// The ids of those with an answer, the oldest first.
    answered: VecDeque<String>,
}

pub enum RequestStatus {
    New,
    /// And has no answer yet.
    Open,
    Answered(Bytes),
}

impl AgentRequests {
    pub fn asked(&mut self, id: &str) -> RequestStatus {
        match self.asked.get(id) {
            Some(None) => RequestStatus::Open,
            Some(Some(answer)) => RequestStatus::Answered(answer.clone()),
            None => {
                self.asked.insert(id.to_owned(), None);
                RequestStatus::New
            }
        }
    }

    pub fn answered(&mut self, id: &str, answer: &Bytes) {
        self.withdrawn(id);
        if answer.len() > MAX_REMEMBERED_BYTES {
            return;
        }
        self.asked.insert(id.to_owned(), Some(answer.clone()));
        self.answered.push_back(id.to_owned());
        if self.answered.len() > MAX_REMEMBERED_ANSWERS
            && let Some(oldest) = self.answered.pop_front()
        {
            self.asked.remove(&oldest);
        }
    }

    /// The request was withdrawn.
    pub fn withdrawn(&mut self, id: &str) {
        if let Some(Some(_)) = self.asked.remove(id) {
            self.answered.retain(|answered| answered != id);
        }
    }

    pub fn are_open(&self) -> bool {
        self.asked.values().any(Option::is_none)
    }
}
