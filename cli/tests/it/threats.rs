//! One test per row of the table in docs/security/threats.md, named after it. Each does what an attacker would,
//! over HTTP or WebSocket, and fails if the defence is taken away. Where there is more to try than that,
//! the page names the tests that do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use reqwest::header::HeaderValue;
use reqwest::{Client, Method, Response};
use serde_json::Value;

use crate::auth::{A, B, Guarded, write_keys};
use crate::support::within;

mod browsers;
mod caches;
mod callers;
mod forge;
mod keys;
mod leaks;
mod lifetimes;
mod limits;
mod mcp;
mod sessions;
mod timing;
mod tokens;

/// The numbers have gaps: they are those of the list that the table was taken from.
const ROWS: [std::ops::RangeInclusive<u32>; 4] = [1..=31, 34..=34, 35..=35, 37..=40];

/// With its key in a file, so that a test can sign what the gateway would take for its own.
const KEPT: [&str; 2] = ["--data-dir", "data"];
const ASKS: [&str; 6] = [
    "--data-dir",
    "data",
    "--auth",
    "keys",
    "--auth-keys",
    "api-keys.json",
];

/// Two callers, `key:alice` with A and `key:bob` with B.
async fn guarded() -> Guarded {
    guarded_and(&[]).await
}

async fn guarded_and(more: &[&str]) -> Guarded {
    let arguments = [&ASKS[..], more].concat();
    let entries = [("alice", A), ("bob", B)];
    Guarded::start(&arguments, |dir| write_keys(dir, &entries)).await
}

/// Asks for a stream again and again, over the same connections.
struct Probe {
    http: Client,
    url: String,
    credential: Option<String>,
}

impl Probe {
    fn of(guarded: &Guarded, credential: Option<&str>) -> Self {
        Self {
            http: Client::new(),
            url: guarded.url.clone(),
            credential: credential.map(|credential| format!("Bearer {credential}")),
        }
    }

    async fn send(
        &self,
        method: Method,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Response {
        let mut request = self.http.request(method, &self.url);
        if let Some(credential) = &self.credential {
            request = request.header("authorization", credential);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json");
            request = request.body(body.to_string());
        }
        within("an answer", request.send())
            .await
            .expect("the gateway answers")
    }

    async fn get(&self, headers: &[(&str, &str)]) -> u16 {
        let headers = [&[("accept", "text/event-stream")], headers].concat();
        let answer = self.send(Method::GET, &headers, None).await;
        answer.status().as_u16()
    }

    async fn connection(&self, token: &str) -> u16 {
        self.get(&[("acp-connection-id", token)]).await
    }

    async fn session(&self, token: &str) -> u16 {
        self.get(&[("acp-session-token", token)]).await
    }

    /// Bytes that need not be text; `None` if no header can have them.
    async fn bytes(&self, name: &str, value: &[u8]) -> Option<u16> {
        let value = HeaderValue::from_bytes(value).ok()?;
        let mut request = self.http.get(&self.url).header(name, value);
        if let Some(credential) = &self.credential {
            request = request.header("authorization", credential);
        }
        let answer = within("an answer", request.send()).await;
        Some(answer.expect("the gateway answers").status().as_u16())
    }
}

/// By row, the names of the tests in `threats/`.
fn tests() -> BTreeMap<u32, Vec<String>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/threats");
    let mut tests = BTreeMap::<u32, Vec<String>>::new();
    for file in fs::read_dir(dir).expect("the tests are here") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a file");
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let name = pair[1].trim_start_matches("async ").strip_prefix("fn row_");
            let Some((name, _)) = name.and_then(|name| name.split_once('(')) else {
                continue;
            };
            let is_test = pair[0].starts_with("#[tokio::test") || pair[0] == "#[test]";
            assert!(is_test, "row_{name} is no test");
            let (row, _) = name.split_once('_').expect("row_NN_and_a_name");
            let row = row.parse().expect("a number");
            tests.entry(row).or_default().push(format!("row_{name}"));
        }
    }
    tests
}

/// By row, the tests that docs/security/threats.md names.
fn table() -> BTreeMap<u32, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security/threats.md");
    let text = fs::read_to_string(path).expect("it is there");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        let held = cells.last()?.trim_end_matches(" |").to_owned();
        Some((number, held))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_row_of_the_table_has_its_test() {
    let (tests, table) = (tests(), table());
    let rows: Vec<u32> = ROWS.into_iter().flatten().collect();
    assert_eq!(tests.keys().copied().collect::<Vec<_>>(), rows, "tests");
    assert_eq!(table.keys().copied().collect::<Vec<_>>(), rows, "the table");
    for (row, names) in tests {
        let [name] = &names[..] else {
            panic!("row {row} has several tests: {names:?}");
        };
        let held = &table[&row];
        assert!(
            held.starts_with(&format!("`{name}`")),
            "row {row} of docs/security/threats.md is not held by {name} first: {held}"
        );
    }
}
