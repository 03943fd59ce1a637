//! Matches patterns with an entry, for [`crate::fuzzing`].

use ::url::Url;

use super::{CommandPattern, Entry, Transport, UrlPattern, url};

pub fn fits_command(pattern: &CommandPattern, entry: &Entry) -> bool {
    match &entry.transport {
        Transport::Stdio { command, args, .. } => pattern.fits(command, args),
        _ => false,
    }
}

pub fn fits_url(pattern: &UrlPattern, entry: &Entry) -> Option<Url> {
    let (Transport::Http { url: written } | Transport::Sse { url: written }) = &entry.transport
    else {
        return None;
    };
    let url = url::plain(written).ok()?;
    pattern.fits(&url).then_some(url)
}
