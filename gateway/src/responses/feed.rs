//! A response as it comes: its events, or its object once it has ended.

use std::sync::Arc;

use baton_session::id::LogId;
use baton_session::store;
use tokio::sync::Notify;

use super::fold::ResponseFold;
use super::name::ResponseName;
use crate::stream::StreamServices;
use crate::stream::feed::{GatherOutcome, MessageFeed, OutgoingMessage, StartPosition, is_enough};
use crate::stream::log_tail::LogTail;
use crate::stream::truncation::{LOST_TAIL, LogCheck};

pub struct ResponseFeed {
    tail: LogTail,
    fold: ResponseFold,
    form: ResponseForm,
    ended: bool,
    reset: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseForm {
    /// Each event in the form of server-sent events.
    Events,
    /// One message, when it is over.
    Object,
}

impl ResponseFeed {
    pub async fn open(
        services: &StreamServices,
        name: &ResponseName,
        fold: ResponseFold,
        form: ResponseForm,
    ) -> store::Result<Self> {
        let log = LogId::Session(name.session.clone());
        let mut tail = LogTail::open(services, &log, Arc::new(Notify::new())).await?;
        tail.grow(tail.head().await?);
        tail.skip_to(name.first());
        Ok(Self {
            tail,
            fold,
            form,
            ended: false,
            reset: None,
        })
    }

    fn deliver(&mut self, out: &mut Vec<OutgoingMessage>) {
        let message = match self.form {
            ResponseForm::Events => self.fold.take_events(),
            ResponseForm::Object => self.fold.is_over().then(|| self.fold.object()),
        };
        out.extend(message.map(|message| OutgoingMessage {
            cursor: String::new(),
            message,
        }));
        self.ended |= self.fold.is_over();
    }
}

impl MessageFeed for ResponseFeed {
    const KIND: &'static str = "response";

    fn start(&self) -> StartPosition {
        StartPosition {
            cursor: String::new(),
            reset: self.reset,
        }
    }

    async fn gather(&mut self, out: &mut Vec<OutgoingMessage>) -> store::Result<GatherOutcome> {
        if self.ended {
            return Ok(GatherOutcome::Ended);
        }
        self.tail.notices();
        match self.tail.check().await? {
            LogCheck::Intact => {}
            LogCheck::Pending => return Ok(GatherOutcome::Open),
            LogCheck::Lost => {
                (self.ended, self.reset) = (true, Some(LOST_TAIL));
                return Ok(GatherOutcome::Reset);
            }
        }
        // Some is known before anything was read.
        self.deliver(out);
        while !self.ended && !is_enough(out, OutgoingMessage::size) {
            let Some(page) = self.tail.next_page().await? else {
                break;
            };
            self.tail.expect_unbroken(&page)?;
            for frame in &page.frames {
                for (seq, event) in frame.numbered() {
                    if seq == self.tail.next() && !self.fold.is_over() {
                        self.tail.advance(seq, frame.nonce);
                        self.fold.add(event);
                    }
                }
                self.tail.handed_on(frame);
            }
            self.deliver(out);
        }
        Ok(GatherOutcome::open_if(!self.ended))
    }

    fn wake(&self) -> &Arc<Notify> {
        self.tail.wake().notify()
    }

    /// It ends by itself.
    fn seems_busy(&self) -> bool {
        true
    }

    async fn is_busy(&mut self) -> store::Result<bool> {
        Ok(true)
    }
}
