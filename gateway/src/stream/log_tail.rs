//! One reader's place in a log: what it has heard of the log, what comes next, and whether what it
//! has read is still there. Feeds add which events are for their client.

use std::sync::Arc;

use baton_session::event::{Event, Frame};
use baton_session::id::{ConnectionId, LogId, Nonce};
use baton_session::store::{self, Store};

use super::StreamServices;
use super::hub::LogSubscription;
use super::tailed_log::{KeptFrame, LogLookup, LogNotice, MuteState};
use super::truncation::{LogCheck, TruncationCheck, nonce_of};
use super::wake::StreamWake;
use crate::metrics::GatewayMetrics;

/// Frames per read from the store.
const PAGE: usize = 64;

pub struct LogTail {
    store: Arc<dyn Store>,
    metrics: Arc<GatewayMetrics>,
    subscription: LogSubscription,
    wake: StreamWake,
    next: u64,
    truncation: TruncationCheck,
    notices_seen: u64,
    /// It has had everything once, so that what comes is news.
    live: bool,
}

/// Frames that follow each other.
pub struct LogPage {
    pub frames: Vec<KeptFrame>,
    /// They came here with the store's signals, in order with them. Frames that are read from the
    /// store may be ahead of the signals.
    pub pushed: bool,
    from: u64,
}

impl LogPage {
    pub fn last(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.last())
    }

    /// The event that the reader comes to is not there, though later ones are.
    pub fn has_hole(&self) -> bool {
        let mut frames = self.frames.iter();
        !frames
            .next()
            .is_some_and(|frame| (frame.first..=frame.last()).contains(&self.from))
    }
}

impl LogTail {
    /// Subscribes, and stands at the log's beginning. Returns once the store has confirmed:
    /// everything written from now on wakes the reader.
    pub async fn open(
        services: &StreamServices,
        log: &LogId,
        wake: impl Into<StreamWake>,
    ) -> store::Result<Self> {
        let wake = wake.into();
        let subscription = services.hub.subscribe(log, wake.clone()).await?;
        Ok(Self {
            store: services.store.clone(),
            metrics: services.metrics.clone(),
            notices_seen: subscription.notices,
            subscription,
            wake,
            next: 1,
            truncation: TruncationCheck::default(),
            live: false,
        })
    }

    pub fn log(&self) -> &LogId {
        &self.subscription.tailed.log
    }

    pub fn wake(&self) -> &StreamWake {
        &self.wake
    }

    // ---- the place ----

    /// The number of the event to read next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The last event that was delivered or passed over, and whose claim wrote it, if that is
    /// known.
    pub fn last(&self) -> (u64, Option<Nonce>) {
        self.truncation.last()
    }

    /// This event is delivered or passed over.
    pub fn advance(&mut self, seq: u64, nonce: Nonce) {
        self.next = seq + 1;
        self.truncation.set(seq, Some(nonce));
    }

    /// Goes on with this event; whose claim wrote the one before it is not known.
    pub fn skip_to(&mut self, next: u64) {
        self.next = next;
        self.truncation.set(next - 1, None);
    }

    /// Reads events once more. What was delivered stays delivered.
    pub fn go_back_to(&mut self, next: u64) {
        self.next = next;
    }

    /// Stands somewhere else now, on what the log holds.
    pub fn move_to(&mut self, seq: u64, nonce: Option<Nonce>) {
        self.next = seq + 1;
        self.truncation.move_to(seq, nonce);
    }

    // ---- what was heard of the log ----

    /// The notices since the last call. Doubts about the log are noted.
    pub fn notices(&mut self) -> Vec<LogNotice> {
        let tailed = &self.subscription.tailed;
        let notices = tailed.notices_since(&mut self.notices_seen);
        for notice in &notices {
            if matches!(notice, LogNotice::Resync | LogNotice::Doubt) {
                self.truncation.doubt();
            }
        }
        notices
    }

    pub fn has_unread_notices(&self) -> bool {
        self.notices_seen != self.subscription.tailed.notice_count()
    }

    /// Tells all readers of the log that anything may have happened.
    pub fn announce_resync(&self) {
        self.subscription.tailed.notify(LogNotice::Resync);
    }

    /// The log is known to reach at least to `seq`.
    pub fn grow(&self, seq: u64) {
        self.subscription.tailed.grow(seq);
    }

    /// Everything that is known to exist was read.
    pub fn is_up_to_date(&self) -> bool {
        self.subscription.tailed.grown_to() < self.next
    }

    /// Whether a turn runs, as far as what is kept here tells.
    pub fn turn_runs(&self) -> Option<bool> {
        self.subscription.tailed.turn_runs()
    }

    /// Stops waking the reader until something is addressed to `connection` by its connection
    /// stream. False if there is something to read already.
    pub fn mute(&self, connection: &ConnectionId) -> bool {
        let LogSubscription { tailed, reader, .. } = &self.subscription;
        tailed.mute(*reader, connection, self.next)
    }

    pub fn muted(&self) -> MuteState {
        self.subscription.tailed.muted(self.subscription.reader)
    }

    // ---- whether it is still there ----

    /// Something suggests that the log is not what it was.
    pub fn doubt(&mut self) {
        self.truncation.doubt();
    }

    pub fn is_intact(&self) -> bool {
        self.truncation.is_intact()
    }

    /// Looks at the log if there is any doubt.
    pub async fn check(&mut self) -> store::Result<LogCheck> {
        let log = &self.subscription.tailed.log;
        self.truncation.check(&*self.store, log, &self.wake).await
    }

    // ---- events ----

    /// The events to read next; `None` if there are none.
    pub async fn next_page(&mut self) -> store::Result<Option<LogPage>> {
        let (frames, pushed) = match self.subscription.tailed.look(self.next) {
            LogLookup::UpToDate => {
                self.live = true;
                return Ok(None);
            }
            LogLookup::Frames(frames) => (frames, true),
            LogLookup::InStore => {
                self.live = false;
                self.metrics.catch_ups.inc();
                let frames = self.read_confirmed(self.next).await?;
                (frames.into_iter().map(KeptFrame::read).collect(), false)
            }
        };
        let page = LogPage {
            frames,
            pushed,
            from: self.next,
        };
        Ok((!page.frames.is_empty()).then_some(page))
    }

    /// A log that its readers cannot go on with is broken.
    pub fn expect_unbroken(&self, page: &LogPage) -> store::Result<()> {
        if !page.has_hole() {
            return Ok(());
        }
        let next = page.from;
        Err(store::Error::Broken(match self.log() {
            LogId::Session(session) => format!("the log of {session} has a hole at {next}"),
            LogId::Outbox(connection) => format!("the outbox of {connection} has a hole at {next}"),
        }))
    }

    /// The store's frames from an event on, wherever the reader stands.
    pub async fn read(&self, from: u64) -> store::Result<Vec<Arc<Frame>>> {
        self.store.read(self.log(), from, PAGE).await
    }

    /// As [`Self::read`], for what is shown to the client: nothing that a failover could take back.
    pub async fn read_confirmed(&self, from: u64) -> store::Result<Vec<Arc<Frame>>> {
        self.store.read_confirmed(self.log(), from, PAGE).await
    }

    /// The store's frame that holds this event, or the first one after it.
    pub async fn read_one(&self, seq: u64) -> store::Result<Option<Arc<Frame>>> {
        let frames = self.store.read(self.log(), seq, 1).await?;
        Ok(frames.into_iter().next())
    }

    /// The nonce of the claim that wrote this event; `None` if the log does not reach so far.
    pub async fn nonce_of(&self, seq: u64) -> store::Result<Option<Nonce>> {
        nonce_of(&*self.store, self.log(), seq).await
    }

    /// The log's end, as the store knows it.
    pub async fn head(&self) -> store::Result<u64> {
        Ok(self.store.heads(std::slice::from_ref(self.log())).await?[0])
    }

    /// Something of it is on its way to the client.
    pub fn handed_on(&self, frame: &KeptFrame) {
        let Some(arrived) = frame.arrived.filter(|_| self.live) else {
            return;
        };
        let trace = match frame.events.last() {
            Some(Event::Response { to, .. }) => to.trace.as_ref(),
            _ => None,
        };
        self.metrics.delivery.observe(arrived.elapsed(), trace);
    }

    #[cfg(test)]
    pub fn tailed(&self) -> &super::tailed_log::TailedLog {
        &self.subscription.tailed
    }
}
