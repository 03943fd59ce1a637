use super::*;

fn log(lines: u64) -> Vec<u8> {
    let (mut head, mut log) = (ChainHead::default(), Vec::new());
    head.append(r#"{"decision":"log_started"}"#, &mut log);
    for number in 1..lines {
        let body = format!(r#"{{"decision":"login","principal":"key:{number}"}}"#);
        head.append(&body, &mut log);
    }
    log
}

fn checked(log: &[u8]) -> Result<VerifiedChain, ChainError> {
    verify(log, None, &mut Vec::new()).unwrap()
}

fn lines(log: &[u8]) -> Vec<Vec<u8>> {
    log.split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn a_chain_as_it_was_written_is_whole() {
    assert_eq!(checked(&log(5)).unwrap().lines, 5);
    assert_eq!(checked(b"").unwrap().lines, 0);
    let whole = checked(&log(3)).unwrap();
    assert_eq!((whole.head.next, whole.continues, whole.lost), (3, None, 0));
}

#[test]
fn no_byte_can_be_changed() {
    let log = log(4);
    let last = log.len() - lines(&log).pop().unwrap().len();
    for at in 0..last {
        for bit in [1, 0x20, 0x80] {
            let mut changed = log.clone();
            changed[at] ^= bit;
            assert!(checked(&changed).is_err(), "byte {at}: {}", changed[at]);
        }
    }
    // Nothing comes after the last line; who knows its hash notices.
    let head = checked(&log).unwrap().head.hash;
    let mut changed = log.clone();
    let at = memchr_of(&changed, b"key:3");
    changed[at + 4] = b'9';
    let mut heads = vec![head];
    assert!(verify(&changed[..], None, &mut heads).unwrap().is_ok());
    assert_eq!(heads.len(), 1, "it does not occur");
}

fn memchr_of(log: &[u8], text: &[u8]) -> usize {
    log.windows(text.len())
        .position(|part| part == text)
        .unwrap()
}

#[test]
fn no_line_can_be_removed_swapped_or_added() {
    let all = lines(&log(6));
    for at in 0..5 {
        let mut removed = all.clone();
        removed.remove(at);
        let broken = checked(&removed.concat()).unwrap_err();
        assert_eq!(broken.line, at as u64 + 1, "{broken}");
        let mut swapped = all.clone();
        swapped.swap(at, at + 1);
        assert!(checked(&swapped.concat()).is_err(), "{at}");
        for added in [all[at].clone(), b"hello\n".to_vec(), b"\n".to_vec()] {
            let mut longer = all.clone();
            longer.insert(at, added);
            assert!(checked(&longer.concat()).is_err(), "{at}");
        }
    }
    let mut end = log(2);
    end.extend_from_slice(b"hello\n");
    assert_eq!(checked(&end).unwrap_err().line, 3);
    let cut = &log(3)[..log(3).len() - 1];
    assert!(checked(cut).unwrap_err().why.contains("torn"));
}

#[test]
fn a_torn_line_is_fine_only_if_the_next_one_knows_of_it() {
    let mut log = log(2);
    let fragment = br#"{"seq":2,"prev":"ab"#;
    let mut head = checked(&log).unwrap().head;
    log.extend_from_slice(fragment);
    log.push(b'\n');
    head.hash = hash(fragment);
    let torn = fragment.len();
    let before = log.clone();
    head.append(
        &format!(r#"{{"decision":"log_resumed","torn":{torn}}}"#),
        &mut log,
    );
    assert_eq!(checked(&log).unwrap().lines, 4);
    assert!(checked(&before).is_err());
    let mut other = before.clone();
    let mut head = ChainHead {
        next: 2,
        hash: hash(fragment),
    };
    head.append(r#"{"decision":"login"}"#, &mut other);
    assert_eq!(checked(&other).unwrap_err().line, 3);
}

#[test]
fn a_file_continues_the_one_before_it() {
    let old = log(3);
    let head = checked(&old).unwrap().head;
    let (mut at, mut new) = (head.clone(), Vec::new());
    at.append(r#"{"decision":"log_continued"}"#, &mut new);
    at.append(r#"{"decision":"lines_lost","count":7}"#, &mut new);
    let alone = checked(&new).unwrap();
    assert_eq!(alone.continues, Some(head.hash.clone()));
    assert_eq!((alone.lines, alone.lost), (2, 7));
    let after = |before: &ChainHead| verify(&new[..], Some(before), &mut Vec::new()).unwrap();
    assert!(after(&head).is_ok());
    assert_eq!(after(&ChainHead::default()).unwrap_err().line, 1);
    // A new log does not continue another, and in the middle of one nothing begins.
    let started = verify(&log(1)[..], Some(&head), &mut Vec::new()).unwrap();
    assert!(started.is_err());
    assert_eq!(checked(&[&old[..], &new].concat()).unwrap_err().line, 4);
}
