//! The turns of a session, read from its log, for callers who think in turns. A turn is named by
//! where it begins; a session that was lost and written anew has other names for its turns.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use baton_session::event::{Event, Frame};
use baton_session::id::{LogId, SessionId};
use baton_session::store::{self, Store};
use serde::Deserialize;
use serde_json::{Value, json};

/// Frames per read.
const PAGE: usize = 64;
/// So many turns are listed at once.
pub const MAX_TURNS: usize = 100;

/// `turn_SEQ_NONCE`: the event that it begins with, and by whose claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnName {
    pub seq: u64,
    nonce: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub struct InvalidTurnName;

impl fmt::Display for TurnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn_{}_{:08x}", self.seq, self.nonce)
    }
}

impl FromStr for TurnName {
    type Err = InvalidTurnName;

    fn from_str(text: &str) -> Result<Self, InvalidTurnName> {
        let read = || {
            let (seq, nonce) = text.strip_prefix("turn_")?.split_once('_')?;
            let nonce = u32::from_str_radix(nonce, 16).ok()?;
            Some(Self {
                seq: seq.parse().ok()?,
                nonce,
            })
        };
        let name = read().filter(|name| name.to_string() == text);
        name.ok_or(InvalidTurnName)
    }
}

/// As far as the log tells.
#[derive(Debug)]
pub struct LoggedTurn {
    pub name: TurnName,
    /// In milliseconds since 1970.
    began: Option<u64>,
    end: Option<TurnEnd>,
}

#[derive(Debug)]
struct TurnEnd {
    seq: u64,
    at: Option<u64>,
    answer: TurnAnswer,
}

#[derive(Debug, Default, Deserialize)]
struct TurnAnswer {
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Value,
}

impl LoggedTurn {
    /// The last event of a turn that has ended.
    pub fn last(&self) -> Option<u64> {
        self.end.as_ref().map(|end| end.seq)
    }

    pub fn describe(&self) -> Value {
        let end = self.end.as_ref();
        let answer = end.map(|end| &end.answer);
        let stop = answer.map(|answer| &answer.result["stopReason"]);
        let error = answer
            .map(|answer| &answer.error)
            .filter(|it| it.is_object());
        let error = error.map(|it| json!({ "code": it["code"], "message": it["message"] }));
        let state = match end {
            None => "running",
            Some(_) if error.is_some() => "failed",
            Some(_) => "ended",
        };
        json!({
            "id": self.name.to_string(),
            "state": state,
            "beganAt": self.began.map(moment),
            "endedAt": end.and_then(|end| end.at).map(moment),
            "stopReason": stop,
            "error": error,
            "usage": answer.map(|answer| &answer.result["usage"]),
        })
    }
}

/// 9999-12-31T23:59:59.999Z: no later moment can be written.
const LAST_MOMENT: u64 = 253_402_300_799_999;

pub fn moment(at: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(at.min(LAST_MOMENT));
    humantime::format_rfc3339_millis(at).to_string()
}

/// The turns that begin after an event, in order, and the last event that was looked at.
pub async fn after(
    store: &dyn Store,
    session: &SessionId,
    after: u64,
    most: usize,
) -> store::Result<Vec<LoggedTurn>> {
    let log = LogId::Session(session.clone());
    let (mut turns, mut next): (Vec<LoggedTurn>, u64) = (Vec::new(), after + 1);
    loop {
        let frames = store.read_confirmed(&log, next, PAGE).await?;
        let Some(last) = frames.last().map(|frame| frame.last()) else {
            return Ok(turns);
        };
        for frame in &frames {
            let whole = |turns: &[LoggedTurn]| turns.len() == most && turns[most - 1].end.is_some();
            for (seq, event) in frame.numbered().filter(|(seq, _)| *seq >= next) {
                if whole(&turns) || !note(&mut turns, frame, seq, event, most) {
                    return Ok(turns);
                }
            }
        }
        next = last + 1;
    }
}

/// False if it is one too many.
fn note(turns: &mut Vec<LoggedTurn>, frame: &Frame, seq: u64, event: &Event, most: usize) -> bool {
    match event {
        Event::Begin(_) if turns.len() == most => return false,
        Event::Begin(_) => turns.push(LoggedTurn {
            name: TurnName {
                seq,
                nonce: frame.nonce.0,
            },
            began: None,
            end: None,
        }),
        Event::Echo { at, .. } => {
            let turn = turns.last_mut().filter(|turn| turn.end.is_none());
            if let Some(turn) = turn {
                turn.began = turn.began.or(*at);
            }
        }
        Event::Response {
            to,
            turn: true,
            message,
        } => {
            let turn = turns.last_mut().filter(|turn| turn.end.is_none());
            let answer = serde_json::from_slice(message).unwrap_or_default();
            let end = TurnEnd {
                seq,
                at: to.at,
                answer,
            };
            if let Some(turn) = turn {
                turn.end = Some(end);
            }
        }
        _ => {}
    }
    true
}

/// The turn of this name; `None` if the session has none such.
pub async fn find(
    store: &dyn Store,
    session: &SessionId,
    name: TurnName,
) -> store::Result<Option<LoggedTurn>> {
    let before = name.seq.saturating_sub(1);
    let turns = after(store, session, before, 1).await?;
    let turn = turns.into_iter().next();
    Ok(turn.filter(|turn| turn.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let name = TurnName {
            seq: 7,
            nonce: 0xab,
        };
        assert_eq!(name.to_string(), "turn_7_000000ab");
        assert_eq!("turn_7_000000ab".parse(), Ok(name));
        for text in [
            "",
            "turn_7",
            "turn_7_ab",
            "turn_+7_000000ab",
            "turn_7_000000AB",
        ] {
            assert_eq!(text.parse::<TurnName>(), Err(InvalidTurnName), "{text}");
        }
    }
}
