//! Reads a configuration file, and reports all its faults together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{keys, suggest, value};
use crate::exit::ConfigurationError;
use crate::roles::ROLES;

pub struct ConfigFile {
    pub path: PathBuf,
    settings: Vec<FileSetting>,
}

/// One key with its value.
#[derive(Clone, Debug)]
pub struct FileSetting {
    /// `None` at the top of the file.
    section: Option<&'static str>,
    pub name: String,
    pub values: Vec<String>,
    pub line: usize,
}

struct FileFault {
    line: usize,
    text: String,
}

impl ConfigFile {
    /// `command` has the roles as subcommands.
    pub fn read(path: &Path, command: &Command) -> Result<Self, ConfigurationError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigurationError(vec![format!("--config {shown}: {error}")]))?;
        let mut reader = FileReader::new(&text, command);
        reader.document();
        let FileReader {
            settings,
            mut faults,
            ..
        } = reader;
        if faults.is_empty() {
            return Ok(Self {
                path: path.to_owned(),
                settings,
            });
        }
        faults.sort_by_key(|fault| fault.line);
        let faults = faults.iter();
        let faults = faults.map(|fault| format!("{shown}:{}: {}", fault.line, fault.text));
        Err(ConfigurationError(faults.collect()))
    }

    /// The settings of a role, by name: those of its section, and those at the top that it has an
    /// option for.
    pub fn of_role(&self, role: &Command) -> BTreeMap<String, FileSetting> {
        let section = Some(role.get_name());
        let top = self.settings.iter().filter(|one| one.section.is_none());
        let top = top.filter(|one| keys::option(role, &one.name).is_some());
        let own = self.settings.iter().filter(|one| one.section == section);
        // A name that comes twice keeps its last value, that of the section.
        let all = top.chain(own);
        all.map(|one| (one.name.clone(), one.clone())).collect()
    }

    pub fn len(&self) -> usize {
        self.settings.len()
    }
}

struct FileReader<'a> {
    text: &'a str,
    roles: Vec<(&'static str, &'a Command)>,
    settings: Vec<FileSetting>,
    faults: Vec<FileFault>,
}

impl<'a> FileReader<'a> {
    fn new(text: &'a str, command: &'a Command) -> Self {
        let roles = ROLES.iter().filter_map(|role| {
            let command = command.find_subcommand(role)?;
            Some((*role, command))
        });
        Self {
            text,
            roles: roles.collect(),
            settings: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn document(&mut self) {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        let syntax = errors.iter().map(|error| FileFault {
            line: self.line(error.span().map_or(0, |span| span.start)),
            text: error.message().to_owned(),
        });
        let syntax: Vec<FileFault> = syntax.collect();
        for (key, value) in document.get_ref().iter() {
            let role = ROLES.iter().find(|role| *role == key.get_ref());
            match (role, value.get_ref()) {
                (Some(role), DeValue::Table(section)) => {
                    for (key, value) in section.iter() {
                        self.setting(Some(role), key, value);
                    }
                }
                (Some(role), _) => {
                    let line = self.line(key.span().start);
                    let text = format!("{role} is a section: write [{role}]");
                    self.faults.push(FileFault { line, text });
                }
                (None, _) => self.setting(None, key, value),
            }
        }
        // The parser makes up a value for a line that it cannot read.
        let unreadable: Vec<usize> = syntax.iter().map(|fault| fault.line).collect();
        self.faults
            .retain(|fault| !unreadable.contains(&fault.line));
        self.faults.extend(syntax);
    }

    fn setting(
        &mut self,
        section: Option<&'static str>,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let (name, line) = (key.get_ref().as_ref(), self.line(key.span().start));
        let read = match self.option(section, name) {
            Some(arg) => value::read(arg, value.get_ref()),
            None => Err(self.unknown(section, name, value.get_ref().is_table())),
        };
        match read {
            Ok(values) => self.settings.push(FileSetting {
                section,
                name: name.to_owned(),
                values,
                line,
            }),
            Err(text) => {
                let text = match section {
                    Some(section) => format!("[{section}] {name}: {text}"),
                    None => format!("{name}: {text}"),
                };
                self.faults.push(FileFault { line, text });
            }
        }
    }

    /// At the top, the option of whichever role has it: options of one name have one type.
    fn option(&self, section: Option<&str>, name: &str) -> Option<&'a Arg> {
        let roles = self.roles.iter();
        let mut roles = roles.filter(|(role, _)| section.is_none_or(|section| section == *role));
        roles.find_map(|(_, command)| keys::option(command, name))
    }

    fn unknown(&self, section: Option<&str>, name: &str, is_section: bool) -> String {
        let owners = self.roles.iter();
        let owners = owners.filter(|(_, command)| keys::option(command, name).is_some());
        let owners: Vec<&str> = owners.map(|(role, _)| *role).collect();
        if let (Some(section), false) = (section, owners.is_empty()) {
            let owners = owners.join(" and ");
            return format!("{section} has no such option; {owners} has it");
        }
        let nearest = match (is_section, section) {
            (true, None) => suggest::nearest(name, ROLES),
            _ => suggest::nearest(name, self.names(section)),
        };
        let what = if is_section {
            "unknown section"
        } else {
            "unknown key"
        };
        match nearest {
            Some(nearest) => format!("{what}; did you mean {nearest}?"),
            None => format!(
                "{what}; `baton {} --help` lists the options",
                section.unwrap_or("ROLE")
            ),
        }
    }

    fn names(&self, section: Option<&str>) -> Vec<&'a str> {
        let roles = self.roles.iter();
        let roles = roles.filter(|(role, _)| section.is_none_or(|section| section == *role));
        let options = roles.flat_map(|(_, command)| keys::options(command));
        options.filter_map(|arg| arg.get_long()).collect()
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text[..offset].matches('\n').count()
    }
}
