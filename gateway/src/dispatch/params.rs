//! What the params of each method must look like. Only what a gateway needs is read; the rest passes
//! as it came.

use std::path::Path;

use baton_session::field::{
    MAX_DIRECTORIES, MAX_LIST, MAX_NAME, MAX_PARAMS, MAX_PATH, MAX_REQUEST_ID, MAX_VALUE, check,
    echo, length,
};
use baton_session::store::Setup;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Problem, invalid, too_long};
use crate::rpc::Envelope;

const PARAMS_OBJECT: &str = "params must be an object";
const NUL_IN_CWD: &str = "params.cwd has a NUL character, which no path can have";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    mcp_servers: Option<&'a RawValue>,
    #[serde(borrow)]
    additional_directories: Option<&'a RawValue>,
    #[serde(borrow)]
    cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Where a session lives and what it works with.
pub struct Place {
    pub cwd: String,
    pub setup: Setup,
}

/// For `session/new` and `session/load`, which must name the MCP servers.
pub fn whole_place(envelope: &Envelope<'_>) -> Result<Place, Problem> {
    check("params", envelope.params().len(), MAX_PARAMS).map_err(too_long)?;
    let raw = read(envelope)?;
    if raw.mcp_servers.is_none() {
        return Err(invalid(
            "params.mcpServers is missing: send an array, [] for none",
        ));
    }
    place(&raw)
}

/// For `session/resume`, which may leave the MCP servers as they are.
pub fn changed_place(envelope: &Envelope<'_>) -> Result<Place, Problem> {
    place(&read(envelope)?)
}

/// For `session/fork`, where all may be as it is with the parent: `None` if it lives in the same directory.
pub fn inherited_place(envelope: &Envelope<'_>) -> Result<(Option<String>, Setup), Problem> {
    let raw = read(envelope)?;
    let cwd = raw.cwd.map(|given| cwd(Some(given))).transpose()?;
    Ok((cwd, setup(&raw)?))
}

/// For who only watches: it changes nothing, and need not know where the session lives.
pub fn watched_place(envelope: &Envelope<'_>) -> Result<Place, Problem> {
    let (cwd, _) = inherited_place(envelope)?;
    Ok(Place {
        cwd: cwd.unwrap_or_default(),
        setup: Setup::default(),
    })
}

fn place(raw: &Raw<'_>) -> Result<Place, Problem> {
    Ok(Place {
        cwd: cwd(raw.cwd)?,
        setup: setup(raw)?,
    })
}

fn setup(raw: &Raw<'_>) -> Result<Setup, Problem> {
    Ok(Setup {
        mcp_servers: raw.mcp_servers.map(mcp_servers).transpose()?,
        directories: raw.additional_directories.map(directories).transpose()?,
    })
}

fn cwd(raw: Option<&RawValue>) -> Result<String, Problem> {
    let cwd: Option<String> = raw.and_then(text);
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

fn mcp_servers(raw: &RawValue) -> Result<Bytes, Problem> {
    check("params.mcpServers", raw.get().len(), MAX_LIST).map_err(too_long)?;
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

fn directories(raw: &RawValue) -> Result<Bytes, Problem> {
    let field = "params.additionalDirectories";
    check(field, raw.get().len(), MAX_DIRECTORIES).map_err(too_long)?;
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

pub fn check_prompt(envelope: &Envelope<'_>) -> Result<(), Problem> {
    match read(envelope)?.prompt {
        Some(prompt) if prompt.get().starts_with('[') => Ok(()),
        _ => Err(invalid(
            "params.prompt must be an array of content blocks, such as [{\"type\":\"text\",\"text\":\"hello\"}]",
        )),
    }
}

/// For `session/set_mode`, `session/set_config_option` and `session/set_model`: what is chosen is kept.
pub fn check_setting(envelope: &Envelope<'_>) -> Result<(), Problem> {
    let params: Value =
        serde_json::from_str(envelope.params()).map_err(|_| invalid(PARAMS_OBJECT))?;
    for (name, most) in [
        ("modeId", MAX_NAME),
        ("modelId", MAX_NAME),
        ("configId", MAX_NAME),
        ("value", MAX_VALUE),
    ] {
        if let Some(value) = params.get(name) {
            check(&format!("params.{name}"), length(value), most).map_err(too_long)?;
        }
    }
    Ok(())
}

/// Both may be absent or `null`.
#[derive(Default)]
pub struct Page {
    pub cwd: Option<String>,
    pub cursor: Option<String>,
}

pub fn page(envelope: &Envelope<'_>) -> Result<Page, Problem> {
    let raw = read(envelope)?;
    let optional = |raw: Option<&RawValue>, fault: &str| match raw {
        None => Ok(None),
        Some(raw) => parsed::<Option<String>>(raw).ok_or_else(|| invalid(fault)),
    };
    let cwd = optional(raw.cwd, "params.cwd must be a path")?;
    if cwd.as_ref().is_some_and(|cwd| cwd.contains('\0')) {
        return Err(invalid(NUL_IN_CWD));
    }
    let length = cwd.as_ref().map_or(0, String::len);
    check("params.cwd", length, MAX_PATH).map_err(too_long)?;
    Ok(Page {
        cwd,
        cursor: optional(
            raw.cursor,
            "params.cursor must be the nextCursor of the page before",
        )?,
    })
}

/// `_meta["baton/fork"]`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ForkWish {
    pub at_message_id: Option<String>,
    pub inherit_bindings: bool,
}

pub fn fork_wish(envelope: &Envelope<'_>) -> Result<ForkWish, Problem> {
    #[derive(Default, Deserialize)]
    struct Meta {
        #[serde(rename = "baton/fork")]
        fork: Option<ForkWish>,
    }
    let meta: Option<Option<Meta>> = read(envelope)?.meta.map(parsed).unwrap_or(Some(None));
    let meta = meta.ok_or_else(|| {
        invalid(
            "params._meta[\"baton/fork\"] may have atMessageId, a string, and inheritBindings, true or false",
        )
    })?;
    let wish = meta.and_then(|meta| meta.fork).unwrap_or_default();
    let message = wish.at_message_id.as_deref().unwrap_or_default();
    let field = "params._meta[\"baton/fork\"].atMessageId";
    check(field, message.len(), MAX_NAME).map_err(too_long)?;
    Ok(wish)
}

/// `_meta["baton/observe"]`: a load or resume that leaves control where it is.
pub fn observes(envelope: &Envelope<'_>) -> Result<bool, Problem> {
    #[derive(Default, Deserialize)]
    struct Meta {
        #[serde(rename = "baton/observe")]
        observe: Option<bool>,
    }
    let meta: Option<Option<Meta>> = read(envelope)?.meta.map(parsed).unwrap_or(Some(None));
    let meta =
        meta.ok_or_else(|| invalid("params._meta[\"baton/observe\"] must be true or false"))?;
    Ok(meta.and_then(|meta| meta.observe).unwrap_or_default())
}

/// The id of the request to cancel, as it was written.
pub fn request_id<'a>(envelope: &Envelope<'a>) -> Option<&'a str> {
    let id = read(envelope).ok()?.request_id.map(RawValue::get);
    // No request has a longer one.
    id.filter(|id| id.len() <= MAX_REQUEST_ID)
}

fn read<'a>(envelope: &Envelope<'a>) -> Result<Raw<'a>, Problem> {
    serde_json::from_str(envelope.params()).map_err(|_| invalid(PARAMS_OBJECT))
}

/// All that is ever read of them.
#[cfg(any(fuzzing, test))]
pub fn read_params(envelope: &Envelope<'_>) {
    let _ = whole_place(envelope);
    let _ = changed_place(envelope);
    let _ = watched_place(envelope);
    let _ = observes(envelope);
    let _ = check_prompt(envelope);
    let _ = page(envelope);
    let _ = fork_wish(envelope);
    let _ = request_id(envelope);
}

fn text(raw: &RawValue) -> Option<String> {
    parsed(raw)
}

fn parsed<T: DeserializeOwned>(raw: &RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

fn bytes(raw: &RawValue) -> Bytes {
    Bytes::copy_from_slice(raw.get().as_bytes())
}
