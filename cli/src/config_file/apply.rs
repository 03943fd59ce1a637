//! Puts the file beneath flags and environment, and above the defaults: to clap its values are
//! defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, Error};

use super::file::{ConfigFile, FileSetting};
use super::keys;
use crate::exit::ConfigurationError;
use crate::roles::ROLES;

/// Why there are no arguments.
pub enum ConfigProblem {
    CommandLine(Box<Error>),
    File(ConfigurationError),
}

impl From<Error> for ConfigProblem {
    fn from(error: Error) -> Self {
        Self::CommandLine(Box::new(error))
    }
}

/// The values of the file that are in effect.
#[derive(Default)]
pub struct FileSettings {
    path: PathBuf,
    lines: BTreeMap<String, usize>,
}

impl FileSettings {
    /// The line that sets the option, unless a flag or a variable does.
    pub fn line(&self, name: &str) -> Option<usize> {
        self.lines.get(name).copied()
    }

    /// Adds to a message about an option where the file sets it.
    pub fn locate(&self, fault: &str) -> String {
        let name = fault.strip_prefix("--").unwrap_or_default();
        let name = name.split([' ', ':']).next().unwrap_or_default();
        match self.line(name) {
            Some(line) => format!("{fault} ({}:{line})", self.path.display()),
            None => fault.to_owned(),
        }
    }
}

/// Parses flags, environment and file with clap.
pub fn matches(
    command: Command,
    words: &[OsString],
) -> Result<(ArgMatches, FileSettings), ConfigProblem> {
    let without_file = |command: Command| {
        let matches = command.try_get_matches_from(words)?;
        Ok((matches, FileSettings::default()))
    };
    // A flag that is wrong is reported by the command as it is, with its own usage line.
    let Ok(given) = without_required(command.clone()).try_get_matches_from(words) else {
        return without_file(command);
    };
    let Some((role, given)) = given.subcommand().filter(|(name, _)| ROLES.contains(name)) else {
        return without_file(command);
    };
    let Some(path) = given.get_one::<PathBuf>("config") else {
        return without_file(command);
    };
    let file = ConfigFile::read(path, &command).map_err(ConfigProblem::File)?;
    let mut settings = match command.find_subcommand(role) {
        Some(role) => file.of_role(role),
        None => BTreeMap::new(),
    };
    settings.retain(|name, _| !is_replaced(given, name));
    let command = command.mut_subcommand(role, |command| with_defaults(command, &settings));
    let matches = command.try_get_matches_from(words)?;
    let in_effect = settings.iter().filter(|(name, _)| !is_given(given, name));
    let lines = in_effect.map(|(name, setting)| (name.clone(), setting.line));
    let lines = lines.collect();
    let path = file.path;
    Ok((matches, FileSettings { path, lines }))
}

/// The roles with no option required: the file may have it.
pub fn without_required(command: Command) -> Command {
    ROLES.iter().fold(command, |command, role| {
        command.mut_subcommand(role, |role| role.mut_args(|arg| arg.required(false)))
    })
}

fn with_defaults(command: Command, settings: &BTreeMap<String, FileSetting>) -> Command {
    settings.iter().fold(command, |command, (name, setting)| {
        let Some(arg) = keys::option(&command, name) else {
            return command;
        };
        let id = arg.get_id().clone();
        command.mut_arg(id, |arg| {
            let values = setting.values.clone();
            arg.default_values(values).required(false)
        })
    })
}

/// `--store-file` on the command line replaces `store` of the file: they exclude each other.
fn is_replaced(given: &ArgMatches, name: &str) -> bool {
    is_given(given, &keys::counterpart(name))
}

/// By a flag or a variable. clap's derive calls an argument by its field.
fn is_given(given: &ArgMatches, name: &str) -> bool {
    let id = name.replace('-', "_");
    let known = given.try_contains_id(&id).is_ok();
    let source = known.then(|| given.value_source(&id)).flatten();
    source.is_some_and(|source| source != ValueSource::DefaultValue)
}
