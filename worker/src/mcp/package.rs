//! Programs that fetch a package and run it: npx, uvx and the like. They accept a path, a URL, an
//! archive, a repository or an alias of another package as well, so where a pattern has a `*` only
//! a name of the registry fits, optionally followed by a version.

use super::glob;

/// By the last part of their path. npm, pnpm, yarn, bun and uv do it by subcommands.
const RUNNERS: [&str; 11] = [
    "npx", "npm", "pnpx", "pnpm", "yarn", "yarnpkg", "bunx", "bun", "uvx", "uv", "pipx",
];
/// Words before a package that say nothing about it. The word after any other option may be the
/// option's.
const PLAIN: [&str; 21] = [
    "-y",
    "--yes",
    "--no",
    "--no-install",
    "-q",
    "--quiet",
    "-s",
    "--silent",
    "--",
    "--offline",
    "--prefer-offline",
    "--isolated",
    "--no-cache",
    "--refresh",
    "--bun",
    "--no-progress",
    "exec",
    "x",
    "dlx",
    "tool",
    "run",
];
/// Endings by which a name is taken for a file.
const FILES: [&str; 11] = [
    ".tgz", ".tar", ".gz", ".bz2", ".xz", ".zip", ".whl", ".py", ".js", ".mjs", ".ts",
];

/// Which words of a runner's command line name packages.
pub(super) struct PackageWords {
    /// The package was named; what follows is for the program in it.
    past: bool,
    /// The next word may be an option's.
    value: bool,
}

impl PackageWords {
    /// `None` if the command runs no packages.
    pub fn of(command: &str) -> Option<Self> {
        let name = command.rsplit('/').next().unwrap_or(command);
        RUNNERS.contains(&name).then_some(Self {
            past: false,
            value: false,
        })
    }

    /// Returns the offset at which a package begins in the next word of a pattern.
    pub fn package(&mut self, word: &str) -> Option<usize> {
        if self.past || PLAIN.contains(&word) {
            return None;
        }
        if word.starts_with('-') {
            let value = word.find('=').map(|at| at + 1);
            self.value = value.is_none();
            return value;
        }
        self.past = !std::mem::take(&mut self.value);
        Some(0)
    }
}

/// Whether a package, as a client has written it, is one that the pattern allows.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    if !pattern.contains('*') {
        return pattern == text;
    }
    let (pattern, wanted) = taken_apart(pattern);
    let (name, version) = taken_apart(text);
    let fits_version = match (wanted, version) {
        (None, None) => true,
        (None, Some((_, version))) => is_version(version),
        (Some((by, wanted)), Some((with, version))) => {
            let fits = glob::fits(wanted, version, is_plain);
            by == with && fits && (is_version(version) || wanted == version)
        }
        (Some(_), None) => false,
    };
    fits_version && is_name(name) && in_place(pattern, name)
}

/// `*` alone is a name in any scope, or in none.
fn in_place(pattern: &str, name: &str) -> bool {
    match pattern {
        "*" => true,
        pattern => glob::fits(pattern, name, is_plain),
    }
}

/// A name, and after `@` or `==` what stands for a version.
fn taken_apart(spec: &str) -> (&str, Option<(&str, &str)>) {
    let scope = usize::from(spec.starts_with('@'));
    for mark in ["==", "@"] {
        if let Some((name, version)) = spec[scope..].split_once(mark) {
            return (&spec[..scope + name.len()], Some((mark, version)));
        }
    }
    (spec, None)
}

/// `name` or `@scope/name`.
fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_plain)
    };
    let parts = match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    };
    parts && !is_file(name)
}

/// A number, never a tag: tags move, and the pattern does not show where to.
fn is_version(version: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(plain)
        && !is_file(version)
}

fn is_file(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    FILES.iter().any(|ending| name.ends_with(ending))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_the_registry_fits_with_a_version_or_without() {
        for (pattern, text) in [
            ("@example/*", "@example/files"),
            ("@example/*", "@example/files@1.2.3"),
            ("@example/*", "@example/files@1"),
            ("@example/*", "@example/files@2.0.0-rc.1"),
            ("@example/mcp-*", "@example/mcp-git"),
            ("@example/*@1.2.3", "@example/files@1.2.3"),
            ("@example/*@1.*", "@example/files@1.2.3"),
            ("@example/files@*", "@example/files@1.2.3"),
            ("mcp-*", "mcp-git"),
            ("mcp-*", "mcp-git==1.0"),
            ("mcp-*", "mcp-git@1.0rc1"),
            ("mcp-git==*", "mcp-git==2024.1.2.post1"),
            ("*", "anything"),
            ("*", "@any/thing@1.2.3"),
            ("@example/files@latest", "@example/files@latest"),
            ("mcp-git[cli]", "mcp-git[cli]"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn no_star_leads_to_another_package() {
        let specs = [
            "@npm:evil",
            "@npm:@evil/x@1.0.0",
            "@npm:evil@1",
            "@file:.",
            "@file:../evil",
            "@file:evil.tgz",
            "@.",
            "@..",
            "@./evil",
            "@../evil",
            "@/evil",
            "@~/evil",
            "@evil.tgz",
            "@1.2.3.tgz",
            "@1.2.3.TGZ",
            "@1.0-a.tar.gz",
            "@1.0.tar",
            "@git+https://evil.example/x.git",
            "@git+ssh://git@evil.example/x",
            "@git://evil.example/x",
            "@git@evil.example:x",
            "@github:evil/x",
            "@gist:0123",
            "@gitlab:evil/x",
            "@evil/x",
            "@evil/x#main",
            "@https://evil.example/x.tgz",
            "@http://evil.example",
            "@link:evil",
            "@workspace:*",
            "@portal:../evil",
            "@patch:evil",
            "@latest",
            "@next",
            "@*",
            "@",
            "@^1.0.0",
            "@>=1",
            "@1.0.0 || 2",
            "@1 ",
            "@1\n",
            "@1.0@npm:evil",
            "@1@2",
            "==1.0@npm:evil",
            "==1.0;evil",
            "==",
            "==*",
            "===1.0",
            ">=1.0",
            "~=1.0",
            "!=1.0",
            "[evil]",
            "[evil]==1.0",
            " @ https://evil.example/x.whl",
            "@ https://evil.example/x.whl",
            ";evil",
            "#evil",
            "%2f..%2fevil",
            "/evil",
            "/../evil",
            "/../../evil",
            "\\..\\evil",
            ".tgz",
            ".TGZ",
            ".tar.gz",
            ".whl",
            ".py",
            ".js",
            ":evil",
            "+evil",
            ",evil",
            "\0",
            "ℵ",
        ];
        for (pattern, start) in [
            ("@example/*", "@example/x"),
            ("mcp-*", "mcp-x"),
            ("mcp-*-server", "mcp-x-server"),
            ("*", "evil"),
            ("*", "@evil/x"),
            ("@example/files@*", "@example/files"),
            ("mcp-git==*", "mcp-git"),
        ] {
            for spec in specs {
                let text = format!("{start}{spec}");
                assert!(!fits(pattern, &text), "{pattern} {text:?}");
            }
        }
        for (pattern, text) in [
            ("@example/*", "@example/"),
            ("@example/*", "@example/.."),
            ("@example/*", "@example/.x"),
            ("@example/*", "@example/-x"),
            ("@example/*", "@example"),
            ("@example/*", "@evil/x"),
            ("@example/*", "@example@npm:evil/x"),
            ("@example/*", "@Example/x"),
            ("*", ""),
            ("*", "@"),
            ("*", "@/"),
            ("*", "@a/b/c"),
            ("*", "a/b"),
            ("*", "/abs"),
            ("*", "./rel"),
            ("*", "C:\\x"),
            ("*", "https://evil.example/x.tgz"),
            ("*", "git+https://evil.example/x"),
            ("*", "-p"),
            ("@example/*@1.2.3", "@example/x"),
            ("@example/*@1.2.3", "@example/x@1.2.4"),
            ("@example/files@*", "@example/files"),
            ("mcp-git==*", "mcp-git@1.0"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text:?}");
        }
    }

    #[test]
    fn the_package_is_found_among_the_words() {
        for (command, words, packages) in [
            (
                "npx",
                &["-y", "@example/*", "*"][..],
                &[false, true, false][..],
            ),
            (
                "/usr/bin/npx",
                &["--package=@example/*", "cmd"],
                &[true, true],
            ),
            (
                "npx",
                &["-p", "@example/*", "cmd", "*"],
                &[false, true, true, false],
            ),
            (
                "npx",
                &["--registry", "https://r", "@example/*"],
                &[false, true, true],
            ),
            (
                "npm",
                &["exec", "--", "@example/*", "*"],
                &[false, false, true, false],
            ),
            (
                "uvx",
                &["--from", "mcp-*", "cmd", "*"],
                &[false, true, true, false],
            ),
            (
                "uv",
                &["tool", "run", "mcp-*", "--x=*"],
                &[false, false, true, false],
            ),
            (
                "pipx",
                &["run", "--spec", "mcp-*", "cmd"],
                &[false, false, true, true],
            ),
        ] {
            let mut all = PackageWords::of(command).unwrap();
            let found: Vec<bool> = words
                .iter()
                .map(|word| all.package(word).is_some())
                .collect();
            assert_eq!(found, packages, "{command} {words:?}");
        }
        assert!(PackageWords::of("mcp-files").is_none());
    }
}
