//! The environment variables that an agent gets: those that programs need to run, and those that
//! the operator names. It never gets the worker's own settings, which hold the store's password.

use std::ffi::{OsStr, OsString};

/// The usual, without which programs fail in odd ways.
const USUAL: [&str; 14] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];

/// Of those variables that are set, the ones an agent gets.
pub fn scrubbed(
    all: impl IntoIterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsStr| {
        let name = name.to_string_lossy();
        USUAL.contains(&&*name) || name.starts_with("LC_") || named.iter().any(|n| *n == name)
    };
    all.into_iter().filter(|(name, _)| passes(name)).collect()
}

/// Why an operator may not pass a variable on.
pub fn refusal(name: &str) -> Option<String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Some(format!(
            "--agent-env {name:?}: name a variable; its value is taken from the worker's own \
             environment"
        ));
    }
    name.starts_with("BATON_")
        .then(|| format!("--agent-env {name}: Baton's own settings are not for agents"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_usual_and_the_named_pass() {
        let all = [
            "PATH",
            "LC_ALL",
            "BATON_STORE",
            "API_KEY",
            "LD_PRELOAD",
            "AWS_SECRET",
        ];
        let all = all.map(|name| (OsString::from(name), OsString::from("x")));
        let passed = scrubbed(all, &["API_KEY".into()]);
        let names: Vec<_> = passed
            .iter()
            .map(|(name, _)| name.to_str().unwrap())
            .collect();
        assert_eq!(names, ["PATH", "LC_ALL", "API_KEY"]);
        assert!(refusal("BATON_STORE").is_some() && refusal("A=b").is_some());
        assert!(refusal("API_KEY").is_none());
    }
}
