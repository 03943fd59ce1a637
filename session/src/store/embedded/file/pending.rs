//! Changes that steps have saved and the database does not have yet.

use std::collections::HashSet;

use fjall::{Database, Keyspace, Slice};

#[derive(Default)]
pub struct PendingBatch {
    writes: Vec<PendingWrite>,
    steps: usize,
}

struct PendingWrite {
    to: Keyspace,
    key: Slice,
    /// `None` to remove it.
    value: Option<Slice>,
}

impl PendingBatch {
    pub fn insert(&mut self, to: &Keyspace, key: impl Into<Slice>, value: impl Into<Slice>) {
        self.push(to, key.into(), Some(value.into()));
    }

    pub fn remove(&mut self, from: &Keyspace, key: impl Into<Slice>) {
        self.push(from, key.into(), None);
    }

    fn push(&mut self, to: &Keyspace, key: Slice, value: Option<Slice>) {
        let to = to.clone();
        self.writes.push(PendingWrite { to, key, value });
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
        self.keep_last();
        let mut batch = database.batch();
        for PendingWrite { to, key, value } in self.writes {
            match value {
                Some(value) => batch.insert(&to, key, value),
                None => batch.remove(&to, key),
            }
        }
        batch.commit()
    }

    /// The database does not define the result of changing a key twice in a batch. A step never
    /// does that, several may.
    fn keep_last(&mut self) {
        if self.steps <= 1 {
            return;
        }
        let mut seen = HashSet::with_capacity(self.writes.len());
        let newest_first = self.writes.iter().rev();
        let is_last = newest_first.map(|write| seen.insert((write.to.name(), &*write.key)));
        let is_last: Vec<bool> = is_last.collect();
        let mut is_last = is_last.into_iter().rev();
        self.writes.retain(|_| is_last.next().unwrap_or(true));
    }
}

#[cfg(test)]
mod tests {
    use fjall::KeyspaceCreateOptions;

    use super::*;

    #[test]
    fn of_several_changes_of_a_key_the_last_one_is_made() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path())
            .open()
            .expect("it opens");
        let keyspace = |name| {
            let made = database.keyspace(name, KeyspaceCreateOptions::default);
            made.expect("a keyspace")
        };
        let (one, other) = (keyspace("one"), keyspace("other"));
        let mut pending = PendingBatch::default();
        let step = |change: &dyn Fn(&mut PendingBatch)| {
            let mut step = PendingBatch::default();
            change(&mut step);
            step
        };
        pending.add(step(&|step| step.insert(&one, "key", "first")));
        pending.add(step(&|step| {
            step.insert(&other, "key", "elsewhere");
            step.remove(&one, "gone");
            step.insert(&one, "key", "second");
        }));
        pending.add(step(&|step| step.remove(&other, "key")));
        pending.keep_last();
        let left = pending.writes.iter().map(|write| {
            let text = |slice| String::from_utf8_lossy(slice).into_owned();
            let value = write.value.as_deref().map(text);
            (
                text(write.to.name().as_bytes()),
                text(&write.key),
                value.unwrap_or_default(),
            )
        });
        let expected = [
            ("one", "gone", ""),
            ("one", "key", "second"),
            ("other", "key", ""),
        ];
        let expected = expected.map(|(at, key, value)| (at.into(), key.into(), value.into()));
        assert_eq!(left.collect::<Vec<_>>(), expected);
        pending.commit(&database).expect("written");
        assert_eq!(
            one.get("key").expect("readable").as_deref(),
            Some(&b"second"[..])
        );
        assert_eq!(other.get("key").expect("readable"), None);
    }
}
