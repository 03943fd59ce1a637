//! Commands that a client may have started on a worker: `--allow-mcp-stdio`.

use std::str::FromStr;

use super::{glob, package};

/// Word by word: the first is the command, each other an argument. Within a word `*` stands for
/// letters, digits, dots, dashes and underscores; a `*` alone is any one argument that may be a
/// path and no URL. None begins with a dash, so that no option slips in. Where the command fetches
/// packages, `*` is a name of the registry and nothing else that could stand there ([`package`]).
/// `**` at the end is any arguments at all, and alone any command.
#[derive(Clone, Debug)]
pub struct CommandPattern {
    words: Vec<String>,
    open: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidCommandPattern {
    #[error("a command and its arguments, such as \"npx -y @example/files@1.2.3\"")]
    Empty,
    #[error(
        "a command is a name or an absolute path: another would depend on the directory that a \
         client names"
    )]
    Relative,
    #[error("** stands at the end, for all arguments that follow")]
    Inside,
}

impl CommandPattern {
    pub(super) fn fits(&self, command: &str, args: &[String]) -> bool {
        let enough = if self.open {
            args.len() + 1 >= self.words.len()
        } else {
            args.len() + 1 == self.words.len()
        };
        let Some((first, others)) = self.words.split_first() else {
            return self.open;
        };
        let mut packages = package::PackageWords::of(command);
        enough
            && word(first, command, is_plain)
            && others.iter().zip(args).all(|(pattern, arg)| {
                let package = packages.as_mut().and_then(|words| words.package(pattern));
                match package.filter(|_| pattern.contains('*')) {
                    Some(at) => {
                        let (option, name) = pattern.split_at(at);
                        arg.strip_prefix(option)
                            .is_some_and(|arg| package::fits(name, arg))
                    }
                    None if pattern == "*" => word(pattern, arg, is_path),
                    None => word(pattern, arg, is_plain),
                }
            })
    }
}

fn word(pattern: &str, text: &str, allowed: fn(char) -> bool) -> bool {
    let option = pattern.starts_with('*') && text.starts_with('-');
    let upwards = pattern.contains('*') && text.split('/').any(|part| part == "..");
    !option && !upwards && !text.is_empty() && glob::fits(pattern, text, allowed)
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "._-".contains(c)
}

fn is_path(c: char) -> bool {
    is_plain(c) || "/@=+,%".contains(c)
}

impl FromStr for CommandPattern {
    type Err = InvalidCommandPattern;

    fn from_str(text: &str) -> Result<Self, InvalidCommandPattern> {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let open = words.pop_if(|last| last == "**").is_some();
        if words.iter().any(|word| word.contains("**")) {
            return Err(InvalidCommandPattern::Inside);
        }
        match words.first() {
            None if !open => Err(InvalidCommandPattern::Empty),
            Some(first) if first.contains('/') && !first.starts_with('/') => {
                Err(InvalidCommandPattern::Relative)
            }
            _ => Ok(Self { words, open }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, line: &[&str]) -> bool {
        let args: Vec<String> = line[1..].iter().map(|word| word.to_string()).collect();
        pattern
            .parse::<CommandPattern>()
            .unwrap()
            .fits(line[0], &args)
    }

    #[test]
    fn a_command_fits_word_by_word() {
        for (pattern, line) in [
            ("npx", &["npx"][..]),
            ("/usr/bin/mcp-files", &["/usr/bin/mcp-files"]),
            ("/opt/mcp/*", &["/opt/mcp/files"]),
            ("npx -y @example/*", &["npx", "-y", "@example/files@1.2.3"]),
            (
                "npx -y @example/* *",
                &["npx", "-y", "@example/x", "/srv/a=b"],
            ),
            (
                "npx --package=@example/* run",
                &["npx", "--package=@example/x@1.2.3", "run"],
            ),
            ("uvx mcp-*", &["uvx", "mcp-git==1.0"]),
            (
                "docker run -i mcp/*:*",
                &["docker", "run", "-i", "mcp/git:1.0"],
            ),
            ("mcp-files *", &["mcp-files", "/srv/data"]),
            (
                "mcp-files --root=/srv/*",
                &["mcp-files", "--root=/srv/data"],
            ),
            ("uvx mcp-git **", &["uvx", "mcp-git"]),
            (
                "uvx mcp-git **",
                &["uvx", "mcp-git", "--repository", "a b; $(c)"],
            ),
            ("**", &["/anything", "at", "all"]),
        ] {
            assert!(fits(pattern, line), "{pattern}: {line:?}");
        }
    }

    #[test]
    fn what_an_attacker_would_send_does_not_fit() {
        for (pattern, line) in [
            ("npx", &["npx", "-y", "evil"][..]),
            ("npx", &["/tmp/npx"]),
            ("npx", &["npx -y evil"]),
            ("npx -y @example/*", &["npx", "-y @example/x"]),
            (
                "npx -y @example/*",
                &["npx", "-y", "@example/x", "--call", "evil"],
            ),
            ("npx -y @example/*", &["npx", "-y", "@example/../../evil"]),
            ("npx -y @example/*", &["npx", "-y", "@example/x; evil"]),
            ("npx -y @example/*", &["npx", "-y", "@example/$(evil)"]),
            ("npx -y @example/*", &["npx", "-y", "@example/x\nevil"]),
            ("npx -y @example/*", &["npx", "-y", "@example/x\0"]),
            ("npx -y @example/*", &["npx", "-y", "@example/x", ""]),
            ("npx -y @example/*", &["npx", "-y", "@example/x@npm:evil"]),
            ("npx -y @example/*", &["npx", "-y", "@example/x@file:."]),
            ("npx -y @example/*", &["/bin/npx", "-y", "@example/x"]),
            ("* -y @example/*", &["npx", "-y", "@example/x@npm:evil"]),
            (
                "/usr/bin/* -y @example/*",
                &["/usr/bin/npx", "-y", "@example/x@file:."],
            ),
            ("npx -y *", &["npx", "-y", "./evil"]),
            ("npx -y *", &["npx", "-y", "evil/repository"]),
            (
                "npx --package=@example/* run",
                &["npx", "--package=@example/x@npm:evil", "run"],
            ),
            ("npx -p @example/* *", &["npx", "-p", "@example/x", "a/b"]),
            (
                "npx --registry https://r.example *",
                &["npx", "--registry", "https://r.example", "evil/x"],
            ),
            ("uvx *", &["uvx", "git+https://evil.example/x"]),
            ("uvx mcp-*", &["uvx", "mcp-x @ https://evil.example/x.whl"]),
            ("docker run -i mcp/*", &["docker", "run", "-i", "mcp/x:1"]),
            (
                "docker run -i mcp/*",
                &["docker", "run", "-i", "mcp/x@sha256:00"],
            ),
            ("mcp-proxy *", &["mcp-proxy", "https://evil.example"]),
            ("mcp-proxy *", &["mcp-proxy", "git@evil.example:x"]),
            ("mcp-files --root=/srv/*", &["mcp-files", "--root=/srv/a,b"]),
            ("/opt/mcp/*", &["/opt/mcp/../../bin/sh"]),
            ("/opt/mcp/*", &["/opt/mcp/.."]),
            ("/opt/mcp/*", &["/opt/mcp/a/b"]),
            ("*", &["./files"]),
            ("*", &["/bin/sh"]),
            ("*", &[""]),
            ("node *", &["node", "--eval=evil"]),
            ("node *", &["node", "-"]),
            ("mcp-files *", &["mcp-files", "/srv/../etc"]),
            ("mcp-files *", &["mcp-files"]),
            ("mcp-files *", &["mcp-files", ""]),
            ("uvx mcp-git **", &["uvx", "evil"]),
            ("uvx mcp-git **", &["uvx"]),
        ] {
            assert!(!fits(pattern, line), "{pattern}: {line:?}");
        }
    }

    #[test]
    fn a_pattern_that_means_nothing_is_a_fault() {
        for bad in ["", "  ", "./run", "bin/run", "npx ** x", "np**"] {
            assert!(bad.parse::<CommandPattern>().is_err(), "{bad:?}");
        }
    }
}
