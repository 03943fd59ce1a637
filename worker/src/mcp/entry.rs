//! One entry of `mcpServers`. An agent reads it once more, maybe in another language: what two readers
//! could take for two things is refused.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::headers;
use super::refusal::{Reason, Refusal};

const MAX_BYTES: usize = 64 << 10;
const MAX_NAME: usize = 128;

#[derive(Clone)]
pub struct Entry {
    pub(super) name: String,
    pub(super) transport: Transport,
    written: Box<RawValue>,
}

/// The parts that the policy checks.
#[derive(Clone)]
pub(super) enum Transport {
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

impl Transport {
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
struct Fields<'a> {
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
pub(super) struct Pair {
    pub name: String,
    pub value: String,
}

impl Entry {
    pub fn read(written: &RawValue) -> Result<Self, Refusal> {
        let fields = serde_json::from_str::<Fields>(written.get());
        let fields = fields.map_err(|_| Refusal::of_all(Reason::NoEntry))?;
        let name: Option<String> = fields.name.and_then(parsed);
        let name = name.filter(|name| !name.is_empty() && name.chars().count() <= MAX_NAME);
        let name = name.filter(|name| !name.contains(char::is_control));
        let name = name.ok_or_else(|| Refusal::of_all(Reason::Name))?;
        if written.get().len() > MAX_BYTES {
            return Err(Refusal::of(&name, Reason::TooLarge));
        }
        let alike = |written| look_alike(written).ok_or(Reason::LooksAlike);
        let transport = alike(written).and_then(|()| transport(&fields));
        match transport {
            Ok(transport) => Ok(Self {
                name,
                transport,
                written: written.to_owned(),
            }),
            Err(reason) => Err(Refusal::of(&name, reason)),
        }
    }

    /// The servers in a file of the operator's: one, or an array of them.
    pub fn read_file(text: &str) -> Result<Vec<Self>, Refusal> {
        let no_entry = |_| Refusal::of_all(Reason::NoEntry);
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

    pub(super) fn refused(&self, reason: Reason) -> Refusal {
        Refusal::of(&self.name, reason)
    }

    pub(super) fn into_written(self) -> Box<RawValue> {
        self.written
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.name, self.transport.kind())
    }
}

fn transport(fields: &Fields<'_>) -> Result<Transport, Reason> {
    let kind = match fields.r#type {
        None => "stdio".to_owned(),
        Some(kind) => parsed(kind).ok_or(Reason::Type)?,
    };
    let (stdio, web) = (
        fields.command.or(fields.args).or(fields.env).is_some(),
        fields.url.or(fields.headers).is_some(),
    );
    let acp = fields.server_id.is_some();
    match kind.as_str() {
        "stdio" if !web && !acp => started(fields),
        "http" if !stdio && !acp => Ok(Transport::Http {
            url: web_url(fields)?,
        }),
        "sse" if !stdio && !acp => Ok(Transport::Sse {
            url: web_url(fields)?,
        }),
        "acp" if !stdio && !web => {
            let id: Option<String> = fields.server_id.and_then(parsed);
            id.map(|_| Transport::Acp).ok_or(Reason::Shape("serverId"))
        }
        "stdio" | "http" | "sse" | "acp" => Err(Reason::Mixed),
        _ => Err(Reason::Type),
    }
}

fn started(fields: &Fields<'_>) -> Result<Transport, Reason> {
    let command: Option<String> = fields.command.and_then(parsed);
    let command = command.filter(|command| !command.is_empty());
    let args: Vec<String> = optional(fields.args).ok_or(Reason::Shape("args"))?;
    let env: Vec<Pair> = optional(fields.env).ok_or(Reason::Shape("env"))?;
    let transport = Transport::Stdio {
        command: command.ok_or(Reason::Shape("command"))?,
        env: env.iter().map(|pair| pair.name.clone()).collect(),
        args,
    };
    if env.iter().any(|pair| pair.value.contains('\0')) {
        Err(Reason::Shape("env"))
    } else {
        Ok(transport)
    }
}

fn web_url(fields: &Fields<'_>) -> Result<String, Reason> {
    let headers: Vec<Pair> = optional(fields.headers).ok_or(Reason::Shape("headers"))?;
    headers::check(&headers)?;
    fields.url.and_then(parsed).ok_or(Reason::Shape("url"))
}

/// `None` if a field looks like one of ours and is not: some readers don't tell `Command` from `command`.
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
