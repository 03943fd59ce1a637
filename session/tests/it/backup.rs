//! Backups of the store in files: as of one moment, whatever is written meanwhile; refused if anything of them is
//! missing; and nothing is handed out twice by what is restored.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_session::conformance::scene::{LONG, Scene, begin, updates};
use baton_session::format::DIRECTORY;
use baton_session::id::{ConnectionId, Partition};
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::route::DeliveryPath;
use baton_session::store::{
    BackupSnapshot, CredentialStore as _, DirectoryError, EnqueueOutcome, FileStore,
    GatewayStore as _, LogStore as _, RestoreError, Store, WorkerStore as _, restore,
};
use tempfile::TempDir;

use crate::support::bounded;

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self, name: &str) -> FileStore {
        loop {
            // The thread that syncs may still be at it.
            match FileStore::open(&self.at(name)) {
                Err(DirectoryError::InUse(_)) => std::thread::yield_now(),
                opened => return opened.expect("it opens"),
            }
        }
    }

    /// A backup of what is in the store now.
    fn backup(&self, store: &FileStore, name: &str) -> PathBuf {
        let file = self.at(name);
        let snapshot = store.snapshot().expect("a snapshot");
        written(&snapshot, &file);
        file
    }

    fn restored(&self, backup: &Path, name: &str) -> FileStore {
        restore(backup, &self.at(name)).expect("it is restored");
        self.open(name)
    }
}

fn written(snapshot: &BackupSnapshot, file: &Path) {
    let file = fs::File::create(file).expect("a file");
    snapshot.write(file).expect("it is written");
}

fn shared(store: &FileStore) -> Arc<dyn Store> {
    Arc::new(store.clone())
}

/// The same session in another store.
fn moved(scene: &Scene, store: &FileStore) -> Scene {
    Scene {
        store: shared(store),
        id: scene.id.clone(),
        creator: scene.creator.clone(),
        principal: scene.principal.clone(),
        agent: scene.agent.clone(),
    }
}

#[tokio::test]
async fn a_restored_store_has_what_was_there_and_nothing_that_came_after() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    let scene = Scene::created(&shared(&files)).await;
    scene.talk("before").await;
    let child = scene.forked().await;
    // In the middle of a turn.
    let other = scene.another().await;
    let token = other.claim().await.token;
    let mut events = updates(2);
    events.push(begin(1, &other.creator, DeliveryPath::Connection));
    other.write(&other.append(&token, 1, events)).await;
    assert!(files.spend("a ticket", LONG).await?);
    let taken_back = Revocation::at_once(RevocationSubject::Principal("somebody".into()));
    files.revoke(&taken_back).await?;
    fs::write(files.key_file(), "keys")?;

    let snapshot = files.snapshot()?;
    scene.talk("after").await;
    other.write(&other.append(&token, 4, updates(3))).await;
    let late = Scene::created(&shared(&files)).await;
    let file = place.at("backup");
    written(&snapshot, &file);
    drop(snapshot);

    let restored = place.restored(&file, "restored");
    let (scene, child) = (moved(&scene, &restored), moved(&child, &restored));
    assert_eq!(scene.words().await, ["before"]);
    assert_eq!(child.words().await, ["before"]);
    assert_eq!(scene.listed().await.len(), 3);
    assert_eq!(moved(&late, &restored).head().await, 0);
    assert!(!restored.spend("a ticket", LONG).await?, "it was used");
    assert!(restored.revocations().await?.contains(&taken_back));
    let keys = place.at("restored/keys.json");
    assert_eq!(fs::read_to_string(&keys)?, "keys");
    let mode = |path: &Path| fs::metadata(path).map(|about| about.permissions().mode() & 0o777);
    assert_eq!((mode(&keys)?, mode(&place.at("restored"))?), (0o600, 0o700));

    // The turn is taken over as after a crash.
    let other = moved(&other, &restored);
    let due = restored.due(Partition(0), &other.agent, 10).await?.sessions;
    assert!(due.contains(&other.id));
    let claim = other.try_claim(&other.claimant(LONG)).await;
    let claim = claim.expect("the turn goes on");
    let running = claim.running.expect("the turn is known");
    assert_eq!((claim.head, running.began), (3, 3));
    Ok(())
}

#[tokio::test]
async fn what_is_restored_refuses_the_past_and_names_things_anew() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    assert_eq!(files.restored(), None);
    let file = place.backup(&files, "backup");
    let past = |store: FileStore| async move {
        let all = store.revocations().await.expect("readable");
        let past = all
            .into_iter()
            .find(|one| one.subject == RevocationSubject::Everybody);
        (past.expect("all is refused"), store.restored())
    };
    let began = baton_session::clock::unix_seconds();
    let (one, drawn) = past(place.restored(&file, "one")).await;
    assert!(one.before >= began && one.from <= one.before && one.until > one.before);
    let (_, again) = past(place.restored(&file, "two")).await;
    assert!(drawn.is_some() && again.is_some() && drawn != again);
    // Refused tokens stay refused, whatever clocks do; and it lasts.
    let restored = place.open("one");
    assert_eq!(past(restored.clone()).await, (one.clone(), drawn));
    let later = Revocation {
        before: one.before + 10_000,
        ..one
    };
    restored.revoke(&later).await?;
    let file = place.backup(&restored, "another");
    let (kept, _) = past(place.restored(&file, "three")).await;
    assert_eq!(kept.before, later.before);
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_repeated_after_a_restore_is_recognised_or_runs_once()
-> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    let scene = Scene::created(&shared(&files)).await;
    let [known, lost] = ["1", "2"].map(|request| scene.prompt(request));
    files.enqueue(&known).await?;
    let snapshot = files.snapshot()?;
    let EnqueueOutcome::Accepted { command, .. } = files.enqueue(&lost).await? else {
        panic!("it was new");
    };
    let file = place.at("backup");
    written(&snapshot, &file);
    let restored = place.restored(&file, "restored");
    assert!(matches!(
        restored.enqueue(&known).await?,
        EnqueueOutcome::Joined { .. }
    ));
    let EnqueueOutcome::Accepted { command: anew, .. } = restored.enqueue(&lost).await? else {
        panic!("it is new here");
    };
    // The same number, and yet no name was given twice.
    assert_eq!(anew.number, command.number);
    assert_ne!(anew, command);
    let again = restored.enqueue(&lost).await?;
    assert!(matches!(again, EnqueueOutcome::Joined { command, .. } if command == anew));
    assert_eq!(restored.inbox(&scene.id, &[]).await?.len(), 3);
    Ok(())
}

/// Each of them talks until it is told to stop; returns how much it has said.
async fn chatter(scene: Scene, stop: Arc<AtomicBool>) -> (Scene, usize) {
    let mut turns = 0;
    while !stop.load(Ordering::SeqCst) {
        scene.talk(&turns.to_string()).await;
        turns += 1;
    }
    (scene, turns)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_under_load_is_of_one_moment() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    let stop = Arc::new(AtomicBool::new(false));
    let mut talks = Vec::new();
    let mut scenes = Vec::new();
    for _ in 0..8 {
        let scene = Scene::created(&shared(&files)).await;
        scenes.push(moved(&scene, &files));
        talks.push(tokio::spawn(chatter(scene, stop.clone())));
    }
    let mut backups = Vec::new();
    for number in 0..3 {
        // Steps acknowledged before the snapshot must be in it, and later ones must not.
        let mut before = Vec::new();
        for scene in &scenes {
            before.push(scene.head().await);
        }
        let store = files.clone();
        let snapshot = tokio::task::spawn_blocking(move || store.snapshot()).await??;
        let mut after = Vec::new();
        for scene in &scenes {
            after.push(scene.head().await);
        }
        let file = place.at(&format!("backup-{number}"));
        let path = file.clone();
        tokio::task::spawn_blocking(move || written(&snapshot, &path)).await?;
        backups.push((file, before, after));
    }
    stop.store(true, Ordering::SeqCst);
    for talk in talks {
        let (_, turns) = bounded(talk).await?;
        assert!(turns > 0);
    }
    for (number, (file, before, after)) in backups.into_iter().enumerate() {
        let restored = place.restored(&file, &format!("restored-{number}"));
        for ((scene, before), after) in scenes.iter().zip(before).zip(after) {
            let scene = moved(scene, &restored);
            let head = scene.head().await;
            assert!((before..=after).contains(&head), "{before} {head} {after}");
            let words = scene.words().await;
            let expected: Vec<String> = (0..words.len()).map(|turn| turn.to_string()).collect();
            assert_eq!(words, expected);
            // A turn is begun, or all of it is there: three events each.
            assert!(head.div_ceil(3) as usize - words.len() <= 1);
            let waiting = restored.inbox(&scene.id, &[]).await?;
            let between = head % 3 == 0 && head > 0;
            assert!(waiting.len() <= 1 || !between, "{head}: {}", waiting.len());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_backup_that_is_not_whole_is_refused_and_leaves_nothing() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    Scene::created(&shared(&files)).await.talk("words").await;
    let file = place.backup(&files, "backup");
    let whole = fs::read(&file)?;
    let refused = |bytes: &[u8]| {
        let spoiled = place.at("spoiled");
        fs::write(&spoiled, bytes).expect("a file");
        let refused = restore(&spoiled, &place.at("restored")).expect_err("it is refused");
        assert!(!place.at("restored").exists(), "{refused}");
        refused.to_string()
    };
    assert!(refused(&whole[..whole.len() - 1]).contains("cut off"));
    assert!(refused(&whole[..whole.len() / 2]).contains("cut off"));
    assert!(refused(b"").contains("no backup"));
    let mut spoiled = whole.clone();
    let middle = whole.len() / 2;
    spoiled[middle] ^= 1;
    let said = refused(&spoiled);
    assert!(
        said.contains("damaged") || said.contains("cut off"),
        "{said}"
    );
    let missing = restore(&place.at("none"), &place.at("restored"));
    assert!(matches!(missing, Err(RestoreError::Unusable(..))));
    place.restored(&file, "restored");
    Ok(())
}

#[tokio::test]
async fn nothing_that_is_there_is_overwritten() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    let file = place.backup(&files, "backup");
    for (name, content) in [("used", "data/FORMAT"), ("foreign", "something")] {
        let directory = place.at(name);
        fs::create_dir(&directory)?;
        let theirs = directory.join(Path::new(content).file_name().expect("a name"));
        fs::write(&theirs, "theirs")?;
        let refused = restore(&file, &directory).expect_err("it is refused");
        assert!(
            refused.to_string().contains("not empty"),
            "{name}: {refused}"
        );
        assert_eq!(fs::read_dir(&directory)?.count(), 1);
        assert_eq!(fs::read_to_string(&theirs)?, "theirs");
    }
    let in_use = restore(&file, &place.at("data"));
    assert!(matches!(
        in_use,
        Err(RestoreError::Refused(DirectoryError::Occupied(_)))
    ));
    fs::create_dir(place.at("empty"))?;
    place.restored(&file, "empty");
    Ok(())
}

#[tokio::test]
async fn a_restore_that_broke_off_is_not_used_and_can_be_repeated() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    let scene = Scene::created(&shared(&files)).await;
    scene.talk("words").await;
    let file = place.backup(&files, "backup");
    let half = place.at("half");
    fs::create_dir_all(half.join("store"))?;
    fs::write(half.join("RESTORING"), "")?;
    fs::write(half.join("store").join("rubbish"), "rubbish")?;
    fs::write(half.join("keys.json"), "rubbish")?;
    let refused = FileStore::open(&half).err().expect("it is refused");
    assert!(refused.to_string().contains("baton store restore"));
    assert!(half.join("store/rubbish").exists(), "it is left as it is");
    let restored = place.restored(&file, "half");
    assert_eq!(moved(&scene, &restored).words().await, ["words"]);
    Ok(())
}

#[tokio::test]
async fn a_directory_that_nobody_uses_is_backed_up_in_its_own_format() -> anyhow::Result<()> {
    let place = Place::new();
    let files = place.open("data");
    let scene = Scene::created(&shared(&files)).await;
    scene.talk("words").await;
    let refused = BackupSnapshot::of_unused(&place.at("data")).err();
    assert!(
        matches!(refused, Some(DirectoryError::InUse(_))),
        "{refused:?}"
    );
    let Scene {
        store,
        id,
        creator,
        principal,
        agent,
    } = scene;
    drop((store, files));
    let format = place.at("data/FORMAT");
    // Of the oldest kind that is read: a backup converts nothing.
    let own = format!("{}\n", DIRECTORY.oldest);
    fs::write(&format, &own)?;
    let snapshot = loop {
        match BackupSnapshot::of_unused(&place.at("data")) {
            Err(DirectoryError::InUse(_)) => std::thread::yield_now(),
            taken => break taken?,
        }
    };
    let file = place.at("backup");
    written(&snapshot, &file);
    drop(snapshot);
    assert_eq!(fs::read_to_string(&format)?, own);
    restore(&file, &place.at("restored"))?;
    assert_eq!(fs::read_to_string(place.at("restored/FORMAT"))?, own);
    let store = shared(&place.open("restored"));
    let scene = Scene {
        store,
        id,
        creator,
        principal,
        agent,
    };
    assert_eq!(scene.words().await, ["words"]);
    assert_eq!(fs::read_to_string(place.at("restored/FORMAT"))?, "3\n");
    let missing = BackupSnapshot::of_unused(&place.at("none")).err();
    assert!(matches!(missing, Some(DirectoryError::Missing(_))));
    assert!(!place.at("none").exists());
    Ok(())
}

#[tokio::test]
async fn entries_of_an_outbox_are_told_from_those_that_were_lost() -> anyhow::Result<()> {
    use baton_session::command::IdempotencyKey;
    use baton_session::event::Event;
    use baton_session::id::LogId;

    let place = Place::new();
    let files = place.open("data");
    let connection = ConnectionId::mint(Partition(0));
    let log = LogId::Outbox(connection.clone());
    let post = async |store: &FileStore, words: &'static str| {
        let message = Event::Message {
            message: words.into(),
        };
        let key = IdempotencyKey::of(&connection, Some(words), words.as_bytes());
        store.post(&connection, message, &key).await
    };
    post(&files, "kept").await?;
    let snapshot = files.snapshot()?;
    post(&files, "lost").await?;
    let lost = files.read(&log, 2, 1).await?[0].nonce;
    let file = place.at("backup");
    written(&snapshot, &file);
    let restored = place.restored(&file, "restored");
    assert_eq!(restored.heads(std::slice::from_ref(&log)).await?, [1]);
    post(&restored, "new").await?;
    let entry = &restored.read(&log, 2, 1).await?[0];
    assert_ne!(entry.nonce, lost);
    Ok(())
}
