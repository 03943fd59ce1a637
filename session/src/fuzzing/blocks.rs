//! Blocks of idle sessions: their frames follow each other without a hole, are encoded the same way
//! again, and take no more memory than so many messages of that length can have.

use std::sync::Arc;

use bytes::Bytes;

use super::LAST;
use crate::block;
use crate::event::{Event, Frame};
use crate::id::Nonce;

pub fn block(data: &[u8]) {
    for last in LAST {
        let Ok(frames) = block::decode(last, Bytes::copy_from_slice(data)) else {
            continue;
        };
        let mut next = frames.first().map_or(0, |frame| frame.first);
        for frame in &frames {
            assert!(frame.first == next && next > 0 && !frame.events.is_empty());
            // A message is at most as long as all that was written.
            assert!(
                frame
                    .events
                    .iter()
                    .all(|event| event.parts().2.len() <= data.len())
            );
            next = frame.last().wrapping_add(1);
        }
        assert!(frames.is_empty() || next == last.wrapping_add(1));
        let before = events(frames.iter());
        let frames: Vec<_> = frames.iter().cloned().map(Arc::new).collect();
        let blocks = block::encode(&frames).into_iter();
        let again = blocks.map(|(last, block)| block::decode(last, block).expect("our own"));
        let again: Vec<Frame> = again.flatten().collect();
        assert_eq!(events(again.iter()), before);
    }
}

fn events<'a>(frames: impl Iterator<Item = &'a Frame>) -> Vec<(Nonce, u64, Event)> {
    let numbered = |frame: &'a Frame| {
        let nonce = frame.nonce;
        frame
            .numbered()
            .map(move |(seq, event)| (nonce, seq, event.clone()))
    };
    frames.flat_map(numbered).collect()
}
