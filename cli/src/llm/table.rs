//! A table of a TOML file, read key by key. What was not asked for is a fault in the end, with the
//! key that may have been meant.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config_file::nearest;

/// All that is wrong with a file.
pub struct TomlFaults<'t> {
    file: String,
    text: &'t str,
    found: Vec<(usize, String)>,
}

impl<'t> TomlFaults<'t> {
    pub fn new(file: String, text: &'t str) -> Self {
        Self {
            file,
            text,
            found: Vec::new(),
        }
    }

    pub fn add(&mut self, offset: usize, text: impl Into<String>) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = 1 + before.matches('\n').count();
        self.found.push((line, text.into()));
    }

    /// In the order of the file.
    pub fn finish(mut self) -> Vec<String> {
        self.found.sort_by_key(|(line, _)| *line);
        let all = self.found.into_iter();
        all.map(|(line, text)| format!("{}:{line}: {text}", self.file))
            .collect()
    }
}

pub struct TomlTable<'a, 'i> {
    /// How it is named in faults, such as `[limits]`; empty at the top.
    name: String,
    table: &'a DeTable<'i>,
    known: Vec<&'static str>,
    /// Where it begins.
    pub at: usize,
}

impl<'a, 'i> TomlTable<'a, 'i> {
    pub fn new(name: impl Into<String>, table: &'a DeTable<'i>, at: usize) -> Self {
        Self {
            name: name.into(),
            table,
            known: Vec::new(),
            at,
        }
    }

    fn named(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{} {key}", self.name)
        }
    }

    fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.table.get(key)
    }

    fn read<T>(
        &mut self,
        faults: &mut TomlFaults<'_>,
        key: &'static str,
        expected: &str,
        read: impl Fn(&'a DeValue<'i>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let found = read(value.get_ref());
        if found.is_none() {
            let text = format!("{}: expected {expected}", self.named(key));
            faults.add(value.span().start, text);
        }
        found
    }

    pub fn text(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Option<String> {
        self.read(faults, key, "a string", text_of)
    }

    pub fn path(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Option<PathBuf> {
        self.text(faults, key).map(PathBuf::from)
    }

    pub fn boolean(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Option<bool> {
        self.read(faults, key, "true or false", |value| match value {
            DeValue::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    /// One at least.
    pub fn count(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Option<u64> {
        self.read(faults, key, "a number of 1 or more", |value| {
            whole(value).filter(|it| *it > 0)
        })
    }

    /// Zero at least, with a fraction or without.
    pub fn number(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Option<f64> {
        self.read(faults, key, "a number of 0 or more", |value| {
            let number = match value {
                DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
                other => whole(other).map(|it| it as f64),
            };
            number.filter(|it: &f64| it.is_finite() && *it >= 0.0)
        })
    }

    pub fn texts(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Vec<String> {
        let read = self.read(faults, key, "an array of strings", |value| match value {
            DeValue::Array(items) => items.iter().map(|it| text_of(it.get_ref())).collect(),
            _ => None,
        });
        read.unwrap_or_default()
    }

    /// A table beneath this one.
    pub fn table(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Option<Self> {
        let name = format!("[{}]", self.path_of(key));
        let at = self.value(key).map_or(0, |it| it.span().start);
        let table = self.read(faults, key, "a table", table_of)?;
        Some(Self::new(name, table, at))
    }

    /// Tables beneath this one, in the order of the file, with names that are not known before.
    pub fn tables(
        &mut self,
        faults: &mut TomlFaults<'_>,
        key: &'static str,
    ) -> Vec<(String, Self)> {
        let name = self.path_of(key);
        let Some(all) = self.read(faults, key, "tables", table_of) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut all: Vec<_> = all.iter().collect();
        all.sort_by_key(|(own, _)| own.span().start);
        for (own, value) in all {
            let own = own.get_ref().to_string();
            let at = value.span().start;
            match table_of(value.get_ref()) {
                Some(table) => {
                    let table = Self::new(format!("[{name}.{own}]"), table, at);
                    found.push((own, table));
                }
                None => faults.add(at, format!("{name}.{own}: expected a table")),
            }
        }
        found
    }

    /// `[[KEY]]`, as often as it comes.
    pub fn list(&mut self, faults: &mut TomlFaults<'_>, key: &'static str) -> Vec<Self> {
        let name = format!("[[{}]]", self.path_of(key));
        let read = self.read(faults, key, "tables that begin with [[...]]", |value| {
            let DeValue::Array(items) = value else {
                return None;
            };
            let tables = items.iter();
            tables
                .map(|it| Some((table_of(it.get_ref())?, it.span().start)))
                .collect::<Option<Vec<_>>>()
        });
        let all = read.unwrap_or_default().into_iter();
        all.map(|(table, at)| Self::new(&*name, table, at))
            .collect()
    }

    fn path_of(&self, key: &str) -> String {
        let above = self.name.trim_matches(['[', ']']);
        if above.is_empty() {
            key.to_owned()
        } else {
            format!("{above}.{key}")
        }
    }

    /// Every key and its text, whatever the keys are.
    pub fn pairs(self, faults: &mut TomlFaults<'_>) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (key, value) in self.table.iter() {
            match text_of(value.get_ref()) {
                Some(text) => pairs.push((key.get_ref().to_string(), text)),
                None => {
                    let text = format!("{}: expected a string", self.named(key.get_ref()));
                    faults.add(value.span().start, text);
                }
            }
        }
        pairs
    }

    /// Keys that were not read are unknown, and are reported.
    pub fn finish(self, faults: &mut TomlFaults<'_>) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let meant = match nearest(name, self.known.iter().copied()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("there are {}", self.known.join(", ")),
            };
            let text = format!("{}: unknown key; {meant}", self.named(name));
            faults.add(key.span().start, text);
        }
    }
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

fn table_of<'a, 'i>(value: &'a DeValue<'i>) -> Option<&'a DeTable<'i>> {
    match value {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}
