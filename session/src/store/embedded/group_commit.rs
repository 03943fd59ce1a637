//! How a step is committed. Its changes are saved and its signals are queued under the store's
//! lock, in the order of the steps; they are written and sent after that, together with those of
//! all steps that were taken meanwhile. Nobody learns of a step before that, not even its caller.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use tokio::sync::Notify;

use super::EmbeddedStore;
use super::backend::StorageBackend;
use super::state::StoreState;
use crate::store::{Result, Signal, Topic};
use crate::sync::MutexExt as _;

#[derive(Default)]
pub(super) struct CommitQueue {
    queued: Mutex<QueuedChanges>,
    /// Up to which change or signal all is written and sent.
    committed: AtomicU64,
    /// Held by the task that writes.
    write_lock: Mutex<()>,
    lock_released: Notify,
}

#[derive(Default)]
struct QueuedChanges {
    /// How many changes and signals there ever were.
    count: u64,
    signals: Vec<(Topic, Signal)>,
}

impl CommitQueue {
    fn queued(&self) -> MutexGuard<'_, QueuedChanges> {
        self.queued.locked()
    }

    pub fn count_change(&self) {
        self.queued().count += 1;
    }

    pub fn queue_signal(&self, topic: Topic, signal: Signal) {
        let mut queued = self.queued();
        queued.count += 1;
        queued.signals.push((topic, signal));
    }
}

impl<S: StorageBackend> EmbeddedStore<S> {
    /// Takes a step, and returns when it and all steps before it are committed.
    pub(super) async fn step<T>(
        &self,
        step: impl FnOnce(&mut StoreState) -> Result<T>,
    ) -> Result<T> {
        let outcome = step(&mut *self.state()?);
        self.commit().await?;
        outcome
    }

    pub(super) async fn commit(&self) -> Result<()> {
        let pending = PendingStep {
            store: self,
            upto: self.commit_queue.queued().count,
        };
        if pending.is_committed() {
            return Ok(());
        }
        if !S::WRITES {
            return self.write();
        }
        // Others may be about to take a step as well: one write for all of them.
        tokio::task::yield_now().await;
        loop {
            let mut lock_released = std::pin::pin!(self.commit_queue.lock_released.notified());
            lock_released.as_mut().enable();
            self.is_writable()?;
            if pending.is_committed() {
                return Ok(());
            }
            if let Some(written) = self.try_write() {
                return written;
            }
            lock_released.await;
        }
    }

    /// `None` if another task holds the write lock.
    fn try_write(&self) -> Option<Result<()>> {
        match self.commit_queue.write_lock.try_lock() {
            Ok(write_lock) => Some(self.write_with(write_lock)),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("nobody panics while they write"),
        }
    }

    fn write(&self) -> Result<()> {
        self.write_with(
            self.commit_queue
                .write_lock
                .lock()
                .expect("nobody panics while they write"),
        )
    }

    fn write_with(&self, write_lock: MutexGuard<'_, ()>) -> Result<()> {
        let (upto, signals) = {
            let mut queued = self.commit_queue.queued();
            (queued.count, std::mem::take(&mut queued.signals))
        };
        let written = self.note_failure(self.backend.write());
        if written.is_ok() {
            for (topic, signal) in signals {
                self.signal_hub.send(&topic, signal);
            }
            self.commit_queue.committed.store(upto, Ordering::Release);
        }
        drop(write_lock);
        self.commit_queue.lock_released.notify_waiters();
        written
    }
}

/// A step that was taken is committed even if its caller is gone.
struct PendingStep<'a, S: StorageBackend> {
    store: &'a EmbeddedStore<S>,
    upto: u64,
}

impl<S: StorageBackend> PendingStep<'_, S> {
    fn is_committed(&self) -> bool {
        self.store.commit_queue.committed.load(Ordering::Acquire) >= self.upto
    }
}

impl<S: StorageBackend> Drop for PendingStep<'_, S> {
    fn drop(&mut self) {
        // A panic during a write leaves nothing to go on with.
        if std::thread::panicking() {
            return;
        }
        if !self.is_committed() && self.store.is_writable().is_ok() {
            // A failure is recorded: from then on no step is taken.
            let _ = self.store.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use crate::conformance::scene::{Scene, SignalProbe};
    use crate::store::Signal;
    use crate::store::embedded::file::open_when_free as open;

    #[tokio::test]
    async fn a_step_is_taken_even_if_nobody_waits_for_it_any_more() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let scene = Scene::created(&store).await;
        let mut workers = SignalProbe::on(&store, &[scene.ready()]).await;
        let prompt = scene.prompt("1");
        let mut step = store.enqueue(&prompt);
        let polled = step.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(polled, Poll::Pending),
            "it was about to be written"
        );
        drop(step);
        let heard = workers.next().await;
        assert!(matches!(heard, Signal::Ready(id) if id == scene.id));
        drop((store, workers));
        let Scene { store, id, .. } = scene;
        drop(store);
        let inbox = open(directory.path())
            .inbox(&id, &[])
            .await
            .expect("an inbox");
        assert_eq!(inbox.len(), 2, "what created it, and the prompt");
    }

    #[tokio::test]
    async fn steps_that_are_written_together_count_in_their_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        let scene = Scene::created(&store).await;
        let prompts = ["1", "2", "3"].map(|request| scene.prompt(request));
        // None of them is written before all are taken.
        let taken = prompts.iter().map(|prompt| store.enqueue(prompt));
        for outcome in futures_util::future::join_all(taken).await {
            outcome.expect("a prompt is taken");
        }
        let known = scene.attachment(&scene.creator).await;
        let Scene {
            store: own,
            id,
            creator,
            principal,
            ..
        } = scene;
        drop((store, own));
        let store = open(directory.path());
        let inbox = store.inbox(&id, &[]).await.expect("an inbox");
        let numbers: Vec<u64> = inbox.iter().map(|queued| queued.id.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        let found = store.attachment(&id, &creator, &principal).await;
        let found = found.expect("readable").expect("there");
        assert_eq!(
            (found.head, found.controller),
            (known.head, known.controller)
        );
        // The last of their records counts: it knows all of their keys.
        for prompt in &prompts {
            let again = store.enqueue(prompt).await.expect("readable");
            assert!(
                matches!(again, crate::store::EnqueueOutcome::Joined { .. }),
                "{again:?}"
            );
        }
    }
}
