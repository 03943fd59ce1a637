//! The format of what is in this Redis: a number in a key of its own, with the first version that
//! reads it.

use super::client::RedisClient;
use super::fault;
use super::reply::ScriptReply;
use super::scripts::{ScriptCall, scripts};
use crate::format::{REDIS, VERSION};
use crate::store::{Error, Result};

/// Fails if what is there is of a format that this build does not read; notes the one that it
/// writes.
pub(super) async fn check(client: &RedisClient, key: String) -> Result<()> {
    let mut get = redis::cmd("GET");
    get.arg(&key);
    let noted = match client.query(&get).await {
        Ok(found) => read(found)?,
        Err(Error::Broken(text)) if text.starts_with(fault::LACKS_PERMISSION) => {
            tracing::warn!(
                "the format of what is in Redis could not be checked: the rules of the user of \
                 --store are of an earlier version; `baton store users` writes those of this one"
            );
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let found = noted.as_ref().map_or(1, |noted| noted.format);
    let reader = noted.as_ref().map_or("", |noted| &noted.reader);
    REDIS.check(found, reader).map_err(|unknown| {
        Error::Unavailable(format!(
            "what is in Redis cannot be used by this version: {unknown}"
        ))
    })?;
    if noted.is_some() && found >= REDIS.writes {
        return Ok(());
    }
    let note = format!("{} {VERSION}", REDIS.writes);
    let call = ScriptCall::new(&scripts().format)
        .key(key)
        .num(REDIS.writes.into())
        .arg(&note);
    match client.run(call).await {
        // It takes no writes now. This number says what no number says, too.
        Err(Error::Unavailable(_)) if found == REDIS.writes => Ok(()),
        done => done.map(drop),
    }
}

struct NotedFormat {
    format: u32,
    /// Reads it, as all after it do.
    reader: String,
}

fn read(reply: ScriptReply) -> Result<Option<NotedFormat>> {
    let Some(text) = reply.optional_text()? else {
        return Ok(None);
    };
    let (format, reader) = text.split_once(' ').unwrap_or((&text, ""));
    match format.parse() {
        Ok(format) => Ok(Some(NotedFormat {
            format,
            reader: reader.to_owned(),
        })),
        Err(_) => Err(Error::Broken(format!(
            "the number of its format is {}",
            baton_protocol::limits::echo(&text)
        ))),
    }
}
