//! The parts that are read from a line, for [`crate::fuzzing`].

use super::message::IncomingMessage;

pub struct ReadLine {
    pub method: Option<String>,
    pub session: Option<String>,
}

pub fn read(line: &[u8]) -> Option<ReadLine> {
    let (method, session) = match IncomingMessage::read(line)? {
        IncomingMessage::Notice { method, session } => (Some(method), session),
        IncomingMessage::Question {
            method, session, ..
        } => (Some(method), session),
        IncomingMessage::Answer { .. } => (None, None),
    };
    Some(ReadLine { method, session })
}
