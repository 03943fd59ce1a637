//! `baton sessions tail ID`

use std::time::Duration;

use anyhow::Context as _;
use baton_client::{Endpoint, RequestFailure, SseStream, StreamEvent, StreamItem};
use baton_protocol::Method;
use clap::Args;
use tokio::time::sleep;

use super::connection::{SessionsConnection, observing, told, update_of};
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

/// How long to wait before another try, unless the server said so.
const RETRY: Duration = Duration::from_secs(1);

pub async fn run(
    server: &Endpoint,
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
    server: &'a Endpoint,
    session: &'a str,
    json: bool,
    connection: SessionsConnection<'a>,
    /// The last event that was seen.
    cursor: Option<String>,
    transcript: Transcript,
}

impl LogTail<'_> {
    /// Until nobody reads any more, or the server says that it will not do.
    async fn follow(&mut self, out: &mut TerminalOutput) -> anyhow::Result<()> {
        let mut stream = self.join().await?;
        loop {
            while let Ok(item) = stream.next().await {
                self.see(item, out)?;
            }
            eprintln!("baton: the stream was cut: coming back");
            sleep(RETRY).await;
            stream = self.come_back().await?;
        }
    }

    /// First the stream, then the request that makes the session's events take it: there is no
    /// moment between the two that anything could be lost in.
    async fn join(&mut self) -> anyhow::Result<SseStream> {
        let stream = self.connection.stream(self.session, None).await;
        let stream = stream.map_err(|failure| told(self.server, &failure))?;
        let params = observing(self.session);
        let joined = self
            .connection
            .call(Method::ResumeSession, &params, |_| Ok(()));
        joined.await?;
        Ok(stream)
    }

    /// After the last event seen, at whichever gateway answers.
    async fn come_back(&mut self) -> anyhow::Result<SseStream> {
        loop {
            // Before any event it is where the connection joined.
            let cursor = self.cursor.as_deref().unwrap_or("0");
            match self.connection.stream(self.session, Some(cursor)).await {
                Ok(stream) => return Ok(stream),
                // It ends after a day, or is taken back.
                Err(RequestFailure::Lost) => return self.join_anew().await,
                Err(RequestFailure::Away { pause, .. }) => sleep(pause.unwrap_or(RETRY)).await,
                Err(refused) => return Err(told(self.server, &refused)),
            }
        }
    }

    async fn join_anew(&mut self) -> anyhow::Result<SseStream> {
        eprintln!(
            "baton: the connection is over: going on from now, `show` has what was said meanwhile"
        );
        let opened = SessionsConnection::open(self.server).await;
        self.connection = opened.context("cannot open another connection")?;
        self.cursor = None;
        self.join().await
    }

    fn see(&mut self, item: StreamItem, out: &mut TerminalOutput) -> anyhow::Result<()> {
        if !item.cursor.is_empty() {
            self.cursor = Some(item.cursor);
        }
        let message = match item.news {
            Some(StreamEvent::Message(message)) => message,
            Some(StreamEvent::Reset(why)) => {
                eprintln!("baton: {}", on_a_line(&why));
                return Ok(());
            }
            Some(StreamEvent::Lost) | None => return Ok(()),
        };
        match (self.json, update_of(&message)) {
            (true, _) => out.json(&String::from_utf8_lossy(&message))?,
            (false, Some(update)) => out.write(self.transcript.tell(update.get()))?,
            (false, None) => {}
        }
        out.flush()
    }
}
