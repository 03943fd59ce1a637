//! Frames of an idle session, many in one block. An update differs from the one before it in a few
//! words: of each message only the middle is kept that differs from the last one, with the lengths
//! of the common start and end. Every event is decoded byte by byte as it was, so that any old
//! cursor resumes exactly.
//!
//! Layout: runs of events that share a nonce; a nonce (4 bytes), a count, then per event its kind
//! (1 byte), its head with the length before it, how much of the last message's beginning and end
//! is the same, and the middle with its length before it. Counts and lengths are varints.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::event::{Event, Frame, MalformedFrame, PAGE_BYTES, take, take_u32};
use crate::id::Nonce;

/// A reader holds some blocks at a time.
const MAX_BYTES: usize = 32 << 10;
const MAX_EVENTS: usize = 1024;
/// Of messages that are much the same a block holds no more than this, or who reads it page by page
/// would put together the first ones again and again.
const MAX_WEIGHT: u64 = PAGE_BYTES;

/// Blocks for these frames, each with the number of its last event.
pub(crate) fn encode(frames: &[Arc<Frame>]) -> Vec<(u64, Bytes)> {
    let mut blocks = Vec::new();
    let mut block = BlockWriter::default();
    for frame in frames {
        for (seq, event) in frame.numbered() {
            block.add(frame.nonce, event);
            if block.is_full() {
                blocks.push((seq, std::mem::take(&mut block).finish()));
            }
        }
    }
    if let Some(last) = frames.last().filter(|_| block.events > 0) {
        blocks.push((last.last(), block.finish()));
    }
    blocks
}

#[derive(Default)]
struct BlockWriter<'a> {
    out: BytesMut,
    events: usize,
    /// The decoded size.
    weight: u64,
    run: Option<NonceRun>,
    last: &'a [u8],
}

struct NonceRun {
    nonce: Nonce,
    count: u64,
    events: BytesMut,
}

impl<'a> BlockWriter<'a> {
    fn add(&mut self, nonce: Nonce, event: &'a Event) {
        if self.run.as_ref().is_none_or(|run| run.nonce != nonce) {
            self.end_run();
        }
        let run = self.run.get_or_insert_with(|| NonceRun {
            nonce,
            count: 0,
            events: BytesMut::new(),
        });
        let (kind, head, message) = event.parts();
        let (start, end) = shared(self.last, message);
        let middle = &message[start..message.len() - end];
        run.count += 1;
        run.events.put_u8(kind);
        put(&mut run.events, head.len());
        run.events.put_slice(head.as_bytes());
        put(&mut run.events, start);
        put(&mut run.events, end);
        put(&mut run.events, middle.len());
        run.events.put_slice(middle);
        self.events += 1;
        self.weight += event.weight();
        self.last = message;
    }

    fn is_full(&self) -> bool {
        let open = self.run.as_ref().map_or(0, |run| run.events.len());
        self.events >= MAX_EVENTS || self.weight >= MAX_WEIGHT || self.out.len() + open >= MAX_BYTES
    }

    fn end_run(&mut self) {
        if let Some(run) = self.run.take() {
            self.out.put_u32(run.nonce.0);
            put(&mut self.out, run.count as usize);
            self.out.put_slice(&run.events);
        }
    }

    fn finish(mut self) -> Bytes {
        self.end_run();
        self.out.freeze()
    }
}

/// How much of two messages' beginning is the same, and how much of their ends beyond that.
fn shared(one: &[u8], two: &[u8]) -> (usize, usize) {
    let same = |(a, b): &(&u8, &u8)| a == b;
    let start = one.iter().zip(two).take_while(same).count();
    let rest = one[start..].iter().rev().zip(two[start..].iter().rev());
    (start, rest.take_while(same).count())
}

/// How much of blocks may be put together.
pub(crate) struct DecodeBudget {
    most: u64,
    taken: u64,
    full: bool,
}

impl DecodeBudget {
    pub fn of(most: u64) -> Self {
        Self {
            most,
            taken: 0,
            full: false,
        }
    }

    /// Something was left out.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// One event always finds room.
    fn take(&mut self, event: &Event) -> bool {
        let weight = self.taken.saturating_add(event.weight());
        self.full |= self.taken > 0 && weight > self.most;
        self.taken = weight;
        !self.full
    }
}

/// The frames of a block whose last event has this number; a frame per run.
#[cfg(any(fuzzing, test))]
pub(crate) fn decode(last: u64, data: Bytes) -> Result<Vec<Frame>, MalformedFrame> {
    decode_from(0, last, data, &mut DecodeBudget::of(u64::MAX))
}

/// The same, without what comes before an event and what finds no room.
pub(crate) fn decode_from(
    from: u64,
    last: u64,
    mut data: Bytes,
    room: &mut DecodeBudget,
) -> Result<Vec<Frame>, MalformedFrame> {
    let total = count(data.clone())?;
    let end = last.checked_add(1);
    let first = end.and_then(|end| end.checked_sub(total));
    let first = first.filter(|first| *first > 0 || total == 0);
    let mut seq = first.ok_or(MalformedFrame("more events than numbers"))?;
    let mut frames = Vec::new();
    let mut before = Bytes::new();
    while !data.is_empty() {
        let (nonce, count) = run(&mut data)?;
        let mut frame = Frame {
            first: seq.max(from),
            nonce,
            events: Vec::new(),
        };
        for _ in 0..count {
            let piece = EncodedEvent::take(&mut data)?;
            let message = join(&before, piece.start, piece.middle, piece.end)?;
            before = message.clone();
            if seq >= from {
                let event = Event::from_parts(piece.kind, &piece.head, message)?;
                if !room.take(&event) {
                    break;
                }
                frame.events.push(event);
            }
            seq += 1;
        }
        if !frame.events.is_empty() {
            frames.push(frame);
        }
        if room.is_full() {
            break;
        }
    }
    Ok(frames)
}

/// How many events there are, none of which is put together for it.
fn count(mut data: Bytes) -> Result<u64, MalformedFrame> {
    let mut total = 0;
    while !data.is_empty() {
        let (_, count) = run(&mut data)?;
        for _ in 0..count {
            EncodedEvent::take(&mut data)?;
            total += 1;
        }
    }
    Ok(total)
}

/// How a run begins.
fn run(data: &mut Bytes) -> Result<(Nonce, usize), MalformedFrame> {
    let nonce = Nonce(take_u32(data)?);
    match get(data)? {
        0 => Err(MalformedFrame("a run without events")),
        count => Ok((nonce, count)),
    }
}

/// An event as it is written down.
struct EncodedEvent {
    kind: u8,
    head: Bytes,
    start: usize,
    end: usize,
    middle: Bytes,
}

impl EncodedEvent {
    fn take(data: &mut Bytes) -> Result<Self, MalformedFrame> {
        let kind = take(data, 1)?[0];
        let head = get(data)?;
        let head = take(data, head)?;
        let (start, end) = (get(data)?, get(data)?);
        let middle = get(data)?;
        let middle = take(data, middle)?;
        Ok(Self {
            kind,
            head,
            start,
            end,
            middle,
        })
    }
}

fn join(before: &Bytes, start: usize, middle: Bytes, end: usize) -> Result<Bytes, MalformedFrame> {
    // Nearly all of its block: not worth a copy.
    if (start, end) == (0, 0) && middle.len() >= MAX_BYTES {
        return Ok(middle);
    }
    // Beginning and end do not overlap, or a few bytes could double a message again and again.
    let rest = before.len().checked_sub(start);
    let from = rest.and_then(|rest| rest.checked_sub(end));
    let parts = from.map(|from| (&before[..start], &before[start + from..]));
    let (start, end) = parts.ok_or(MalformedFrame("refers to more than there is"))?;
    let mut message = BytesMut::with_capacity(start.len() + middle.len() + end.len());
    message.put_slice(start);
    message.put_slice(&middle);
    message.put_slice(end);
    Ok(message.freeze())
}

fn put(out: &mut BytesMut, mut number: usize) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

fn get(data: &mut Bytes) -> Result<usize, MalformedFrame> {
    let mut number = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = take(data, 1)?[0];
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(MalformedFrame("a number without end"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A run of so many updates; each begins and ends with so much of the one before.
    fn refers(count: usize, start: usize, end: usize) -> Bytes {
        let mut block = BytesMut::from(&b"\0\0\0\x01"[..]);
        put(&mut block, count);
        for at in 0..count {
            block.put_slice(b"u\0");
            let same = if at == 0 { (0, 0) } else { (start, end) };
            put(&mut block, same.0);
            put(&mut block, same.1);
            put(&mut block, 1);
            block.put_u8(b'x');
        }
        block.freeze()
    }

    #[test]
    fn a_small_block_cannot_become_a_large_one() {
        assert!(decode(9, refers(2, 1, 0)).is_ok());
        // Beginning and end, both the whole message: it would double 40 times.
        assert!(decode(100, refers(2, 1, 1)).is_err());
        assert!(decode(100, refers(40, usize::MAX, usize::MAX)).is_err());
        assert!(decode(9, refers(0, 0, 0)).is_err(), "a run without events");
        assert!(
            decode(u64::MAX, refers(1, 0, 0)).is_err(),
            "no number comes after"
        );
    }

    fn frames(of: &[(u32, Vec<String>)]) -> Vec<Arc<Frame>> {
        let mut first = 1;
        let mut frames = Vec::new();
        for (nonce, messages) in of.iter().filter(|(_, messages)| !messages.is_empty()) {
            let update = |message: &String| Event::Update {
                turn: true,
                message: Bytes::from(message.clone()),
            };
            frames.push(Arc::new(Frame {
                first,
                nonce: Nonce(*nonce),
                events: messages.iter().map(update).collect(),
            }));
            first += messages.len() as u64;
        }
        frames
    }

    fn flat<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Vec<(u64, Nonce, Event)> {
        let frames = frames.into_iter();
        let each = frames.flat_map(|frame| {
            frame
                .numbered()
                .map(|(seq, event)| (seq, frame.nonce, event.clone()))
        });
        each.collect()
    }

    proptest! {
        #[test]
        fn every_event_comes_out_as_it_went_in(of in vec((0..3u32, vec("[ab]{0,12}", 0..6)), 0..12)) {
            let before = frames(&of);
            let mut after = Vec::new();
            for (last, block) in encode(&before) {
                after.extend(decode(last, block).unwrap());
            }
            prop_assert_eq!(flat(before.iter().map(|frame| &**frame)), flat(&after));
        }

        #[test]
        fn rubbish_is_an_error_not_a_panic(data in vec(any::<u8>(), 0..200), last in 0..500u64) {
            let _ = decode(last, data.into());
        }
    }

    #[test]
    fn chunks_cost_little_more_than_their_words() {
        let chunk = |n| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"000-0123456789012345678901","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"word {n} "}}}}}}}}"#
            )
        };
        let messages: Vec<String> = (0..5000).map(chunk).collect();
        let blocks = encode(&frames(&[(1, messages)]));
        let size: usize = blocks.iter().map(|(_, block)| block.len()).sum();
        assert!(size < 5000 * 16, "{size}");
        assert!(blocks.len() > 1 && blocks.iter().all(|(_, block)| block.len() < 2 * MAX_BYTES));
    }
}
