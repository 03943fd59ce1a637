//! A session as lines of JSON, to be moved elsewhere: first its record, then a line for each event,
//! then a seal over all of that. Its MCP servers are left out, since they may hold credentials; a
//! client that loads the session names them again.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::event::Event;
use crate::id::SessionId;
use crate::store::{SessionRecord, SessionSetup};

const VERSION: u32 = 1;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ArchiveError(String);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeaderLine {
    /// The version of this format.
    baton_session: u32,
    session_id: SessionId,
    agent: String,
    cwd: String,
    /// In milliseconds since 1970.
    updated: u64,
    /// How many lines follow.
    events: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_directories: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    view: Option<Box<RawValue>>,
    /// The agent's state between turns, in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    state: String,
    /// The seal that names the owner. There is another seal in the last line then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

/// The content of the first line. `record.head` is the number of events to follow.
#[derive(Debug)]
pub struct ArchiveHead {
    pub session: SessionId,
    pub record: SessionRecord,
    pub seal: Option<String>,
}

/// The first line.
pub fn header(session: &SessionId, record: &SessionRecord, seal: String) -> String {
    let header = HeaderLine {
        baton_session: VERSION,
        session_id: session.clone(),
        agent: record.agent.clone(),
        cwd: record.cwd.clone(),
        updated: record.updated,
        events: record.head,
        title: record.title.clone(),
        additional_directories: record.setup.directories.as_deref().and_then(raw),
        usage: raw(&record.usage),
        bound: raw(&record.bound),
        view: raw(&record.view),
        state: STANDARD.encode(&record.state),
        seal: Some(seal),
    };
    to_line(&header)
}

pub fn read_header(line: &[u8]) -> Result<ArchiveHead, ArchiveError> {
    let header: HeaderLine = serde_json::from_slice(line)
        .map_err(|error| ArchiveError(format!("line 1 is not the head of a session: {error}")))?;
    if header.baton_session != VERSION {
        return Err(ArchiveError(format!(
            "line 1: version {} of the format is not known here; this is version {VERSION}",
            header.baton_session
        )));
    }
    let state = STANDARD.decode(&header.state);
    let state = state.map_err(|error| ArchiveError(format!("line 1, state: {error}")))?;
    let object = |name, raw| shaped::<Map<String, Value>>(name, raw).map(Option::unwrap_or_default);
    let params = serde_json::json!({ "cwd": header.cwd, "mcpServers": [] });
    let record = SessionRecord {
        agent: header.agent,
        cwd: header.cwd,
        params: params.to_string().into(),
        setup: SessionSetup {
            mcp_servers: None,
            directories: shaped::<Vec<String>>(
                "additionalDirectories",
                header.additional_directories,
            )?,
        },
        state: state.into(),
        view: object("view", header.view)?,
        shown: None,
        title: header.title,
        usage: object("usage", header.usage)?,
        bound: object("bound", header.bound)?,
        head: header.events,
        updated: header.updated,
        began: None,
    };
    Ok(ArchiveHead {
        session: header.session_id,
        record,
        seal: header.seal,
    })
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealLine {
    seal: String,
}

pub fn end(seal: String) -> String {
    to_line(&SealLine { seal })
}

/// `events`: how many lines came between it and the first.
pub fn read_end(events: u64, line: &[u8]) -> Result<String, ArchiveError> {
    let end: serde_json::Result<SealLine> = serde_json::from_slice(line);
    let end = end.map_err(|error| {
        let number = events.saturating_add(2);
        ArchiveError(format!(
            "line {number} is not the seal of a session: {error}"
        ))
    })?;
    Ok(end.seal)
}

/// Of lines, one after the other.
#[derive(Clone, Default)]
pub struct LineDigest(Sha256);

impl LineDigest {
    pub fn add(&mut self, lines: &[u8]) {
        self.0.update(lines);
    }

    pub fn text(self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.finalize())
    }
}

/// Others build on it without looking: it must be what it is taken for.
fn shaped<T: DeserializeOwned>(
    name: &str,
    raw: Option<Box<RawValue>>,
) -> Result<Option<Bytes>, ArchiveError> {
    let Some(raw) = raw else { return Ok(None) };
    match serde_json::from_str::<T>(raw.get()) {
        Ok(_) => Ok(Some(raw.get().to_owned().into())),
        Err(error) => Err(ArchiveError(format!("line 1, {name}: {error}"))),
    }
}

#[derive(Serialize, Deserialize)]
struct EventLine {
    seq: u64,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    head: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
    /// Instead, for a message that has line breaks between its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// How events are called in a line.
const KINDS: [(u8, &str); 10] = [
    (b'u', "update"),
    (b'v', "aside"),
    (b'e', "user"),
    (b't', "end"),
    (b'r', "response"),
    (b'q', "request"),
    (b'b', "begin"),
    (b'a', "early_answer"),
    (b'A', "answer"),
    (b'k', "control"),
];

/// The line of an event; `None` for one that no session has.
pub fn line(seq: u64, event: &Event) -> Option<String> {
    let (kind, head, message) = event.parts();
    let (_, kind) = KINDS.iter().find(|(letter, _)| *letter == kind)?;
    let broken = message.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
    let text = || Some(String::from_utf8_lossy(message).into_owned());
    Some(to_line(&EventLine {
        seq,
        kind: (*kind).to_owned(),
        head,
        message: if broken { None } else { raw(message) },
        text: if broken { text() } else { None },
    }))
}

/// The event of a line, which must be the one with this number.
pub fn read_line(seq: u64, line: &[u8]) -> Result<Event, ArchiveError> {
    let fault = |what: String| ArchiveError(format!("line {}: {what}", seq + 1));
    let line: EventLine = serde_json::from_slice(line).map_err(|error| fault(error.to_string()))?;
    if line.seq != seq {
        return Err(fault(format!("expected event {seq}, found {}", line.seq)));
    }
    let kind = KINDS.iter().find(|(_, name)| *name == line.kind);
    let (letter, _) = kind.ok_or_else(|| fault(format!("unknown kind {:?}", line.kind)))?;
    let message: String = match (line.message, line.text) {
        (Some(message), _) => message.get().to_owned(),
        (None, text) => {
            let text = text.unwrap_or_default();
            // Clients get it as it is; only what they do not see has none.
            if !text.is_empty() || !["begin", "control"].contains(&line.kind.as_str()) {
                serde_json::from_str::<IgnoredAny>(&text)
                    .map_err(|error| fault(format!("its message is no JSON: {error}")))?;
            }
            text
        }
    };
    Event::from_parts(*letter, line.head.as_bytes(), message.into())
        .map_err(|error| fault(error.to_string()))
}

fn raw(json: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(json).ok()?;
    RawValue::from_string(text.to_owned()).ok()
}

fn to_line(value: &impl Serialize) -> String {
    let line = to_raw_value(value).expect("our own types encode");
    let mut line: String = line.get().to_owned();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ResponseRecipient, TurnBegin};
    use crate::id::{ConnectionId, Partition};
    use crate::route::DeliveryPath;

    #[test]
    fn a_message_that_is_no_json_is_refused_however_it_comes() {
        for line in [
            r#"{"seq":1,"kind":"update","text":"rm -rf"}"#,
            r#"{"seq":1,"kind":"update","text":"{}{}"}"#,
            r#"{"seq":1,"kind":"update","text":""}"#,
            r#"{"seq":1,"kind":"update"}"#,
            r#"{"seq":1,"kind":"begin","head":"1\n000-aaaaaaaaaaaaaaaaaaaaaa\no","text":"x"}"#,
        ] {
            let fault = read_line(1, line.as_bytes()).expect_err(line).to_string();
            assert!(fault.contains("line 2: its message is no JSON"), "{fault}");
        }
    }

    #[test]
    fn every_event_comes_back_as_it_was() {
        let by = ConnectionId::mint(Partition(1));
        let message = Bytes::from_static(b"{ \"a\" : 1.50, \"b\":\"\\u00e9\" }");
        let broken = Bytes::from_static(b"{\n\"a\":\r\n1}");
        let events = [
            Event::Begin(TurnBegin {
                command: 7.into(),
                connection: by.clone(),
                via: DeliveryPath::Session,
            }),
            Event::Echo {
                by: by.clone(),
                at: None,
                message: broken.clone(),
            },
            Event::Update {
                turn: true,
                message: message.clone(),
            },
            Event::Update {
                turn: false,
                message: message.clone(),
            },
            Event::Request {
                id: "x".into(),
                message: message.clone(),
            },
            Event::Answer {
                id: "x".into(),
                by: Some(by.clone()),
                message: broken,
            },
            Event::Control {
                by: by.clone(),
                command: 9.into(),
                via: DeliveryPath::Session,
            },
            Event::Response {
                to: ResponseRecipient {
                    connection: by,
                    request: "\"a\"".into(),
                    via: DeliveryPath::Connection,
                    trace: None,
                    at: None,
                },
                turn: true,
                message,
            },
        ];
        for (seq, event) in (1..).zip(&events) {
            let text = line(seq, event).unwrap();
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert_eq!(read_line(seq, text.trim_end().as_bytes()).unwrap(), *event);
            assert!(read_line(seq + 1, text.as_bytes()).is_err());
        }
        assert_eq!(line(1, &Event::Closed), None);
    }

    #[test]
    fn an_end_is_a_seal_and_nothing_else() {
        let text = end("a seal".into());
        assert_eq!(read_end(3, text.as_bytes()).unwrap(), "a seal");
        for wrong in ["", "{}", r#"{"seal":1}"#, r#"{"seal":"a","seq":4}"#] {
            let fault = read_end(3, wrong.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains("line 5"), "{fault}");
        }
        assert!(read_line(4, text.as_bytes()).is_err());
    }

    #[test]
    fn a_head_comes_back_without_what_may_be_secret() {
        let record = SessionRecord {
            agent: "scripted".into(),
            cwd: "/a".into(),
            params: Bytes::from_static(b"{\"mcpServers\":[{\"name\":\"x\",\"env\":\"secret\"}]}"),
            setup: SessionSetup {
                mcp_servers: Some(Bytes::from_static(b"[\"secret\"]")),
                directories: Some(Bytes::from_static(b"[\"/b\"]")),
            },
            state: Bytes::from_static(b"\x00\xff"),
            view: Bytes::from_static(b"{\"modes\":{}}"),
            shown: None,
            title: "A title".into(),
            usage: Bytes::new(),
            bound: Bytes::from_static(b"{\"sandbox\":\"vm-17\"}"),
            head: 12,
            updated: 5,
            began: Some(13),
        };
        let id = SessionId::mint(Partition(2));
        let text = header(&id, &record, "a seal".into());
        assert!(!text.contains("secret"), "{text}");
        let head = read_header(text.as_bytes()).unwrap();
        assert_eq!((head.session, head.seal), (id, Some("a seal".into())));
        let expected = SessionRecord {
            params: Bytes::from_static(b"{\"cwd\":\"/a\",\"mcpServers\":[]}"),
            setup: SessionSetup {
                mcp_servers: None,
                ..record.setup.clone()
            },
            began: None,
            ..record
        };
        assert_eq!(head.record, expected);
        for wrong in [
            "",
            "{}",
            &text.replace("\"batonSession\":1", "\"batonSession\":2"),
        ] {
            assert!(read_header(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for (right, wrong, name) in [
            ("{\"modes\":{}}", "[]", "view"),
            ("{\"sandbox\":\"vm-17\"}", "\"vm-17\"", "bound"),
            ("[\"/b\"]", "\"/b\"", "additionalDirectories"),
            ("[\"/b\"]", "[{}]", "additionalDirectories"),
            ("\"usage\":{}", "\"usage\":1", "usage"),
        ] {
            let text = text.replace("\"view\":", "\"usage\":{},\"view\":");
            assert!(read_header(text.as_bytes()).is_ok());
            let fault = read_header(text.replace(right, wrong).as_bytes());
            assert!(fault.unwrap_err().to_string().contains(name), "{wrong}");
        }
    }
}
