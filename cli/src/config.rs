//! `baton config`: checks and shows what a configuration file sets.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use crate::roles::ROLES;

mod check;
mod show;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file: exit code 0, or 64 with a list of all faults
    ///
    /// Checks syntax, names, types and permitted values. With --role it also checks the options as
    /// that role would at its start, in this environment and on this machine: required options,
    /// options that exclude each other, files that must exist.
    Check(CheckArguments),
    /// Print the options in effect and the source of each: flag, environment, file or default
    ///
    /// Takes a role and its options as they would be started:
    /// `baton config show gateway --config baton.toml`. The output is a configuration file itself.
    /// URLs that hold a password are not printed.
    Show(ShowArguments),
}

#[derive(Args)]
pub struct CheckArguments {
    /// Role to check the file for
    #[arg(long, value_name = "ROLE", value_parser = PossibleValuesParser::new(ROLES))]
    role: Option<String>,
    /// File to check
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
pub struct ShowArguments {
    /// Role, followed by the options it would be started with
    #[arg(
        value_name = "ROLE [OPTIONS]",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

pub fn run(command: ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Check(arguments) => check::run(&arguments),
        ConfigCommand::Show(arguments) => show::run(&arguments),
    }
}
