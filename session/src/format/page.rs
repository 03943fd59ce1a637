//! `docs/operate/upgrades.md` has a table of all formats, written from here:
//! `UPDATE_DOCS=1 scripts/test the_upgrades_page`.

use std::fs;
use std::path::Path;

use super::{FormatRange, RELEASES, ReleaseFormats};

type FormatKind = (&'static str, fn(&ReleaseFormats) -> FormatRange);

/// By the names that operators know them by.
const KINDS: [FormatKind; 2] = [
    ("Redis", |release| release.redis),
    ("data directory", |release| release.directory),
];

#[test]
fn the_upgrades_page_says_what_the_releases_read_and_write() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate/upgrades.md");
    let text = fs::read_to_string(&path).expect("it is there");
    let (start, rest) = text.split_once("| release |").expect("a table");
    let (_, end) = rest.split_once("\n\n").expect("an end of the table");
    let expected = format!("{start}{}\n{end}", table());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).expect("writable");
    } else {
        assert!(
            text == expected,
            "docs/operate/upgrades.md is not what the releases say: run this test with \
             UPDATE_DOCS=1"
        );
    }
}

/// The newest first.
fn table() -> String {
    let (mut head, mut line) = ("| release |".to_owned(), "|---|".to_owned());
    for (kind, _) in KINDS {
        head += &format!(" {kind}: reads | writes |");
        line += "---:|---:|";
    }
    let mut table = format!("{head}\n{line}\n");
    for release in RELEASES.iter().rev() {
        table += &format!("| {} |", release.version);
        for (_, formats) in KINDS {
            let FormatRange {
                oldest,
                newest,
                writes,
            } = formats(release);
            let reads = if oldest == newest {
                oldest.to_string()
            } else {
                format!("{oldest} to {newest}")
            };
            table += &format!(" {reads} | {writes} |");
        }
        table += "\n";
    }
    table
}
