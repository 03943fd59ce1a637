//! The configuration file of `serve`, `gateway` and `worker`.
//!
//! Every option of a role is a key of the file, by its long name. The keys, their types and their
//! permitted values come from clap's commands: an option that is added there is a key of the file
//! at once.
//!
//! | module | task |
//! |---|---|
//! | `keys` | the options of a role: kind of value, section of the help, whether it is a secret |
//! | `file` | reads a file and reports every fault with its line |
//! | `value`, `suggest` | checks one value; guesses the name that was meant |
//! | `apply` | puts the file beneath flags and environment |

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command as Clap, value_parser};

pub use self::apply::{ConfigProblem, FileSettings, matches, without_required};
pub use self::file::ConfigFile;
pub use self::suggest::nearest;
use crate::roles::ROLES;

mod apply;
mod file;
pub mod keys;
mod suggest;
#[cfg(test)]
mod tests;
mod value;

const CONFIG_HELP: &str = "Configuration file in TOML; see --help for its form";
const CONFIG_LONG_HELP: &str = "\
Configuration file in TOML

Every option is a key, by its long name without the dashes. Keys at the top of the file apply to \
     every role that has the option. Keys in the sections [serve], [gateway] and [worker] apply \
     to that role and take precedence over the top. An option that takes a list is an array of \
     strings.

A flag takes precedence over an environment variable, a variable over the file, the file over the \
     default. The process refuses to start if the file has an unknown key or a value of the wrong \
     type, and reports all of them together.

Passwords do not belong in the file: a URL that holds one is refused. Use --store-file or the \
     option's variable. `baton config check FILE` checks a file; `baton config show ROLE --config \
     FILE` prints the values in effect.";

/// Gives every role `--config`, and lets a flag switch off an option that the file or the
/// environment has switched on.
pub fn prepare(command: Clap) -> Clap {
    ROLES.iter().fold(command, |command, role| {
        command.mut_subcommand(role, |role| role.mut_args(switchable).arg(config()))
    })
}

fn config() -> Arg {
    Arg::new("config")
        .long("config")
        .env("BATON_CONFIG")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help_heading(None::<&str>)
        .help(CONFIG_HELP)
        .long_help(CONFIG_LONG_HELP)
}

/// `--insecure` and `--insecure=true` are the same, and `--insecure=false` takes it back.
fn switchable(arg: Arg) -> Arg {
    match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("BOOL")
            .default_missing_value("true")
            .default_value("false")
            .hide_default_value(true)
            .hide_possible_values(true),
        _ => arg,
    }
}
