//! `baton config show`

use clap::builder::{BoolishValueParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};

use super::ShowArguments;
use crate::command_line;
use crate::config_file::keys::{self, ValueKind};
use crate::config_file::{ConfigProblem, FileSettings, matches, without_required};
use crate::exit::ConfigurationError;
use crate::roles::ROLES;

/// Where the comments begin, unless a value is longer.
const COLUMN: usize = 48;

pub fn run(arguments: &ShowArguments) -> anyhow::Result<()> {
    let role = arguments.words.first();
    let role = role.and_then(|word| ROLES.iter().find(|role| word == *role));
    let Some(role) = role else {
        let fault = format!("config show: name a role first: {}", ROLES.join(", "));
        return Err(ConfigurationError(vec![fault]).into());
    };
    // A required option that is missing is shown as such.
    let command = without_required(command_line::command());
    let words = ["baton".into()].into_iter();
    let words: Vec<_> = words.chain(arguments.words.iter().cloned()).collect();
    let (matches, file) = match matches(command.clone(), &words) {
        Ok(parsed) => parsed,
        // Somebody asks for the help of the role.
        Err(ConfigProblem::CommandLine(text)) if !text.use_stderr() => return Ok(text.print()?),
        Err(problem) => return Err(command_line::failure(problem)),
    };
    if let (Some(command), Some(given)) = (
        command.find_subcommand(role),
        matches.subcommand_matches(role),
    ) {
        print!("{}", page(command, given, &file));
    }
    Ok(())
}

/// A configuration file with the source of each value as a comment.
fn page(role: &clap::Command, given: &ArgMatches, file: &FileSettings) -> String {
    let mut page = format!("# baton {}\n", role.get_name());
    for (heading, args) in keys::sections(role) {
        page += &format!("\n# {}\n", heading.unwrap_or("Options"));
        for arg in args {
            let (text, source) = (assignment(arg, given), source(arg, given, file));
            page += &format!("{text:COLUMN$}  # {source}\n");
        }
    }
    page
}

fn assignment(arg: &Arg, given: &ArgMatches) -> String {
    let name = arg.get_long().unwrap_or_default();
    let values = given.get_raw(arg.get_id().as_str());
    let values: Vec<String> = values
        .into_iter()
        .flatten()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    if values.is_empty() {
        return format!("# {name} =");
    }
    if values.iter().any(|value| keys::hides(arg, value)) {
        return format!("# {name} = (hidden)");
    }
    format!("{name} = {}", toml(ValueKind::of(arg), &values))
}

fn toml(kind: ValueKind, values: &[String]) -> String {
    // A JSON string is a TOML string.
    let quoted = |value: &String| serde_json::Value::from(value.as_str()).to_string();
    match kind {
        ValueKind::List(_) => {
            let items: Vec<String> = values.iter().map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Text => values.iter().map(quoted).collect(),
        ValueKind::Boolean | ValueKind::Integer | ValueKind::Number => {
            plain(kind, &values.concat())
        }
    }
}

/// A variable may say `yes`, `007` or `.5`, TOML must not.
fn plain(kind: ValueKind, value: &str) -> String {
    let read = match kind {
        ValueKind::Boolean => BoolishValueParser::new()
            .parse_ref(&clap::Command::new(""), None, value.as_ref())
            .map(|value| value.to_string())
            .ok(),
        ValueKind::Integer => value.parse::<u64>().map(|value| value.to_string()).ok(),
        _ => value.parse::<f64>().map(|value| format!("{value:?}")).ok(),
    };
    read.unwrap_or_else(|| value.to_owned())
}

fn source(arg: &Arg, given: &ArgMatches, file: &FileSettings) -> String {
    let line = arg.get_long().and_then(|name| file.line(name));
    match (given.value_source(arg.get_id().as_str()), line) {
        (Some(ValueSource::CommandLine), _) => "flag".into(),
        (Some(ValueSource::EnvVariable), _) => {
            let name = arg.get_env().unwrap_or_default();
            format!("environment, {}", name.to_string_lossy())
        }
        (Some(_), Some(line)) => format!("file, line {line}"),
        (Some(_), None) => "default".into(),
        (None, _) => "not set".into(),
    }
}
