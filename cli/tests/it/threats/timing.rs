//! How long a refusal takes says nothing about what was refused. Measured as `dudect` does: two kinds of
//! input in random order, and Welch's t-test on the fastest of them, since the others measure the machine.
//! A test of statistics: it has five tries, and a leak that was put there on purpose has to show.

use std::hint::black_box;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::id::SessionId;
use baton_session::token::generate;
use jsonwebtoken::Algorithm;
use serde_json::json;

use super::forge::{CONNECTION, Forge, claims};
use super::guarded;
use crate::auth::{A, B, Guarded};
use crate::support::Stream;

/// `dudect` takes 4.5 for a leak; a shared machine is given more.
const BOUND: f64 = 20.0;
const TRIES: usize = 5;
/// So much of both together is looked at, the fastest first: a machine that is busy spoils the rest.
const SHARES: [f64; 4] = [0.1, 0.3, 0.5, 0.8];

/// How far apart the two are, in standard errors, by whichever share tells most.
fn welch(times: &[Vec<f64>; 2]) -> f64 {
    let mut all = times.concat();
    all.sort_by(f64::total_cmp);
    let limits = SHARES.map(|share| all[(all.len() as f64 * share) as usize]);
    let apart = limits.map(|limit| {
        let [one, other] = times.each_ref().map(|times| {
            let fast = times.iter().copied().filter(|time| *time <= limit);
            let fast: Vec<f64> = fast.collect();
            let (count, sum) = (fast.len() as f64, fast.iter().sum::<f64>());
            let squares = fast.iter().map(|time| (time - sum / count).powi(2));
            (
                count,
                sum / count,
                squares.sum::<f64>() / (count - 1.0) / count,
            )
        });
        // All of the fast ones are of one kind: nothing is left to compare them with.
        match one.0.min(other.0) * 10.0 < one.0.max(other.0) {
            true => f64::INFINITY,
            false => (one.1 - other.1).abs() / (one.2 + other.2).sqrt(),
        }
    });
    apart.into_iter().fold(0.0, f64::max)
}

/// Many of both kinds, in random order. What it takes is put into one place in memory first, so that
/// nothing but its bytes can make a difference.
fn measure(inputs: &[Vec<u8>; 2], samples: usize, check: impl Fn(&[u8])) -> f64 {
    let mut input = inputs[0].clone();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..samples {
        let kind = usize::from(rand::random::<bool>());
        input.copy_from_slice(&inputs[kind]);
        let start = Instant::now();
        check(black_box(&input));
        times[kind].push(start.elapsed().as_nanos() as f64);
    }
    welch(&times)
}

/// Whether one of a few tries says so.
fn sometimes(what: &str, mut measured: impl FnMut() -> f64, fits: impl Fn(f64) -> bool) {
    let mut tries = Vec::new();
    while tries.len() < TRIES && !tries.last().is_some_and(|t: &f64| fits(*t)) {
        tries.push(measured());
    }
    println!("{what}: t = {tries:.1?}");
    assert!(
        tries.last().is_some_and(|t| fits(*t)),
        "{what}: t = {tries:?}"
    );
}

/// What is compared for as long as it is the same.
fn leaks(one: &[u8], other: &[u8]) -> bool {
    for (a, b) in one.iter().zip(other) {
        if black_box(a) != black_box(b) {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn row_27_timing() {
    const SAMPLES: usize = 20_000;
    let forge = Forge::with(&generate(Algorithm::HS256));
    let ring = forge.ring();
    let good = forge.token(CONNECTION, &claims("somebody"));
    assert!(ring.verify_connection(&good).is_ok());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let right = BASE64URL.decode(signature).unwrap();
    // Wrong in the first byte of the signature, and in the last.
    let wrong = [0, 31].map(|at| {
        let mut signature = right.clone();
        signature[at] ^= 0x55;
        let token = format!("{message}.{}", BASE64URL.encode(&signature));
        token.into_bytes()
    });
    let refused = |token: &[u8]| {
        let token = std::str::from_utf8(token).unwrap();
        assert!(ring.verify_connection(token).is_err());
    };
    sometimes(
        "first or last byte wrong",
        || measure(&wrong, SAMPLES, refused),
        |t| t < BOUND,
    );
    // The same, with a comparison after it that stops early.
    let leaking = |token: &[u8]| {
        refused(token);
        black_box(leaks(good.as_bytes(), token));
    };
    sometimes(
        "a comparison that leaks",
        || measure(&wrong, SAMPLES, leaking),
        |t| t > BOUND,
    );

    // A session that is another's takes as long as one that is nobody's, where it is asked for; one's own
    // does not.
    let guarded = guarded().await;
    let alice = guarded.open(A).await;
    let mut sessions = Vec::new();
    for id in 0..50 {
        let place = json!({ "cwd": "/tmp", "mcpServers": [] });
        let made = alice.call(id, "session/new", place).await;
        let id = made["result"]["sessionId"].as_str().unwrap();
        sessions.push(SessionId::parse(id).expect("an id"));
    }
    for (what, key, fits) in [
        ("foreign or unknown", B, (|t| t < BOUND) as fn(f64) -> bool),
        ("own or unknown", A, |t| t > BOUND),
    ] {
        let mut tries = Vec::new();
        while tries.len() < TRIES && !tries.last().is_some_and(|t| fits(*t)) {
            tries.push(apart_from_unknown(&guarded, key, &sessions).await);
        }
        println!("{what}: t = {tries:.1?}");
        assert!(fits(*tries.last().unwrap()), "{what}: t = {tries:?}");
    }
}

/// How far apart answers about these sessions and about none are, for this caller.
async fn apart_from_unknown(guarded: &Guarded, key: &str, sessions: &[SessionId]) -> f64 {
    let (caller, http) = (guarded.open(key).await, reqwest::Client::new());
    let mut times = [Vec::new(), Vec::new()];
    for id in 0..1_000 {
        let kind = usize::from(rand::random::<bool>());
        let known = &sessions[id % sessions.len()];
        let session = match kind {
            0 => known.clone(),
            _ => SessionId::mint(known.partition()),
        };
        let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
        let body =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/load", "params": params });
        let request = http
            .post(&guarded.url)
            .bearer_auth(key)
            .header("acp-connection-id", &caller.connection)
            .header("accept", "text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_string());
        let start = Instant::now();
        let answer = request.send().await.expect("the gateway answers");
        let answer = Stream::unchecked(answer).response(&json!(id)).await;
        times[kind].push(start.elapsed().as_nanos() as f64);
        assert_eq!(answer["error"]["code"] == -32002, key == B || kind == 1);
    }
    welch(&times)
}
