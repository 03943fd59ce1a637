//! What steps have saved and the database has not got yet.

use std::collections::HashSet;

use fjall::{Database, Keyspace, Slice};

#[derive(Default)]
pub struct Pending {
    writes: Vec<Write>,
    steps: usize,
}

struct Write {
    to: Keyspace,
    key: Slice,
    /// `None` to remove it.
    value: Option<Slice>,
}

impl Pending {
    pub fn insert(&mut self, to: &Keyspace, key: impl Into<Slice>, value: impl Into<Slice>) {
        self.push(to, key.into(), Some(value.into()));
    }

    pub fn remove(&mut self, from: &Keyspace, key: impl Into<Slice>) {
        self.push(from, key.into(), None);
    }

    fn push(&mut self, to: &Keyspace, key: Slice, value: Option<Slice>) {
        let to = to.clone();
        self.writes.push(Write { to, key, value });
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// One more step, after those that are here.
    pub fn add(&mut self, step: Self) {
        self.writes.extend(step.writes);
        self.steps += 1;
    }

    /// All or nothing, handed to the operating system before this returns.
    pub fn commit(mut self, database: &Database) -> fjall::Result<()> {
        // A batch must not change a key twice. A step never does, several may: the last one counts.
        if self.steps > 1 {
            let mut seen = HashSet::with_capacity(self.writes.len());
            let last: Vec<bool> = self
                .writes
                .iter()
                .rev()
                .map(|write| seen.insert((write.to.name(), &*write.key)))
                .collect();
            let mut last = last.into_iter().rev();
            self.writes.retain(|_| last.next().unwrap_or(true));
        }
        let mut batch = database.batch();
        for Write { to, key, value } in self.writes {
            match value {
                Some(value) => batch.insert(&to, key, value),
                None => batch.remove(&to, key),
            }
        }
        batch.commit()
    }
}
