//! Where administrators are heard, and what they bring: on a gateway's side and on theirs.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use baton_gateway::admin::{AdminListener, AdminSecret, AdminSocket, MIN_SECRET};
use clap::Args;
use tokio::net::TcpListener;

use crate::headings::ADMINISTRATION;

pub mod caller;
pub mod place;

#[derive(Clone, Debug)]
pub enum AdminAddress {
    Nowhere,
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::Nowhere);
        }
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: needs the path of a socket".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| "unix:PATH, an address such as 127.0.0.1:9090, or none".into()),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => write!(f, "none"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

#[derive(Args)]
pub struct AdminOptions {
    /// Socket or address for administrators
    ///
    /// Serves `baton token revoke` and `baton store backup`. unix:PATH is a socket that only this
    /// user can open; an address and port needs --admin-token-file. Without this option it is a
    /// socket that those commands find by themselves.
    #[arg(
        long,
        env = "BATON_ADMIN_LISTEN",
        value_name = "unix:PATH|ADDR|none",
        help_heading = ADMINISTRATION
    )]
    admin_listen: Option<AdminAddress>,
    /// File with the secret of administrators, 32 characters or more
    #[arg(long, env = "BATON_ADMIN_TOKEN_FILE", value_name = "FILE", help_heading = ADMINISTRATION)]
    admin_token_file: Option<PathBuf>,
}

impl AdminOptions {
    pub fn faults(&self, insecure: bool) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(address) = &self.admin_listen else {
            return faults;
        };
        if let AdminAddress::Tcp(tcp) = address {
            if self.admin_token_file.is_none() {
                faults.push(format!(
                    "--admin-listen {address}: every process on this machine could revoke \
                     everything. Use --admin-listen unix:PATH, or name a file with a secret: \
                     --admin-token-file"
                ));
            }
            if !tcp.ip().is_loopback() && !insecure {
                faults.push(format!(
                    "--admin-listen {address}: its secret could be read on its way. Listen on \
                     127.0.0.1 or on unix:PATH, or say --insecure"
                ));
            }
        }
        faults.extend(self.secret().err());
        faults
    }

    fn secret(&self) -> Result<Option<AdminSecret>, String> {
        let file = self.admin_token_file.as_deref();
        let secret = file.map(read_secret).transpose()?;
        Ok(secret.map(|secret| AdminSecret::new(&secret)))
    }

    /// Before anything else is started, so that a place that is taken is known at once. `port` is
    /// where callers are heard.
    pub async fn bind(&self, port: u16) -> anyhow::Result<Option<AdminListener>> {
        let socket = match &self.admin_listen {
            Some(AdminAddress::Nowhere) => return Ok(None),
            Some(address @ AdminAddress::Unix(path)) => {
                self.bound(address, AdminSocket::unix(path))?
            }
            Some(address @ AdminAddress::Tcp(tcp)) => {
                self.bound(address, TcpListener::bind(tcp).await.map(AdminSocket::Tcp))?
            }
            // The operator did not ask for a socket, so the gateway starts without one if it cannot
            // be made.
            None => match place::bind(port, AdminSocket::unix) {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::info!(
                        %error,
                        "administrators are not heard: there is no place for their socket. Choose \
                         one with --admin-listen"
                    );
                    return Ok(None);
                }
            },
        };
        if let AdminSocket::Unix(_, path) = &socket {
            tracing::info!(socket = %path.display(), "administrators are heard");
        }
        let secret = self.secret().map_err(anyhow::Error::msg)?;
        Ok(Some(AdminListener {
            socket,
            secret,
            files: None,
        }))
    }

    fn bound(
        &self,
        address: &AdminAddress,
        socket: std::io::Result<AdminSocket>,
    ) -> anyhow::Result<AdminSocket> {
        socket.with_context(|| format!("cannot listen on {address}: choose with --admin-listen"))
    }

    /// The file that agents must not read.
    pub fn kept(&self) -> Option<PathBuf> {
        self.admin_token_file.clone()
    }
}

/// Whether there is a socket, and where.
pub fn socket(door: Option<&AdminListener>) -> Option<PathBuf> {
    match &door?.socket {
        AdminSocket::Unix(_, path) => Some(path.clone()),
        AdminSocket::Tcp(_) => None,
    }
}

/// Where the door is, as commands on this machine name it.
pub fn address(door: &AdminListener) -> std::io::Result<String> {
    match &door.socket {
        AdminSocket::Unix(_, path) => Ok(format!("unix:{}", std::path::absolute(path)?.display())),
        AdminSocket::Tcp(listener) => {
            let mut address = listener.local_addr()?;
            if address.ip().is_unspecified() {
                address.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            Ok(format!("http://{address}"))
        }
    }
}

/// Reads the secret from the file, without the line feed at its end.
pub fn read_secret(file: &Path) -> Result<String, String> {
    let named = |fault: &str| format!("--admin-token-file {}: {fault}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| named(&error.to_string()))?;
    let secret = text.trim();
    let fits = secret.len() >= MIN_SECRET && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(secret.to_owned())
    } else {
        Err(named(
            "one line of 32 or more visible ASCII characters, as of `openssl rand -hex 32`",
        ))
    }
}
