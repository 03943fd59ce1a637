//! Every link leads to a file, and to a heading in it; the book has every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::markdown::{anchors, links};
use super::{pages, project, read};

/// Without `..` and `.`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn broken(page: &Path, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => plain(&page.parent().unwrap_or(Path::new("")).join(file)),
    };
    let path = project().join(&target);
    if !path.exists() {
        return Some(format!("{}: {link} leads to no file", page.display()));
    }
    // The site cannot show a folder.
    if path.is_dir() {
        return Some(format!(
            "{}: {link} leads to a folder, name a file",
            page.display()
        ));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(path).expect("a text");
    let found = anchors(&text).iter().any(|known| known == anchor);
    (!found).then(|| format!("{}: {link} leads to no heading", page.display()))
}

#[test]
fn every_link_of_every_page_leads_somewhere() {
    let mut faults = Vec::new();
    for page in pages() {
        let text = read(&page.to_string_lossy());
        faults.extend(links(&text).iter().filter_map(|link| broken(&page, link)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_book_has_every_page() {
    let listed: Vec<PathBuf> = links(&read("docs/SUMMARY.md"))
        .iter()
        .map(|link| Path::new("docs").join(link))
        .collect();
    let once: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "SUMMARY.md names a page twice");
    let written = pages().into_iter().filter(|page| page.starts_with("docs"));
    let written: BTreeSet<PathBuf> = written
        .filter(|page| !page.ends_with("SUMMARY.md"))
        .collect();
    assert_eq!(once, written);
}

#[test]
fn a_bad_link_is_noticed() {
    let page = Path::new("docs/README.md");
    assert_eq!(broken(page, "guide/first-turn.md#with-curl"), None);
    for link in [
        "guide/nowhere.md",
        "guide/first-turn.md#nothing",
        "../deploy",
    ] {
        assert!(broken(page, link).is_some(), "{link}");
    }
}
