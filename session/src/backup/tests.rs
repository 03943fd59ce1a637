use super::*;

fn written() -> Vec<u8> {
    let mut writer = BackupWriter::new(Vec::new(), &BackupHead::of(3)).unwrap();
    for keyspace in ["sessions", "frames", "none"] {
        writer.keyspace(keyspace).unwrap();
        for number in 0..if keyspace == "none" { 0 } else { 50_u8 } {
            writer
                .entry(&[number], &vec![number; number.into()])
                .unwrap();
        }
    }
    writer.finish().unwrap()
}

fn check(bytes: &[u8]) -> Result<u64, BackupError> {
    let (reader, _) = BackupReader::open(bytes)?;
    reader.check()
}

#[test]
fn what_is_written_can_be_read() {
    let bytes = written();
    let (mut reader, head) = BackupReader::open(&bytes[..]).unwrap();
    assert_eq!((head.directory, head.version.as_str()), (3, VERSION));
    let part = reader.part().unwrap();
    assert_eq!(part, Some(BackupPart::Keyspace("sessions".into())));
    let (key, value) = (vec![0], vec![]);
    assert_eq!(
        reader.part().unwrap(),
        Some(BackupPart::Entry { key, value })
    );
    assert_eq!(reader.check().unwrap(), 100);
}

#[test]
fn one_that_ends_early_is_refused_wherever_that_is() {
    let bytes = written();
    for length in 0..bytes.len() {
        let refused = check(&bytes[..length]).expect_err("cut off");
        let expected = if length < MAGIC.len() + 2 {
            matches!(refused, BackupError::Foreign)
        } else {
            matches!(refused, BackupError::CutOff)
        };
        assert!(expected, "{length}: {refused}");
    }
}

#[test]
fn one_with_another_byte_is_refused_wherever_that_is() {
    let bytes = written();
    for at in 0..bytes.len() {
        let mut spoiled = bytes.clone();
        spoiled[at] ^= 0x40;
        assert!(check(&spoiled).is_err(), "byte {at}");
    }
    let more = [&bytes[..], b"z"].concat();
    assert!(matches!(check(&more), Err(BackupError::Damaged(_))));
}

#[test]
fn one_of_a_newer_format_says_so() {
    let later = b"baton-backup 9\n{}\n";
    let refused = check(later).expect_err("a newer one");
    assert!(
        matches!(refused, BackupError::Format(_)) && refused.to_string().contains("format 9"),
        "{refused}"
    );
    let head = BackupHead {
        directory: 99,
        ..BackupHead::of(0)
    };
    let newer = BackupWriter::new(Vec::new(), &head)
        .unwrap()
        .finish()
        .unwrap();
    assert!(matches!(check(&newer), Err(BackupError::Format(_))));
    assert!(matches!(
        check(b"something else\n"),
        Err(BackupError::Foreign)
    ));
}
