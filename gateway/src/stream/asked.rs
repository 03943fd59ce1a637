//! The agent's questions that a client was asked and nobody has answered yet.

use std::sync::Arc;

use bytes::Bytes;

use crate::rpc;

#[derive(Default)]
pub struct Asked(Vec<Arc<str>>);

impl Asked {
    /// The same question may be asked again.
    pub fn note(&mut self, id: &Arc<str>) {
        if !self.0.contains(id) {
            self.0.push(id.clone());
        }
    }

    /// True if it was asked here.
    pub fn settle(&mut self, id: &str) -> bool {
        let at = self.0.iter().position(|asked| **asked == *id);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// What to tell the client at the turn's end.
    pub fn withdraw(&mut self) -> impl Iterator<Item = Bytes> + use<> {
        let open = std::mem::take(&mut self.0).into_iter();
        open.map(|id| rpc::question_is_off(&id))
    }
}
