//! ACP over HTTP/1.1 and SSE. Three sockets, like the Rust SDK: the connection stream, the session stream, the posts.

use std::fmt::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::http1::{Conn, Head};
use super::inbox::Inbox;
use super::ledger::Ledger;
use super::{rpc, sse};
use crate::count::Count;

pub struct Link {
    posts: Conn,
    /// The part of each post's head that never changes.
    ids: String,
    addr: SocketAddr,
}

impl Link {
    /// `caller` is a header line for every request, or nothing.
    pub async fn open(
        addr: SocketAddr,
        caller: &str,
        count: Count,
        inbox: &Inbox,
        readers: &mut JoinSet<()>,
    ) -> Result<(Self, String)> {
        let mut connection_stream = Conn::open(addr).await?;
        let connection = initialize(&mut connection_stream, addr, caller).await?;
        let mut ids = format!("{caller}acp-connection-id: {connection}\r\n");
        subscribe(&mut connection_stream, addr, &ids).await?;
        readers.spawn_local(read(connection_stream, inbox.clone()));

        let mut session_stream = Conn::open(addr).await?;
        let request = post(addr, &ids, &rpc::new_session());
        let head = accepted(&mut session_stream, &request).await?;
        let answer = inbox.answer(rpc::NEW_SESSION).await?;
        let session = rpc::session_id(&answer)?;
        inbox.open(Ledger::new(session.clone(), count));
        write!(ids, "acp-session-id: {session}\r\n")?;
        // Who says who it is brings along what it was given, too.
        if let Some(token) = head.session_token.filter(|_| !caller.is_empty()) {
            write!(ids, "acp-session-token: {token}\r\n")?;
        }
        subscribe(&mut session_stream, addr, &ids).await?;
        readers.spawn_local(read(session_stream, inbox.clone()));

        let link = Self {
            posts: Conn::open(addr).await?,
            ids,
            addr,
        };
        Ok((link, session))
    }

    pub async fn post(&mut self, message: &str) -> Result<()> {
        let request = post(self.addr, &self.ids, message);
        accepted(&mut self.posts, &request).await?;
        Ok(())
    }

    pub async fn close(mut self) {
        let _ = delete(&mut self.posts, self.addr, &self.ids).await;
    }
}

/// Whether the server would take a connection now: opens one and gives it back.
pub async fn probe(addr: SocketAddr, caller: &str) -> Result<()> {
    let mut conn = Conn::open(addr).await?;
    let connection = initialize(&mut conn, addr, caller).await?;
    let ids = format!("{caller}acp-connection-id: {connection}\r\n");
    delete(&mut conn, addr, &ids).await?;
    Ok(())
}

/// The status of a plain GET.
pub async fn get(addr: SocketAddr, path: &str) -> Result<u16> {
    let mut conn = Conn::open(addr).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\n\r\n");
    conn.send(request.as_bytes()).await?;
    Ok(conn.head().await?.status)
}

pub(super) async fn initialize(conn: &mut Conn, addr: SocketAddr, caller: &str) -> Result<String> {
    let request = post(addr, caller, &rpc::initialize());
    conn.send(request.as_bytes()).await?;
    let head = conn.head().await?;
    let body = conn.body(&head).await?;
    expect(&head, 200, "initialize", &body)?;
    rpc::result(&serde_json::from_slice(&body)?).context("initialize")?;
    head.connection_id
        .context("initialize gave no Acp-Connection-Id")
}

pub(super) async fn subscribe(conn: &mut Conn, addr: SocketAddr, ids: &str) -> Result<()> {
    let request =
        format!("GET /acp HTTP/1.1\r\nhost: {addr}\r\naccept: text/event-stream\r\n{ids}\r\n");
    conn.send(request.as_bytes()).await?;
    expect(&conn.head().await?, 200, "GET", b"")
}

pub(super) async fn accepted(conn: &mut Conn, request: &str) -> Result<Head> {
    conn.send(request.as_bytes()).await?;
    let head = conn.head().await?;
    let body = conn.body(&head).await?;
    expect(&head, 202, "POST", &body)?;
    Ok(head)
}

pub(super) async fn delete(conn: &mut Conn, addr: SocketAddr, ids: &str) -> Result<Head> {
    let request = format!("DELETE /acp HTTP/1.1\r\nhost: {addr}\r\n{ids}\r\n");
    conn.send(request.as_bytes()).await?;
    conn.head().await
}

async fn read(mut conn: Conn, inbox: Inbox) {
    let mut pending = Vec::new();
    loop {
        match conn.chunks(&mut pending).await {
            Ok(true) => sse::drain(&mut pending, |message| inbox.receive(message)),
            Ok(false) => return inbox.fail("the server ended it"),
            Err(error) => return inbox.fail(error),
        }
    }
}

pub(super) fn post(addr: SocketAddr, ids: &str, message: &str) -> String {
    post_accepting("application/json", addr, ids, message)
}

/// What a POST accepts decides where its answer comes: as `text/event-stream`, in its own body.
pub(super) fn post_accepting(kind: &str, addr: SocketAddr, ids: &str, message: &str) -> String {
    let length = message.len();
    format!(
        "POST /acp HTTP/1.1\r\nhost: {addr}\r\naccept: {kind}\r\n\
         content-type: application/json\r\n{ids}content-length: {length}\r\n\r\n{message}"
    )
}

pub(super) fn expect(head: &Head, status: u16, what: &str, body: &[u8]) -> Result<()> {
    let (got, body) = (head.status, String::from_utf8_lossy(body));
    ensure!(
        got == status,
        "{what} was answered {got}, not {status}: {body}"
    );
    Ok(())
}
