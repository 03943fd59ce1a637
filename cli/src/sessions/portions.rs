//! Bytes between what runs by itself and what waits in a thread of its own: in portions, of which a
//! few wait.

use std::io::{self, ErrorKind, Read, Write};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::sync::mpsc;

pub const PORTION: usize = 64 << 10;
pub const WAITING: usize = 4;

pub type Portion = io::Result<Bytes>;

pub struct PortionWriter {
    sender: mpsc::Sender<Portion>,
    portion: BytesMut,
}

impl PortionWriter {
    pub fn new(sender: mpsc::Sender<Portion>) -> Self {
        Self {
            sender,
            portion: BytesMut::with_capacity(PORTION),
        }
    }

    /// So that nobody takes it for complete.
    pub fn fail(&mut self) {
        let fault = io::Error::new(ErrorKind::InvalidData, "the conversion failed");
        let _ = self.sender.blocking_send(Err(fault));
    }

    fn send(&mut self) -> io::Result<()> {
        let portion = self.portion.split().freeze();
        let sent = self.sender.blocking_send(Ok(portion));
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

impl Write for PortionWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.portion.extend_from_slice(bytes);
        if self.portion.len() >= PORTION {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.portion.is_empty() {
            Ok(())
        } else {
            self.send()
        }
    }
}

pub struct PortionReader {
    portions: mpsc::Receiver<Portion>,
    portion: Bytes,
}

impl PortionReader {
    pub fn new(portions: mpsc::Receiver<Portion>) -> Self {
        Self {
            portions,
            portion: Bytes::new(),
        }
    }
}

impl Read for PortionReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.portion.is_empty() {
            match self.portions.blocking_recv() {
                Some(portion) => self.portion = portion?,
                None => return Ok(0),
            }
        }
        let length = bytes.len().min(self.portion.len());
        self.portion.copy_to_slice(&mut bytes[..length]);
        Ok(length)
    }
}
