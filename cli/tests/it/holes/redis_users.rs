//! M5: gateways and workers have Redis users of their own, with what they need and nothing else.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use baton_session::id::Partition;
use baton_session::revocation::{Revocation, RevocationSubject};
use baton_session::store::redis::RedisStore;
use baton_session::store::{CredentialStore as _, LogStore as _, TidyPolicy, WorkerStore as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::revocation::asked;
use crate::sessions::sessions;
use crate::support::cluster::STRICT;
use crate::support::http::{load, prompt};
use crate::support::process::baton;
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Redis, until};

fn about(id: &str, method: &str, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

async fn answered(client: &Client, message: Value) -> Value {
    let mut stream = client.one_shot(message.clone()).await;
    stream.response(&message["id"]).await
}

/// Everything that gateways and workers do, on a Redis that takes nobody without a password.
#[tokio::test]
async fn m5_a_gateway_and_a_worker_do_all_their_work_as_users_of_their_own() {
    let mut cluster = Cluster::start_strict().await;
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/count 100 delay=10"))
        .await;
    let mut chunks = Vec::new();
    while chunks.len() < 20 {
        chunks.extend(stream.next().await.expect("the turn goes on").chunk());
    }
    let worker = cluster.redis.worker_of(&session);
    let holds =
        |process: &&mut crate::support::process::Process| process.output().contains(&worker);
    cluster
        .workers
        .iter_mut()
        .find(holds)
        .expect("a holder")
        .kill();
    chunks.extend(stream.turn(&json!(1)).await);
    assert_eq!(chunks, counted(100, 1), "taken over");

    let forked = answered(&client, about("f", "session/fork", &session)).await;
    let fork = forked["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert!(answered(&client, load(json!("l"), &fork)).await["result"].is_object());
    let list = json!({ "jsonrpc": "2.0", "id": "ls", "method": "session/list", "params": {} });
    let listed = answered(&client, list).await;
    assert_eq!(
        listed["result"]["sessions"].as_array().map(Vec::len),
        Some(2)
    );
    let exported = sessions(&cluster.url(), &["export", &session], b"");
    assert!(exported.status.success(), "{exported:?}");
    let imported = sessions(&cluster.url(), &["import"], &exported.stdout);
    assert!(imported.status.success(), "{imported:?}");

    // Housekeeping, as if time had passed: made smaller, looked at again, deleted, forgotten.
    let worker = RedisStore::connect(&cluster.redis.store_of("worker"), "baton").await;
    let worker = worker.expect("a worker's login");
    let tidied = tidy(&worker, 0, 3600).await;
    assert!(tidied.0 > 0, "something rested");
    assert!(answered(&client, load(json!("m"), &session)).await["result"].is_object());
    let deleted = answered(&client, about("d", "session/delete", &session)).await;
    assert!(deleted["result"].is_object(), "{deleted}");
    tidy(&worker, 0, 3600).await;
    assert!(tidy(&worker, 0, 0).await.1 > 0, "something was forgotten");

    assert_eq!(client.delete().await.as_u16(), 202);
    for number in 0..2 {
        let there = client.at(&cluster.gateway_url(number));
        until("the other gateway hears of it", async || {
            (asked(&there).await.status() == StatusCode::NOT_FOUND).then_some(())
        })
        .await;
    }
    // The server's own list of what it has refused. Newer ones know a command by which clients say what they are.
    let refused = cluster.redis.asked_by("admin", &["ACL", "LOG"]);
    let objects: BTreeSet<&str> = values(&refused, "object").collect();
    assert!(
        objects.is_subset(&BTreeSet::from(["client|setinfo"])),
        "{refused}"
    );
}

/// How many sessions were made smaller, and forgotten.
async fn tidy(store: &RedisStore, rested: u64, unused: u64) -> (usize, usize) {
    let when = TidyPolicy {
        rested: Duration::from_secs(rested),
        unused: Duration::from_secs(unused),
    };
    let mut done = (0, 0);
    for partition in (0..store.partitions()).map(Partition) {
        let tidied = store.tidy(partition, &when).await.expect("it may");
        done = (done.0 + tidied.compacted, done.1 + tidied.expired);
    }
    done
}

/// Of a reply that redis-cli printed a name and a value at a time.
fn values<'a>(reply: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let mut lines = reply.lines();
    std::iter::from_fn(move || {
        lines.find(|line| *line == name)?;
        lines.next()
    })
}

const FOR_NOBODY: &[&str] = &[
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET *",
    "CONFIG SET dir /tmp",
    "KEYS *",
    "SCAN 0",
    "RANDOMKEY",
    "DBSIZE",
    "ACL LIST",
    "ACL GETUSER baton-admin",
    "ACL SETUSER baton-worker allcommands",
    "CLIENT LIST",
    "CLIENT KILL ID 1",
    "CLIENT PAUSE 1",
    "MONITOR",
    "SHUTDOWN NOSAVE",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "REPLICAOF 127.0.0.1 1",
    "MODULE LIST",
    "SCRIPT FLUSH",
    "SCRIPT KILL",
    "FUNCTION FLUSH",
    "SLOWLOG GET",
    "SWAPDB 0 1",
    "CLUSTER RESET",
    "COMMAND COUNT",
    "LATENCY RESET",
    "PSUBSCRIBE *",
    "SUBSCRIBE baton:{000}:n:x",
    "DUMP baton:{000}:s:x",
    "RENAME baton:{000}:s:x baton:{000}:s:y",
    "GET other:{000}:s:x",
    "HSET elsewhere a b",
    "SSUBSCRIBE other:{000}:n:x",
];

#[tokio::test]
async fn m5_neither_user_can_do_what_is_not_its_own() {
    let redis = Redis::start_with(&[STRICT]).await;
    let only_gateways = [
        "HSET baton:{revoked}:all a b",
        "HDEL baton:{revoked}:all a",
        "ZADD baton:{revoked}:until 1 a",
        "SPUBLISH baton:{revoked}:n V",
        "SSUBSCRIBE baton:{revoked}:n",
        "HGET baton:{000}:k:000-x seq",
        "XRANGE baton:{000}:x:000-x - +",
        "SSUBSCRIBE baton:{000}:y:000-x",
        "DEL baton:{000}:u:00",
        "GET baton:{000}:u:00",
        "HSETNX baton:{000}:s:x a b",
        "ZINTER 1 baton:{000}:ls:a",
    ];
    let only_workers = [
        "ZADD baton:{agents}:came:x 1 y",
        "RPUSH baton:{000}:h:x y",
        "XTRIM baton:{000}:e:x MINID 1",
        "UNLINK baton:{000}:s:x",
    ];
    let refused = |role: &str, words: &str| {
        let said = redis.asked_by(role, &words.split(' ').collect::<Vec<_>>());
        assert!(said.contains("NOPERM"), "{role} may {words}: {said}");
    };
    // A gateway cuts outboxes, also in scripts.
    let script = "return redis.call('XTRIM', KEYS[1], 'MINID', '1')";
    for words in [
        &["XTRIM", "baton:{000}:x:000-x", "MINID", "1"][..],
        &["EVAL", script, "1", "baton:{000}:x:000-x"],
    ] {
        assert_eq!(redis.asked_by("gateway", words), "0");
    }
    for role in ["gateway", "worker"] {
        assert_eq!(redis.asked_by(role, &["PING"]), "PONG");
        FOR_NOBODY.iter().for_each(|words| refused(role, words));
        // A script may do what its caller may, and no more.
        for call in ["'FLUSHALL'", "'KEYS', '*'", "'GET', 'elsewhere'"] {
            let script = format!("return redis.call({call})");
            let said = redis.asked_by(role, &["EVAL", &script, "0"]);
            assert!(
                said.contains("The user executing the script can't"),
                "{call}: {said}"
            );
        }
    }
    only_gateways
        .iter()
        .for_each(|words| refused("worker", words));
    only_workers
        .iter()
        .for_each(|words| refused("gateway", words));
    for (role, words) in [
        ("gateway", &only_gateways[..3]),
        ("worker", &only_workers[..]),
    ] {
        for words in words {
            let said = redis.asked_by(role, &words.split(' ').collect::<Vec<_>>());
            assert!(!said.contains("NOPERM"), "{role} needs {words}: {said}");
        }
    }
    let nobody =
        crate::support::cluster::redis_cli(redis.port, &["HGET", "baton:{000}:s:x", "prn"]);
    assert!(nobody.contains("NOAUTH"), "{nobody}");
    let probe = ["--user", "baton-probe", "--pass", "any"];
    let as_probe = |words: &[&str]| {
        let words = [&probe[..], words].concat();
        crate::support::cluster::redis_cli(redis.port, &words)
    };
    assert!(as_probe(&["PING"]).starts_with("PONG"));
    let said = as_probe(&["HGET", "baton:{000}:s:x", "prn"]);
    assert!(said.contains("NOPERM"), "{said}");
    let said = as_probe(&["AUTH", "default", "any"]);
    assert!(said.contains("WRONGPASS"), "{said}");
}

fn users(dir: &Path, more: &[&str]) -> Output {
    let mut command = baton();
    command
        .args(["store", "users", "--dir"])
        .arg(dir)
        .args(more);
    command.output().expect("baton runs")
}

#[test]
fn m5_passwords_are_made_once_and_for_their_owners_alone() {
    let dir = TempDir::new().expect("a temporary directory");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("written");
    let at = ["--at", "redis://cache:7000/2", "--namespace", "shop"];
    let files = ["gateway/url", "worker/url", "admin/url", "redis/users.acl"];
    assert!(users(dir.path(), &at).status.success());
    let first = files.map(read);
    let again = users(dir.path(), &at);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(files.map(read), first);
    for (name, url) in files.iter().zip(&first).take(3) {
        let user = format!("redis://shop-{}:", name.trim_end_matches("/url"));
        assert!(
            url.starts_with(&user) && url.ends_with("@cache:7000/2\n"),
            "{url}"
        );
        let password = url
            .trim_start_matches(&user)
            .split('@')
            .next()
            .expect("a password");
        assert!(password.len() >= 40 && !first[3].contains(password));
        let shown = [again.stdout.as_slice(), &again.stderr].concat();
        assert!(!String::from_utf8_lossy(&shown).contains(password));
        let file = dir.path().join(name);
        for (path, mode) in [
            (file.as_path(), 0o600),
            (file.parent().expect("a directory"), 0o700),
        ] {
            let found = path.metadata().expect("there").permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", path.display());
        }
    }
    assert!(
        !first[3].contains("baton") && !first[3].contains("NAMESPACE"),
        "{}",
        first[3]
    );

    std::fs::write(dir.path().join("worker/url"), "junk").expect("writable");
    let broken = users(dir.path(), &at);
    assert_eq!(broken.status.code(), Some(1));
    let said = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(
        said.contains("worker/url") && said.contains("remove it"),
        "{said}"
    );
}

#[test]
fn m5_what_is_wrong_with_the_options_is_said_at_once() {
    let dir = TempDir::new().expect("a temporary directory");
    let wrong = users(
        dir.path(),
        &["--at", "redis://me:verysecret@x:1", "--namespace", "a*b"],
    );
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(64), "{said}");
    assert!(said.contains("--at: leave user and password out"), "{said}");
    assert!(
        said.contains("--namespace \"a*b\"") && !said.contains("verysecret"),
        "{said}"
    );
    let wrong = users(dir.path(), &["--at", "http://x"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert_eq!(dir.path().read_dir().expect("a directory").count(), 0);
}

/// What a script writes is one transaction in Redis's file, and Redis reads its file in the name of `default`.
#[tokio::test]
async fn m5_a_redis_that_starts_again_has_everything_that_was_written() {
    let mut redis = Redis::start_with(&[STRICT]).await;
    let url = redis.store_of("gateway");
    let taken_back = Revocation::at_once(RevocationSubject::Principal("somebody".into()));
    let store = RedisStore::connect(&url, "baton").await.expect("a store");
    assert!(store.revoke(&taken_back).await.expect("it is written"));
    redis.restart().await;
    let store = RedisStore::connect(&url, "baton").await.expect("a store");
    let found = store.revocations().await.expect("it is read");
    assert_eq!(found, [taken_back]);
}
