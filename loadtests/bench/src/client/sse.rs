//! Server-sent events: the `data:` of each event, one JSON-RPC message each.

use memchr::memmem;

/// Hands the data of every complete event to `each` and keeps the rest for later.
pub fn drain(pending: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
    let mut start = 0;
    while let Some(length) = memmem::find(&pending[start..], b"\n\n") {
        let event = &pending[start..start + length];
        if let Some(data) = event.split(|byte| *byte == b'\n').find_map(data) {
            each(data);
        }
        start += length + 2;
    }
    pending.drain(..start);
}

/// Comments, ids and retry hints carry no message, and an event with empty data is a bare cursor.
fn data(line: &[u8]) -> Option<&[u8]> {
    let data = line.strip_prefix(b"data:")?.trim_ascii();
    (!data.is_empty()).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_found_among_ids_comments_and_cuts() {
        let wire = b"retry: 900\n\nid: 1.a\n\n: hello\n\nid: 2.b\ndata: {\"k\":1}\n\ndata:{\"k\":2}\n\nid: 3\ndata:\n\n";
        for cut in 0..wire.len() {
            let (mut pending, mut seen) = (wire[..cut].to_vec(), Vec::new());
            drain(&mut pending, |data| seen.push(data.to_vec()));
            pending.extend_from_slice(&wire[cut..]);
            drain(&mut pending, |data| seen.push(data.to_vec()));
            assert_eq!(seen, [b"{\"k\":1}", b"{\"k\":2}"]);
            assert!(pending.is_empty());
        }
    }
}
