//! Writes a backup, entry by entry.

use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

use super::{BackupHead, END, ENTRY, KEYSPACE, MAGIC};
use crate::format::BACKUP;

pub struct BackupWriter<W> {
    to: W,
    hash: Sha256,
    entries: u64,
}

impl<W: Write> BackupWriter<W> {
    pub fn new(to: W, head: &BackupHead) -> io::Result<Self> {
        let mut writer = Self {
            to,
            hash: Sha256::new(),
            entries: 0,
        };
        let head = serde_json::to_string(head)?;
        writer.put(format!("{MAGIC}{}\n{head}\n", BACKUP.writes).as_bytes())?;
        Ok(writer)
    }

    pub fn keyspace(&mut self, name: &str) -> io::Result<()> {
        self.put(&[KEYSPACE])?;
        self.put(&length(name.as_bytes())?)?;
        self.put(name.as_bytes())
    }

    pub fn entry(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.put(&[ENTRY])?;
        self.put(&length(key)?)?;
        self.put(&length(value)?)?;
        self.put(key)?;
        self.put(value)?;
        self.entries += 1;
        Ok(())
    }

    /// Without this it is no backup.
    pub fn finish(mut self) -> io::Result<W> {
        let entries = self.entries.to_be_bytes();
        self.put(&[END])?;
        self.put(&entries)?;
        let hash = self.hash.finalize();
        self.to.write_all(&hash)?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.to.write_all(bytes)
    }
}

fn length(of: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(of.len()).map_err(io::Error::other)?;
    Ok(length.to_be_bytes())
}
