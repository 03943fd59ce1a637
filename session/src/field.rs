//! Whether the fields of a session that is imported are as short as those of any other.

use baton_protocol::limits::{
    MAX_BOUND, MAX_DIRECTORIES, MAX_NAME, MAX_PATH, MAX_STATE, MAX_TITLE, MAX_VALUE, MAX_VIEW,
    TooLong, check,
};

use crate::store::SessionRecord;

/// Everything that comes from an archive.
pub fn check_record(record: &SessionRecord) -> Result<(), TooLong> {
    check("agent", record.agent.len(), MAX_NAME)?;
    check("cwd", record.cwd.len(), MAX_PATH)?;
    check("title", record.title.len(), MAX_TITLE)?;
    let directories = record.setup.directories.as_deref();
    let directories = directories.map_or(0, <[u8]>::len);
    check("additionalDirectories", directories, MAX_DIRECTORIES)?;
    check("usage", record.usage.len(), MAX_VALUE)?;
    check("bound", record.bound.len(), MAX_BOUND)?;
    check("state", record.state.len(), MAX_STATE)?;
    check("view", record.view.len(), MAX_VIEW)
}
