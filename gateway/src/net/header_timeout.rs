//! How long the head of a request may take, on HTTP/1.1. The clock runs from a request's first
//! byte; before that a connection rests, and balancers let it rest for long.
//!
//! HTTP/2 needs none of this: whoever stops in the middle of a head cannot answer a ping either.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt;
use tokio::time::{Sleep, sleep, sleep_until};

/// How long a connection may rest on which a request was, or which a trusted proxy opened in
/// advance. Longer than balancers let theirs: who closes first must be they, else a request meets a
/// connection that is just being closed. Envoy's have an hour, those of AWS up to 4,000 seconds.
pub const REST: Duration = Duration::from_secs(4500);
/// How long a new connection of anybody else may be silent. Clients open some in advance, too.
pub const FIRST_BYTE: Duration = Duration::from_secs(30);
/// By so many bytes it is decided what is spoken.
const PREFACE: u64 = 24;

/// One connection's, shared by what reads its bytes and by what waits for a head.
#[derive(Clone)]
pub struct HeaderTimeout(Arc<HeaderProgress>);

struct HeaderProgress {
    request_timeout: Duration,
    /// For the first byte.
    silence: Duration,
    /// Bytes read so far.
    read: AtomicU64,
    /// A head has been waited for: it is HTTP/1.1.
    begun: AtomicBool,
}

impl HeaderTimeout {
    /// `trusted`: a proxy opened it.
    pub fn new(request_timeout: Duration, trusted: bool) -> Self {
        Self(Arc::new(HeaderProgress {
            request_timeout,
            silence: if trusted { REST } else { FIRST_BYTE },
            read: AtomicU64::new(0),
            begun: AtomicBool::new(false),
        }))
    }

    /// For each piece that was read.
    pub fn count(&self, bytes: usize) {
        self.0.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Returns if it takes too long to see what is spoken. To be polled whenever something was
    /// read.
    pub async fn protocol_unknown(&self) {
        self.wait(0, Instant::now() + self.0.silence).await;
        if self.0.begun.load(Ordering::Relaxed) || self.read() >= PREFACE {
            std::future::pending().await
        }
    }

    fn wait(&self, before: u64, deadline: Instant) -> HeaderWait {
        HeaderWait {
            heads: self.clone(),
            before,
            clock: Box::pin(sleep_until(deadline.into())),
            running: false,
        }
    }
}

/// Asked by hyper whenever it begins to wait for a head.
impl rt::Timer for HeaderTimeout {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        rt::Timer::sleep_until(self, Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        // The first bytes of a connection are read before anybody waits for a head.
        let first = !self.0.begun.swap(true, Ordering::Relaxed);
        Box::pin(self.wait(if first { 0 } else { self.read() }, deadline))
    }
}

/// Ends if a head does not come in time.
struct HeaderWait {
    heads: HeaderTimeout,
    /// How much had been read when it began.
    before: u64,
    clock: Pin<Box<Sleep>>,
    /// Something of the head is there.
    running: bool,
}

impl rt::Sleep for HeaderWait {}

impl Future for HeaderWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Polled again after every read that did not complete the head.
        if !self.running && self.heads.read() > self.before {
            self.running = true;
            self.clock = Box::pin(sleep(self.heads.0.request_timeout));
        }
        self.clock.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Timer as _;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(30);
    const LONG: Duration = Duration::from_secs(600);

    fn wait(heads: &HeaderTimeout) -> Pin<Box<dyn rt::Sleep>> {
        heads.sleep_until(tokio::time::Instant::now().into_std() + REST)
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_runs_from_the_first_byte_and_not_while_a_connection_rests() {
        let heads = HeaderTimeout::new(LIMIT, true);
        heads.count(10);
        // Of the first head, some was read before.
        assert!(timeout(LIMIT * 2, wait(&heads)).await.is_ok());
        let mut next = wait(&heads);
        assert!(timeout(LONG, &mut next).await.is_err());
        heads.count(1);
        assert!(timeout(LIMIT / 2, &mut next).await.is_err());
        // More of it does not buy time.
        heads.count(1);
        assert!(timeout(LIMIT, &mut next).await.is_ok());
        assert!(timeout(REST * 2, wait(&heads)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_spoken_is_to_be_seen_in_time_but_not_before_anybody_speaks() {
        let heads = HeaderTimeout::new(LIMIT, true);
        assert!(timeout(LONG, heads.protocol_unknown()).await.is_err());
        heads.count(PREFACE as usize - 1);
        assert!(timeout(LONG, heads.protocol_unknown()).await.is_ok());
        heads.count(1);
        assert!(timeout(LONG, heads.protocol_unknown()).await.is_err());
        let heads = HeaderTimeout::new(LIMIT, true);
        heads.count(1);
        let _wait = wait(&heads);
        assert!(timeout(LONG, heads.protocol_unknown()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn f7_who_says_nothing_has_thirty_seconds_unless_it_is_a_trusted_proxy() {
        let silent = HeaderTimeout::new(LIMIT, false);
        assert!(
            timeout(FIRST_BYTE * 2, silent.protocol_unknown())
                .await
                .is_ok()
        );
        let proxy = HeaderTimeout::new(LIMIT, true);
        assert!(timeout(LONG, proxy.protocol_unknown()).await.is_err());
        // Between requests it rests, whoever it is.
        let used = HeaderTimeout::new(LIMIT, false);
        used.count(PREFACE as usize);
        let _first = wait(&used);
        assert!(timeout(LONG, used.protocol_unknown()).await.is_err());
        assert!(timeout(LONG, wait(&used)).await.is_err());
    }
}
