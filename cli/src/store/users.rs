//! `baton store users`: the Redis users of gateways and workers, with passwords that are made once.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_session::id::random_text;
use baton_session::store::redis::RedisOptions;
use clap::Args;
use sha2::{Digest as _, Sha256};

use crate::exit::ConfigurationError;
use crate::options::namespace_fault;

/// Read by people and by the chart as well.
const RULES: &str = include_str!("../../../deploy/redis/users.acl");
const ROLES: [&str; 3] = ["gateway", "worker", "admin"];
const PASSWORD_CHARS: usize = 40;

#[derive(Args)]
pub struct UsersArguments {
    /// Directory to write to
    ///
    /// Contains redis/users.acl for Redis, and gateway/url, worker/url and admin/url. Existing
    /// passwords are kept.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// URL of Redis, without user and password
    #[arg(long, value_name = "URL")]
    at: String,
    /// Prefix of every Redis key
    #[arg(
        long,
        env = "BATON_NAMESPACE",
        default_value = "baton",
        value_name = "NAME"
    )]
    namespace: String,
}

pub fn run(arguments: &UsersArguments) -> anyhow::Result<()> {
    arguments.check()?;
    arguments.write()
}

impl UsersArguments {
    fn check(&self) -> Result<(), ConfigurationError> {
        let mut faults = Vec::new();
        let fault = RedisOptions::new(&self.at, &self.namespace).check().err();
        faults.extend(fault.map(|fault| format!("--at: {fault}")));
        if self.at.contains('@') {
            faults.push("--at: leave user and password out, they are made here".into());
        }
        faults.extend(namespace_fault(&self.namespace));
        if faults.is_empty() {
            Ok(())
        } else {
            Err(ConfigurationError(faults))
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut rules = one_line_each(RULES);
        for role in ROLES {
            let password = self.password(role)?;
            let hash = Sha256::digest(password).iter().fold(String::new(), hex);
            rules = rules.replace(&format!("#{}", role.to_uppercase()), &format!("#{hash}"));
        }
        rules = rules.replace("NAMESPACE", &self.namespace);
        // Hashes of random passwords, and Redis runs as another user.
        let file = self.dir.join("redis").join("users.acl");
        replace(&file, &rules, 0o644).with_context(|| file.display().to_string())?;
        eprintln!(
            "{} is for Redis: aclfile, or ACL LOAD if it runs",
            file.display()
        );
        Ok(())
    }

    /// The one in the role's URL; of a role that has none, a new one.
    fn password(&self, role: &str) -> anyhow::Result<String> {
        let file = self.dir.join(role).join("url");
        let kept = match fs::read_to_string(&file) {
            Ok(url) => Some(password_of(&url).with_context(|| {
                let file = file.display();
                format!("{file} is no URL with a password: remove it, and there will be a new one")
            })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        let password = kept.unwrap_or_else(|| random_text(PASSWORD_CHARS));
        let (scheme, rest) = self.at.split_once("://").context("checked before")?;
        let url = format!("{scheme}://{}-{role}:{password}@{rest}\n", self.namespace);
        replace(&file, &url, 0o600).with_context(|| file.display().to_string())?;
        Ok(password)
    }
}

fn hex(text: String, byte: &u8) -> String {
    text + &format!("{byte:02x}")
}

fn password_of(url: &str) -> Option<String> {
    let (user, _) = url.split_once("://")?.1.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    (!password.is_empty()).then(|| password.to_owned())
}

/// Redis takes neither comments nor lines that go on.
fn one_line_each(rules: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in rules.lines().filter(|line| !line.starts_with('#')) {
        match lines.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!(" {}", line.trim()),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n") + "\n"
}

/// Others see the old text or the new one, and never a part.
fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        let mut builder = fs::DirBuilder::new();
        let mode = if mode & 0o044 == 0 { 0o700 } else { 0o755 };
        builder.recursive(true).mode(mode).create(directory)?;
    }
    let half = file.with_extension("new");
    let _ = fs::remove_file(&half);
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(mode);
    let mut written = options.open(&half)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(&half, file)
}
