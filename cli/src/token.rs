//! `baton token`: keys and tokens.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use baton_gateway::auth::ApiKeys;
use baton_session::clock::unix_seconds;
use baton_session::id::{SessionId, random_text};
use baton_session::token::{self, MAX_TOKEN_BYTES, SessionGrant, SigningKeys, TokenScope};
use clap::{Args, Subcommand, ValueEnum};
use jsonwebtoken::Algorithm;
use serde_json::{Value, json};

use crate::exit::ConfigurationError;
use crate::{key_file, revoke};

const MAX_TTL: Duration = Duration::from_secs(24 * 3600);
/// The end of the year 9999, where dates as people write them end.
const LAST_DATE: u64 = 253_402_300_799;
/// Of anything longer nothing would be shown anyway.
const MAX_INPUT: u64 = 64 << 10;

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Print a new key set for --keys
    Keygen {
        /// Signature algorithm
        ///
        /// HS256 is small and fast. With EdDSA and ES256 others can verify tokens without a secret.
        #[arg(long, default_value = "hs256")]
        alg: KeyKind,
        /// File to write instead of standard output; an existing file is kept
        ///
        /// Only its owner can read the file.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print a session token
    Mint(MintArguments),
    /// Print the contents of a token without verifying it
    Inspect {
        /// Token; - or nothing reads it from standard input
        token: Option<String>,
    },
    /// Verify a token: exit code 0 or 1
    Verify {
        #[command(flatten)]
        keys: KeyOption,
        /// Token; - or nothing reads it from standard input
        token: Option<String>,
    },
    /// Print a new API key, and its entry for --auth-keys
    ApiKey {
        /// Principal that the key stands for; it owns the sessions
        #[arg(long, value_name = "NAME")]
        principal: String,
        /// Lifetime, such as 90d; without it the key is valid until it is removed from the file
        #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
        ttl: Option<Duration>,
        /// Agents that the key may use; without it all
        #[arg(long, value_delimiter = ',', value_name = "NAMES")]
        agents: Vec<String>,
        /// Permit only to list, load and watch sessions
        #[arg(long)]
        observe: bool,
    },
    /// Revoke a session, a connection or all connections of a principal, on all gateways
    Revoke(revoke::RevokeArguments),
}

#[derive(Clone, Copy, ValueEnum)]
pub enum KeyKind {
    Hs256,
    Eddsa,
    Es256,
}

#[derive(Args)]
pub struct KeyOption {
    /// Key set of the gateways, or a directory of key sets
    #[arg(long, env = "BATON_KEYS", value_name = "FILE|DIR")]
    keys: PathBuf,
}

#[derive(Args)]
pub struct MintArguments {
    #[command(flatten)]
    keys: KeyOption,
    /// Session that the token opens
    #[arg(long, value_name = "ID")]
    session: String,
    /// Permissions of the token
    #[arg(long, default_value = "control")]
    scope: TokenScopeOption,
    /// Lifetime, up to 24h
    #[arg(
        long,
        default_value = "1h",
        value_parser = humantime::parse_duration,
        value_name = "TIME"
    )]
    ttl: Duration,
    /// Owner of the session
    #[arg(long, default_value = "anonymous", value_name = "NAME")]
    principal: String,
    /// Principal that may watch the session with this token and its own credential
    #[arg(long, value_name = "NAME")]
    share_with: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TokenScopeOption {
    Control,
    Observe,
}

pub async fn run(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Keygen { alg, file } => {
            let algorithm = match alg {
                KeyKind::Hs256 => Algorithm::HS256,
                KeyKind::Eddsa => Algorithm::EdDSA,
                KeyKind::Es256 => Algorithm::ES256,
            };
            match file {
                Some(path) => keep(&path, algorithm)?,
                None => println!("{}", token::generate(algorithm)),
            }
        }
        TokenCommand::Mint(mint) => println!("{}", mint.token()?),
        TokenCommand::Inspect { token } => {
            println!("{:#}", inspect(&given(token)?)?);
            eprintln!("baton: nothing of this was verified: anybody could have written it");
        }
        TokenCommand::Verify { keys, token } => {
            let kind = keys.open()?.ring().verify_any(&given(token)?)?;
            println!("valid: a {kind} token");
        }
        TokenCommand::ApiKey {
            principal,
            ttl,
            agents,
            observe,
        } => {
            let key = format!("bk_{}", random_text(32));
            let mut entry = json!({ "principal": principal, "sha256": ApiKeys::hash(&key) });
            if let Some(ttl) = ttl {
                entry["expires"] = json!(end(ttl)?);
            }
            if !agents.is_empty() {
                entry["agents"] = json!(agents);
            }
            if observe {
                entry["observe"] = json!(true);
            }
            ApiKeys::check(&entry).map_err(|fault| ConfigurationError(vec![fault]))?;
            println!("{:#}", json!({ "key": key, "entry": entry }));
        }
        TokenCommand::Revoke(arguments) => revoke::run(arguments).await?,
    }
    Ok(())
}

impl KeyOption {
    fn open(&self) -> Result<SigningKeys, ConfigurationError> {
        SigningKeys::open(&self.keys)
            .map_err(|fault| ConfigurationError(vec![format!("--keys {fault}")]))
    }
}

impl MintArguments {
    fn token(self) -> anyhow::Result<String> {
        let mut faults = Vec::new();
        if !(Duration::from_secs(1)..=MAX_TTL).contains(&self.ttl) {
            faults.push("--ttl: must be between 1s and 24h".into());
        }
        if self.share_with.is_some() && matches!(self.scope, TokenScopeOption::Control) {
            faults.push(
                "--share-with: what is shared can only be watched, say --scope observe".into(),
            );
        }
        let session = SessionId::parse(&self.session);
        if session.is_none() {
            faults.push(format!("--session {:?}: not a session's id", self.session));
        }
        let keys = self
            .keys
            .open()
            .map_err(|ConfigurationError(more)| faults.extend(more));
        let (Some(session), Ok(keys), true) = (session, keys, faults.is_empty()) else {
            return Err(ConfigurationError(faults).into());
        };
        let scope = match self.scope {
            TokenScopeOption::Control => TokenScope::Control,
            TokenScopeOption::Observe => TokenScope::Observe,
        };
        let mut grant = SessionGrant::new(session, self.principal, scope, self.ttl);
        if let Some(viewer) = self.share_with {
            grant.owner = Some(std::mem::replace(&mut grant.principal, viewer));
        }
        let token = keys.ring().sign_session(&grant);
        if token.expose().len() > MAX_TOKEN_BYTES {
            let fault = "--principal: too long, no gateway would take the token";
            return Err(ConfigurationError(vec![fault.into()]).into());
        }
        Ok(token.expose().to_owned())
    }
}

fn keep(path: &Path, algorithm: Algorithm) -> anyhow::Result<()> {
    let made = key_file::make_once(path, algorithm);
    if made.with_context(|| format!("cannot write --file {}", path.display()))? {
        eprintln!("baton: new keys are in {}", path.display());
    } else {
        eprintln!("baton: {} is there already, and stays", path.display());
    }
    Ok(())
}

/// So long from now, as the file of API keys has it.
fn end(ttl: Duration) -> Result<String, ConfigurationError> {
    let seconds = unix_seconds().saturating_add(ttl.as_secs());
    if ttl < Duration::from_secs(1) || seconds > LAST_DATE {
        let fault = "--ttl: must be at least 1s, and end before the year 10000";
        return Err(ConfigurationError(vec![fault.into()]));
    }
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

fn inspect(token: &str) -> anyhow::Result<Value> {
    let [header, claims] = token::unverified(token)?;
    let date = |claim: &str| {
        let seconds = claims[claim].as_u64().filter(|time| *time <= LAST_DATE)?;
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        Some(humantime::format_rfc3339_seconds(time).to_string())
    };
    Ok(json!({
        "verified": false,
        "issued": date("iat"),
        "expires": date("exp"),
        "header": header,
        "claims": claims,
    }))
}

/// A token on the command line is seen by everybody on the machine, so it may come on standard
/// input.
fn given(token: Option<String>) -> anyhow::Result<String> {
    if let Some(token) = token.filter(|token| token != "-") {
        return Ok(token);
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_INPUT).read_to_string(&mut text);
    read.context("cannot read the token from standard input")?;
    match text.trim() {
        "" => Err(ConfigurationError(vec!["no token: give one on standard input".into()]).into()),
        token => Ok(token.to_owned()),
    }
}
