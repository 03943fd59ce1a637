//! One value of the file, as clap takes it: the type first, then the option's own parser.

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, Error};
use toml::de::{DeInteger, DeValue};

use super::keys::{self, ValueKind};

/// The values for the option, or why it cannot have them.
pub fn read(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let values = texts(ValueKind::of(arg), value)?;
    if values.iter().any(|value| keys::holds_secret(arg, value)) {
        return Err(secret(arg));
    }
    probe(arg, &values)?;
    Ok(values)
}

fn texts(kind: ValueKind, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let one = match (kind, value) {
        (ValueKind::Boolean, DeValue::Boolean(value)) => value.to_string(),
        (ValueKind::Integer, DeValue::Integer(integer)) if integer.as_str().starts_with('-') => {
            return Err(format!("expected {}", kind.expected()));
        }
        (ValueKind::Integer | ValueKind::Number, DeValue::Integer(integer)) => decimal(integer)?,
        (ValueKind::Number, DeValue::Float(float)) => float.as_str().to_owned(),
        (ValueKind::Text | ValueKind::List(_), DeValue::String(text)) => text.to_string(),
        (ValueKind::List(delimiter), DeValue::Array(items)) => {
            let items = items.iter().map(|item| item.get_ref());
            return list(delimiter, items);
        }
        _ => return Err(wrong_type(kind, value)),
    };
    Ok(vec![one])
}

fn list<'a>(
    delimiter: char,
    items: impl ExactSizeIterator<Item = &'a DeValue<'a>>,
) -> Result<Vec<String>, String> {
    // For some options an empty list would mean nothing, for others everything.
    if items.len() == 0 {
        return Err(
            "the array is empty; remove the key for the default, or write [\"none\"] where the \
             option permits it"
                .into(),
        );
    }
    let items = items.map(|item| match item {
        DeValue::String(text) if text.contains(delimiter) => Err(format!(
            "{text:?} contains {delimiter:?}, which separates items; make them items of their own"
        )),
        DeValue::String(text) => Ok(text.to_string()),
        other => Err(wrong_type(ValueKind::Text, other)),
    });
    items.collect()
}

fn wrong_type(kind: ValueKind, value: &DeValue<'_>) -> String {
    let found = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    };
    let quoted = match (kind, value) {
        (ValueKind::Text, DeValue::Integer(number)) => format!("; write \"{}\"", number.as_str()),
        (ValueKind::Text, DeValue::Float(number)) => format!("; write \"{}\"", number.as_str()),
        _ => String::new(),
    };
    format!("expected {}, found {found}{quoted}", kind.expected())
}

/// The options take decimal numbers, TOML has others.
fn decimal(integer: &DeInteger<'_>) -> Result<String, String> {
    i128::from_str_radix(integer.as_str(), integer.radix())
        .map(|number| number.to_string())
        .map_err(|_| "the integer is too large".into())
}

fn secret(arg: &Arg) -> String {
    let variable = arg.get_env().unwrap_or_default().to_string_lossy();
    let instead = match arg.get_long() {
        Some("store") => format!("store-file or the variable {variable}"),
        _ => format!("the variable {variable}"),
    };
    format!("a URL with a user, a password or a query does not belong in this file; use {instead}")
}

/// Has clap parse the values for this option alone.
fn probe(arg: &Arg, values: &[String]) -> Result<(), String> {
    let name = arg.get_long().unwrap_or_default();
    let words = values.iter().map(|value| format!("--{name}={value}"));
    let alone = arg.clone().env(None::<&str>).required(false);
    let command = Command::new("file").no_binary_name(true).arg(alone);
    let parsed = command.try_get_matches_from(words);
    parsed.map(drop).map_err(|error| reason(&error))
}

/// The reason without clap's usage lines: they speak of a command line.
fn reason(error: &Error) -> String {
    let given = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(given)) => format!("{given:?}"),
        _ => String::new(),
    };
    if let Some(source) = std::error::Error::source(error) {
        return format!("{given}: {source}");
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(valid)) if !valid.is_empty() => {
            format!("{given}: must be one of {}", valid.join(", "))
        }
        _ => format!("{given}: not a valid value"),
    }
}
