//! Where Redis is, as the URL says: one server, a Cluster, or whatever a group of sentinels calls
//! the primary; with or without TLS and a user. Nothing here prints a password.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisError,
    TlsCertificates,
};

use super::login::ServerLogin;
use super::sentinel::SentinelGroup;
use super::slots::ClusterSlots;

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

const SENTINEL_PORT: u16 = 26379;
const REDIS_PORT: u16 = 6379;
const FORM: &str = "must be redis://[USER:PASSWORD@]HOST:PORT[/DB], \
                    redis+cluster://[USER:PASSWORD@]HOST:PORT,… or \
                    redis+sentinel://[USER:PASSWORD@]HOST:PORT,…/PRIMARY[/DB], with rediss for \
                    TLS; special characters in a password are written as %XX";

/// Host and port.
pub(super) type ServerAddress = (String, u16);

#[derive(Clone)]
pub(super) struct RedisServers {
    pub kind: ServerKind,
    hosts: String,
}

#[derive(Clone)]
pub(super) enum ServerKind {
    One(Arc<ServerLogin>),
    Cluster(Arc<ClusterSlots>),
    Sentinel(Arc<SentinelGroup>),
}

/// The parts of a URL, still encoded.
struct UrlParts<'a> {
    scheme: &'a str,
    shape: &'a str,
    user: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: &'a str,
    query: &'a str,
}

impl RedisServers {
    /// `ca` are the certificates to trust, in PEM, instead of the system's.
    pub fn parse(url: &str, ca: Option<&[u8]>) -> Result<Self, String> {
        let parts = UrlParts::of(url).ok_or(FORM)?;
        if parts.shape != "sentinel" && !parts.query.is_empty() {
            return Err(FORM.into());
        }
        let certificates = match (parts.scheme, ca) {
            ("rediss", Some(ca)) => Some(TlsCertificates {
                client_tls: None,
                root_cert: Some(ca.to_vec()),
            }),
            ("redis", Some(_)) => {
                return Err(
                    "certificates are given, but the URL doesn't ask for TLS: write rediss \
                     instead of redis"
                        .into(),
                );
            }
            _ => None,
        };
        if parts.scheme == "rediss" {
            // Nothing else in the process chooses one; a second call changes nothing.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let login = |info| ServerLogin::new(info, certificates.clone());
        let kind = match parts.shape {
            "cluster" => {
                let seeds = parts.infos(parts.user, REDIS_PORT, "")?;
                ServerKind::Cluster(Arc::new(ClusterSlots::new(
                    seeds.into_iter().map(login).collect(),
                )))
            }
            "sentinel" => {
                let (name, database) = parts.path.split_once('/').unwrap_or((parts.path, ""));
                if name.is_empty() {
                    return Err("the primary's name is missing: \
                                redis+sentinel://HOST:PORT,…/PRIMARY"
                        .into());
                }
                let own = parts.sentinel_user()?;
                let primary = parts.infos(parts.user, SENTINEL_PORT, database)?.remove(0);
                let sentinels = parts.infos(own.as_deref(), SENTINEL_PORT, "")?;
                let sentinels = sentinels.into_iter().map(login).collect();
                ServerKind::Sentinel(Arc::new(SentinelGroup::new(
                    name,
                    sentinels,
                    login(primary),
                )))
            }
            _ if parts.hosts.len() > 1 => return Err(FORM.into()),
            _ => {
                let mut infos = parts.infos(parts.user, REDIS_PORT, parts.path)?;
                ServerKind::One(Arc::new(login(infos.remove(0))))
            }
        };
        let servers = Self {
            kind,
            hosts: parts.hosts.join(","),
        };
        // Whether the certificates can be read shows here rather than at the first connection.
        servers.login().check().map_err(|error| error.to_string())?;
        Ok(servers)
    }

    fn login(&self) -> &ServerLogin {
        match &self.kind {
            ServerKind::One(login) => login,
            ServerKind::Cluster(slots) => slots.login(),
            ServerKind::Sentinel(sentinels) => sentinels.login(),
        }
    }

    /// Keeps up with failovers and moved slots, as long as the process runs.
    pub fn follow(&self) {
        match &self.kind {
            ServerKind::Sentinel(sentinels) => sentinels.follow(),
            ServerKind::Cluster(slots) => slots.follow(),
            ServerKind::One(_) => {}
        }
    }

    /// A connection to the one server, or to the primary that the sentinels name.
    pub async fn dial(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Option<ServerAddress>), RedisError> {
        match &self.kind {
            ServerKind::Sentinel(sentinels) => sentinels.dial(config).await,
            ServerKind::One(login) => Ok((login.dial(config).await?, None)),
            ServerKind::Cluster(_) => unreachable!("a line to a node names the node"),
        }
    }

    /// Returns when another server than this one has become the primary.
    pub async fn moved(&self, from: Option<&ServerAddress>) {
        match &self.kind {
            ServerKind::Sentinel(sentinels) => sentinels.moved(from).await,
            _ => std::future::pending().await,
        }
    }

    pub fn is_primary(&self, address: Option<&ServerAddress>) -> bool {
        match &self.kind {
            ServerKind::Sentinel(sentinels) => sentinels.is_primary(address),
            _ => true,
        }
    }
}

/// For messages: hosts and ports, nothing secret.
impl fmt::Display for RedisServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hosts)
    }
}

pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
}

impl<'a> UrlParts<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let (scheme, shape) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !["redis", "rediss"].contains(&scheme) || !["", "cluster", "sentinel"].contains(&shape) {
            return None;
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts: Vec<&str> = hosts.split(',').collect();
        (!hosts.contains(&"")).then_some(Self {
            scheme,
            shape,
            user,
            hosts,
            path,
            query,
        })
    }

    /// How to reach each host. The crate's own parser does the rest: decoding, numbers, IPv6.
    fn infos(
        &self,
        user: Option<&str>,
        port: u16,
        database: &str,
    ) -> Result<Vec<ConnectionInfo>, String> {
        let user = user.map_or_else(String::new, |user| format!("{user}@"));
        let info = |host: &&str| {
            let bare = !host.ends_with(']') && host.contains(':');
            let port = if bare {
                String::new()
            } else {
                format!(":{port}")
            };
            let url = format!("{}://{user}{host}{port}/{database}", self.scheme);
            let info = url.into_connection_info().map_err(|_| FORM)?;
            let redis = info
                .redis_settings()
                .clone()
                .set_protocol(ProtocolVersion::RESP3);
            let tcp = TcpSettings::default().set_nodelay(true);
            Ok(info.set_redis_settings(redis).set_tcp_settings(tcp))
        };
        self.hosts.iter().map(info).collect()
    }

    /// User and password for the sentinels themselves.
    fn sentinel_user(&self) -> Result<Option<String>, String> {
        let (mut user, mut password) = ("", None);
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sentinel_user", value)) => user = value,
                Some(("sentinel_password", value)) => password = Some(value),
                _ => {
                    return Err(
                        "after ? only sentinel_user=… and sentinel_password=… are known".into(),
                    );
                }
            }
        }
        Ok(password.map(|password| format!("{user}:{password}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infos(url: &str) -> Vec<ConnectionInfo> {
        let kind = RedisServers::parse(url, None).unwrap().kind;
        match &kind {
            ServerKind::One(login) => vec![login.info().clone()],
            ServerKind::Cluster(slots) => slots.seeds().map(|seed| seed.info().clone()).collect(),
            ServerKind::Sentinel(_) => panic!("the sentinels know"),
        }
    }

    fn one(url: &str) -> ConnectionInfo {
        infos(url).remove(0)
    }

    #[test]
    fn a_url_names_hosts_user_password_and_database() {
        let info = one("redis://me:s%40crét@example.org:7000/3");
        assert_eq!(info.addr().to_string(), "example.org:7000");
        assert_eq!(info.redis_settings().username(), Some("me"));
        assert_eq!(info.redis_settings().password(), Some("s@crét"));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(one("redis://[::1]").addr().to_string(), "::1:6379");
        let nodes = infos("redis+cluster://me:pw@a:1,b:2");
        assert_eq!(nodes.len(), 2);
        for node in &nodes {
            assert_eq!(node.redis_settings().password(), Some("pw"));
        }
    }

    #[test]
    fn what_is_shown_has_no_password() {
        for url in [
            "redis://me:secret@a:1/2",
            "redis+cluster://:secret@a:1,b:2",
            "redis+sentinel://me:secret@a:1,b/name/2?sentinel_password=secret",
        ] {
            let shown = RedisServers::parse(url, None).unwrap().to_string();
            assert!(
                shown.starts_with("a:1") && !shown.contains("secret"),
                "{shown}"
            );
        }
        for url in [
            "redis://me:secret@",
            "redis://me:secret@a:port",
            "http://me:secret@a:1",
            "redis+sentinel://me:secret@a:1",
            "redis+sentinel://me:secret@a:1/name?password=secret",
            "redis://a:1/?sentinel_password=secret@b",
            "me:secret",
        ] {
            let fault = RedisServers::parse(url, None).err().unwrap_or_default();
            assert!(
                !fault.is_empty() && !fault.contains("secret"),
                "{url}: {fault}"
            );
        }
    }
}
