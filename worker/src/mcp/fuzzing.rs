//! Matches patterns with an entry, for [`crate::fuzzing`].

use ::url::Url;

use super::{CommandPattern, ServerEntry, ServerTransport, UrlPattern, url};

pub fn fits_command(pattern: &CommandPattern, entry: &ServerEntry) -> bool {
    match &entry.transport {
        ServerTransport::Stdio { command, args, .. } => pattern.fits(command, args),
        _ => false,
    }
}

pub fn fits_url(pattern: &UrlPattern, entry: &ServerEntry) -> Option<Url> {
    let (ServerTransport::Http { url: written } | ServerTransport::Sse { url: written }) =
        &entry.transport
    else {
        return None;
    };
    let url = url::plain(written).ok()?;
    pattern.fits(&url).then_some(url)
}
