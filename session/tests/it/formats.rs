//! Each store says which format it has, and a build that does not know it refuses to use it.

use std::fs;

use baton_session::conformance::scene::{EVERYTHING_THAT_RESTS, Scene};
use baton_session::format::{DIRECTORY, REDIS, VERSION};
use baton_session::id::Partition;
use baton_session::store::redis::RedisStore;
use baton_session::store::{DirectoryError, Error, FileStore};

use crate::support::{RedisServer, bounded};

const KEY: &str = "test:{format}:store";

async fn noted(server: &RedisServer) -> anyhow::Result<Option<String>> {
    server.command(&["GET", KEY]).await
}

async fn note(server: &RedisServer, text: &str) -> anyhow::Result<()> {
    let _: String = server.command(&["SET", KEY, text]).await?;
    Ok(())
}

/// The error of a process that starts now.
async fn refused(server: &RedisServer) -> Option<Error> {
    RedisStore::connect(&server.url(), "test").await.err()
}

fn now() -> String {
    format!("{} {VERSION}", REDIS.writes)
}

#[tokio::test]
async fn a_redis_says_which_format_it_has() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let store = server.store().await?;
    assert_eq!(noted(&server).await?, Some(now()));
    // The versions before this one noted nothing.
    let _: i64 = server.command(&["DEL", KEY]).await?;
    server.store().await?;
    assert_eq!(noted(&server).await?, Some(now()));
    // A Redis that was emptied has it again when housekeeping comes by.
    let _: i64 = server.command(&["DEL", KEY]).await?;
    store.tidy(Partition(0), &EVERYTHING_THAT_RESTS).await?;
    assert_eq!(noted(&server).await?, Some(now()));
    Ok(())
}

#[tokio::test]
async fn a_redis_of_a_newer_format_is_refused_and_left_alone() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let running = server.store().await?;
    let newer = format!("{} 7.5.0", REDIS.newest + 1);
    note(&server, &newer).await?;
    let error = refused(&server).await.expect("it is not known");
    let text = error.to_string();
    assert!(matches!(error, Error::Unavailable(_)), "{text}");
    for part in [
        format!("format {}", REDIS.newest + 1),
        format!("baton {VERSION} reads"),
        "use baton 7.5.0 or newer".into(),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    // A running process learns of it as well.
    let tidied = running.tidy(Partition(0), &EVERYTHING_THAT_RESTS).await;
    assert!(tidied.is_err_and(|error| error.to_string().contains("7.5.0")));
    assert_eq!(noted(&server).await?, Some(newer));
    // Nobody knows which version wrote this.
    note(&server, "rubbish").await?;
    let text = refused(&server).await.expect("no number").to_string();
    assert!(text.contains("rubbish"), "{text}");
    Ok(())
}

/// The rules of Redis users are changed by hand: those of the version before have no such key.
#[tokio::test]
async fn a_user_who_may_not_look_is_let_in() -> anyhow::Result<()> {
    let server = RedisServer::start().await?;
    let rules = "ACL SETUSER former on >secret resetkeys ~test:{???}:* ~test:{agents}:* &* +@all";
    let words: Vec<&str> = rules.split(' ').collect();
    let _: String = server.command(&words).await?;
    let url = format!("redis://former:secret@127.0.0.1:{}", server.port);
    let store: std::sync::Arc<dyn baton_session::store::Store> =
        std::sync::Arc::new(RedisStore::connect(&url, "test").await?);
    bounded(Scene::created(&store))
        .await
        .talk("as before")
        .await;
    assert_eq!(noted(&server).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_redis_that_takes_no_writes_is_opened() -> anyhow::Result<()> {
    let server = RedisServer::start_with(&["--min-replicas-to-write", "1"]).await?;
    bounded(server.store()).await?;
    let _: String = server
        .command(&["CONFIG", "SET", "min-replicas-to-write", "0"])
        .await?;
    let full = RedisServer::start_with(&["--maxmemory", "1"]).await?;
    full.store().await?;
    assert_eq!(noted(&full).await?, Some(now()));
    Ok(())
}

#[tokio::test]
async fn a_directory_of_a_newer_format_is_refused_and_left_alone() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let format = directory.path().join("FORMAT");
    drop(FileStore::open(directory.path())?);
    // The versions before this one take a number alone.
    assert_eq!(
        fs::read_to_string(&format)?,
        format!("{}\n", DIRECTORY.writes)
    );
    let newer = DIRECTORY.newest + 1;
    for (text, advice) in [
        (format!("{newer}\n"), "use the version that wrote it"),
        (format!("{newer} 7.5.0\n"), "use baton 7.5.0 or newer"),
    ] {
        fs::write(&format, &text)?;
        let refused = FileStore::open(directory.path()).err().expect("not known");
        assert!(matches!(refused, DirectoryError::Format(..)), "{refused}");
        let said = refused.to_string();
        let reads = format!("reads format {}", DIRECTORY.newest);
        assert!(said.contains(advice) && said.contains(&reads), "{said}");
        assert_eq!(fs::read_to_string(&format)?, text);
    }
    Ok(())
}

#[tokio::test]
async fn a_directory_of_a_format_that_is_not_read_any_more_is_refused_and_left_alone()
-> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let format = directory.path().join("FORMAT");
    drop(FileStore::open(directory.path())?);
    let text = format!("{}\n", DIRECTORY.oldest - 1);
    fs::write(&format, &text)?;
    let refused = FileStore::open(directory.path()).err().expect("not read");
    assert!(matches!(refused, DirectoryError::Format(..)), "{refused}");
    assert_eq!(fs::read_to_string(&format)?, text);
    Ok(())
}
