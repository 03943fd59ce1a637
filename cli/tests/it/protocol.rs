//! The protocol as a table: a row per method and rule, each with a check that runs on every transport and
//! on every store. [docs/reference/protocol.md](../../../docs/reference/protocol.md) is the same table for people.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;

use crate::support::{Cluster, Served};
use scene::Scene;

mod attaching;
mod cancelling;
mod closing;
mod document;
mod forking;
mod inbox;
mod listing;
mod opening;
mod peer;
mod prompting;
mod refusing;
mod scene;
mod settings;
mod sharing;
mod updates;

#[derive(Clone, Copy, PartialEq)]
pub enum Transport {
    Streams,
    WebSocket,
    OneShot,
}

pub const EVERYWHERE: &[Transport] =
    &[Transport::Streams, Transport::WebSocket, Transport::OneShot];

/// For what comes when nobody has asked: the body of a POST carries the events of its request alone.
pub const UNASKED: &[Transport] = &[Transport::Streams, Transport::WebSocket];

/// For what a POST does differently: it may always open one more connection.
pub const SOCKET: &[Transport] = &[Transport::WebSocket];

/// Little, so that a row can fill it.
pub const QUEUE: usize = 16;

pub struct Row {
    method: &'static str,
    /// What the server promises.
    rule: &'static str,
    /// How it is seen.
    checked: &'static str,
    transports: &'static [Transport],
    check: fn(Scene) -> BoxFuture<'static, ()>,
}

/// `method, rule, checked, transports, check`.
macro_rules! row {
    ($method:literal, $rule:literal, $checked:literal, $transports:expr, $check:path) => {
        $crate::protocol::Row {
            method: $method,
            rule: $rule,
            checked: $checked,
            transports: $transports,
            check: |scene| Box::pin($check(scene)),
        }
    };
}
use row;

fn table() -> Vec<Row> {
    [
        opening::rows(),
        attaching::rows(),
        listing::rows(),
        forking::rows(),
        prompting::rows(),
        cancelling::rows(),
        settings::rows(),
        closing::rows(),
        updates::rows(),
        sharing::rows(),
        refusing::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// So that a row that hangs is named.
const LIMIT: Duration = Duration::from_secs(120);

/// Enough to have them disturb each other, if they can.
const AT_ONCE: usize = 12;

async fn hold_on(url: &str, transport: Transport) {
    let rows = table().into_iter();
    let rows = rows.filter(|row| row.transports.contains(&transport));
    let rows = rows.map(|row| async move {
        let scene = Scene::new(url, transport);
        let check = tokio::spawn((row.check)(scene.clone()));
        let failure = match tokio::time::timeout(LIMIT, check).await {
            Err(_) => Some("takes too long".to_owned()),
            Ok(Err(panic)) => Some(reason(panic)),
            Ok(Ok(())) => scene.fault(),
        };
        failure.map(|failure| format!("{}: {}: {failure}", row.method, row.rule))
    });
    let outcomes = stream::iter(rows).buffer_unordered(AT_ONCE);
    let failures: Vec<String> = outcomes.filter_map(async |failure| failure).collect().await;
    assert!(
        failures.is_empty(),
        "{} rows of the table do not hold:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn reason(panic: tokio::task::JoinError) -> String {
    let payload = panic.into_panic();
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()))
        .unwrap_or_default()
}

const LIMITS: [&str; 2] = ["--queue-limit", "16"];

/// As the workers of a cluster have it.
const SERVERS: [&str; 4] = [
    "--allow-mcp-stdio",
    "/bin/true",
    "--allow-mcp-url",
    "http://127.0.0.1:1",
];

async fn served(arguments: &[&str]) -> Served {
    Served::start_with(&[&LIMITS[..], &SERVERS, arguments].concat()).await
}

macro_rules! tables {
    ($($name:ident: $transport:ident on $store:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let baton = $store.await;
            hold_on(&baton.url(), Transport::$transport).await;
        })*
    };
}

tables! {
    streams_in_memory: Streams on served(&["--ephemeral"]);
    streams_on_files: Streams on served(&[]);
    streams_on_redis: Streams on Cluster::start_with(&LIMITS);
    websocket_in_memory: WebSocket on served(&["--ephemeral"]);
    websocket_on_files: WebSocket on served(&[]);
    websocket_on_redis: WebSocket on Cluster::start_with(&LIMITS);
    one_shot_in_memory: OneShot on served(&["--ephemeral"]);
    one_shot_on_files: OneShot on served(&[]);
    one_shot_on_redis: OneShot on Cluster::start_with(&LIMITS);
}
