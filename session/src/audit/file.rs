//! Where lines go: a file that is only ever added to, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::chain::{ChainHead, ChainLink, MAX_LINE, hash};

pub(super) enum AuditSink {
    Stdout,
    File(AuditFile),
}

pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    /// So much of it is whole lines of ours and those before us.
    length: u64,
}

/// How a file was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundFile {
    /// It has nothing in it.
    New,
    /// With so many bytes of a line that was never finished.
    Old { torn: u64 },
}

/// The file that was at the path is not there any more.
pub(super) struct FileMoved;

impl AuditSink {
    pub fn open(path: &Path) -> Result<(Self, ChainHead, FoundFile), String> {
        if path == Path::new("-") {
            return Ok((Self::Stdout, ChainHead::default(), FoundFile::New));
        }
        let (file, head, found) = open(path)?;
        let length = length(&file).map_err(|error| error.to_string())?;
        let kept = AuditFile {
            path: path.to_owned(),
            file,
            length,
        };
        Ok((Self::File(kept), head, found))
    }

    /// All or nothing, where that can be had.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(lines)?;
                stdout.flush()
            }
            Self::File(kept) => kept.write(lines),
        }
    }

    pub fn sync(&self) {
        if let Self::File(kept) = self {
            let _ = kept.file.sync_data();
        }
    }

    /// Checks whether the file was moved away or emptied, and opens the one that takes its place.
    /// Content that is already in that one is not ours, and `verify` reports it.
    pub fn follow(&mut self) -> io::Result<Option<FileMoved>> {
        let Self::File(kept) = self else {
            return Ok(None);
        };
        if kept.is_in_place()? {
            return Ok(None);
        }
        let file = append(&kept.path)?;
        let _ = file.try_lock();
        kept.length = length(&file)?;
        kept.file = file;
        Ok(Some(FileMoved))
    }
}

impl AuditFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self.file.write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Half a line must not stay, if the file can be cut.
                let _ = self.file.set_len(self.length);
                Err(error)
            }
        }
    }

    fn is_in_place(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt as _;
        let here = self.file.metadata()?;
        let there = match self.path.metadata() {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let same = here.ino() == there.ino() && here.dev() == there.dev();
        // Pipes and devices have no length.
        Ok(same && (!here.is_file() || here.len() >= self.length))
    }
}

fn append(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

fn length(file: &File) -> io::Result<u64> {
    let about = file.metadata()?;
    Ok(if about.is_file() { about.len() } else { 0 })
}

/// Finds where the chain in the file ends. A line that was never finished gets an end, so that the
/// next one stands for itself and says so.
fn open(path: &Path) -> Result<(File, ChainHead, FoundFile), String> {
    let said = |error: io::Error| error.to_string();
    let mut file = append(path).map_err(said)?;
    if !file.metadata().map_err(said)?.is_file() {
        return Ok((file, ChainHead::default(), FoundFile::New));
    }
    if file.try_lock().is_err() {
        return Err("another process writes it: each needs a file of its own".into());
    }
    let length = length(&file).map_err(said)?;
    let from = length.saturating_sub(3 * MAX_LINE as u64);
    file.seek(SeekFrom::Start(from)).map_err(said)?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).map_err(said)?;
    if tail.is_empty() {
        return Ok((file, ChainHead::default(), FoundFile::New));
    }
    let ends = tail.last() == Some(&b'\n');
    let (whole, fragment) = match tail.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => (&tail[..end], &tail[end + 1..]),
        None => (&[][..], &tail[..]),
    };
    if let Some(link) = ChainLink::read(fragment) {
        // Only its end is missing.
        file.write_all(b"\n").map_err(said)?;
        let head = ChainHead {
            next: link.seq + 1,
            hash: hash(fragment),
        };
        return Ok((file, head, FoundFile::Old { torn: 0 }));
    }
    let last = whole
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let mut head = match ChainLink::read(last) {
        Some(link) => ChainHead {
            next: link.seq + 1,
            hash: hash(last),
        },
        None if last.is_empty() && from == 0 && !ends => ChainHead::default(),
        None => {
            return Err(
                "its last line is not one of an audit log: choose another file, and look at \
                        this one with `baton audit verify`"
                    .into(),
            );
        }
    };
    if !ends {
        file.write_all(b"\n").map_err(said)?;
        head.hash = hash(fragment);
    }
    let torn = fragment.len() as u64;
    Ok((file, head, FoundFile::Old { torn }))
}
