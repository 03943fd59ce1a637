//! Every option of every role, with a value that suits it.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::keys::{self, ValueKind};
use super::matches;
use crate::command_line;
use crate::roles::ROLES;

/// As the file has it, and as clap gets it.
fn sample(arg: &Arg) -> (String, String) {
    let choice = arg.get_possible_values();
    let choice = choice.last().map(|value| value.get_name().to_owned());
    let default = arg.get_default_values().first();
    let default = default.map(|value| value.to_string_lossy().into_owned());
    let name = arg.get_value_names().and_then(|names| names.first());
    let text = match name.map(|name| name.as_str()) {
        Some("ADDR") => "127.0.0.1:1".to_owned(),
        Some("unix:PATH|ADDR|none") => "unix:/run/x".to_owned(),
        Some("TIME") => "7m".to_owned(),
        _ => choice.or(default).unwrap_or_else(|| "text".to_owned()),
    };
    match ValueKind::of(arg) {
        ValueKind::Boolean => ("true".into(), "true".into()),
        ValueKind::Integer => ("77".into(), "77".into()),
        ValueKind::Number => ("0.5".into(), "0.5".into()),
        ValueKind::Text => (format!("{text:?}"), text),
        ValueKind::List(delimiter) => {
            let first = text.split(delimiter).next().unwrap_or_default();
            (
                format!("[{first:?}, {first:?}]"),
                format!("{first} {first}"),
            )
        }
    }
}

/// The variables of the machine that tests run on do not count.
fn without_environment(command: Command) -> Command {
    ROLES.iter().fold(command, |command, role| {
        command.mut_subcommand(role, |role| role.mut_args(|arg| arg.env(None::<&str>)))
    })
}

#[test]
fn every_option_can_be_set_in_the_file_by_its_long_name() {
    let command = without_environment(command_line::command());
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let path = dir.path().join("baton.toml");
    for role in ROLES {
        let options = command.find_subcommand(role).expect("a role");
        let options: Vec<&Arg> = keys::options(options).collect();
        assert!(options.len() > 30, "{role} has {}", options.len());
        let lines = options.iter().map(|arg| {
            let name = arg.get_long().expect("an option");
            format!("{name} = {}\n", sample(arg).0)
        });
        let text = format!("[{role}]\n{}", lines.collect::<String>());
        std::fs::write(&path, &text).expect("writable");
        let words: [OsString; 4] = [
            "baton".into(),
            role.into(),
            "--config".into(),
            path.clone().into(),
        ];
        let Ok((matches, file)) = matches(command.clone(), &words) else {
            panic!("{role} refuses\n{text}");
        };
        let given = matches.subcommand_matches(role).expect("the role");
        for (number, arg) in options.iter().enumerate() {
            let name = arg.get_long().expect("an option");
            let values = given.get_raw(arg.get_id().as_str()).expect("a value");
            let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
            assert_eq!(values.join(" "), sample(arg).1, "{role} {name}");
            assert_eq!(file.line(name), Some(number + 2), "{role} {name}");
        }
    }
}

/// The short help says so.
#[test]
fn every_option_of_a_role_has_a_section_and_the_variable_that_follows_from_its_name() {
    let command = command_line::command();
    for role in ROLES {
        for arg in keys::options(command.find_subcommand(role).expect("a role")) {
            let name = arg.get_long().expect("an option");
            let variable = format!("BATON_{}", name.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env(), Some(variable.as_ref()), "{role} --{name}");
            assert!(arg.get_help_heading().is_some(), "{role} --{name}");
        }
    }
}

#[test]
fn the_commands_are_as_clap_wants_them() {
    command_line::command().debug_assert();
}
