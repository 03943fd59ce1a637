//! Which events are for this client, on this stream.

use baton_protocol::compose;
use baton_session::event::Event;
use baton_session::route::DeliveryPath;
use bytes::Bytes;

use super::{SessionFeed, answer_token, ending};
use crate::trace;

impl SessionFeed {
    /// The message to send for an event.
    pub(super) fn message_for(&mut self, seq: u64, event: &Event) -> Option<Bytes> {
        // The attachment already knows what the log said when it was read.
        let is_new = seq > self.attachment.head;
        match event {
            Event::Begin(begin) if is_new => {
                self.attachment.controller = Some(begin.connection.clone());
                if begin.connection == self.connection {
                    self.attachment.route.switch(seq, begin.via);
                }
            }
            Event::Control { by, via, .. } if is_new => {
                self.attachment.controller = Some(by.clone());
                if *by == self.connection {
                    self.attachment.route.control(seq, *via);
                }
            }
            _ => {}
        }
        let here = self.attachment.route.at(seq) == Some(self.via);
        match event {
            Event::Update { message, .. } => here.then(|| message.clone()),
            Event::Echo { by, message, .. } => {
                (here && *by != self.connection).then(|| message.clone())
            }
            Event::Request { id, message } => {
                let controls = self.attachment.controller.as_ref() == Some(&self.connection);
                // A load or resume sends the open requests itself, and not twice.
                let later = self.directive().is_some_and(|next| seq <= next.upto);
                (here && controls && !later).then(|| {
                    self.open_requests.note(id);
                    message.clone()
                })
            }
            Event::Answer { id, by, .. } => {
                let was_asked = self.settle_question(seq, id);
                let by_others = by.as_ref() != Some(&self.connection);
                (here && was_asked && by_others).then(|| compose::cancel_request(id))
            }
            Event::Response { to, turn, message } if to.connection == self.connection => {
                // A turn's answer comes where its events came, even if another stream was opened
                // meanwhile.
                let way = match (turn, to.via) {
                    (true, DeliveryPath::Session | DeliveryPath::Connection) => {
                        self.attachment.route.at(seq)
                    }
                    _ => None,
                };
                let way = way
                    .filter(|way| *way != DeliveryPath::OneShot)
                    .unwrap_or(to.via);
                self.close_answered |= !turn && ending::is_close_answer(message);
                if *turn && is_new {
                    self.attachment.route.one_shot_ended(seq);
                }
                (way == self.via).then(|| {
                    let trace = to.trace.as_ref();
                    trace::record_delivery(trace, &self.session, &self.connection, way);
                    match seq {
                        // A session begins with the answer to the request that created it.
                        1 => answer_token::with_token(self, message),
                        _ => message.clone(),
                    }
                })
            }
            _ => None,
        }
    }
}
