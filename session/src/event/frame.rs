//! Frames: a log is a row of them, and a frame holds 1…n events that were written together.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::{Event, MalformedFrame};
use crate::id::{Nonce, SessionId};

/// The maximum size of the frames that one read of a log returns, unless it is a single one.
pub const PAGE_BYTES: u64 = 1 << 20;

/// Events that were written together, numbered from `first`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub first: u64,
    pub nonce: Nonce,
    pub events: Vec<Event>,
}

impl Frame {
    pub fn size(&self) -> usize {
        self.events.iter().map(Event::size).sum()
    }

    /// Its approximate size in the store.
    pub fn weight(&self) -> u64 {
        let events = self.events.iter();
        events.map(Event::weight).sum()
    }

    pub fn last(&self) -> u64 {
        self.first + self.events.len() as u64 - 1
    }

    /// The frame as a fork reads it: without what came after `upto`, and with the fork's own id in
    /// every message that a client may see. `None` if nothing is left.
    pub fn inherited(&self, upto: u64, heir: &SessionId) -> Option<Self> {
        let kept = upto.saturating_add(1).checked_sub(self.first)?;
        let events = self.events.iter().take(kept as usize);
        let events: Vec<Event> = events.map(|event| event.readdressed(heir)).collect();
        (!events.is_empty()).then_some(Self {
            first: self.first,
            nonce: self.nonce,
            events,
        })
    }

    pub fn numbered(&self) -> impl Iterator<Item = (u64, &Event)> {
        (self.first..).zip(&self.events)
    }

    /// Layout: nonce (4 bytes), then per event a kind byte, a head and a payload, both with their
    /// length (4 bytes) before them. A head is text, its fields separated by line feeds. If the
    /// kind is marked as [`SHARES`], the payload begins as the one before it does, for so many
    /// bytes (4 bytes, before its own length); what follows is the rest.
    pub fn encode(nonce: Nonce, events: &[Event]) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + events.len() * 192);
        out.put_u32(nonce.0);
        let mut before: &[u8] = &[];
        for event in events {
            before = encode_event(event, before, &mut out);
        }
        out.freeze()
    }

    pub fn decode(last: u64, mut data: Bytes) -> Result<Self, MalformedFrame> {
        let nonce = Nonce(take_u32(&mut data)?);
        let mut events = Vec::new();
        let mut before = Bytes::new();
        let mut room = BytesMut::new();
        while !data.is_empty() {
            events.push(decode_event(&mut data, &mut before, &mut room)?);
        }
        let end = last.checked_add(1);
        let first = end.and_then(|end| end.checked_sub(events.len() as u64));
        match first {
            Some(first) if !events.is_empty() && first > 0 => Ok(Self {
                first,
                nonce,
                events,
            }),
            _ => Err(MalformedFrame("more events than numbers")),
        }
    }
}

/// On a kind: the payload begins as the one before it.
const SHARES: u8 = 0x80;
/// Less is not worth the mention.
const WORTH_SHARING: usize = 16;
/// So much is put together in one piece at most, if it is not for one payload.
const ROOM: usize = 16 << 10;

/// Returns the payload.
fn encode_event<'a>(event: &'a Event, before: &[u8], out: &mut BytesMut) -> &'a [u8] {
    let (kind, head, payload) = event.parts();
    let shared = common_start(payload, before);
    let shares = shared >= WORTH_SHARING;
    out.put_u8(if shares { kind | SHARES } else { kind });
    out.put_u32(head.len() as u32);
    out.put_slice(head.as_bytes());
    if shares {
        out.put_u32(shared as u32);
    }
    let rest = if shares { &payload[shared..] } else { payload };
    out.put_u32(rest.len() as u32);
    out.put_slice(rest);
    payload
}

/// How many bytes are the same.
fn common_start(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 16;
    let blocks = one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK));
    let same = blocks.take_while(|(one, other)| one == other).count() * BLOCK;
    let bytes = one[same..].iter().zip(&other[same..]);
    same + bytes.take_while(|(one, other)| one == other).count()
}

/// `room` is where payloads are put together.
fn decode_event(
    data: &mut Bytes,
    before: &mut Bytes,
    room: &mut BytesMut,
) -> Result<Event, MalformedFrame> {
    let kind = data.try_get_u8().map_err(|_| MalformedFrame("cut short"))?;
    let head_len = take_u32(data)? as usize;
    let head = take(data, head_len)?;
    let shared = if kind & SHARES == 0 {
        &[]
    } else {
        let shared = take_u32(data)? as usize;
        before
            .get(..shared)
            .ok_or(MalformedFrame("shares too much"))?
    };
    let rest_len = take_u32(data)? as usize;
    let rest = take(data, rest_len)?;
    let message = if shared.is_empty() {
        rest
    } else {
        let size = shared.len() + rest.len();
        if room.capacity() < size {
            // The next ones will be much the same.
            *room = BytesMut::with_capacity(size.max(ROOM.min(size * 8)));
        }
        room.put_slice(shared);
        room.put_slice(&rest);
        room.split().freeze()
    };
    *before = message.clone();
    Event::from_parts(kind & !SHARES, &head, message)
}

pub(crate) fn take(data: &mut Bytes, len: usize) -> Result<Bytes, MalformedFrame> {
    if data.len() < len {
        return Err(MalformedFrame("cut short"));
    }
    Ok(data.split_to(len))
}

pub(crate) fn take_u32(data: &mut Bytes) -> Result<u32, MalformedFrame> {
    data.try_get_u32().map_err(|_| MalformedFrame("cut short"))
}

#[cfg(test)]
mod tests {
    use super::super::{ResponseRecipient, TurnBegin};
    use super::*;
    use crate::id::{ConnectionId, Partition};
    use crate::route::DeliveryPath;
    use crate::trace::TraceContext;

    #[test]
    fn a_frame_survives_its_encoding() {
        let connection = ConnectionId::mint(Partition(1));
        let message = Bytes::from_static(b"{\"jsonrpc\":\"2.0\"}");
        let to = ResponseRecipient {
            connection: connection.clone(),
            request: "\"a\\nb\"".into(),
            via: DeliveryPath::Session,
            trace: None,
            at: None,
        };
        let traced = ResponseRecipient {
            trace: Some(TraceContext::from_text("00-ab-cd-01 a=b")),
            ..to.clone()
        };
        let timed = ResponseRecipient {
            at: Some(1_700_000_000_000),
            ..to.clone()
        };
        let timed_and_traced = ResponseRecipient {
            at: Some(1_700_000_000_000),
            ..traced.clone()
        };
        let events = vec![
            Event::Begin(TurnBegin {
                command: 7.into(),
                connection: connection.clone(),
                via: DeliveryPath::OneShot,
            }),
            Event::Echo {
                by: connection,
                at: Some(1_700_000_000_000),
                message: message.clone(),
            },
            Event::Update {
                turn: true,
                message: message.clone(),
            },
            Event::Request {
                id: "x".into(),
                message: message.clone(),
            },
            Event::Answer {
                id: "x".into(),
                by: Some(ConnectionId::mint(Partition(1))),
                message: message.clone(),
            },
            Event::Control {
                by: ConnectionId::mint(Partition(1)),
                command: 8.into(),
                via: DeliveryPath::Connection,
            },
            Event::Response {
                to,
                turn: true,
                message: message.clone(),
            },
            Event::Response {
                to: traced,
                turn: false,
                message: message.clone(),
            },
            Event::Response {
                to: timed,
                turn: true,
                message: message.clone(),
            },
            Event::Response {
                to: timed_and_traced,
                turn: true,
                message: message.clone(),
            },
            Event::Message { message },
            Event::Watch {
                session: SessionId::mint(Partition(2)),
                after: 9,
            },
            Event::Closed,
            Event::Positions {
                text: Bytes::from_static(b"1:1.0000beef"),
            },
        ];
        let decoded = Frame::decode(23, Frame::encode(Nonce(5), &events)).unwrap();
        assert_eq!(
            (decoded.first, decoded.last(), decoded.nonce),
            (10, 23, Nonce(5))
        );
        assert_eq!(decoded.events, events);
    }

    #[test]
    fn an_inherited_frame_ends_where_the_fork_began() {
        let (old, new) = (SessionId::mint(Partition(1)), SessionId::mint(Partition(1)));
        let update = |id: &SessionId| Event::Update {
            turn: true,
            message: format!(r#"{{"params":{{"sessionId":"{id}"}}}}"#).into(),
        };
        let frame = Frame {
            first: 5,
            nonce: Nonce(1),
            events: vec![update(&old), Event::Closed, update(&old)],
        };
        assert_eq!(frame.inherited(4, &new), None);
        let cut = frame.inherited(6, &new).unwrap();
        assert_eq!(cut.events, [update(&new), Event::Closed]);
        assert_eq!(frame.inherited(9, &new).unwrap().last(), 7);
    }

    #[test]
    fn what_payloads_have_in_common_is_stored_once() {
        let start = r#"{"jsonrpc":"2.0","method":"session/update","params":{"#;
        let ends = ["1}}", "", "1}}", "12}}", "2", "x", "1}}"];
        let mut events: Vec<Event> = ends
            .iter()
            .map(|end| Event::Update {
                turn: true,
                message: format!("{start}{end}").into(),
            })
            .collect();
        // Nothing in common, too little, and everything.
        for other in ["", "{}", r#"{"jsonrpc":"#, "{}", start, start, ""] {
            events.push(Event::Message {
                message: other.into(),
            });
        }
        let encoded = Frame::encode(Nonce(1), &events);
        let plain: usize = events.iter().map(Event::size).sum();
        assert!(encoded.len() < plain, "{} of {plain}", encoded.len());
        let frame = Frame::decode(events.len() as u64, encoded.clone()).unwrap();
        assert_eq!(frame.events, events);
        for cut in 0..encoded.len() {
            let _ = Frame::decode(100, encoded.slice(..cut));
        }
    }

    #[test]
    fn a_payload_cannot_share_more_than_there_is() {
        // Nonce, kind, no head, shares three bytes, has none of its own.
        let frame = [
            0,
            0,
            0,
            1,
            b'm' | SHARES,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            3,
            0,
            0,
            0,
            0,
        ];
        assert!(Frame::decode(1, Bytes::copy_from_slice(&frame)).is_err());
    }

    #[test]
    fn frames_of_earlier_versions_share_nothing() {
        let frame = b"\0\0\0\x01m\0\0\0\0\0\0\0\x02{}m\0\0\0\0\0\0\0\x02{}";
        let frame = Frame::decode(2, Bytes::from_static(frame)).unwrap();
        let message = Bytes::from_static(b"{}");
        let event = Event::Message { message };
        assert_eq!(frame.events, [event.clone(), event]);
    }

    #[test]
    fn rubbish_is_an_error_not_a_panic() {
        let good = Frame::encode(
            Nonce(1),
            &[
                Event::Closed,
                Event::Message {
                    message: Bytes::from_static(b"{}"),
                },
            ],
        );
        for cut in 0..good.len() {
            let _ = Frame::decode(2, good.slice(..cut));
        }
        assert!(
            Frame::decode(1, good).is_err(),
            "two events cannot end at number one"
        );
    }
}
