//! Options of those who talk to a Baton elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use baton_client::credential::CredentialSource;
use baton_client::options::{RENEW_AFTER, endpoint};
use baton_client::{ClientOptions, Credential, StreamTransport};
use clap::{Args, ValueEnum};

use crate::exit::ConfigurationError;

#[derive(Args)]
pub struct RemoteOptions {
    /// URL of Baton, such as https://baton.example.com
    ///
    /// Without a path it is /acp.
    #[arg(
        env = "BATON_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL"
    )]
    url: String,
    /// Transport for messages from the server
    #[arg(long, env = "BATON_TRANSPORT", default_value = "auto")]
    transport: TransportOption,
    /// Certificate authorities for https, in PEM
    ///
    /// They replace those of the system.
    #[arg(long, env = "BATON_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Time until requests fail while Baton is unreachable, such as 30s or 5m
    #[arg(
        long,
        env = "BATON_GIVE_UP",
        default_value = "5m",
        value_parser = humantime::parse_duration,
        value_name = "TIME"
    )]
    give_up: Duration,
    #[command(flatten)]
    credential: CredentialOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum TransportOption {
    /// WebSocket, or SSE if no WebSocket can be opened
    Auto,
    /// Server-sent events only
    Sse,
    /// WebSocket only
    Websocket,
}

#[derive(Args)]
pub struct CredentialOptions {
    /// File with the credential
    ///
    /// The variable BATON_CREDENTIAL can hold the credential itself.
    #[arg(long, env = "BATON_CREDENTIAL_FILE", value_name = "FILE")]
    credential_file: Option<PathBuf>,
    /// Shell command that prints the credential
    ///
    /// Runs again when the credential is refused or about to expire.
    #[arg(long, env = "BATON_CREDENTIAL_COMMAND", value_name = "COMMAND")]
    credential_command: Option<String>,
}

impl RemoteOptions {
    /// The client's options, or every fault.
    pub fn client(self) -> anyhow::Result<ClientOptions> {
        let mut faults = Vec::new();
        let url = endpoint(&self.url).unwrap_or_else(|fault| {
            faults.push(format!("URL {fault}"));
            Default::default()
        });
        let ca = self.ca.map(|path| {
            let read = std::fs::read(&path);
            read.map_err(|error| format!("--ca {}: {error}", path.display()))
        });
        let ca = ca.transpose().unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        if self.give_up < Duration::from_secs(1) {
            faults.push("--give-up: at least a second".into());
        }
        let credential = self.credential.credential().unwrap_or_else(|fault| {
            faults.push(fault);
            Credential::none()
        });
        if !faults.is_empty() {
            return Err(ConfigurationError(faults).into());
        }
        if !credential.is_none() && baton_client::options::is_readable_on_its_way(&url) {
            tracing::warn!(
                "the credential goes to {url} without TLS: others may read it on its way"
            );
        }
        Ok(ClientOptions {
            url,
            transport: match self.transport {
                TransportOption::Auto => StreamTransport::Auto,
                TransportOption::Sse => StreamTransport::Sse,
                TransportOption::Websocket => StreamTransport::WebSocket,
            },
            credential,
            ca,
            give_up: self.give_up,
            renew_after: RENEW_AFTER,
        })
    }
}

impl CredentialOptions {
    fn credential(self) -> Result<Credential, String> {
        // Not an option: other processes can read a command line.
        let text = std::env::var("BATON_CREDENTIAL").ok();
        let text = text.filter(|text| !text.is_empty());
        let sources = [
            self.credential_file.map(CredentialSource::File),
            self.credential_command.map(CredentialSource::Command),
            text.map(CredentialSource::Text),
        ];
        let mut sources = sources.into_iter().flatten();
        match (sources.next(), sources.next()) {
            (Some(source), None) => Ok(Credential::new(source)),
            (None, _) => Ok(Credential::none()),
            (Some(_), Some(_)) => Err(
                "--credential-file, --credential-command and BATON_CREDENTIAL: give one of them"
                    .into(),
            ),
        }
    }
}
