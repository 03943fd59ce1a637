//! Too much of something: keys to look for, bytes, and junk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use futures_util::{StreamExt as _, stream};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::forge::{CONNECTION, Forge, SESSION, claims};
use super::{Probe, guarded};
use crate::auth::provider::{self, Provider};
use crate::auth::{A, Guarded};
use crate::browser::{PAGE, open};
use crate::support::clock::Clock;
use crate::support::http::prompt;
use crate::support::websocket::{Socket, initialize};
use crate::support::{until, within};

/// Where an identity provider publishes its keys, and how often it is asked.
struct Published {
    url: String,
    asked: Arc<AtomicUsize>,
    /// Of the last answer.
    written: Arc<AtomicUsize>,
    answer: watch::Sender<Answer>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
enum Answer {
    Keys(Value),
    /// Then so many bytes of white space.
    Huge(Value, usize),
    /// The connection is cut.
    Nothing,
}

impl Published {
    async fn start(keys: &[&Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let (answer, current) = watch::channel(Answer::Keys(json!({ "keys": keys })));
        let (asked, written) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counters = (asked.clone(), written.clone());
        let serving = tokio::spawn(async move {
            loop {
                let Ok((mut socket, _)) = listener.accept().await else {
                    return;
                };
                let mut request = [0; 4096];
                let _ = socket.read(&mut request).await;
                counters.0.fetch_add(1, Ordering::SeqCst);
                let answer = current.borrow().clone();
                let sent = write(&mut socket, &answer).await;
                counters.1.store(sent, Ordering::SeqCst);
            }
        });
        Self {
            url,
            asked,
            written,
            answer,
            serving,
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn answers(&self, answer: Answer) {
        self.answer.send_replace(answer);
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns how much the other side has let it write.
async fn write(socket: &mut TcpStream, answer: &Answer) -> usize {
    let (set, more) = match answer {
        Answer::Keys(set) => (set.to_string(), 0),
        Answer::Huge(set, more) => (set.to_string(), *more),
        Answer::Nothing => return 0,
    };
    let length = set.len() + more;
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{set}");
    let _ = socket.write_all(head.as_bytes()).await;
    let spaces = vec![b' '; 1 << 20];
    let mut written = 0;
    while written < more && socket.write_all(&spaces).await.is_ok() {
        written += spaces.len();
    }
    written
}

#[tokio::test]
async fn row_11_key_sets_under_load() {
    let (known, new) = (Provider::new("k1"), Provider::new("k2"));
    let published = Published::start(&[&known.public]).await;
    let dir = TempDir::new().expect("a temporary directory");
    let clock = Clock::new(dir.path());
    let arguments = provider::arguments(&published.url);
    let started = Instant::now();
    let guarded = Guarded::start_in(dir, &arguments, |command| clock.rule_all(command)).await;
    let good = known.token("k1", &provider::claims("alice"));
    until("the keys are there", async || {
        (guarded.initialize(Some(&good)).await.status() == 200).then_some(())
    })
    .await;
    // A thousand keys that nobody has heard of are no thousand questions: one every ten seconds.
    let http = reqwest::Client::new();
    let unheard_of = (0..1000).map(|_| {
        let kid = format!("{:032x}", rand::random::<u128>());
        let token = known.token(&kid, &provider::claims("alice"));
        let request = http.post(&guarded.url).bearer_auth(token);
        async {
            within("an answer", request.send())
                .await
                .unwrap()
                .status()
                .as_u16()
        }
    });
    let statuses: Vec<u16> = stream::iter(unheard_of)
        .buffer_unordered(50)
        .collect()
        .await;
    assert!(statuses.iter().all(|status| *status == 401));
    let periods = usize::try_from(started.elapsed().as_secs() / 10).unwrap();
    let asked = published.asked();
    assert!(
        (1..=2 + periods).contains(&asked),
        "{asked} in {:?}",
        started.elapsed()
    );

    // Time goes by, so that the next key that is unknown is looked for.
    let mut hours = 0;
    let mut looks_again = async |token: &str| {
        let before = published.asked();
        hours += 1;
        clock.set(&format!("+{}s", hours * 20));
        until("the key set is asked for", async || {
            let status = guarded.initialize(Some(token)).await.status().as_u16();
            (published.asked() > before).then_some(status)
        })
        .await
    };
    let token = |provider: &Provider, kid: &str| provider.token(kid, &provider::claims("alice"));
    // A set of 50 MB is not read, whatever is in it.
    let both = json!({ "keys": [known.public, new.public] });
    published.answers(Answer::Huge(both.clone(), 50 << 20));
    assert_eq!(looks_again(&token(&new, "k2")).await, 401);
    until("it has hung up", async || {
        (published.written.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
    let written = published.written.load(Ordering::SeqCst);
    assert!(written < 25 << 20, "it took {written} bytes");
    assert_eq!(
        guarded
            .initialize(Some(&token(&known, "k1")))
            .await
            .status(),
        200
    );
    // Nor is what makes no sense, and while nobody answers the keys that are known still do.
    for answer in [Answer::Keys(json!("oops")), Answer::Nothing] {
        published.answers(answer);
        assert_eq!(looks_again(&token(&new, "k2")).await, 401);
        let claims = provider::claims("somebody new");
        assert_eq!(
            guarded
                .initialize(Some(&known.token("k1", &claims)))
                .await
                .status(),
            200
        );
    }
    published.answers(Answer::Keys(both));
    assert_eq!(looks_again(&token(&new, "k2")).await, 200);
    // Only from where nobody listens in between.
    let mut plain = crate::support::process::baton();
    plain.args(["serve", "--ephemeral"]);
    let output = plain
        .args(provider::arguments("http://issuer.example/jwks.json"))
        .output();
    assert_eq!(output.expect("baton runs").status.code(), Some(64));
}

/// The same bytes in other letters, for decoders that do not look closely.
fn variants(token: &str) -> Vec<String> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let parts: Vec<&str> = token.split('.').collect();
    let mut all = Vec::new();
    for at in 0..3 {
        let part = parts[at];
        let last = part.bytes().last().unwrap();
        let value = DIGITS.iter().position(|digit| *digit == last).unwrap();
        let idle = match part.len() % 4 {
            2 => 16,
            3 => 4,
            _ => 1,
        };
        let start = &part[..part.len() - 1];
        let others = (1..idle).map(|bits| format!("{start}{}", char::from(DIGITS[value ^ bits])));
        let padded = [format!("{part}="), format!("{part}==")];
        for variant in others.chain(padded) {
            let mut parts = parts.clone();
            parts[at] = &variant;
            all.push(parts.join("."));
        }
    }
    all.extend([
        format!("{token}."),
        format!(".{token}"),
        format!("{token}="),
    ]);
    all
}

#[tokio::test]
async fn row_28_size_and_malleability() {
    let guarded = guarded().await;
    let (forge, alice) = (Forge::of(&guarded), Probe::of(&guarded, Some(A)));
    // As good as any, but for its length.
    let of_length = |kind: &str, length: usize| {
        let mut claims = claims("key:alice");
        (0..)
            .map(|pad| {
                claims["pad"] = json!("x".repeat(pad));
                forge.token(kind, &claims)
            })
            .find(|token| token.len() >= length)
            .unwrap()
    };
    let (fits, over) = (of_length(CONNECTION, 1023), of_length(CONNECTION, 1025));
    assert!(fits.len() <= 1024, "{}", fits.len());
    assert_eq!(alice.connection(&fits).await, 200);
    let (session, long_session) = (of_length(SESSION, 1023), of_length(SESSION, 1025));
    assert_eq!(alice.session(&session).await, 200);
    assert_eq!(alice.session(&long_session).await, 404);
    for length in [1025, 64 << 10] {
        let mut long = over.clone();
        long.extend(std::iter::repeat_n('A', length - long.len().min(length)));
        let headers = [("acp-connection-id", long.as_str())];
        let answer = alice.send(Method::GET, &headers, None).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        let told = answer.text().await.unwrap();
        assert!(told.contains("longer than any token"), "{told}");
        assert!(!told.contains(&long[..100]), "it is not repeated");
    }
    // A header of a megabyte is not even read: the line is cut, after a word or without.
    let address = guarded
        .url
        .trim_start_matches("http://")
        .trim_end_matches("/acp");
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "GET /acp HTTP/1.1\r\nHost: localhost\r\nAcp-Connection-Id: {}\r\n\r\n",
        "A".repeat(1 << 20)
    );
    let _ = socket.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = within("it hangs up", socket.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );

    // One token has one form. Lengths of each remainder, so that some part has bits that say nothing.
    for kind in [CONNECTION, SESSION] {
        for pad in ["", "x", "xx"] {
            let mut claims = claims("key:alice");
            claims["pad"] = json!(pad);
            let token = forge.token(kind, &claims);
            let status = async |token: &str| match kind {
                CONNECTION => alice.connection(token).await,
                _ => alice.session(token).await,
            };
            assert_eq!(status(&token).await, 200);
            for variant in variants(&token) {
                assert_eq!(status(&variant).await, 404, "{variant}");
            }
        }
    }
}

#[tokio::test]
async fn row_29_junk() {
    let guarded = guarded().await;
    let (forge, alice) = (Forge::of(&guarded), Probe::of(&guarded, Some(A)));
    let good = forge.token(CONNECTION, &claims("key:alice"));
    let mut rng = StdRng::seed_from_u64(29);
    const LETTERS: &[u8] = b"ABCDEFabcdef0123456789-_.=, ;:\"'{}[]\\/%\t\xe4";
    let mut junk: Vec<Vec<u8>> = (0..150)
        .map(|_| {
            let length = rng.random_range(0..1100);
            (0..length)
                .map(|_| LETTERS[rng.random_range(0..LETTERS.len())])
                .collect()
        })
        .collect();
    // Half of a good one, and good ones with junk in the middle.
    for _ in 0..150 {
        let (from, length) = (rng.random_range(0..good.len()), rng.random_range(0..40));
        let rest = rng.random_range(from..=good.len());
        let middle = (0..length).map(|_| LETTERS[rng.random_range(0..LETTERS.len())]);
        let (start, end) = (good[..from].bytes(), good[rest..].bytes());
        let mixed: Vec<u8> = start.chain(middle).chain(end).collect();
        if mixed != good.as_bytes() {
            junk.push(mixed);
        }
    }
    // Deeper than any parser should follow, well signed.
    let (deep, header) = ("[".repeat(300), forge.header(CONNECTION).to_string());
    for claims in [&deep, &format!("{{\"a\":{deep}"), "{", "null", "\u{0}", ""] {
        junk.push(forge.signed(&header, claims).into_bytes());
        junk.push(forge.signed(claims, "{}").into_bytes());
    }
    junk.push(BASE64URL.encode([0xff; 300]).into_bytes());
    for value in &junk {
        for name in ["acp-connection-id", "acp-session-token"] {
            let status = alice.bytes(name, value).await.unwrap_or(400);
            assert!(matches!(status, 400 | 404), "{name}: {status} {value:?}");
        }
    }
    // Wherever else a token or cursor is read.
    for value in junk.iter().step_by(10) {
        let text = String::from_utf8_lossy(value).replace(['\u{fffd}', '\t', '\0'], "");
        let credential = format!("Bearer {text}");
        assert_eq!(
            open(&guarded.url, &[("authorization", &credential)]).await,
            401
        );
        let cookie = format!("__Host-baton-login={text}");
        assert_eq!(open(&guarded.url, &[("cookie", &cookie), PAGE]).await, 401);
        let offered = format!("acp, baton.ticket.{text}");
        let refused = Socket::try_open(&guarded.url, &[("sec-websocket-protocol", &offered)]).await;
        assert!(matches!(
            refused.err().map(|refused| refused.0),
            Some(400 | 401)
        ));
        let mut carries = prompt(json!(1), "000-0123456789012345678901", "x");
        carries["params"]["_meta"] = json!({ "baton/session": { "token": text } });
        let one_shot = [("accept", "text/event-stream")];
        let answer = alice.send(Method::POST, &one_shot, Some(carries)).await;
        assert!(matches!(answer.status().as_u16(), 400 | 404), "{text}");
        let cursor = [
            ("acp-connection-id", good.as_str()),
            ("last-event-id", text.trim()),
        ];
        assert_eq!(alice.get(&cursor).await, 200);
    }
    assert_eq!(alice.connection(&good).await, 200);
    let opened = guarded
        .send(Method::POST, Some(A), &[], Some(initialize()))
        .await;
    assert_eq!(opened.status(), StatusCode::OK);
    let told = guarded.process.output();
    assert!(!told.contains("panicked"), "{told}");
}
