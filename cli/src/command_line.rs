//! The command line with all that belongs to it: flags, environment variables and the configuration
//! file.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::config_file::{self, ConfigProblem, FileSettings};
use crate::exit::{self, ConfigurationError};
use crate::roles::ROLES;
use crate::{BatonCommand, CommandLine, secrets};

/// Printed below the short help of a command that serves.
const SHORT_FOOTER: &str = "\
Every option has an environment variable: --listen is BATON_LISTEN. `--help` prints more about \
                            each option.";

/// All commands with all options.
pub fn command() -> clap::Command {
    with_choices(config_file::prepare(CommandLine::command()))
}

/// The arguments, and which of them the file has set. After `--help` or a fault the process ends
/// with the code.
pub fn parse() -> Result<(CommandLine, FileSettings), ExitCode> {
    let words = secrets::arguments();
    let command = if words.iter().any(|word| word == "-h") {
        one_line_each(command())
    } else {
        command()
    };
    let parsed = config_file::matches(command, &words);
    let parsed = parsed.and_then(|(mut matches, file)| {
        let arguments = CommandLine::from_arg_matches_mut(&mut matches)?;
        Ok((arguments, file))
    });
    parsed.map_err(|problem| match problem {
        ConfigProblem::CommandLine(error) => {
            let _ = error.print();
            if error.use_stderr() {
                exit::USAGE.into()
            } else {
                ExitCode::SUCCESS
            }
        }
        ConfigProblem::File(faults) => {
            eprintln!("baton: {faults}");
            exit::USAGE.into()
        }
    })
}

/// Another command, as it would be started.
pub fn read(words: &[OsString]) -> anyhow::Result<BatonCommand> {
    Ok(read_with_file(words)?.0)
}

fn read_with_file(words: &[OsString]) -> anyhow::Result<(BatonCommand, FileSettings)> {
    let parsed = config_file::matches(command(), words);
    let (mut matches, file) = parsed.map_err(failure)?;
    let arguments = CommandLine::from_arg_matches_mut(&mut matches);
    let arguments = arguments.map_err(|error| failure(error.into()))?;
    Ok((arguments.command, file))
}

/// Checks arguments as the command itself does at its start.
pub fn check(words: &[OsString]) -> anyhow::Result<()> {
    let (command, file) = read_with_file(words)?;
    let faults = command.faults();
    if faults.is_empty() {
        return Ok(());
    }
    let faults = faults.iter().map(|fault| file.locate(fault));
    Err(ConfigurationError(faults.collect()).into())
}

pub fn failure(problem: ConfigProblem) -> anyhow::Error {
    match problem {
        ConfigProblem::CommandLine(error) => {
            let text = error.to_string();
            let text = text.trim().trim_start_matches("error: ");
            ConfigurationError(vec![text.to_owned()]).into()
        }
        ConfigProblem::File(faults) => faults.into(),
    }
}

/// `--auth <none|keys|jwt>` instead of `--auth <AUTH>`.
fn with_choices(command: clap::Command) -> clap::Command {
    let named = |arg: clap::Arg| {
        let values = arg.get_possible_values();
        let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        if values.is_empty() || arg.is_hide_possible_values_set() {
            arg
        } else {
            arg.value_name(values.join("|"))
        }
    };
    command.mut_args(named).mut_subcommands(with_choices)
}

/// The short help. The name of a variable follows from that of its option.
fn one_line_each(command: clap::Command) -> clap::Command {
    let command = if ROLES.contains(&command.get_name()) {
        command.after_help(SHORT_FOOTER)
    } else {
        command
    };
    command
        .term_width(0)
        .mut_args(|arg| arg.hide_env(true).hide_possible_values(true))
        .mut_subcommands(one_line_each)
}
