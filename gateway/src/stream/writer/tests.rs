//! The steps of a writer, on a feed that does as it is told.

use std::collections::VecDeque;

use baton_session::store::{self, MemoryStore, Store};
use baton_session::token::{KeyRing, SigningKeys, generate};
use jsonwebtoken::Algorithm;
use tokio::sync::Notify;

use super::*;
use crate::app::{App, GatewayConfig, StopSignals};
use crate::auth::{AuthMethod, Caller};
use crate::stream::feed::GatherOutcome;

/// Gathers these outcomes, an open one with a message, and then nothing.
struct ToldFeed {
    outcomes: VecDeque<GatherOutcome>,
    reset: Option<&'static str>,
    wake: Arc<Notify>,
}

impl MessageFeed for ToldFeed {
    const KIND: &'static str = "session";

    fn start(&self) -> StartPosition {
        let (cursor, reset) = ("5.00000001".into(), self.reset);
        StartPosition { cursor, reset }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        let Some(outcome) = self.outcomes.pop_front() else {
            return Ok(GatherOutcome::Open);
        };
        match outcome {
            GatherOutcome::Open => out.push(OutgoingMessage {
                cursor: "6.00000001".into(),
                message: "{}".into(),
            }),
            GatherOutcome::Reset => self.reset = Some("lost"),
            GatherOutcome::Ended => {}
        }
        Ok(outcome)
    }

    fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    fn seems_busy(&self) -> bool {
        false
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(false)
    }
}

async fn app() -> Arc<App> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let keys = KeyRing::parse(&generate(Algorithm::HS256)).expect("a key");
    let keys = SigningKeys::fixed(keys);
    let (config, stop) = (GatewayConfig::default(), StopSignals::default());
    let app = App::new(config, store, keys, AuthMethod::Open, stop).await;
    app.expect("the store works")
}

fn writer(app: &App, outcomes: &[GatherOutcome]) -> StreamWriter<ToldFeed> {
    let feed = ToldFeed {
        outcomes: outcomes.iter().copied().collect(),
        reset: None,
        wake: Arc::default(),
    };
    let authority = StreamAuthority::of(&Caller::anonymous());
    StreamWriter::new(app.streams.clone(), feed, None, authority)
}

async fn step(writer: &mut StreamWriter<ToldFeed>) -> String {
    match writer.next().await {
        WriterStep::Open(start) => format!("open {:?}", start.reset),
        WriterStep::Batch(batch) => format!("batch of {}", batch.len()),
        WriterStep::Reset(start) => format!("reset {:?}", start.reset),
        WriterStep::KeepAlive => "keep-alive".into(),
        WriterStep::End(end) => format!("{end:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_opens_and_writes_and_is_kept_alive_until_it_ends() {
    let app = app().await;
    let mut writer = writer(&app, &[GatherOutcome::Open]);
    for expected in ["open None", "batch of 1", "keep-alive", "keep-alive"] {
        assert_eq!(step(&mut writer).await, expected);
    }
    assert_eq!(app.metrics.events.get(), 1);
    writer.feed.outcomes.push_back(GatherOutcome::Ended);
    assert_eq!(step(&mut writer).await, "Finished");
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_a_client_without_a_cursor_has_to_come_back() {
    let app = app().await;
    let lost = [GatherOutcome::Reset, GatherOutcome::Open];
    let mut goes_on = writer(&app, &lost);
    for expected in ["open None", "reset Some(\"lost\")", "batch of 1"] {
        assert_eq!(step(&mut goes_on).await, expected);
    }
    let mut ends = writer(&app, &lost).resumable(false);
    for expected in ["open None", "LostTail"] {
        assert_eq!(step(&mut ends).await, expected);
    }
    assert_eq!(app.metrics.resets.get(), 2);
}

/// There may always be something to write.
#[tokio::test(start_paused = true)]
async fn a_stream_that_another_holder_has_writes_nothing_more() {
    let app = app().await;
    let mut writer = writer(&app, &[GatherOutcome::Open, GatherOutcome::Open]);
    for expected in ["open None", "batch of 1"] {
        assert_eq!(step(&mut writer).await, expected);
    }
    writer.lost.cancel();
    assert_eq!(step(&mut writer).await, "Taken");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_stops_ends_a_stream_that_waits() {
    let app = app().await;
    let mut writer = writer(&app, &[GatherOutcome::Open]);
    app.stop.cancel();
    for expected in ["open None", "batch of 1", "Stopped"] {
        assert_eq!(step(&mut writer).await, expected);
    }
}
