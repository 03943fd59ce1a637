//! `baton sessions tail ID`

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use reqwest::StatusCode;
use tokio::time::sleep;

use super::connection::{SessionsConnection, observing, update_of};
use super::server::{SessionsServer, succeeded};
use super::sse::{SseEvent, SseParser};
use super::terminal::{TerminalOutput, on_a_line};
use super::transcript::Transcript;
use crate::signals;

#[derive(Args)]
pub struct TailOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
    /// Print one line of JSON per message
    #[arg(
        long,
        env = "BATON_SESSIONS_JSON",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    json: bool,
}

/// How long to wait before another try, unless the stream said so.
const RETRY: Duration = Duration::from_secs(1);

pub async fn run(
    server: &SessionsServer,
    options: &TailOptions,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    let stop = signals::stop()?.drain;
    let mut tail = LogTail {
        server,
        session: &options.session,
        json: options.json,
        connection: SessionsConnection::open(server).await?,
        cursor: None,
        transcript: Transcript::default(),
    };
    let outcome = tokio::select! {
        outcome = tail.follow(out) => outcome,
        () = stop.cancelled() => Ok(()),
    };
    let end = out.write(tail.transcript.end());
    tail.connection.close().await;
    outcome.and(end)
}

struct LogTail<'a> {
    server: &'a SessionsServer,
    session: &'a str,
    json: bool,
    connection: SessionsConnection,
    /// The last event that was seen.
    cursor: Option<String>,
    transcript: Transcript,
}

impl LogTail<'_> {
    /// Until nobody reads any more, or the server says that it will not do.
    async fn follow(&mut self, out: &mut TerminalOutput) -> anyhow::Result<()> {
        let mut stream = self.join().await?;
        loop {
            while let Ok(Some(event)) = stream.next().await {
                self.see(event, out)?;
            }
            let wait = stream.retry.unwrap_or(RETRY);
            eprintln!("baton: the stream was cut: coming back");
            sleep(wait).await;
            stream = self.come_back().await?;
        }
    }

    /// First the stream, then the request that makes the session's events take it: there is no
    /// moment between the two that anything could be lost in.
    async fn join(&mut self) -> anyhow::Result<SseParser> {
        let opened = self.connection.stream(self.session, None).await;
        let stream = succeeded(self.connection.url(), opened).await?;
        let params = observing(self.session);
        let joined = self.connection.call("session/resume", &params, |_| Ok(()));
        joined.await?;
        Ok(SseParser::of(stream))
    }

    /// After the last event seen, at whichever gateway answers.
    async fn come_back(&mut self) -> anyhow::Result<SseParser> {
        loop {
            // Before any event it is where the connection joined.
            let cursor = self.cursor.as_deref().unwrap_or("0");
            let opened = self.connection.stream(self.session, Some(cursor)).await;
            match opened.as_ref().map(|response| response.status()) {
                Err(_) | Ok(StatusCode::SERVICE_UNAVAILABLE) => {}
                Ok(status) if status.is_server_error() => {}
                Ok(StatusCode::TOO_MANY_REQUESTS) => {}
                // It ends after a day, or is taken back.
                Ok(StatusCode::NOT_FOUND) => return self.join_anew().await,
                Ok(_) => {
                    let response = succeeded(self.connection.url(), opened).await?;
                    return Ok(SseParser::of(response));
                }
            }
            sleep(RETRY).await;
        }
    }

    async fn join_anew(&mut self) -> anyhow::Result<SseParser> {
        eprintln!(
            "baton: the connection is over: going on from now, `show` has what was said meanwhile"
        );
        let opened = SessionsConnection::open(self.server).await;
        self.connection = opened.context("cannot open another connection")?;
        self.cursor = None;
        self.join().await
    }

    fn see(&mut self, event: SseEvent, out: &mut TerminalOutput) -> anyhow::Result<()> {
        let is_message = event.is_message();
        if event.name == "reset" {
            eprintln!("baton: {}", on_a_line(&event.data));
        }
        if !event.id.is_empty() {
            self.cursor = Some(event.id);
        }
        if !is_message {
            return Ok(());
        }
        match (self.json, update_of(&event.data)) {
            (true, _) => out.json(&event.data)?,
            (false, Some(update)) => out.write(self.transcript.tell(update.get()))?,
            (false, None) => {}
        }
        out.flush()
    }
}
