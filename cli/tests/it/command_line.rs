//! Help, completions, manual pages and the options page: all of them name every option.

use std::process::Command;

use tempfile::TempDir;

use crate::support::process::baton;

const ROLES: [&str; 3] = ["serve", "gateway", "worker"];
/// A line of the short help fits on a wide terminal.
const WIDTH: usize = 125;

fn stdout(command: &mut Command) -> String {
    let output = command.output().expect("baton runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The options of a role that a file can set.
fn options(role: &str) -> Vec<String> {
    let text = stdout(baton().args(["config", "show", role]));
    let names = text.lines().filter_map(|line| {
        let (name, _) = line.split_once(" =")?;
        Some(name.trim_start_matches("# ").to_owned())
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 30, "{text}");
    names
}

fn variable(option: &str) -> String {
    format!("BATON_{}", option.replace('-', "_").to_uppercase())
}

#[test]
fn the_short_help_has_sections_and_a_line_for_each_option() {
    for role in ROLES {
        let help = stdout(baton().args([role, "-h"]));
        for section in ["Storage:", "Sessions:", "Observability:"] {
            assert!(
                help.lines().any(|line| line == section),
                "{section}\n{help}"
            );
        }
        for option in options(role) {
            let flag = format!("      --{option}");
            let line = help.lines().find(|line| {
                let rest = line.strip_prefix(&flag);
                rest.is_some_and(|rest| rest.starts_with([' ', '[']))
            });
            let line = line.unwrap_or_else(|| panic!("{role} --{option} has no line:\n{help}"));
            let text = line[flag.len()..].split_once("  ");
            assert!(
                text.is_some_and(|(_, text)| !text.trim().is_empty()),
                "no text: {line}"
            );
            assert!(line.chars().count() <= WIDTH, "too long: {line}");
        }
    }
}

#[test]
fn the_long_help_names_the_variable_of_each_option_and_its_default() {
    for role in ROLES {
        let help = stdout(baton().args([role, "--help"]).env_clear());
        for option in options(role) {
            let variable = variable(&option);
            let named = [format!("[env: {variable}="), format!("[env: {variable}]")];
            assert!(
                named.iter().any(|named| help.contains(named)),
                "{role} --{option} does not name {variable}"
            );
        }
        assert!(help.contains("[default: 30d]") || role == "gateway");
        assert!(help.contains("baton config check"), "{help}");
    }
}

#[test]
fn every_shell_has_completions_and_bash_can_read_its_own() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(baton().args(["completions", shell]));
        for word in ["gateway", "lease-ms", "completions"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
        if shell == "bash" {
            let dir = TempDir::new().expect("a temporary directory");
            let file = dir.path().join("baton.bash");
            std::fs::write(&file, script).expect("the directory is writable");
            let parsed = Command::new("bash").arg("-n").arg(&file).status();
            assert!(parsed.expect("bash runs").success());
        }
    }
    let output = baton().args(["completions", "cmd"]).output();
    assert_eq!(output.expect("baton runs").status.code(), Some(64));
}

#[test]
fn every_command_has_a_manual_page_with_its_options() {
    let dir = TempDir::new().expect("a temporary directory");
    let pages = dir.path().join("man1");
    stdout(baton().arg("man").arg(&pages));
    let page = |name: &str| {
        let text = std::fs::read_to_string(pages.join(format!("{name}.1")));
        let text = text.unwrap_or_else(|error| panic!("{name}.1: {error}"));
        let sections = [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"];
        let places = sections.map(|section| text.find(section));
        assert!(places.iter().all(Option::is_some), "{name}: {places:?}");
        assert!(places.is_sorted(), "{name}: {places:?}");
        text
    };
    for role in ROLES {
        let text = page(&format!("baton-{role}"));
        for option in options(role) {
            let flag = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(text.contains(&flag), "{role} lacks {option}");
            assert!(text.contains(&variable(&option)), "{role}: {option}");
        }
        assert!(text.contains(".SH OBSERVABILITY"), "{role}");
    }
    for other in ["baton", "baton-token-mint", "baton-config-check"] {
        page(other);
    }
    assert!(!pages.join("baton-guard.1").exists(), "it is hidden");
}

#[test]
fn the_options_page_names_every_option_with_its_variable() {
    let page = stdout(baton().arg("reference"));
    for role in ROLES {
        for option in options(role) {
            let variable = variable(&option);
            let named = page.lines().any(|line| {
                let cells: Vec<&str> = line.split(" | ").collect();
                let [name, own, _, roles, text] = cells[..] else {
                    return false;
                };
                let name = name.trim_start_matches("| `--");
                let name = name.split([' ', '[', '`']).next();
                let is_it = name == Some(&option) && own == format!("`{variable}`");
                is_it && roles.split(", ").any(|one| one == role) && text.len() > 3
            });
            assert!(named, "{role} --{option} is not on the page");
        }
    }
}
