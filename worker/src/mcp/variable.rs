//! Variables that a client may set for a command: `--allow-mcp-env`. A list of what is allowed,
//! since there is no end to those that make a command do something else: LD_PRELOAD, PATH,
//! NODE_OPTIONS, PYTHONPATH …

use std::str::FromStr;

use super::glob;

#[derive(Clone, Debug)]
pub struct VariablePattern(String);

#[derive(Debug, thiserror::Error)]
#[error("the name of a variable, such as GITHUB_TOKEN or *_TOKEN")]
pub struct InvalidVariablePattern;

impl VariablePattern {
    pub(super) fn fits(&self, name: &str) -> bool {
        !name.is_empty() && glob::fits(&self.0, name, is_plain)
    }
}

impl FromStr for VariablePattern {
    type Err = InvalidVariablePattern;

    fn from_str(text: &str) -> Result<Self, InvalidVariablePattern> {
        let plain = !text.is_empty() && text.chars().all(|c| is_plain(c) || c == '*');
        plain
            .then(|| Self(text.to_owned()))
            .ok_or(InvalidVariablePattern)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_admits_names_and_nothing_like_them() {
        let fits =
            |pattern: &str, name: &str| pattern.parse::<VariablePattern>().unwrap().fits(name);
        assert!(fits("*_TOKEN", "GITHUB_TOKEN"));
        assert!(fits("HOME", "HOME"));
        assert!(fits("*", "LD_PRELOAD"), "whoever says so means it");
        for name in [
            "LD_PRELOAD",
            "PATH",
            "",
            "A_TOKEN=1",
            "A\0_TOKEN",
            "a_token",
            "X=Y_TOKEN",
        ] {
            assert!(!fits("*_TOKEN", name), "{name:?}");
        }
        for bad in ["", "A B", "A=B", "Ä"] {
            assert!(bad.parse::<VariablePattern>().is_err(), "{bad:?}");
        }
    }
}
