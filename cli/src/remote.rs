//! Options of those who talk to a Baton elsewhere.

use std::path::PathBuf;
use std::time::Duration;

use baton_client::credential::CredentialSource;
use baton_client::options::{GIVE_UP, RENEW_AFTER, endpoint};
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
    access: AccessOptions,
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

// Whom the client trusts, and who it is. Not a doc comment, which would be the help of a command.
#[derive(Args)]
pub struct AccessOptions {
    /// Certificate authorities for https, in PEM
    ///
    /// They replace those of the system.
    #[arg(long, env = "BATON_CA", value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// File with the credential
    ///
    /// The variable BATON_CREDENTIAL can hold the credential itself.
    #[arg(
        long,
        env = "BATON_CREDENTIAL_FILE",
        value_name = "FILE",
        global = true
    )]
    credential_file: Option<PathBuf>,
    /// Shell command that prints the credential
    ///
    /// Runs again when the credential is refused or about to expire.
    #[arg(
        long,
        env = "BATON_CREDENTIAL_COMMAND",
        value_name = "COMMAND",
        global = true
    )]
    credential_command: Option<String>,
}

impl RemoteOptions {
    /// The client's options, or every fault.
    pub fn client(self) -> anyhow::Result<ClientOptions> {
        let mut faults = Vec::new();
        if self.give_up < Duration::from_secs(1) {
            faults.push("--give-up: at least a second".into());
        }
        let options = self.access.client(&self.url, faults)?;
        Ok(ClientOptions {
            transport: match self.transport {
                TransportOption::Auto => StreamTransport::Auto,
                TransportOption::Sse => StreamTransport::Sse,
                TransportOption::Websocket => StreamTransport::WebSocket,
            },
            give_up: self.give_up,
            ..options
        })
    }
}

impl AccessOptions {
    /// The client's options for a URL, or every fault beside those that were found already.
    pub fn client(self, url: &str, mut faults: Vec<String>) -> anyhow::Result<ClientOptions> {
        let url = endpoint(url).unwrap_or_else(|fault| {
            faults.push(format!("URL {fault}"));
            Default::default()
        });
        let ca = self.authorities().unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        let credential = self.credential().unwrap_or_else(|fault| {
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
            transport: StreamTransport::default(),
            credential,
            ca,
            give_up: GIVE_UP,
            renew_after: RENEW_AFTER,
        })
    }

    fn authorities(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(path) = &self.ca else {
            return Ok(None);
        };
        let read = std::fs::read(path);
        read.map(Some)
            .map_err(|error| format!("--ca {}: {error}", path.display()))
    }

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
