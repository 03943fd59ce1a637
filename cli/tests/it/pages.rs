//! The pages for people: their links lead somewhere, and their tables say what the code says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

mod agents;
mod commands;
mod files;
mod guide;
mod links;
mod markdown;
mod options;
mod tables;

/// The folder of the project.
fn project() -> PathBuf {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR"));
    cli.parent().expect("cli is part of a project").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All Markdown files, relative to the project.
fn pages() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![project()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Files of others, and of builds.
            let foreign = name.starts_with('.') || name == "target" || name == "node_modules";
            if foreign || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md") {
                let page = path.strip_prefix(project()).expect("beneath it");
                found.insert(page.to_owned());
            }
        }
    }
    found
}

#[test]
fn front_pages_are_short() {
    for (page, most) in [("README.md", 200), ("ARCHITECTURE.md", 120)] {
        let lines = read(page).lines().count();
        assert!(
            lines <= most,
            "{page} has {lines} lines, at most {most} are allowed"
        );
    }
}
