//! Frames as Redis has them: what is read is written the same way again, and ends where it was said
//! to.

use bytes::Bytes;

use super::LAST;
use crate::event::Frame;
use crate::id::SessionId;

pub fn frame(data: &[u8]) {
    let heir = SessionId::parse("07a-abcdefghijklmnopqrstuv").expect("an id");
    for last in LAST {
        let Ok(frame) = Frame::decode(last, Bytes::copy_from_slice(data)) else {
            continue;
        };
        assert!(frame.first > 0 && frame.last() == last && !frame.events.is_empty());
        let encoded = Frame::encode(frame.nonce, &frame.events);
        assert_eq!(Frame::decode(last, encoded).ok().as_ref(), Some(&frame));
        for upto in [0, frame.first, last] {
            if let Some(inherited) = frame.inherited(upto, &heir) {
                assert!(inherited.first == frame.first && inherited.last() <= upto);
            }
        }
    }
}
