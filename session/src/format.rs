//! The formats of what is kept, by number: the one place that has them. `docs/operate/upgrades.md`
//! says what follows for operators.
//!
//! A format is read one release before it is written. So whatever a release writes, the one before
//! it can read: both may run side by side, in either order, and the way back is open. [`RELEASES`]
//! is held against that when it is compiled.
//!
//! No new format is needed for a kind of event, command, key or field that earlier builds never
//! meet, or may lose without harm. Everything else is a new format: first its number here as
//! [`FormatRange::newest`], with the code that reads it; a release later as
//! [`FormatRange::writes`]. `tests/golden` has a store of every format that is read.

#[cfg(test)]
mod page;

/// Of one kind of store, as one release knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatRange {
    /// The first that is read.
    pub oldest: u32,
    /// The last that is read.
    pub newest: u32,
    /// The format that this release writes.
    pub writes: u32,
}

struct ReleaseFormats {
    version: &'static str,
    redis: FormatRange,
    directory: FormatRange,
    backup: FormatRange,
}

/// One for each release, oldest first. The last is this build.
const RELEASES: [ReleaseFormats; 1] = [ReleaseFormats {
    version: "0.1.0",
    // Data without a number was written before there were numbers, and is of the first format.
    redis: FormatRange {
        oldest: 1,
        newest: 1,
        writes: 1,
    },
    // The first two are of builds from before revision 02203e9, to which no promise holds.
    directory: FormatRange {
        oldest: 3,
        newest: 3,
        writes: 3,
    },
    backup: FormatRange {
        oldest: 1,
        newest: 1,
        writes: 1,
    },
}];

const LAST: &ReleaseFormats = &RELEASES[RELEASES.len() - 1];

/// Keys and values in Redis, and what is said on its channels.
pub const REDIS: FormatRange = LAST.redis;
/// Data directories.
pub const DIRECTORY: FormatRange = LAST.directory;
/// Backup files of data directories. Their content has the format of the directory.
pub const BACKUP: FormatRange = LAST.backup;
/// This build.
pub const VERSION: &str = LAST.version;

const _: () = {
    let mut at = 0;
    while at < RELEASES.len() {
        let release = &RELEASES[at];
        assert!(release.redis.has(release.redis.writes));
        assert!(release.directory.has(release.directory.writes));
        assert!(release.backup.has(release.backup.writes));
        if at > 0 {
            let before = &RELEASES[at - 1];
            assert!(before.redis.is_beside(release.redis));
            assert!(before.directory.is_beside(release.directory));
            assert!(before.backup.is_beside(release.backup));
        }
        at += 1;
    }
};

impl FormatRange {
    pub const fn has(self, format: u32) -> bool {
        self.oldest <= format && format <= self.newest
    }

    /// Each reads what the other writes.
    const fn is_beside(self, other: Self) -> bool {
        self.has(other.writes) && other.has(self.writes)
    }

    /// Whether this build may use what has this format. `reader` is the first version that reads
    /// it, if whoever wrote it has said so.
    pub fn check(self, format: u32, reader: &str) -> Result<(), UnknownFormat> {
        if self.has(format) {
            Ok(())
        } else {
            Err(UnknownFormat {
                format,
                reads: self,
                reader: reader.to_owned(),
            })
        }
    }
}

/// The stored data has a format that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it has format {format}, and baton {VERSION} reads {}: {}",
    self.known(), self.advice()
)]
pub struct UnknownFormat {
    format: u32,
    reads: FormatRange,
    reader: String,
}

impl UnknownFormat {
    fn known(&self) -> String {
        let FormatRange { oldest, newest, .. } = self.reads;
        if oldest == newest {
            format!("format {oldest}")
        } else {
            format!("formats {oldest} to {newest}")
        }
    }

    fn advice(&self) -> String {
        match (self.format > self.reads.newest, self.reader.as_str()) {
            (true, "") => "use the version that wrote it, or a newer one".into(),
            (true, reader) => format!("use baton {reader} or newer"),
            (false, _) => "bring it up with the versions in between, one after the other".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: FormatRange = FormatRange {
        oldest: 2,
        newest: 3,
        writes: 2,
    };

    #[test]
    fn the_last_release_is_this_build() {
        assert_eq!(VERSION, env!("CARGO_PKG_VERSION"), "RELEASES lacks a row");
    }

    #[test]
    fn what_is_not_known_says_who_knows_it() {
        assert_eq!(KNOWN.check(2, ""), Ok(()));
        assert_eq!(KNOWN.check(3, "0.2.0"), Ok(()));
        let said = |format, reader| KNOWN.check(format, reader).unwrap_err().to_string();
        let reads = format!("and baton {VERSION} reads formats 2 to 3");
        assert_eq!(
            said(4, "0.3.0"),
            format!("it has format 4, {reads}: use baton 0.3.0 or newer")
        );
        assert!(said(4, "").ends_with("use the version that wrote it, or a newer one"));
        assert!(said(1, "").ends_with("the versions in between, one after the other"));
    }

    #[test]
    fn a_format_that_is_written_before_it_was_read_does_not_pass() {
        let of = |oldest, newest, writes| FormatRange {
            oldest,
            newest,
            writes,
        };
        assert!(of(1, 1, 1).is_beside(of(1, 2, 1)));
        assert!(of(1, 2, 1).is_beside(of(1, 2, 2)));
        assert!(!of(1, 1, 1).is_beside(of(1, 2, 2)), "at once");
        assert!(!of(1, 2, 1).is_beside(of(2, 3, 2)), "no longer read");
    }
}
