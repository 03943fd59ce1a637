//! Golden stores: for each format, stores that have every kind of thing in them, as some build has
//! left them. Each is read, checked and taken up by this build. A change that adds a kind of key, a
//! field or a format adds stores with `make golden GOLDEN=redis/NAME`; existing ones stay as they
//! are.
//!
//! | file in `tests/golden` | what |
//! |---|---|
//! | `redis/NAME/dump.rdb`, `directory/NAME/data/` | a store; the name begins with the number of its format |
//! | `story.json` beside it | what was read of it then |

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use baton_session::store::{DirectoryError, FileStore, Store};

use self::story::Story;
use crate::support::{RedisServer, bounded, until};

mod check;
mod make;
mod story;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(path)
}

/// All that are kept of one kind of store.
fn formats(of: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(golden(of)).expect("golden stores");
    let mut formats: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    formats.sort();
    assert!(!formats.is_empty(), "there is none of {of}");
    formats
}

fn read_story(format: &Path) -> anyhow::Result<Story> {
    let text = fs::read_to_string(format.join("story.json"))?;
    Ok(serde_json::from_str(&text)?)
}

// ---- Redis ----

/// A server that has read the dump.
async fn loaded(program: &Path, format: &Path) -> anyhow::Result<RedisServer> {
    let directory = tempfile::tempdir()?;
    fs::copy(format.join("dump.rdb"), directory.path().join("dump.rdb"))?;
    let at = directory.path().to_str().context("a path")?.to_owned();
    let server = RedisServer::start_program(program, &["--dir", &at]).await?;
    until("the dump is read", async || {
        let info: String = server.command(&["INFO", "persistence"]).await.ok()?;
        info.contains("\nloading:0").then_some(())
    })
    .await?;
    Ok(server)
}

/// The part that tells keys of one kind from others: between the namespace and the first name in
/// it.
fn kind(key: &str) -> String {
    let (_, rest) = key.split_once(":{").expect("a tag");
    let (tag, rest) = rest.split_once("}:").expect("a tag");
    let tag = match tag {
        "agents" | "revoked" | "format" => tag,
        _ => "tag",
    };
    let parts: Vec<&str> = rest.split(':').collect();
    match parts[..] {
        // Both of a list's kinds have the same beginning.
        ["ls", _, _] => format!("{tag} ls:cwd"),
        [first, ..] => format!("{tag} {first}"),
        [] => tag.to_owned(),
    }
}

/// Those of the list in keys.rs.
fn documented() -> BTreeSet<String> {
    let source = include_str!("../../src/store/redis/keys.rs");
    let keys = source.split("//! Channels").next().expect("a list");
    let rows = keys.split("//! - `").skip(1);
    rows.filter_map(|row| row.split_once('`'))
        .map(|(shape, _)| kind(shape))
        .collect()
}

/// The letters that follow each `before`.
fn words(text: &str, before: &str) -> BTreeSet<String> {
    let parts = text.split(before).skip(1);
    parts
        .map(|part| part.chars().take_while(char::is_ascii_lowercase).collect())
        .filter(|word: &String| !word.is_empty())
        .collect()
}

#[test]
fn every_kind_of_key_that_is_made_is_in_the_list() {
    let source = include_str!("../../src/store/redis/keys.rs");
    let (_, code) = source.split_once("impl RedisKeys").expect("the functions");
    let (code, channels) = code.split_once("pub fn channel").expect("they come last");
    let names = |code: &str| -> BTreeSet<String> {
        let calls = code.split("self.of(").skip(1);
        let names = calls.filter_map(|call| call.split('"').nth(1));
        names.map(|kind| format!("tag {kind}")).collect()
    };
    let mut made = names(code);
    for text in code.split("\"{}:{{").skip(1) {
        let (shape, _) = text.split_once('"').expect("the end of a text");
        let shape = shape.replace("}}", "}").replace("{}", "tag");
        made.insert(kind(&format!("ns:{{{shape}")));
    }
    for script in fs::read_dir(golden("../../lua"))
        .expect("scripts")
        .flatten()
    {
        let text = fs::read_to_string(script.path()).expect("a script");
        let kinds = &words(&text, "prefix .. '") | &words(&text, "key('");
        // A script takes the tag from its keys.
        let agents: BTreeSet<String> = ["alive", "came"].map(str::to_owned).into();
        made.extend(kinds.difference(&agents).map(|kind| format!("tag {kind}")));
    }
    // The second of two that have the same beginning.
    made.insert("tag ls:cwd".into());
    let made: BTreeSet<String> = made.difference(&names(channels)).cloned().collect();
    assert_eq!(made, documented());
}

/// The fields of a session that keys.rs has.
fn fields() -> BTreeSet<String> {
    let source = include_str!("../../src/store/redis/keys.rs");
    let (_, rest) = source
        .split_once("//! - `ns:{tag}:s:<session>`")
        .expect("sessions");
    let item = rest.split("//! - ").next().expect("their fields");
    let names = item.split('`').skip(1).step_by(2);
    let names = names.filter(|name| !name.contains('.'));
    names.map(str::to_owned).collect()
}

/// As packed: its length, marked as that of a short text, before it.
fn packs(packed: &[u8], name: &str) -> bool {
    let sought = [&[0xa0 | name.len() as u8], name.as_bytes()].concat();
    memchr::memmem::find(packed, &sought).is_some()
}

/// Kinds of keys, and fields of sessions, that a server has.
async fn contents(server: &RedisServer) -> anyhow::Result<BTreeSet<String>> {
    let keys: Vec<String> = server.command(&["KEYS", "*"]).await?;
    let mut found = BTreeSet::new();
    for key in &keys {
        let kind = kind(key);
        if kind == "tag s" {
            let fields: Vec<String> = server.command(&["HKEYS", key]).await?;
            found.extend(fields);
        }
        if kind == "tag z" {
            let packed: Vec<u8> = server.command(&["GET", key]).await?;
            found.extend(fields().into_iter().filter(|field| packs(&packed, field)));
        }
        found.insert(kind);
    }
    Ok(found)
}

async fn every_dump_is_read_by(program: &Path) -> anyhow::Result<()> {
    let mut found = BTreeSet::new();
    for format in formats("redis") {
        let server = loaded(program, &format).await?;
        found.extend(contents(&server).await?);
        let store = server.store().await?;
        bounded(check::all(&store, &read_story(&format)?)).await;
    }
    // Reports of processes, and what these are asked to do, are gone after minutes: no store that is
    // kept has them.
    let passing: BTreeSet<String> = ["tag all", "tag orders"].map(str::to_owned).into();
    // A new kind of key or field needs a store that has it.
    let lasting = &documented() - &passing;
    assert_eq!(found, &lasting | &fields());
    Ok(())
}

#[tokio::test]
async fn every_dump_of_redis_is_read_and_taken_up() -> anyhow::Result<()> {
    every_dump_is_read_by(Path::new("redis-server")).await
}

#[tokio::test]
async fn every_dump_of_redis_is_read_by_valkey() -> anyhow::Result<()> {
    every_dump_is_read_by(&crate::valkey::program()?).await
}

// ---- data directories ----

/// A copy: opening a directory changes it.
fn copied(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copied(&entry.path(), &to)?
        } else {
            _ = fs::copy(entry.path(), to)?
        }
    }
    Ok(())
}

fn open(path: &Path) -> anyhow::Result<Arc<dyn Store>> {
    loop {
        // The thread that syncs may still be at it.
        match FileStore::open(path) {
            Err(DirectoryError::InUse(_)) => std::thread::yield_now(),
            opened => return Ok(Arc::new(opened?)),
        }
    }
}

/// The keyspaces that file.rs opens.
fn keyspaces() -> BTreeSet<String> {
    let source = include_str!("../../src/store/embedded/file.rs");
    let names = source.split(": keyspace(\"").skip(1);
    let names = names.filter_map(|rest| rest.split('"').next());
    names.map(str::to_owned).collect()
}

/// Those that have something in them.
fn filled(directory: &Path) -> anyhow::Result<BTreeSet<String>> {
    let database = fjall::Database::builder(directory.join("store")).open()?;
    let mut filled = BTreeSet::new();
    for name in keyspaces() {
        let keyspace = database.keyspace(&name, fjall::KeyspaceCreateOptions::default)?;
        if keyspace.iter().next().is_some() {
            filled.insert(name);
        }
    }
    Ok(filled)
}

#[tokio::test]
async fn every_data_directory_is_read_and_taken_up() -> anyhow::Result<()> {
    let mut found = BTreeSet::new();
    for format in formats("directory") {
        let directory = tempfile::tempdir()?;
        let (looked_at, used) = (directory.path().join("a"), directory.path().join("b"));
        copied(&format.join("data"), &looked_at)?;
        copied(&format.join("data"), &used)?;
        found.extend(filled(&looked_at)?);
        let story = read_story(&format)?;
        bounded(check::all(&open(&used)?, &story)).await;
    }
    assert_eq!(found, keyspaces());
    Ok(())
}

// ---- making them ----

#[tokio::test]
#[ignore = "`make golden`: makes what the other tests read"]
async fn make() -> anyhow::Result<()> {
    let name = std::env::var("GOLDEN").context("GOLDEN: which one?")?;
    let (of, _) = name
        .split_once('/')
        .context("GOLDEN: redis/NAME or directory/NAME")?;
    let to = golden(&name);
    // Those that are there are never made again: no later build could.
    fs::create_dir(&to).with_context(|| format!("{}", to.display()))?;
    let story = match of {
        "redis" => make_dump(&to).await?,
        _ => make_directory(&to.join("data")).await?,
    };
    let text = serde_json::to_string_pretty(&story)? + "\n";
    Ok(fs::write(to.join("story.json"), text)?)
}

async fn make_dump(to: &Path) -> anyhow::Result<Story> {
    let at = to.to_str().context("a path")?;
    let server = RedisServer::start_with(&["--dir", at]).await?;
    // As if it had been restored before; what that refuses would end by itself.
    let _: String = server
        .command(&["SET", "test:{format}:restored", "0000beef"])
        .await?;
    let story = make::story(&server.store().await?).await;
    // It is read later than anything in it would expire by itself.
    let keys: Vec<String> = server.command(&["KEYS", "*"]).await?;
    let questioned = format!("}}:s:{}", story.sessions["questioned"].id);
    for key in &keys {
        if key.ends_with(&questioned) {
            // As if its worker had gone before replicas had its last words.
            let last: u64 = server.command(&["HGET", key, "seq"]).await?;
            let unconfirmed = format!("{last} {last}");
            let _: i64 = server.command(&["HSET", key, "unc", &unconfirmed]).await?;
        }
        let _: i64 = server.command(&["PERSIST", key]).await?;
    }
    let _: String = server.command(&["SAVE"]).await?;
    Ok(story)
}

async fn make_directory(at: &Path) -> anyhow::Result<Story> {
    let store = open(at)?;
    let story = make::story(&store).await;
    drop(store);
    // When it can be opened again, the last of it is on the disk.
    drop(open(at)?);
    drop(open(at)?);
    Ok(story)
}
