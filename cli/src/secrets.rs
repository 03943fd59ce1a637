//! Secrets of the command line and of our variables are taken out of sight before anything else
//! begins.
//!
//! The arguments and variables of a process stay readable in `/proc/PID/cmdline` and `environ` for
//! as long as it runs: removing a variable changes a copy. So the program starts itself again in
//! the same process (same PID, same files) without them, and reads them from its standard input,
//! which no server command uses otherwise. Nothing of it ever touches a disk.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::roles::ROLES;

/// Options whose values may hold a password, and their variables.
const SECRET: [(&str, &str); 2] = [
    ("--store", "BATON_STORE"),
    ("--otlp-endpoint", "BATON_OTLP_ENDPOINT"),
];
/// The key of the model endpoint. It has no option: command lines are for everybody to read.
const LLM_KEY: &str = "BATON_LLM_KEY";
/// Set once, from the environment or from the standard input.
static FOUND_LLM_KEY: OnceLock<String> = OnceLock::new();
/// Set for the second start.
const ON_INPUT: &str = "BATON_SECRETS_ON_INPUT";
/// More than a pipe holds would wait for a reader that comes later.
const MOST: usize = 32 << 10;

/// The command line with all that belongs to it. The first time there are secrets, this does not
/// return.
pub fn arguments() -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    if std::env::var_os(ON_INPUT).is_some() {
        return with_input(given);
    }
    let serves = |word: &OsString| ROLES.iter().any(|role| word == role);
    // `baton doctor ROLE` starts an agent, too.
    let role = match given.get(1) {
        Some(word) if word == "doctor" => given.get(2),
        word => word,
    };
    if !role.is_some_and(serves) {
        return given;
    }
    // `baton serve` has no option for this variable.
    let is_unused = |name: &str| name == "BATON_STORE" && role.is_some_and(|role| role == "serve");
    let variable = |name: &str| std::env::var_os(name).filter(|_| !is_unused(name));
    let (plain, secret) = apart(&given, variable);
    let bytes = secret.join(OsStr::new("\0")).into_vec();
    if bytes.is_empty() || bytes.len() > MOST {
        return given;
    }
    // If it cannot be done, the process is still not dumpable, and agents are confined.
    let error = start_anew(&plain, &bytes);
    eprintln!("baton: secrets stay in the environment: {error}");
    given
}

fn start_anew(plain: &[OsString], secret: &[u8]) -> io::Error {
    let (reader, mut writer) = match io::pipe() {
        Ok(ends) => ends,
        Err(error) => return error,
    };
    if let Err(error) = writer.write_all(secret) {
        return error;
    }
    drop(writer);
    let ourselves = std::env::current_exe().ok().filter(|path| path.is_file());
    let mut command = Command::new(ourselves.unwrap_or_else(|| PathBuf::from("/proc/self/exe")));
    if let Some((name, arguments)) = plain.split_first() {
        command.arg0(name).args(arguments);
    }
    for variable in SECRET
        .iter()
        .map(|(_, variable)| *variable)
        .chain([LLM_KEY])
    {
        command.env_remove(variable);
    }
    command.env(ON_INPUT, "1").stdin(Stdio::from(reader)).exec()
}

fn with_input(mut given: Vec<OsString>) -> Vec<OsString> {
    let mut secret = Vec::new();
    if io::stdin()
        .take(MOST as u64)
        .read_to_end(&mut secret)
        .is_ok()
    {
        let secret = secret
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        for word in secret {
            match key_in(word) {
                Some(key) => drop(FOUND_LLM_KEY.set(key)),
                None => given.push(OsStr::from_bytes(word).to_owned()),
            }
        }
    }
    given
}

fn key_in(word: &[u8]) -> Option<String> {
    let value = word.strip_prefix(LLM_KEY.as_bytes())?.strip_prefix(b"=")?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The key of the model endpoint, if the environment had one.
pub fn llm_key() -> Option<String> {
    let visible = || std::env::var(LLM_KEY).ok();
    let key = FOUND_LLM_KEY.get().cloned().or_else(visible);
    key.map(|key| key.trim().to_owned())
        .filter(|key| !key.is_empty())
}

/// The public arguments, and the secret ones. An option counts more than its variable.
fn apart(
    given: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) -> (Vec<OsString>, Vec<OsString>) {
    let (mut plain, mut secret, mut named) = (Vec::new(), Vec::new(), Vec::new());
    let mut words = given.iter();
    while let Some(word) = words.next() {
        let option = SECRET.iter().find(|(option, _)| {
            let rest = word.as_bytes().strip_prefix(option.as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
        });
        let Some((option, _)) = option else {
            plain.push(word.clone());
            continue;
        };
        named.push(*option);
        let mut whole = word.clone();
        if word == option {
            // The parser says what is wrong if nothing follows.
            let Some(value) = words.next() else {
                plain.push(whole);
                continue;
            };
            whole.push("=");
            whole.push(value);
        }
        secret.push(whole);
    }
    for (option, name) in SECRET.iter().filter(|(option, _)| !named.contains(option)) {
        if let Some(value) = variable(name).filter(|value| !value.is_empty()) {
            let mut whole = OsString::from(format!("{option}="));
            whole.push(value);
            secret.push(whole);
        }
    }
    if let Some(key) = variable(LLM_KEY).filter(|key| !key.is_empty()) {
        let mut whole = OsString::from(format!("{LLM_KEY}="));
        whole.push(key);
        secret.push(whole);
    }
    (plain, secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command_line, config_file::keys};

    /// The mark is what hides an option in help, in `baton config show` and from the configuration
    /// file.
    #[test]
    fn these_are_the_options_that_are_marked_as_secret() {
        let command = command_line::command();
        let roles = ROLES
            .iter()
            .filter_map(|role| command.find_subcommand(role));
        let marked = roles.flat_map(keys::options);
        let marked = marked.filter(|arg| arg.is_hide_env_values_set());
        let marked = marked.map(|arg| {
            let name = format!("--{}", arg.get_long().expect("an option"));
            let variable = arg.get_env().expect("a variable").to_string_lossy();
            (name, variable.into_owned())
        });
        let marked: std::collections::BTreeSet<_> = marked.collect();
        let listed = SECRET.map(|(name, variable)| (name.to_owned(), variable.to_owned()));
        assert_eq!(marked, listed.into());
    }

    fn split(words: &str, variable: Option<&str>) -> (String, String) {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let (plain, secret) = apart(&words, |name| {
            variable
                .filter(|_| name == "BATON_STORE")
                .map(OsString::from)
        });
        let text = |words: Vec<OsString>| words.join(OsStr::new(" ")).into_string().unwrap();
        (text(plain), text(secret))
    }

    #[test]
    fn the_key_of_a_model_goes_the_same_way() {
        let (plain, secret) = apart(&["baton".into(), "serve".into()], |name| {
            (name == LLM_KEY).then(|| OsString::from("sk-1"))
        });
        assert_eq!((plain.len(), secret.len()), (2, 1));
        assert_eq!(key_in(secret[0].as_bytes()).as_deref(), Some("sk-1"));
        assert_eq!(key_in(b"--store=URL"), None);
    }

    #[test]
    fn secrets_are_taken_out_however_they_are_given() {
        let both = |plain: &str, secret: &str| (plain.to_owned(), secret.to_owned());
        for given in [
            "baton worker --store URL --slots 1",
            "baton worker --store=URL --slots 1",
        ] {
            assert_eq!(
                split(given, Some("other")),
                both("baton worker --slots 1", "--store=URL")
            );
        }
        assert_eq!(
            split("baton worker", Some("URL")),
            both("baton worker", "--store=URL")
        );
        assert_eq!(
            split("baton worker --store-ca F", None),
            both("baton worker --store-ca F", "")
        );
        assert_eq!(
            split("baton worker --store", None),
            both("baton worker --store", "")
        );
    }
}
