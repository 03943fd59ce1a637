//! The lines of a file with their places, one at a time and none longer than [`MAX_LINE`].

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;

/// A line may hold several images.
pub const MAX_LINE: usize = 32 << 20;

#[derive(Debug, PartialEq, Eq)]
pub struct FileLine<'a> {
    /// From 1.
    pub number: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Without its line feed; empty if it is too long.
    pub text: &'a [u8],
    /// With its line feed.
    pub length: u64,
    pub too_long: bool,
    /// The file ends within it.
    pub unfinished: bool,
}

impl<'a> FileLine<'a> {
    /// The line's JSON, or why it cannot be read: the kind of damage, and the details.
    pub fn json<T: Deserialize<'a>>(&self) -> Result<T, (&'static str, String)> {
        // A list would be taken for the fields of an object in their order.
        if self.text.trim_ascii_start().starts_with(b"[") {
            return Err(("JSON of another shape", "a list".into()));
        }
        let fault = match serde_json::from_slice(self.text) {
            Ok(value) => return Ok(value),
            Err(fault) => fault,
        };
        let kind = if self.text.contains(&0) {
            "NUL bytes"
        } else if std::str::from_utf8(self.text).is_err() {
            "invalid UTF-8"
        } else if self.unfinished && fault.is_eof() {
            "half a line"
        } else if fault.is_data() {
            "JSON of another shape"
        } else {
            "no JSON"
        };
        Err((kind, fault.to_string()))
    }
}

pub struct FileLines<'a, R> {
    file: &'a mut R,
    buffer: Vec<u8>,
    number: u64,
    offset: u64,
}

impl<'a, R: BufRead> FileLines<'a, R> {
    pub fn new(file: &'a mut R) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            number: 0,
            offset: 0,
        }
    }

    pub fn next(&mut self) -> io::Result<Option<FileLine<'_>>> {
        self.buffer.clear();
        let most = MAX_LINE as u64 + 1;
        let mut length = (&mut *self.file)
            .take(most)
            .read_until(b'\n', &mut self.buffer)? as u64;
        if length == 0 {
            return Ok(None);
        }
        let mut finished = self.buffer.last() == Some(&b'\n');
        let too_long = !finished && length == most;
        if too_long {
            self.buffer = Vec::new();
            let (rest, ended) = skip_line(self.file)?;
            length += rest;
            finished = ended;
        }
        let offset = self.offset;
        self.number += 1;
        self.offset += length;
        let text = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Ok(Some(FileLine {
            number: self.number,
            offset,
            text: text.strip_suffix(b"\r").unwrap_or(text),
            length,
            too_long,
            unfinished: !finished,
        }))
    }
}

fn skip_line(file: &mut impl BufRead) -> io::Result<(u64, bool)> {
    let mut skipped = 0;
    loop {
        let held = file.fill_buf()?;
        if held.is_empty() {
            return Ok((skipped, false));
        }
        let end = held.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(held.len(), |at| at + 1);
        file.consume(taken);
        skipped += taken as u64;
        if end.is_some() {
            return Ok((skipped, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn lines_have_their_places_and_a_long_one_is_passed_over() {
        let long = vec![b'x'; MAX_LINE + 5];
        let file = [b"ab\r\n\n".as_slice(), &long, b"\nlast"].concat();
        let mut file = BufReader::new(Cursor::new(file));
        let mut lines = FileLines::new(&mut file);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((
                line.number,
                line.offset,
                line.text.to_vec(),
                line.too_long,
                line.unfinished,
            ));
        }
        let after = 5 + long.len() as u64 + 1;
        assert_eq!(
            seen,
            [
                (1, 0, b"ab".to_vec(), false, false),
                (2, 4, Vec::new(), false, false),
                (3, 5, Vec::new(), true, false),
                (4, after, b"last".to_vec(), false, true),
            ]
        );
    }
}
