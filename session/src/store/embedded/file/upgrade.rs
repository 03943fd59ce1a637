//! A directory of the first format has no lists: its sessions are entered once, when it is opened.

use fjall::PersistMode;

use super::super::list::Heading;
use super::super::session::Session;
use super::directory::Refused;
use super::values::{record, spoiled, unrecord};
use super::{Files, keys, unreadable, unwritable};
use crate::id::SessionId;
use crate::store::Result;

/// Saved at once.
const CHUNK: usize = 256;

impl Files {
    /// The format's number changes last: if this process dies before, the next begins anew.
    pub fn upgrade(&self) -> std::result::Result<(), Refused> {
        if self.directory.is_current() {
            return Ok(());
        }
        let listed = self.list_all();
        listed.map_err(|error| self.directory.damaged(error))?;
        self.directory.write_format()
    }

    fn list_all(&self) -> Result<()> {
        let mut batch = self.database.batch();
        let mut waiting = 0;
        for entry in self.sessions.iter() {
            let (key, value) = entry.into_inner().map_err(unreadable)?;
            let id = std::str::from_utf8(&key).ok().and_then(SessionId::parse);
            let id = id.ok_or_else(|| spoiled("session"))?;
            let mut session: Session = unrecord(&value)?;
            if session.updated == 0 {
                // The nearest thing that was noted then.
                session.updated = session.used;
                batch.insert(&self.sessions, key, record(&session)?);
            }
            if let Some(place) = session.place(&id) {
                for under in Heading::all_of(&session) {
                    batch.insert(&self.listed, keys::listed(&under, &place), []);
                }
            }
            waiting += 1;
            if waiting == CHUNK {
                let full = std::mem::replace(&mut batch, self.database.batch());
                full.commit().map_err(unwritable)?;
                waiting = 0;
            }
        }
        batch.commit().map_err(unwritable)?;
        let synced = self.database.persist(PersistMode::SyncData);
        synced.map_err(unwritable)
    }
}
