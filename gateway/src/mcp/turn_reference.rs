//! Names of turns. They contain all that another gateway needs to go on, and open nothing: whoever
//! brings one must own the session, or hold a token for it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use baton_session::command::CommandId;
use baton_session::cursor::Cursor;
use baton_session::id::{ConnectionId, SessionId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stream::one_shot::FollowedRequest;

/// Longer ones are none of ours.
const MAX_NAME: usize = 2 << 10;

/// A turn, or the prompt that is yet to become one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReference {
    #[serde(rename = "s")]
    pub session: SessionId,
    #[serde(rename = "n")]
    pub command: CommandId,
    /// The log went up to here when the prompt was accepted.
    #[serde(rename = "h")]
    pub head: u64,
    /// Who has asked.
    #[serde(rename = "c")]
    pub connection: ConnectionId,
    /// Empty for the next turn after `head`, whoever has asked for it.
    #[serde(rename = "r")]
    pub request: Arc<str>,
    /// When, in milliseconds since 1970.
    #[serde(rename = "t")]
    pub asked: u64,
}

/// A call that streams a turn: all that it takes to stream the rest elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedCall {
    #[serde(flatten)]
    pub turn: TurnReference,
    /// The id of the call, as it was written.
    #[serde(rename = "i")]
    pub id: Arc<str>,
    /// As the client wrote it.
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    pub progress: Option<Arc<str>>,
    /// The session is for this call alone.
    #[serde(rename = "x", default, skip_serializing_if = "is_false")]
    pub throw_away: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl TurnReference {
    /// `None` if it is no prompt that is followed.
    pub fn of(follow: &FollowedRequest, asked: u64) -> Option<Self> {
        Some(Self {
            session: follow.session.clone(),
            command: follow.command?,
            head: follow.head,
            connection: follow.connection.clone(),
            request: follow.request.clone(),
            asked,
        })
    }

    pub fn text(&self) -> String {
        encode(self)
    }

    pub fn parse(text: &str) -> Option<Self> {
        decode(text)
    }
}

impl FollowedCall {
    /// The id of an event of its stream, up to which it was seen.
    pub fn event_id(&self, seen: Cursor) -> String {
        format!("{}~{seen}", encode(self))
    }

    pub fn parse(event_id: &str) -> Option<(Self, Cursor)> {
        let (call, seen) = event_id.split_once('~')?;
        let call: Self = decode(call)?;
        // They are written into answers as they are.
        let in_form = is_id(&call.id) && call.progress.as_deref().is_none_or(is_id);
        in_form.then_some((call, seen.parse().ok()?))
    }
}

/// A number or a string, and nothing around it.
fn is_id(text: &str) -> bool {
    let value = serde_json::from_str(text);
    text.trim() == text && matches!(value, Ok(Value::Number(_) | Value::String(_)))
}

fn encode(value: &impl Serialize) -> String {
    BASE64URL.encode(serde_json::to_vec(value).expect("plain fields encode"))
}

fn decode<T: DeserializeOwned>(text: &str) -> Option<T> {
    if text.len() > MAX_NAME {
        return None;
    }
    serde_json::from_slice(&BASE64URL.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use baton_session::id::{Nonce, Partition};

    use super::*;

    #[test]
    fn a_name_says_where_to_go_on() {
        let turn = TurnReference {
            session: SessionId::mint(Partition(3)),
            command: "7-000000ab".parse().unwrap(),
            head: 41,
            connection: ConnectionId::mint(Partition(3)),
            request: "\"mcp prompt 7\"".into(),
            asked: 1_700_000_000_000,
        };
        assert_eq!(TurnReference::parse(&turn.text()), Some(turn.clone()));
        for progress in [None, Some("\"a token\"".into())] {
            let call = FollowedCall {
                turn: turn.clone(),
                id: "7".into(),
                progress,
                throw_away: true,
            };
            let seen = Cursor::live(44, Nonce(9));
            let event_id = call.event_id(seen);
            assert!(event_id.is_ascii() && !event_id.contains(char::is_whitespace));
            assert_eq!(FollowedCall::parse(&event_id), Some((call, seen)));
        }
        for made_up in ["1,\"result\":{}", "7\n", "\"a", "{}", ""] {
            for (id, progress) in [(made_up, None), ("7", Some(made_up.into()))] {
                let call = FollowedCall {
                    turn: turn.clone(),
                    id: id.into(),
                    progress,
                    throw_away: false,
                };
                let event_id = call.event_id(Cursor::live(44, Nonce(9)));
                assert_eq!(FollowedCall::parse(&event_id), None, "{made_up}");
            }
        }
        for wrong in ["", "~1.0", "a~1.0", &"A".repeat(MAX_NAME + 1)] {
            assert!(FollowedCall::parse(wrong).is_none() && TurnReference::parse(wrong).is_none());
        }
    }
}
