//! What it costs to look at a token: the first time, with cryptography, and every time after.
//!
//!     cargo run --release -p baton-gateway --example token_check

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_gateway::auth::{AuthMethod, Caller};
use baton_gateway::{App, GatewayConfig, StopSignals};
use baton_session::id::{ConnectionId, Partition};
use baton_session::store::MemoryStore;
use baton_session::token::{
    CONNECTION_LIFETIME, ConnectionToken, KeyRing, MAX_PRINCIPAL, SigningKeys, generate,
};
use jsonwebtoken::Algorithm;

const TOKENS: usize = 20_000;
const ROUNDS: usize = 9;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (uncached, cached) = (Duration::from_micros(5), Duration::from_micros(1));
    println!("| algorithm | first time, µs | after that, µs |");
    println!("|---|---:|---:|");
    let mut kept = true;
    for algorithm in [Algorithm::HS256, Algorithm::EdDSA, Algorithm::ES256] {
        let (first, again) = measure(algorithm).await;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "| {algorithm:?} | {:.2} | {:.2} |",
            micros(first),
            micros(again)
        );
        kept &= again < cached && (first < uncached || algorithm != Algorithm::HS256);
    }
    let verdict = if kept { "kept" } else { "NOT kept" };
    println!(
        "\nHS256 below {uncached:?} the first time, all below {cached:?} after that: {verdict}."
    );
}

/// The median over rounds, each with other tokens.
async fn measure(algorithm: Algorithm) -> (Duration, Duration) {
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let keys = KeyRing::parse(&generate(algorithm)).expect("a new key is good");
        let caller = Caller {
            principal: "p".repeat(MAX_PRINCIPAL).into(),
            ..Caller::anonymous()
        };
        let tokens: Vec<_> = (0..TOKENS).map(|_| token(&keys, &caller)).collect();
        let app = app(SigningKeys::fixed(keys)).await;
        let check = |times: &mut Vec<Duration>| {
            let began = Instant::now();
            for token in &tokens {
                let seen = app.access.verify_connection(&caller, token);
                assert!(seen.is_ok(), "our own tokens are good");
            }
            times.push(began.elapsed() / TOKENS as u32);
        };
        check(&mut first);
        check(&mut again);
    }
    (median(first), median(again))
}

fn token(keys: &KeyRing, caller: &Caller) -> String {
    let connection = ConnectionToken {
        id: ConnectionId::mint(Partition(3)),
        principal: caller.principal.to_string(),
        protocol_version: 1,
        client: Default::default(),
        agent: None,
        rights: None,
        issued: baton_session::clock::unix_seconds(),
        expires: 0,
    };
    let token = keys.sign_connection(&connection, CONNECTION_LIFETIME);
    token.expose().to_owned()
}

async fn app(keys: SigningKeys) -> Arc<App> {
    let store = Arc::new(MemoryStore::default());
    let app = App::new(
        GatewayConfig::default(),
        store,
        keys,
        AuthMethod::Open,
        StopSignals::default(),
    );
    app.await.expect("the store is in memory")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
