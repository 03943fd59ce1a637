//! The parts that are read from a line, for [`crate::fuzzing`].

use super::message::Message;

pub struct Read {
    pub method: Option<String>,
    pub session: Option<String>,
}

pub fn read(line: &[u8]) -> Option<Read> {
    let (method, session) = match Message::read(line)? {
        Message::Notice { method, session } => (Some(method), session),
        Message::Question {
            method, session, ..
        } => (Some(method), session),
        Message::Answer { .. } => (None, None),
    };
    Some(Read { method, session })
}
