//! The keys that sign: how they change, which are taken, and who holds them.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::token::{generate, unverified};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::forge::{CONNECTION, Forge, claims};
use super::{KEPT, Probe};
use crate::auth::Guarded;
use crate::support::cluster::{address, ready};
use crate::support::http::prompt;
use crate::support::process::{Process, baton, free_port};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Redis, until};

/// A gateway, its keys, and who asks it.
struct Replica {
    guarded: Guarded,
    probe: Probe,
}

impl Replica {
    async fn start() -> Self {
        let guarded = Guarded::start(&KEPT, |_| ()).await;
        let probe = Probe::of(&guarded, None);
        Self { guarded, probe }
    }

    /// Returns when it signs with the first of these, and knows no others of `all`.
    async fn gets(&self, keys: &[&Value], all: &[Value]) {
        let path = self.guarded.dir.path().join("data/keys.json");
        let half = path.with_extension("half");
        fs::write(&half, json!({ "keys": keys }).to_string()).unwrap();
        fs::rename(half, path).unwrap();
        until("the keys are in force", async || {
            let [header, _] = unverified(&self.opens().await).expect("a token");
            let mut done = header["kid"] == keys[0]["kid"];
            for key in all {
                let forge = Forge::with(&json!({ "keys": [key] }).to_string());
                let token = forge.token(CONNECTION, &claims("anonymous"));
                let expected = if keys.contains(&key) { 200 } else { 404 };
                done &= self.probe.connection(&token).await == expected;
            }
            done.then_some(())
        })
        .await;
    }

    async fn opens(&self) -> String {
        let answer = self.guarded.initialize(None).await;
        answer.headers()["acp-connection-id"]
            .to_str()
            .unwrap()
            .to_owned()
    }
}

/// What is opened at one is used at both, again and again until `done`: not one request may fail.
async fn traffic(replicas: [&Replica; 2], done: &AtomicBool) -> u32 {
    let mut served = 0;
    while !done.load(Ordering::Relaxed) {
        for opener in replicas {
            let token = opener.opens().await;
            for replica in replicas {
                assert_eq!(replica.probe.connection(&token).await, 200, "{token}");
                served += 1;
            }
        }
    }
    served
}

#[tokio::test]
async fn row_12_outage_by_rotation() {
    let (one, two) = (Replica::start().await, Replica::start().await);
    let all = [(); 3].map(|()| {
        let set: Value = serde_json::from_str(&generate(Algorithm::HS256)).unwrap();
        set["keys"][0].clone()
    });
    let [first, second, third] = &all;
    let good = async |tokens: &[String], expected: [u16; 2]| {
        for token in tokens {
            let answers = [
                one.probe.connection(token).await,
                two.probe.connection(token).await,
            ];
            assert_eq!(answers, expected, "{token}");
        }
    };
    one.gets(&[first], &all).await;
    two.gets(&[first], &all).await;
    let mut tokens = vec![one.opens().await, two.opens().await];
    let old = tokens.clone();
    good(&tokens, [200, 200]).await;
    let done = AtomicBool::new(false);
    let rotated = async {
        // One replica after the other, as it comes: the new key is known to all before it signs anywhere.
        for keys in [[first, second], [second, first]] {
            for replica in [&one, &two] {
                replica.gets(&keys, &all).await;
                tokens.extend([one.opens().await, two.opens().await]);
                good(&tokens, [200, 200]).await;
            }
        }
        let new = [one.opens().await, two.opens().await];
        one.gets(&[second], &all).await;
        good(&old, [404, 200]).await;
        good(&new, [200, 200]).await;
        two.gets(&[second], &all).await;
        good(&old, [404, 404]).await;
        good(&new, [200, 200]).await;
        done.store(true, Ordering::Relaxed);
        new
    };
    let (new, served) = tokio::join!(rotated, traffic([&one, &two], &done));
    assert!(served > 0, "somebody was there to notice");
    // The order that fails: a key that signs before everybody knows it.
    one.gets(&[third, second], &all).await;
    good(&[one.opens().await], [200, 404]).await;
    good(&new, [200, 200]).await;
}

/// A gateway that does not come up in any case: no client is given a thousandth of a second.
fn gateway(arguments: &[&str]) -> Output {
    let mut command = baton();
    command.env_remove("BATON_KEYS");
    command.args([
        "gateway",
        "--store",
        "redis://127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
        "--stall-ms",
        "1",
    ]);
    command.args(arguments).output().expect("baton runs")
}

fn refused(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{told}");
    told
}

#[test]
fn row_13_weak_keys() {
    let dir = TempDir::new().expect("a temporary directory");
    let path = dir.path().join("keys.json");
    let start = |secret: &[u8]| {
        let key =
            json!({ "kty": "oct", "kid": "k", "alg": "HS256", "k": BASE64URL.encode(secret) });
        write_private(&path, &json!({ "keys": [key] }).to_string());
        gateway(&["--keys", path.to_str().unwrap()])
    };
    let random: Vec<u8> = (0..31).map(|_| rand::random()).collect();
    assert!(refused(&start(&random)).contains("shorter than 32 bytes"));
    assert!(refused(&start(b"")).contains("shorter than 32 bytes"));
    for known in ["default-insecure-seed", "secret-api-key", "changeme"] {
        let padded = format!("{known:-<40}");
        let inside = [&random[..], known.as_bytes(), &random].concat();
        for secret in [known.repeat(4).as_bytes(), padded.as_bytes(), &inside] {
            let told = refused(&start(secret));
            assert!(
                told.contains("well known") || told.contains("not random"),
                "{told}"
            );
            assert!(!told.contains(known), "it is not repeated: {told}");
        }
    }
    for constant in [[0; 32], [255; 32]] {
        assert!(refused(&start(&constant)).contains("not random"));
    }
    assert!(refused(&start(&(0..32).collect::<Vec<u8>>())).contains("not random"));
    // There is no key that it would fall back to.
    write_private(&path, r#"{"keys":[]}"#);
    refused(&gateway(&["--keys", path.to_str().unwrap()]));
    refused(&gateway(&["--keys", "/nowhere/keys.json"]));
    let told = refused(&gateway(&[]));
    assert!(told.contains("--keys"), "{told}");
    // Enough of chance is enough: then it is only something else that is wrong.
    let random: Vec<u8> = (0..32).map(|_| rand::random()).collect();
    let told = refused(&start(&random));
    assert!(
        !told.contains("--keys") && told.contains("--stall-ms"),
        "{told}"
    );
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).expect("the directory is writable");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("it is ours");
}

/// Whether one of these is somewhere in the memory that the process has written to.
fn remembers(process: &Process, secrets: &[&[u8]]) -> bool {
    const PAGE: u64 = 4096;
    let of = |what: &str| format!("/proc/{}/{what}", process.id());
    let maps = fs::read_to_string(of("maps")).expect("it runs");
    let [memory, pages] = ["mem", "pagemap"].map(|what| File::open(of(what)).expect("it is ours"));
    let mut seen = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').expect("a range");
        let (from, to) = range.split_once('-').expect("a range");
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).expect("a number"));
        // Most of what is set aside is never touched: of each page eight bytes say whether it was.
        let mut present = vec![0; usize::try_from((to - from) / PAGE * 8).expect("it fits")];
        if pages.read_exact_at(&mut present, from / PAGE * 8).is_err() {
            continue;
        }
        let present: Vec<bool> = present.chunks(8).map(|page| page[7] & 0x80 != 0).collect();
        let mut at = from;
        for run in present.chunk_by(|one, next| one == next) {
            let length = run.len() * PAGE as usize;
            let mut bytes = vec![0; if run[0] { length } else { 0 }];
            let read = memory.read_exact_at(&mut bytes, at);
            at += length as u64;
            let has = |secret: &&[u8]| memchr::memmem::find(&bytes, secret).is_some();
            if read.is_ok() && secrets.iter().any(has) {
                return true;
            }
            seen += bytes.len();
        }
    }
    assert!(seen > 1 << 20, "its memory can be read");
    false
}

#[tokio::test]
async fn row_37_whoever_verifies_could_forge() {
    let cluster = Cluster::start().await;
    let set: Value = serde_json::from_str(&cluster.keys()).unwrap();
    let written = set["keys"][0]["k"].as_str().unwrap();
    let secret = BASE64URL.decode(written).unwrap();
    let secrets = [written.as_bytes(), &secret];
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    let mut turn = client
        .one_shot(prompt(json!(1), &session, "/count 2"))
        .await;
    assert_eq!(turn.turn(&json!(1)).await, counted(2, 1));
    // A worker, and the agent in it, has no key: not told, not open, not in memory.
    let key_file = fs::canonicalize(cluster.key_file()).unwrap();
    for worker in &cluster.workers {
        let proc = Path::new("/proc").join(worker.id().to_string());
        for part in ["environ", "cmdline"] {
            let told = fs::read(proc.join(part)).unwrap();
            let has = |secret: &[u8]| memchr::memmem::find(&told, secret).is_some();
            assert!(!secrets.into_iter().any(has), "{part}");
            assert!(!has(b"keys.json"), "{part}");
        }
        for open in fs::read_dir(proc.join("fd")).unwrap().flatten() {
            assert_ne!(fs::read_link(open.path()).ok(), Some(key_file.clone()));
        }
        assert!(!remembers(worker, &secrets));
    }
    // What looks would find it.
    assert!(remembers(&cluster.gateways[0], &secrets));
    let mut asked = baton();
    asked.args(["worker", "--store", "redis://127.0.0.1:1", "--keys"]);
    refused(&asked.arg(&key_file).output().expect("baton runs"));
    let stored = cluster.redis.written();
    assert!(
        !secrets
            .into_iter()
            .any(|secret| memchr::memmem::find(&stored, secret).is_some())
    );

    key_files_are_looked_at(&cluster.redis).await;
}

/// Who can write to a key file can forge as well; who can read it, too, but that is for its owner to know.
async fn key_files_are_looked_at(redis: &Redis) {
    let dir = TempDir::new().expect("a temporary directory");
    let keys = dir.path().join("keys");
    let file = keys.join("one.json");
    fs::create_dir(&keys).unwrap();
    write_private(&file, &generate(Algorithm::HS256));
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    mode(&keys, 0o700);
    for path in [&file, &keys] {
        for bad in [0o602, 0o666] {
            mode(&file, bad);
            let told = refused(&gateway(&["--keys", path.to_str().unwrap()]));
            assert!(
                told.contains("one.json") && told.contains("chmod"),
                "{told}"
            );
        }
    }
    mode(&file, 0o600);
    mode(&keys, 0o777);
    let told = refused(&gateway(&["--keys", keys.to_str().unwrap()]));
    assert!(told.contains("chmod"), "{told}");
    // As Kubernetes mounts a secret: nobody but its owner can change what is in there.
    mode(&keys, 0o1777);
    for (bits, warns) in [(0o600, false), (0o640, false), (0o644, true)] {
        mode(&file, bits);
        let port = free_port();
        let mut command = baton();
        command.args([
            "gateway",
            "--store",
            &redis.store(),
            "--listen",
            &address(port),
        ]);
        command.arg("--keys").arg(&keys);
        let process = Process::start(dir.path(), "gateway", &mut command);
        ready(port).await;
        let told = process.output();
        assert_eq!(
            told.contains("can be read by everybody"),
            warns,
            "{bits:o}: {told}"
        );
    }
}
