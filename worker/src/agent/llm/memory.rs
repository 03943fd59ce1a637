//! The agent's present knowledge of a session: shared by the turn that runs and the commands that
//! arrive meanwhile.

use std::sync::{Mutex, MutexGuard};

use baton_session::sync::MutexExt as _;

use super::session_history::SessionHistory;
use super::settings::LlmSettings;
use super::spending::UsedSoFar;
use super::turn_record::TurnRecord;

pub struct LlmMemory(Mutex<MemoryFields>);

pub struct MemoryFields {
    pub history: SessionHistory,
    pub settings: LlmSettings,
    /// The turn that an earlier worker has begun.
    pub running: Option<TurnRecord>,
    /// By all turns of the session.
    pub used: UsedSoFar,
    /// The store does not have the settings yet.
    pub unsaved: bool,
}

impl LlmMemory {
    pub fn new(fields: MemoryFields) -> Self {
        Self(Mutex::new(fields))
    }

    pub fn fields(&self) -> MutexGuard<'_, MemoryFields> {
        self.0.locked()
    }

    /// Makes a change of what is chosen.
    pub fn change<T>(&self, change: impl FnOnce(&mut LlmSettings) -> T) -> T {
        let mut fields = self.fields();
        fields.unsaved = true;
        change(&mut fields.settings)
    }
}
