//! The log of a fork: it begins with parts of other sessions' logs, which nobody copies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backend::StorageBackend;
use crate::event::Frame;
use crate::id::{LogId, SessionId};
use crate::store::Result;

/// A part of an ancestor's own log: from where the segment before it ends, up to here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineageSegment {
    pub session: SessionId,
    pub upto: u64,
}

/// The lineage of a fork of `parent` up to `cut`, where `shared` is the parent's own. Ancestors
/// without own events in it are left out, so a read looks at one log however long the lineage is.
pub fn continued(shared: &[LineageSegment], parent: &SessionId, cut: u64) -> Vec<LineageSegment> {
    let mut lineage = Vec::new();
    let mut covered = 0;
    let own = LineageSegment {
        session: parent.clone(),
        upto: u64::MAX,
    };
    for segment in shared.iter().chain([&own]) {
        if covered >= cut {
            break;
        }
        covered = segment.upto.min(cut);
        lineage.push(LineageSegment {
            session: segment.session.clone(),
            upto: covered,
        });
    }
    lineage
}

/// Frames from the one that contains `from` on: at most `limit`, and of one log only, so there may
/// be more.
pub fn read<S: StorageBackend>(
    backend: &S,
    log: &LogId,
    from: u64,
    limit: usize,
) -> Result<Vec<Arc<Frame>>> {
    let LogId::Session(id) = log else {
        return backend.read(log, from, limit);
    };
    let lineage = backend.lineage(id)?;
    let Some(LineageSegment { session, upto }) =
        lineage.iter().find(|segment| segment.upto >= from)
    else {
        return backend.read(log, from, limit);
    };
    // No frame is without an event, so no more of them can be in the segment.
    let left = usize::try_from(upto + 1 - from).unwrap_or(usize::MAX);
    let frames = backend.read(&LogId::Session(session.clone()), from, limit.min(left))?;
    let shared = frames.iter().filter_map(|frame| frame.inherited(*upto, id));
    Ok(shared.map(Arc::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::scene::Scene;
    use crate::id::Partition;
    use crate::store::{FileStore, MemoryStore, Store};

    #[tokio::test]
    async fn of_what_is_gone_only_the_shared_part_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let files = FileStore::open(directory.path()).expect("it opens");
        let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::default()), Arc::new(files)];
        for store in &stores {
            let parent = Scene::created(store).await;
            parent.talk("one").await;
            parent.talk("two").await;
            let forks = [parent.heir(), parent.heir()];
            for (fork, upto) in forks.iter().zip([2, 5]) {
                parent.try_fork(&parent.cut(fork, upto, "")).await;
                fork.open_stream(&fork.creator, "a").await;
            }
            assert!(parent.delete().await);
            parent.forget().await;
            // Frames stay whole.
            assert_eq!(parent.events(1).await.len(), 6);
            assert!(forks[1].delete().await);
            parent.forget().await;
            assert_eq!(parent.events(1).await.len(), 3);
            assert_eq!(forks[0].words().await, ["one"]);
            assert!(forks[0].delete().await);
            parent.forget().await;
            assert_eq!(parent.events(1).await.len(), 0);
        }
    }

    #[test]
    fn a_lineage_names_only_those_whose_events_it_needs() {
        let ids: [SessionId; 3] = std::array::from_fn(|_| SessionId::mint(Partition(0)));
        let segment = |at: usize, upto| LineageSegment {
            session: ids[at].clone(),
            upto,
        };
        let first = continued(&[], &ids[0], 6);
        assert_eq!(first, [segment(0, 6)]);
        assert_eq!(continued(&[], &ids[0], 0), []);
        // The second one has nothing of its own up to there.
        assert_eq!(continued(&first, &ids[1], 6), first);
        let second = continued(&first, &ids[1], 9);
        assert_eq!(second, [segment(0, 6), segment(1, 9)]);
        assert_eq!(
            continued(&second, &ids[2], 7),
            [segment(0, 6), segment(1, 7)]
        );
        assert_eq!(continued(&second, &ids[2], 3), [segment(0, 3)]);
    }
}
