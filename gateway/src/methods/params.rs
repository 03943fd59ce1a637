//! Checks the params of each method. Only the fields that a gateway needs are read; the rest passes
//! unchanged.

use std::path::Path;

use baton_protocol::inbound::{MetaField, ParamField};
use baton_protocol::limits::{
    MAX_DIRECTORIES, MAX_LIST, MAX_NAME, MAX_PARAMS, MAX_PATH, MAX_REQUEST_ID, MAX_VALUE, check,
    echo, length,
};
use baton_protocol::{Inbound, meta};
use baton_session::store::SessionSetup;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{MethodError, invalid, too_long};

const PARAMS_OBJECT: &str = "params must be an object";
const NUL_IN_CWD: &str = "params.cwd has a NUL character, which no path can have";

/// Where a session lives and what it works with.
pub struct SessionPlace {
    pub cwd: String,
    pub setup: SessionSetup,
}

/// For `session/new` and `session/load`, which must name the MCP servers.
pub fn whole_place(message: &Inbound) -> Result<SessionPlace, MethodError> {
    check("params", message.params().len(), MAX_PARAMS).map_err(too_long)?;
    let fields = fields(message)?;
    if fields.mcp_servers().is_none() {
        return Err(invalid(
            "params.mcpServers is missing: send an array, [] for none",
        ));
    }
    place(&fields)
}

/// For `session/resume`, which may leave the MCP servers as they are.
pub fn changed_place(message: &Inbound) -> Result<SessionPlace, MethodError> {
    place(&fields(message)?)
}

/// For `session/fork`, where all may be as it is with the parent: `None` if it lives in the same
/// directory.
pub fn inherited_place(message: &Inbound) -> Result<(Option<String>, SessionSetup), MethodError> {
    let fields = fields(message)?;
    let cwd = fields.cwd().map(|given| cwd(Some(given))).transpose()?;
    Ok((cwd, setup(&fields)?))
}

/// For a caller that only watches: it changes nothing, and need not know where the session lives.
pub fn watched_place(message: &Inbound) -> Result<SessionPlace, MethodError> {
    let (cwd, _) = inherited_place(message)?;
    Ok(SessionPlace {
        cwd: cwd.unwrap_or_default(),
        setup: SessionSetup::default(),
    })
}

fn place(fields: &ParamFields<'_>) -> Result<SessionPlace, MethodError> {
    Ok(SessionPlace {
        cwd: cwd(fields.cwd())?,
        setup: setup(fields)?,
    })
}

fn setup(fields: &ParamFields<'_>) -> Result<SessionSetup, MethodError> {
    Ok(SessionSetup {
        mcp_servers: fields.mcp_servers().map(mcp_servers).transpose()?,
        directories: fields.directories().map(directories).transpose()?,
    })
}

fn cwd(raw: Option<&str>) -> Result<String, MethodError> {
    let cwd: Option<String> = raw.and_then(parsed);
    match cwd {
        Some(cwd) if cwd.contains('\0') => Err(invalid(NUL_IN_CWD)),
        Some(cwd) if Path::new(&cwd).is_absolute() => {
            check("params.cwd", cwd.len(), MAX_PATH).map_err(too_long)?;
            Ok(cwd)
        }
        Some(cwd) => Err(invalid(format!(
            "params.cwd must be an absolute path, such as \"/home/me/project\"; got {}",
            echo(&cwd)
        ))),
        None => Err(invalid(
            "params.cwd is missing: send an absolute path, such as \"/home/me/project\"",
        )),
    }
}

fn mcp_servers(raw: &str) -> Result<Bytes, MethodError> {
    check("params.mcpServers", raw.len(), MAX_LIST).map_err(too_long)?;
    let named = |server: &Value| server["name"].is_string();
    match parsed::<Vec<Value>>(raw) {
        Some(servers) if servers.iter().all(named) => {
            for server in &servers {
                let name = length(&server["name"]);
                check("params.mcpServers[].name", name, MAX_NAME).map_err(too_long)?;
            }
            Ok(bytes(raw))
        }
        Some(_) => Err(invalid(
            "params.mcpServers: every entry must be an object with a name",
        )),
        None => Err(invalid(
            "params.mcpServers must be an array; send [] for none",
        )),
    }
}

fn directories(raw: &str) -> Result<Bytes, MethodError> {
    let field = "params.additionalDirectories";
    check(field, raw.len(), MAX_DIRECTORIES).map_err(too_long)?;
    let absolute = |path: &String| Path::new(path).is_absolute();
    match parsed::<Vec<String>>(raw) {
        Some(paths) if paths.iter().any(|path| path.contains('\0')) => Err(invalid(
            "params.additionalDirectories: a path has a NUL character, which no path can have",
        )),
        Some(paths) if paths.iter().all(absolute) => {
            let longest = paths.iter().map(String::len).max().unwrap_or(0);
            check("params.additionalDirectories[]", longest, MAX_PATH).map_err(too_long)?;
            Ok(bytes(raw))
        }
        _ => Err(invalid(
            "params.additionalDirectories must be an array of absolute paths",
        )),
    }
}

pub fn check_prompt(message: &Inbound) -> Result<(), MethodError> {
    fields(message)?;
    if message.has_prompt() {
        return Ok(());
    }
    Err(invalid(
        "params.prompt must be an array of content blocks, such as \
         [{\"type\":\"text\",\"text\":\"hello\"}]",
    ))
}

/// For `session/set_mode`, `session/set_config_option` and `session/set_model`: what is chosen is
/// kept.
pub fn check_setting(message: &Inbound) -> Result<(), MethodError> {
    for (field, name, most) in [
        (ParamField::ModeId, "modeId", MAX_NAME),
        (ParamField::ModelId, "modelId", MAX_NAME),
        (ParamField::ConfigId, "configId", MAX_NAME),
        (ParamField::Value, "value", MAX_VALUE),
    ] {
        if let Some(value) = message.field(field).and_then(parsed) {
            check(&format!("params.{name}"), length(&value), most).map_err(too_long)?;
        }
    }
    Ok(())
}

/// Both may be absent or `null`.
#[derive(Default)]
pub struct ListPage {
    pub cwd: Option<String>,
    pub cursor: Option<String>,
}

pub fn page(message: &Inbound) -> Result<ListPage, MethodError> {
    let fields = fields(message)?;
    let optional = |raw: Option<&str>, fault: &str| match raw {
        None => Ok(None),
        Some(raw) => parsed::<String>(raw)
            .map(Some)
            .ok_or_else(|| invalid(fault)),
    };
    let cwd = optional(fields.cwd(), "params.cwd must be a path")?;
    if cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
        return Err(invalid(NUL_IN_CWD));
    }
    let length = cwd.as_ref().map_or(0, String::len);
    check("params.cwd", length, MAX_PATH).map_err(too_long)?;
    Ok(ListPage {
        cwd,
        cursor: optional(
            message.field(ParamField::Cursor),
            "params.cursor must be the nextCursor of the page before",
        )?,
    })
}

/// `_meta["baton/fork"]`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ForkParams {
    pub at_message_id: Option<String>,
    pub inherit_bindings: bool,
}

pub fn fork_wish(message: &Inbound) -> Result<ForkParams, MethodError> {
    let wish = meta_field(message, meta::FORK, || {
        invalid(
            "params._meta[\"baton/fork\"] may have atMessageId, a string, and inheritBindings, \
             true or false",
        )
    })?;
    let wish: ForkParams = wish.unwrap_or_default();
    let at = wish.at_message_id.as_deref().unwrap_or_default();
    let field = "params._meta[\"baton/fork\"].atMessageId";
    check(field, at.len(), MAX_NAME).map_err(too_long)?;
    Ok(wish)
}

/// `_meta["baton/observe"]`: a load or resume that leaves control where it is.
pub fn observes(message: &Inbound) -> Result<bool, MethodError> {
    let observes = meta_field(message, meta::OBSERVE, || {
        invalid("params._meta[\"baton/observe\"] must be true or false")
    })?;
    Ok(observes.unwrap_or_default())
}

fn meta_field<T: DeserializeOwned>(
    message: &Inbound,
    name: &str,
    fault: impl Fn() -> MethodError,
) -> Result<Option<T>, MethodError> {
    fields(message)?;
    if !message.has_plain_meta() {
        return Err(fault());
    }
    match message.meta(name) {
        MetaField::Absent => Ok(None),
        MetaField::Json(text) => parsed(text).map(Some).ok_or_else(fault),
        MetaField::Repeated => Err(fault()),
    }
}

/// The id of the request to cancel, as it was written.
pub fn request_id(message: &Inbound) -> Option<&str> {
    fields(message).ok()?;
    let id = message.field(ParamField::RequestId);
    // No request has a longer one.
    id.filter(|id| id.len() <= MAX_REQUEST_ID)
}

/// The params of a message, which are an object.
struct ParamFields<'a>(&'a Inbound);

fn fields(message: &Inbound) -> Result<ParamFields<'_>, MethodError> {
    if message.has_plain_params() {
        Ok(ParamFields(message))
    } else {
        Err(invalid(PARAMS_OBJECT))
    }
}

impl<'a> ParamFields<'a> {
    fn cwd(&self) -> Option<&'a str> {
        self.0.field(ParamField::Cwd)
    }

    fn mcp_servers(&self) -> Option<&'a str> {
        self.0.field(ParamField::McpServers)
    }

    fn directories(&self) -> Option<&'a str> {
        self.0.field(ParamField::AdditionalDirectories)
    }
}

/// All that is ever read of them.
#[cfg(any(fuzzing, test))]
pub fn read_params(message: &Inbound) {
    let _ = whole_place(message);
    let _ = changed_place(message);
    let _ = watched_place(message);
    let _ = observes(message);
    let _ = check_prompt(message);
    let _ = page(message);
    let _ = fork_wish(message);
    let _ = request_id(message);
}

fn parsed<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}

fn bytes(json: &str) -> Bytes {
    Bytes::copy_from_slice(json.as_bytes())
}
