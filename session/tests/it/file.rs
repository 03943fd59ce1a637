//! The store in files passes every case, remembers everything, and refuses what it cannot trust.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_session::command::CommandKind;
use baton_session::conformance::scene::{LONG, Scene, begin, update, updates};
use baton_session::id::LogId;
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    AdoptRequest, AppendOutcome, AppendRequest, DirectoryError, EnqueueOutcome, EnqueueRequest,
    FileStore, LogStore as _, Store,
};
use tempfile::TempDir;

use crate::support::bounded;

macro_rules! each_in_files {
    ($($room:ident: $($case:ident)*;)*) => {
        $(mod $room {
            #[allow(unused_imports)]
            use std::sync::Arc;
            $(#[tokio::test]
            async fn $case() -> anyhow::Result<()> {
                let directory = tempfile::tempdir()?;
                let store = super::open(directory.path())?;
                super::bounded(baton_session::conformance::$room::$case(&store)).await;
                Ok(())
            })*
        })*
    };
}

baton_session::for_each_case!(each_in_files);

fn open(path: &Path) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(FileStore::open(path)?))
}

/// The same session in the next process.
fn reopened(scene: Scene, path: &Path) -> anyhow::Result<Scene> {
    drop(scene.store);
    loop {
        // The thread that syncs may still be at it.
        match FileStore::open(path) {
            Err(DirectoryError::InUse(_)) => std::thread::yield_now(),
            opened => {
                let store: Arc<dyn Store> = Arc::new(opened?);
                return Ok(Scene { store, ..scene });
            }
        }
    }
}

/// A directory with one session in the middle of a turn, as a process leaves it.
async fn left_behind() -> anyhow::Result<(TempDir, Scene)> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path())?;
    let scene = Scene::created(&store).await;
    store.enqueue(&scene.findable("1")).await?;
    let token = scene.claim().await.token;
    let mut events = updates(2);
    events.push(begin(2, &scene.creator, DeliveryPath::Connection));
    let append = AppendRequest {
        acks: scene.named(&[1]).await,
        view: Some("{}".into()),
        ..scene.append(&token, 1, events)
    };
    scene.write(&append).await;
    scene.write(&scene.append(&token, 4, updates(3))).await;
    Ok((directory, scene))
}

#[tokio::test]
async fn what_a_turn_had_written_counts_after_a_restart() -> anyhow::Result<()> {
    let (directory, scene) = left_behind().await?;
    let scene = reopened(scene, directory.path())?;
    let token = scene.claim().await.token;
    let long = update(&"x".repeat(10_000));
    for number in 7..=9 {
        let words = vec![long.clone()];
        scene.write(&scene.append(&token, number, words)).await;
    }
    let scene = reopened(scene, directory.path())?;
    // Somebody has to take it up before it is known what has been written.
    let token = scene.claim().await.token;
    let counted = scene.store.usage(&scene.principal, 10).await?.stored;
    assert!((30_000..40_000).contains(&counted), "{counted} bytes");
    scene.store.release(&scene.id, &token).await?;
    let settled = scene.store.usage(&scene.principal, 10).await?.stored;
    assert_eq!(settled, counted);
    Ok(())
}

#[tokio::test]
async fn everything_is_there_after_a_restart() -> anyhow::Result<()> {
    let (directory, scene) = left_behind().await?;
    let before = scene.attachment(&scene.creator).await;
    let frames = scene.store.read(&scene.log(), 1, 10).await?;
    let scene = reopened(scene, directory.path())?;
    assert_eq!(scene.attachment(&scene.creator).await, before);
    assert_eq!(scene.store.read(&scene.log(), 1, 10).await?, frames);
    let prompt = scene.prompt("1").key.key;
    let found = scene.store.session_of(&scene.creator, &prompt).await?;
    assert_eq!(found.as_ref(), Some(&scene.id), "it can be cancelled");
    let claimant = scene.claimant(LONG);
    let due = scene
        .store
        .due(scene.id.partition(), &scene.agent, 1)
        .await?;
    assert_eq!(due.sessions, std::slice::from_ref(&scene.id));
    let claim = scene.try_claim(&claimant).await;
    let claim = claim.expect("the turn goes on");
    let running = claim.running.expect("the turn is known");
    assert_eq!(
        (running.command, running.began, claim.vanished.at_once),
        (2.into(), 3, 1)
    );
    assert_eq!(
        (claim.head, claim.inbox.len(), claim.inbox[0].id.number),
        (6, 1, 2)
    );
    let goes_on = scene
        .write(&scene.append(&claim.token, 7, updates(1)))
        .await;
    let head = 7;
    assert_eq!(
        goes_on,
        AppendOutcome::Done {
            head,
            released: false
        }
    );
    Ok(())
}

#[tokio::test]
async fn a_turn_that_was_handed_over_has_not_lost_its_holder() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path())?;
    let scene = Scene::created(&store).await;
    drop(store);
    let token = scene.claim().await.token;
    let begun = vec![begin(1, &scene.creator, DeliveryPath::Connection)];
    scene.write(&scene.append(&token, 1, begun)).await;
    scene.store.release(&scene.id, &token).await?;
    let scene = reopened(scene, directory.path())?;
    assert_eq!(scene.claim().await.vanished.at_once, 0);
    let scene = reopened(scene, directory.path())?;
    assert_eq!(scene.claim().await.vanished.at_once, 1);
    Ok(())
}

#[tokio::test]
async fn what_was_revoked_stays_so_until_it_has_ended() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path())?;
    let scene = Scene::created(&store).await;
    drop(store);
    let lasting = Revocation::at_once(RevocationSubject::Session(scene.id.clone()));
    let ended = Revocation {
        until: 1_700_000_000,
        ..Revocation::at_once(RevocationSubject::Principal(scene.principal.clone()))
    };
    scene.store.revoke(&lasting).await?;
    scene.store.revoke(&ended).await?;
    for _ in 0..2 {
        let listed = scene.store.revocations().await?;
        assert_eq!(listed, std::slice::from_ref(&lasting));
    }
    let scene = reopened(scene, directory.path())?;
    assert_eq!(scene.store.revocations().await?, [lasting]);
    Ok(())
}

#[tokio::test]
async fn what_was_spent_stays_so_after_a_restart() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let store = open(directory.path())?;
    let scene = Scene::created(&store).await;
    drop(store);
    let (once, hour) = ("some ticket", Duration::from_secs(3600));
    assert!(scene.store.spend(once, hour).await?);
    let brief = "another one";
    while !scene.store.spend(brief, Duration::from_millis(1)).await? {}
    let scene = reopened(scene, directory.path())?;
    assert!(!scene.store.spend(once, hour).await?);
    // An expired name is forgotten, and accepted once more.
    while !scene.store.spend(brief, hour).await? {}
    let scene = reopened(scene, directory.path())?;
    for name in [once, brief] {
        assert!(!scene.store.spend(name, hour).await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_directory_serves_one_process_at_a_time() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let _store = open(directory.path())?;
    let refused = FileStore::open(directory.path()).err();
    assert!(
        matches!(refused, Some(DirectoryError::InUse(_))),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_left_alone() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("FORMAT"), "4\n")?;
    fs::write(directory.path().join("future"), "data")?;
    let before = contents(directory.path())?;
    let refused = FileStore::open(directory.path()).err();
    assert!(
        matches!(refused, Some(DirectoryError::Format(..))),
        "{refused:?}"
    );
    assert_eq!(contents(directory.path())?, before);
    Ok(())
}

#[tokio::test]
async fn somebody_elses_directory_is_left_alone() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("thesis.txt"), "the only copy")?;
    let before = contents(directory.path())?;
    let refused = FileStore::open(directory.path()).err();
    assert!(
        matches!(refused, Some(DirectoryError::Foreign(_))),
        "{refused:?}"
    );
    assert_eq!(contents(directory.path())?, before);
    Ok(())
}

#[tokio::test]
async fn a_family_outlives_the_process() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path();
    let parent = Scene::created(&open(path)?).await;
    parent.talk("one").await;
    let child = parent.forked().await;
    let (child_id, maker) = (child.id.clone(), child.creator.clone());
    drop(child);
    let parent = reopened(parent, path)?;
    let child = Scene {
        store: parent.store.clone(),
        id: child_id,
        creator: maker,
        principal: parent.principal.clone(),
        agent: parent.agent.clone(),
    };
    assert_eq!(
        (child.head().await, child.words().await),
        (3, vec!["one".into()])
    );
    child.talk("two").await;
    child.open_stream(&child.creator, "a").await;
    assert_eq!(parent.listed().await.len(), 2);
    assert!(parent.delete().await);
    child.forget().await;
    let (parent_id, id) = (parent.id.clone(), child.id.clone());
    drop(parent);
    let child = reopened(child, path)?;
    assert_eq!(child.words().await, ["one", "two"]);
    assert_eq!(child.listed().await, [id]);
    assert!(child.delete().await);
    child.forget().await;
    let child = reopened(child, path)?;
    for gone in [parent_id, child.id.clone()] {
        let frames = child.store.read(&LogId::Session(gone), 1, 10).await?;
        assert_eq!(frames, []);
    }
    Ok(())
}

#[tokio::test]
async fn what_a_session_is_outlives_the_process() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path();
    let store = open(path)?;
    let scene = Scene::created(&store).await;
    scene.talk("one").await;
    let other = scene.another_connection();
    let prompt = EnqueueRequest {
        watched: true,
        ..scene.prompt_by(&other, "1")
    };
    store.enqueue(&prompt).await?;
    let mut load = scene.attach(&other, "2");
    load.setup.mcp_servers = Some("[1]".into());
    store.attach(&load).await?;
    let claim = scene.claim().await;
    let number = claim.inbox[0].id;
    let begun = AppendRequest {
        view: Some("half".into()),
        usage: Some("{}".into()),
        bound: Some("{\"a\":1}".into()),
        ..scene.append(
            &claim.token,
            4,
            vec![begin(number, &other, DeliveryPath::Connection)],
        )
    };
    scene.write(&begun).await;
    store
        .enqueue(&scene.request(scene.command(CommandKind::Close, None)))
        .await?;
    let record = store.record(&scene.id, &scene.principal).await?;
    assert_eq!(
        record.as_ref().map(|record| &record.view[..]),
        Some(&b"one"[..])
    );
    drop(store);
    let scene = reopened(scene, path)?;
    let store = scene.store.clone();
    assert_eq!(store.record(&scene.id, &scene.principal).await?, record);
    let refused = store.enqueue(&scene.prompt("9")).await?;
    assert_eq!(refused, EnqueueOutcome::Closed);
    let claim = scene.claim().await;
    assert_eq!(claim.setup.mcp_servers, Some("[1]".into()));
    assert_eq!(claim.bound, "{\"a\":1}");
    let took = claim.inbox.iter().map(|queued| queued.takes_control);
    assert_eq!(took.collect::<Vec<_>>(), [true, false]);
    assert!(scene.delete().await);
    drop(store);
    let scene = reopened(scene, path)?;
    assert_eq!(scene.listed().await, []);
    let claim = scene.claim().await;
    let kinds = claim.inbox.iter().map(|queued| queued.command.kind);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [CommandKind::Prompt, CommandKind::Close, CommandKind::Delete]
    );
    scene.finish(&claim.token).await;
    scene.forget().await;
    assert_eq!(scene.head().await, 0);
    Ok(())
}

#[tokio::test]
async fn an_adoption_ends_with_its_process() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let path = directory.path();
    let store = open(path)?;
    let scene = Scene::created(&store).await;
    let record = store.record(&scene.id, &scene.principal).await?;
    let adoption = AdoptRequest {
        id: scene.heir().id,
        principal: scene.principal.clone(),
        record: record.expect("a record"),
        shares: None,
    };
    let claimant = scene.claimant(LONG);
    assert!(store.adopt(&adoption, &claimant).await?);
    drop(store);
    let scene = reopened(scene, path)?;
    let store = &scene.store;
    assert!(!store.publish(&adoption.id, &claimant.token).await?);
    assert!(!store.adopt(&adoption, &claimant).await?);
    scene.forget().await;
    assert!(store.adopt(&adoption, &claimant).await?);
    assert!(store.publish(&adoption.id, &claimant.token).await?);
    assert_eq!(scene.listed().await.len(), 2);
    Ok(())
}

/// Waits until the last process, so to say, is gone.
fn settle(path: &Path) {
    while matches!(FileStore::open(path), Err(DirectoryError::InUse(_))) {
        std::thread::yield_now();
    }
}

/// Closes the store, which leaves everything synced, and returns the journal that holds it.
async fn journal(directory: &TempDir, scene: Scene) -> anyhow::Result<PathBuf> {
    drop(scene.store);
    settle(directory.path());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory.path().join("store"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            found.push(path);
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    Ok(found.remove(0))
}

#[tokio::test]
async fn a_damaged_journal_is_refused_and_kept() -> anyhow::Result<()> {
    let (directory, scene) = left_behind().await?;
    let log = scene.log();
    let frames = scene.store.read(&log, 1, 10).await?;
    let journal = journal(&directory, scene).await?;
    let whole = fs::read(&journal)?;
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let mut refusals = 0;
    for at in (0..end).step_by(end / 97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x5a;
        fs::write(&journal, &damaged)?;
        let refused = match FileStore::open(directory.path()) {
            Err(refused) => refused,
            // The number of a batch is not checked by the database; what it holds is still whole.
            Ok(store) => {
                let found = store.read(&log, 1, 10).await?;
                assert_eq!(found, frames, "byte {at} of {end}");
                drop(store);
                settle(directory.path());
                continue;
            }
        };
        assert!(
            matches!(refused, DirectoryError::Damaged(..)),
            "byte {at} of {end}: {refused:?}"
        );
        refusals += 1;
        assert!(
            fs::read(&journal)? == damaged,
            "byte {at}: the journal was changed"
        );
        let _ = fs::remove_dir_all(directory.path().join("rescue"));
    }
    assert!(refusals > 90, "{refusals}");
    fs::write(&journal, &whole[..end / 2])?;
    let refused = FileStore::open(directory.path()).err();
    assert!(
        matches!(refused, Some(DirectoryError::Damaged(..))),
        "cut short: {refused:?}"
    );
    let _ = fs::remove_dir_all(directory.path().join("rescue"));
    fs::write(&journal, &whole)?;
    open(directory.path())?;
    Ok(())
}

#[tokio::test]
async fn a_batch_that_was_not_finished_is_no_damage() -> anyhow::Result<()> {
    let (directory, scene) = left_behind().await?;
    let journal = journal(&directory, scene).await?;
    let whole = fs::read(&journal)?;
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    // The beginning of another batch, as a process that was killed leaves it.
    let mut torn = whole.clone();
    let start = whole[..32].to_vec();
    torn.splice(end..(end + start.len()).min(torn.len()), start);
    fs::write(&journal, &torn)?;
    open(directory.path())?;
    Ok(())
}

fn contents(path: &Path) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        found.push((path.clone(), fs::read(&path)?));
    }
    found.sort();
    Ok(found)
}
