//! The options of a role as keys of the file.

use std::any::TypeId;

use clap::{Arg, Command};

/// Kind of value that an option takes, as TOML has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    Boolean,
    Integer,
    Number,
    Text,
    /// An array, or a string with this character between the items.
    List(char),
}

impl ValueKind {
    pub fn of(arg: &Arg) -> Self {
        if let Some(delimiter) = arg.get_value_delimiter() {
            return Self::List(delimiter);
        }
        let id = arg.get_value_parser().type_id();
        let is = |types: &[TypeId]| types.iter().any(|one| id == *one);
        if is(&[TypeId::of::<bool>()]) {
            Self::Boolean
        } else if is(&[TypeId::of::<f64>()]) {
            Self::Number
        } else if is(&[TypeId::of::<u64>(), TypeId::of::<usize>()]) {
            Self::Integer
        } else {
            Self::Text
        }
    }

    pub fn expected(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::Integer => "an integer, 0 or more",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::List(_) => "an array of strings",
        }
    }
}

/// The options that a file may set, in the order of the help.
pub fn options(role: &Command) -> impl Iterator<Item = &Arg> {
    let is_setting = |name: &str| !["config", "help", "version"].contains(&name);
    role.get_arguments()
        .filter(move |arg| arg.get_long().is_some_and(is_setting))
}

pub fn option<'a>(role: &'a Command, name: &str) -> Option<&'a Arg> {
    options(role).find(|arg| arg.get_long() == Some(name))
}

/// Whether the option takes a URL that may hold a password, and this one has a place for it.
pub fn holds_secret(arg: &Arg, value: &str) -> bool {
    arg.is_hide_env_values_set() && value.contains(['@', '?'])
}

/// Whether a value must not be shown. Text that is no URL may be a password in the wrong place.
pub fn hides(arg: &Arg, value: &str) -> bool {
    arg.is_hide_env_values_set() && (holds_secret(arg, value) || !value.contains("://"))
}

/// The option that names a file with the same content: `store-file` beside `store`, and the other
/// way round.
pub fn counterpart(name: &str) -> String {
    match name.strip_suffix("-file") {
        Some(stem) => stem.to_owned(),
        None => format!("{name}-file"),
    }
}

/// The same by section of the help, in its order. The first section has no name.
pub fn sections(role: &Command) -> Vec<(Option<&str>, Vec<&Arg>)> {
    let mut sections: Vec<(Option<&str>, Vec<&Arg>)> = Vec::new();
    for arg in options(role) {
        let heading = arg.get_help_heading();
        match sections.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, args)) => args.push(arg),
            None => sections.push((heading, vec![arg])),
        }
    }
    sections
}
