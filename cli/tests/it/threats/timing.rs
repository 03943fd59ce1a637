//! How long a refusal takes says nothing about what was refused. Measured as `dudect` does: two kinds of
//! input in random order, and Welch's t-test on what is left when the slowest are cut off. A test of
//! statistics: it has three tries, and a leak that was put there on purpose has to show.

use std::hint::black_box;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::id::SessionId;
use baton_session::token::generate;
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use super::forge::{CONNECTION, Forge, claims};
use super::guarded;
use crate::auth::{A, B};
use crate::support::Stream;

/// `dudect` takes 4.5 for a leak; a shared machine is given more.
const BOUND: f64 = 10.0;
const TRIES: usize = 3;
/// The slowest of both are cut off: they measure the machine.
const KEPT: f64 = 0.8;

/// How far apart the two are, in standard errors.
fn welch(mut times: [Vec<f64>; 2]) -> f64 {
    let mut all: Vec<f64> = times.concat();
    all.sort_by(f64::total_cmp);
    let limit = all[(all.len() as f64 * KEPT) as usize];
    let [(mean, error), (other_mean, other_error)] = times.each_mut().map(|times| {
        times.retain(|time| *time <= limit);
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (mean, squares / (count - 1.0) / count)
    });
    (mean - other_mean) / (error + other_error).sqrt()
}

/// Many of both kinds, in random order.
fn measure(samples: usize, mut once: impl FnMut(usize)) -> f64 {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..samples {
        let kind = usize::from(rand::random::<bool>());
        let start = Instant::now();
        once(kind);
        times[kind].push(start.elapsed().as_nanos() as f64);
    }
    welch(times)
}

/// Whether one of a few tries says so.
fn sometimes(what: &str, mut measured: impl FnMut() -> f64, fits: impl Fn(f64) -> bool) {
    let mut tries = Vec::new();
    while tries.len() < TRIES && !tries.last().is_some_and(|t: &f64| fits(t.abs())) {
        tries.push(measured());
    }
    println!("{what}: t = {tries:.1?}");
    assert!(
        tries.last().is_some_and(|t| fits(t.abs())),
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
        (
            format!("{message}.{}", BASE64URL.encode(&signature)),
            signature,
        )
    });
    // In the same place in memory.
    let mut token = wrong[0].0.clone();
    let mut refused = |kind: usize| {
        token.replace_range(.., &wrong[kind].0);
        assert!(
            black_box(&ring)
                .verify_connection(black_box(&token))
                .is_err()
        );
    };
    sometimes(
        "first or last byte wrong",
        || measure(SAMPLES, &mut refused),
        |t| t < BOUND,
    );
    // The same, with a comparison that stops early after it.
    let mut leaking = |kind: usize| {
        refused(kind);
        black_box(leaks(&right, black_box(&wrong[kind].1)));
    };
    sometimes(
        "a comparison that leaks",
        || measure(SAMPLES, &mut leaking),
        |t| t > BOUND,
    );

    // A session that is another's takes as long as one that is nobody's, where it is asked for.
    let guarded = guarded().await;
    let (alice, bob) = (guarded.open(A).await, guarded.open(B).await);
    let mut foreign = Vec::new();
    for id in 0..50 {
        let place = json!({ "cwd": "/tmp", "mcpServers": [] });
        let made = alice.call(id, "session/new", place).await;
        foreign.push(made["result"]["sessionId"].as_str().unwrap().to_owned());
    }
    let http = reqwest::Client::new();
    let ask = async |id: usize, session: &str| -> Value {
        let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
        let body =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/load", "params": params });
        let request = http
            .post(&guarded.url)
            .bearer_auth(B)
            .header("acp-connection-id", &bob.connection)
            .header("accept", "text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.expect("the gateway answers");
        Stream::unchecked(answer).response(&json!(id)).await
    };
    let mut tries = Vec::new();
    for round in 0..TRIES {
        let mut times = [Vec::new(), Vec::new()];
        for sample in 0..2_000 {
            let kind = usize::from(rand::random::<bool>());
            let session = SessionId::parse(&foreign[sample % foreign.len()]).expect("an id");
            let session = match kind {
                0 => session,
                _ => SessionId::mint(session.partition()),
            };
            let start = Instant::now();
            let answer = ask(1000 + round * 10_000 + sample, session.as_str()).await;
            times[kind].push(start.elapsed().as_nanos() as f64);
            assert_eq!(answer["error"]["code"], -32002);
        }
        tries.push(welch(times));
        if tries.last().is_some_and(|t| t.abs() < BOUND) {
            println!("foreign or unknown: t = {tries:.1?}");
            return;
        }
    }
    panic!("foreign or unknown: t = {tries:?}");
}
