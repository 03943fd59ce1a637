//! One entry of `mcpServers`. An agent reads it once more, maybe in another language: what two
//! readers could take for two things is refused.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::headers;
use super::refusal::{McpRefusal, RefusalReason};

const MAX_BYTES: usize = 64 << 10;
const MAX_NAME: usize = 128;

#[derive(Clone)]
pub struct ServerEntry {
    pub(super) name: String,
    pub(super) transport: ServerTransport,
    written: Box<RawValue>,
}

/// The parts that the policy checks.
#[derive(Clone)]
pub(super) enum ServerTransport {
    Stdio {
        command: String,
        args: Vec<String>,
        /// The names alone.
        env: Vec<String>,
    },
    Http {
        url: String,
    },
    Sse {
        url: String,
    },
    /// The client itself plays the server, over the same connection.
    Acp,
}

impl ServerTransport {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
            Self::Sse { .. } => "sse",
            Self::Acp => "acp",
        }
    }
}

/// No field of these may come twice; serde sees to that.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryFields<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    env: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    headers: Option<&'a RawValue>,
    #[serde(borrow)]
    server_id: Option<&'a RawValue>,
}

const NAMES: [&str; 8] = [
    "type", "name", "command", "args", "env", "url", "headers", "serverId",
];

/// A header, or a variable of the environment.
#[derive(Deserialize)]
pub(super) struct NameValue {
    pub name: String,
    pub value: String,
}

impl ServerEntry {
    pub fn read(written: &RawValue) -> Result<Self, McpRefusal> {
        let fields = serde_json::from_str::<EntryFields>(written.get());
        let fields = fields.map_err(|_| McpRefusal::of_all(RefusalReason::NoEntry))?;
        let name: Option<String> = fields.name.and_then(parsed);
        let name = name.filter(|name| !name.is_empty() && name.chars().count() <= MAX_NAME);
        let name = name.filter(|name| !name.contains(char::is_control));
        let name = name.ok_or_else(|| McpRefusal::of_all(RefusalReason::Name))?;
        if written.get().len() > MAX_BYTES {
            return Err(McpRefusal::of(&name, RefusalReason::TooLarge));
        }
        let alike = |written| look_alike(written).ok_or(RefusalReason::LooksAlike);
        let transport = alike(written).and_then(|()| transport(&fields));
        match transport {
            Ok(transport) => Ok(Self {
                name,
                transport,
                written: written.to_owned(),
            }),
            Err(reason) => Err(McpRefusal::of(&name, reason)),
        }
    }

    /// The servers in a file of the operator's: one, or an array of them.
    pub fn read_file(text: &str) -> Result<Vec<Self>, McpRefusal> {
        let no_entry = |_| McpRefusal::of_all(RefusalReason::NoEntry);
        let entries: Vec<&RawValue> = if text.trim_ascii_start().starts_with('[') {
            serde_json::from_str(text).map_err(no_entry)?
        } else {
            vec![serde_json::from_str(text).map_err(no_entry)?]
        };
        entries.into_iter().map(Self::read).collect()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn refused(&self, reason: RefusalReason) -> McpRefusal {
        McpRefusal::of(&self.name, reason)
    }

    pub(super) fn into_written(self) -> Box<RawValue> {
        self.written
    }
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.name, self.transport.kind())
    }
}

fn transport(fields: &EntryFields<'_>) -> Result<ServerTransport, RefusalReason> {
    let kind = match fields.r#type {
        None => "stdio".to_owned(),
        Some(kind) => parsed(kind).ok_or(RefusalReason::Type)?,
    };
    let (stdio, web) = (
        fields.command.or(fields.args).or(fields.env).is_some(),
        fields.url.or(fields.headers).is_some(),
    );
    let acp = fields.server_id.is_some();
    match kind.as_str() {
        "stdio" if !web && !acp => started(fields),
        "http" if !stdio && !acp => Ok(ServerTransport::Http {
            url: web_url(fields)?,
        }),
        "sse" if !stdio && !acp => Ok(ServerTransport::Sse {
            url: web_url(fields)?,
        }),
        "acp" if !stdio && !web => {
            let id: Option<String> = fields.server_id.and_then(parsed);
            id.map(|_| ServerTransport::Acp)
                .ok_or(RefusalReason::Shape("serverId"))
        }
        "stdio" | "http" | "sse" | "acp" => Err(RefusalReason::Mixed),
        _ => Err(RefusalReason::Type),
    }
}

fn started(fields: &EntryFields<'_>) -> Result<ServerTransport, RefusalReason> {
    let command: Option<String> = fields.command.and_then(parsed);
    let command = command.filter(|command| !command.is_empty());
    let args: Vec<String> = optional(fields.args).ok_or(RefusalReason::Shape("args"))?;
    let env: Vec<NameValue> = optional(fields.env).ok_or(RefusalReason::Shape("env"))?;
    let transport = ServerTransport::Stdio {
        command: command.ok_or(RefusalReason::Shape("command"))?,
        env: env.iter().map(|pair| pair.name.clone()).collect(),
        args,
    };
    if env.iter().any(|pair| pair.value.contains('\0')) {
        Err(RefusalReason::Shape("env"))
    } else {
        Ok(transport)
    }
}

fn web_url(fields: &EntryFields<'_>) -> Result<String, RefusalReason> {
    let headers: Vec<NameValue> =
        optional(fields.headers).ok_or(RefusalReason::Shape("headers"))?;
    headers::check(&headers)?;
    fields
        .url
        .and_then(parsed)
        .ok_or(RefusalReason::Shape("url"))
}

/// `None` if a field looks like one of ours and is not: some readers don't tell `Command` from
/// `command`.
fn look_alike(written: &RawValue) -> Option<()> {
    let fold = |name: &str| name.to_uppercase().to_lowercase();
    let fields: HashMap<String, IgnoredAny> = parsed(written)?;
    let ours = |name: &String| NAMES.contains(&name.as_str());
    let alike = |name: &String| NAMES.iter().any(|ours| fold(ours) == fold(name));
    let alike = fields.keys().any(|name| !ours(name) && alike(name));
    (!alike).then_some(())
}

/// Empty if it is absent or `null`.
fn optional<T: DeserializeOwned>(field: Option<&RawValue>) -> Option<Vec<T>> {
    field.map_or(Some(Vec::new()), parsed)
}

fn parsed<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}
