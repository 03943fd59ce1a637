//! Archives from anybody, line by line: a line is refused or read, and what is read is written so
//! that it comes back as the same event.

use crate::archive;

pub fn archive(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let _ = archive::read_header(lines.next().unwrap_or_default());
    for (seq, line) in (1..).zip(lines) {
        let Ok(event) = archive::read_line(seq, line) else {
            continue;
        };
        let written = archive::line(seq, &event).expect("a kind that sessions have");
        assert_eq!(written.matches('\n').count(), 1, "{written:?}");
        let again = archive::read_line(seq, written.trim_end().as_bytes());
        assert_eq!(again.ok(), Some(event));
    }
}
