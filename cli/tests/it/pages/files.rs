//! Pages about the code name files that exist.

use std::fs;
use std::path::Path;

use super::{pages, project, read};

const CRATES: [&str; 7] = [
    "protocol",
    "histories",
    "session",
    "gateway",
    "worker",
    "client",
    "cli",
];

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("node_modules") && !path.ends_with("target") {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|ext| ext == "rs" || ext == "lua")
        {
            found.push(format!("/{}", path.display()));
        }
    }
}

/// Code spans that are the name or the end of the path of a source file.
fn files(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    let plain = |span: &&str| !span.contains(|c: char| c.is_whitespace() || "<>*{".contains(c));
    let source = |span: &&str| span.ends_with(".rs") || span.ends_with(".lua");
    // `foo.rs` stands for any file.
    spans
        .filter(plain)
        .filter(source)
        .filter(|span| *span != "foo.rs")
}

#[test]
fn every_source_file_that_a_page_names_exists() {
    let mut known = Vec::new();
    for name in CRATES {
        let folder = project().join(name);
        if folder.is_dir() {
            sources(&folder, &mut known);
        }
    }
    let mut missing = Vec::new();
    for page in pages() {
        let text = read(&page.to_string_lossy());
        // These say how things were.
        if page.ends_with("CHANGELOG.md") || page.starts_with("docs/internals") {
            continue;
        }
        for file in files(&text) {
            if !known.iter().any(|path| path.ends_with(&format!("/{file}"))) {
                missing.push(format!("{}: {file}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
