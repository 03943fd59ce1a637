//! Names of fields and methods, in which `*` stands for anything.

use std::str::FromStr;

use crate::mcp::glob;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

#[derive(Debug, thiserror::Error)]
#[error("a name, in which * stands for anything, without blanks")]
pub struct InvalidNamePattern;

impl NamePattern {
    pub fn any() -> Self {
        Self("*".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        glob::fits(&self.0, name, |_| true)
    }
}

impl FromStr for NamePattern {
    type Err = InvalidNamePattern;

    fn from_str(text: &str) -> Result<Self, InvalidNamePattern> {
        let odd = |c: char| c.is_whitespace() || c.is_control();
        if text.is_empty() || text.contains(odd) {
            Err(InvalidNamePattern)
        } else {
            Ok(Self(text.to_owned()))
        }
    }
}
