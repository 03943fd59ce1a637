//! The modules of a crate do not lead to each other in large circles, lines fit on a screen, and a bool is tested by `if`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn house(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new("python3");
    command.arg(format!("{PROJECT}/scripts/house"));
    command.args(arguments).arg(folder);
    command.output().expect("python3 runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_source_keeps_the_rules_of_the_house() {
    let checked = house(&["--check"], Path::new(PROJECT));
    assert!(checked.status.success(), "{}", stderr(&checked));
}

/// A crate whose modules lead to each other in a circle: by `use`, by a path, by the root and by `super`.
fn circle(folder: &Path, modules: &[&str]) {
    let source = folder.join("client/src");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("lib.rs"), "pub use first::{Exported, Other};\n").unwrap();
    for (number, module) in modules.iter().enumerate() {
        let next = modules[(number + 1) % modules.len()];
        let text = match number % 4 {
            0 => format!("use crate::{{{next}::Thing}};\n"),
            1 => format!("fn call() {{ crate::{next}::call() }}\n"),
            2 => format!("use super::{next};\n"),
            _ => "fn exported() -> crate::Exported { todo!() }\n".to_owned(),
        };
        fs::write(source.join(format!("{module}.rs")), text).unwrap();
    }
}

#[test]
fn a_cycle_of_four_fails_and_one_of_three_does_not() {
    let folder = tempfile::tempdir().unwrap();
    circle(folder.path(), &["first", "second", "third"]);
    assert!(house(&["--check"], folder.path()).status.success());
    circle(folder.path(), &["first", "second", "third", "fourth"]);
    let checked = house(&["--check"], folder.path());
    assert!(!checked.status.success());
    let named = "client: in a cycle of more than 3 modules: first, fourth, second, third";
    assert_eq!(stderr(&checked).trim(), named);
}

#[test]
fn tests_comments_and_strings_make_no_cycle() {
    let folder = tempfile::tempdir().unwrap();
    circle(folder.path(), &["first", "second", "third", "fourth"]);
    let third = folder.path().join("client/src/third.rs");
    let text = "// crate::fourth\nconst A: &str = \"crate::fourth\";\n#[cfg(test)]\nmod tests {\n    use \
         crate::fourth;\n}\n";
    fs::write(third, text).unwrap();
    let checked = house(&["--check"], folder.path());
    assert!(checked.status.success(), "{}", stderr(&checked));
}

/// A crate with this one module. Returns the faults that are found.
fn faults_of(module: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("client/src");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("first.rs"), module).unwrap();
    stderr(&house(&["--check"], folder.path()))
        .trim()
        .to_owned()
}

#[test]
fn a_bool_that_is_matched_fails() {
    let module = "fn sign(minus: bool) -> char {\n    match minus {\n        true => '-',\n        false \
         => '+',\n    }\n}\n";
    assert_eq!(
        faults_of(module),
        "client/src/first.rs:2: if/else rather than a match of a bool"
    );
    assert_eq!(faults_of("// match minus { true => '-' }\n"), "");
    // Of a tuple or an option a bool is a part.
    let part = "fn sign(it: Option<bool>) -> bool {\n    matches!(it, Some(true))\n}\n";
    assert_eq!(faults_of(part), "");
}

#[test]
fn a_line_wider_than_a_hundred_characters_fails() {
    let comment = |letters: usize| format!("// {}\n", "a".repeat(letters));
    assert_eq!(faults_of(&comment(97)), "");
    assert_eq!(
        faults_of(&comment(98)),
        "client/src/first.rs:1: wider than 100 characters"
    );
}

#[test]
fn names_and_comments_that_have_to_be_learned_fail() {
    let one_word = "struct Place;\nstruct Known;\nstruct OpenRequest;\n";
    assert_eq!(
        faults_of(one_word),
        "client: 66.7 % of the type names have one word, at most 40 % may"
    );
    let shared = "struct OpenRequest;\nmod other {\n    struct OpenRequest;\n}\n";
    assert_eq!(
        faults_of(shared),
        "client: 100.0 % of the type names are there twice, at most 20 % may"
    );
    assert_eq!(
        faults_of("// Who comes again is verified again.\n"),
        "client: 100.0 % of the sentences in comments open with What or Who, at most 2 % may"
    );
    assert_eq!(faults_of("// Whole frames only.\n"), "");
}

/// Callgrind names a file where it is met first, and has numbers for it from then on. A line after `calls=` is what
/// the callee costs.
#[test]
fn the_walk_counts_files_of_which_a_line_was_executed() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump");
    let text = "fl=(1) /x/gateway/src/router.rs\nfn=(1) route\n12 3\ncfi=(2) /x/gateway/src/error.rs\ncfn=(2) refuse\n\
         calls=1 7\n13 90\nfl=(3) session/src/id.rs\nfn=(3) parse\n+2 4\nfi=(4) /rustc/library/core/src/str.rs\n* 8\n\
         fe=(3)\nfl=(5) /x/.cargo/registry/src/tokio/src/task.rs\n1 5\ntotals: 20\n";
    fs::write(&dump, text).unwrap();
    let mut command = Command::new("python3");
    command
        .arg(format!("{PROJECT}/scripts/walk"))
        .arg("--count");
    let counted = command.arg(&dump).output().expect("python3 runs");
    let files = String::from_utf8(counted.stdout).unwrap();
    assert_eq!(files, "gateway/src/router.rs\nsession/src/id.rs\n");
}

#[test]
fn the_measures_are_printed_for_every_crate() {
    let printed = house(&[], Path::new(PROJECT));
    let text = String::from_utf8(printed.stdout).unwrap();
    for name in [
        "protocol",
        "histories",
        "session",
        "gateway",
        "worker",
        "client",
        "cli",
        "all",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}");
    }
}
