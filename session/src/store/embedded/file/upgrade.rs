//! A directory of the first format has no lists: its sessions are entered once, when it is opened.

use std::io;

use fjall::PersistMode;

use super::super::list::ListKey;
use super::super::session::StoredSession;
use super::directory::DirectoryError;
use super::values::{record, spoiled, unrecord};
use super::{DatabaseFiles, keys, unreadable, unwritable};
use crate::id::SessionId;
use crate::store::{Error, Result};

/// Saved at once.
const CHUNK: usize = 256;

impl DatabaseFiles {
    /// The format's number changes last: if this process dies before, the next begins anew.
    pub fn upgrade(&self) -> std::result::Result<(), DirectoryError> {
        if self.directory.is_current() {
            return Ok(());
        }
        if !self.directory.has_lists() {
            self.list_all().map_err(|error| match error {
                Error::Unavailable(reason) => self.directory.io(io::Error::other(reason)),
                Error::Broken(reason) => self.directory.damaged(reason),
            })?;
        }
        self.directory.write_format()
    }

    fn list_all(&self) -> Result<()> {
        let mut batch = self.database.batch();
        let mut waiting = 0;
        for entry in self.sessions.iter() {
            let (key, value) = entry.into_inner().map_err(unreadable)?;
            let id = std::str::from_utf8(&key).ok().and_then(SessionId::parse);
            let id = id.ok_or_else(|| spoiled("session"))?;
            let mut session: StoredSession = unrecord(&value)?;
            if session.updated == 0 {
                // The nearest thing that was noted then.
                session.updated = session.used;
                batch.insert(&self.sessions, key, record(&session)?);
            }
            if let Some(place) = session.place(&id) {
                for under in ListKey::all_of(&session) {
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;

    use bytes::Bytes;
    use serde::{Deserialize, Serialize};

    use super::super::directory::DataDirectory;
    use super::super::open_when_free as open;
    use super::*;
    use crate::conformance::scene::Scene;
    use crate::store::{ListPosition, ListRequest};

    /// A session as the first version wrote it, without keys and connections.
    #[derive(Serialize, Deserialize)]
    struct Old {
        principal: String,
        agent: String,
        cwd: String,
        params: Bytes,
        state: Bytes,
        view: Bytes,
        title: String,
        head: u64,
        last_command: u64,
        #[serde(skip_deserializing)]
        known: Vec<()>,
        running: Option<()>,
        held: bool,
        #[serde(default)]
        stalls: u32,
        #[serde(default)]
        stalled_at: u64,
        used: u64,
        pending: Vec<u64>,
        controller: Option<String>,
        #[serde(skip_deserializing)]
        parties: HashMap<String, ()>,
    }

    #[tokio::test]
    async fn a_directory_of_the_first_format_gets_its_lists() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let scene = Scene::created(&open(path)).await;
        let mut sessions = vec![scene.id.clone()];
        // More than are entered at once.
        for _ in 0..CHUNK {
            sessions.push(scene.another().await.id);
        }
        let Scene { store, .. } = scene;
        drop(store);
        let entered = loop {
            match DataDirectory::enter(path) {
                Err(DirectoryError::InUse(_)) => std::thread::yield_now(),
                entered => break entered.expect("it is there"),
            }
        };
        let files = DatabaseFiles::open(entered).expect("it opens");
        for id in &sessions {
            let found = files.sessions.get(id.as_str()).expect("readable");
            let mut old: Old = unrecord(&found.expect("a record")).expect("readable");
            old.used = 1_700_000_000_000;
            let old = record(&old).expect("a record");
            files.sessions.insert(id.as_str(), old).expect("written");
        }
        for listed in files.listed.iter() {
            let key = listed.key().expect("readable");
            files.listed.remove(key).expect("written");
        }
        drop(files);
        fs::write(path.join("FORMAT"), "1\n").expect("written");

        sessions.sort();
        sessions.reverse();
        // Once is enough, and what it was lasts.
        for _ in 0..2 {
            let store = open(path);
            let listing = ListRequest {
                principal: scene.principal.clone(),
                cwd: Some(crate::conformance::scene::CWD.into()),
                after: None,
                limit: 1000,
            };
            let listed = store.list(&listing).await.expect("a list");
            let places = listed.into_iter().map(|summary| summary.place);
            let expected = sessions.iter().map(|id| ListPosition {
                updated: 1_700_000_000_000,
                session: id.clone(),
            });
            assert_eq!(places.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            let format = fs::read_to_string(path.join("FORMAT")).expect("a format");
            assert_eq!(format, "3\n");
        }
    }
}
