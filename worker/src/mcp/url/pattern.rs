//! One entry of `--allow-mcp-url`.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use url::{Host, Url};

use crate::mcp::reach::{AddressReach, reach};

/// `[SCHEME://]HOST[:PORT][/PATH]`. Without a scheme it is https, without a port the scheme's own;
/// `:*` is any. The host is a name, `*.` and a name, an address, or `*`. Or a network instead, for
/// any port.
#[derive(Clone, Debug)]
pub struct UrlPattern {
    scheme: &'static str,
    host: HostPattern,
    /// `None` is any.
    port: Option<u16>,
    path: String,
}

#[derive(Clone, Debug)]
enum HostPattern {
    Any,
    Under(String),
    Name(String),
    Address(IpAddr),
    Within(IpNet),
}

#[derive(Debug, thiserror::Error)]
#[error(
    "such as https://mcp.example.com/v1, *.example.com, http://localhost:*, 10.0.0.0/8, https://* \
     for any public host, or none"
)]
pub struct InvalidUrlPattern;

impl UrlPattern {
    /// Whether it speaks of such URLs.
    pub(in crate::mcp) fn fits(&self, url: &Url) -> bool {
        let name = url.host_str().unwrap_or_default();
        let name = name.strip_suffix('.').unwrap_or(name);
        let host = match &self.host {
            HostPattern::Any => true,
            HostPattern::Name(it) => name == it,
            HostPattern::Under(it) => {
                let under = name
                    .strip_suffix(it)
                    .and_then(|rest| rest.strip_suffix('.'));
                under.is_some_and(|rest| !rest.is_empty())
            }
            HostPattern::Address(it) => literal(url) == Some(*it),
            HostPattern::Within(_) => true,
        };
        let port = self
            .port
            .is_none_or(|port| url.port_or_known_default() == Some(port));
        host && port && url.scheme() == self.scheme && self.leads_to(url.path())
    }

    /// Whether a host may have this address. A name that is given in full may be a neighbour's;
    /// what is neither public nor private has to be listed as what it is.
    pub(in crate::mcp) fn admits(&self, address: IpAddr) -> bool {
        match &self.host {
            HostPattern::Any | HostPattern::Under(_) => reach(address) == AddressReach::Public,
            HostPattern::Name(_) => reach(address) <= AddressReach::Private,
            HostPattern::Address(it) => address.to_canonical() == *it,
            HostPattern::Within(net) => net.contains(&address.to_canonical()),
        }
    }

    /// It speaks of addresses, not of hosts.
    pub(super) fn is_network(&self) -> bool {
        matches!(self.host, HostPattern::Within(_))
    }

    /// Beneath the path, and not by a detour that a server might see and others don't.
    fn leads_to(&self, path: &str) -> bool {
        let lower = path.to_ascii_lowercase();
        let detour = ["%2e", "%2f", "%5c"].iter().any(|it| lower.contains(it));
        let beneath = path.strip_prefix(&self.path);
        self.path.is_empty()
            || !detour && beneath.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The address, if the URL names one.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.to_canonical()),
        Host::Domain(_) => None,
    }
}

impl FromStr for UrlPattern {
    type Err = InvalidUrlPattern;

    fn from_str(text: &str) -> Result<Self, InvalidUrlPattern> {
        let (scheme, rest) = match text.split_once("://") {
            None | Some(("https", _)) => ("https", text.strip_prefix("https://").unwrap_or(text)),
            Some(("http", rest)) => ("http", rest),
            Some(_) => return Err(InvalidUrlPattern),
        };
        if let Some(net) = network(rest) {
            return Ok(Self {
                scheme,
                host: HostPattern::Within(net),
                port: None,
                path: String::new(),
            });
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let default = Some(if scheme == "http" { 80 } else { 443 });
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, "*")) => (host, None),
            Some((host, port)) if !port.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| InvalidUrlPattern)?))
            }
            _ => (authority, default),
        };
        let host = host_pattern(host)?;
        // A network that is none.
        let slip = |path: &str| !path.is_empty() && path.bytes().all(|c| c.is_ascii_digit());
        let slip = matches!(host, HostPattern::Address(_)) && slip(&path[path.len().min(1)..]);
        if slip || path.contains(['*', '?', '#', '%']) {
            return Err(InvalidUrlPattern);
        }
        Ok(Self {
            scheme,
            host,
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }
}

fn network(text: &str) -> Option<IpNet> {
    let plain = text.replace(['[', ']'], "");
    plain.parse().ok()
}

fn host_pattern(text: &str) -> Result<HostPattern, InvalidUrlPattern> {
    let (under, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None if text == "*" => return Ok(HostPattern::Any),
        None => (false, text),
    };
    let plain = |name: &str| {
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    match Host::parse(name) {
        Ok(Host::Domain(name)) if !plain(&name) => Err(InvalidUrlPattern),
        Ok(Host::Domain(name)) if under => Ok(HostPattern::Under(name)),
        Ok(Host::Domain(name)) => Ok(HostPattern::Name(name)),
        Ok(Host::Ipv4(address)) if !under => Ok(HostPattern::Address(address.into())),
        Ok(Host::Ipv6(address)) if !under => Ok(HostPattern::Address(address.to_canonical())),
        _ => Err(InvalidUrlPattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, url: &str) -> bool {
        let pattern: UrlPattern = pattern.parse().unwrap_or_else(|_| panic!("{pattern}"));
        pattern.fits(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_pattern_speaks_of_scheme_host_port_and_path() {
        for (pattern, url) in [
            ("mcp.example.com", "https://mcp.example.com/any?x"),
            ("mcp.example.com", "https://MCP.Example.Com./"),
            (
                "https://mcp.example.com:8443",
                "https://mcp.example.com:8443/",
            ),
            ("mcp.example.com:*", "https://mcp.example.com:8443/"),
            ("https://example.com/mcp", "https://example.com/mcp"),
            ("https://example.com/mcp/", "https://example.com/mcp/v1"),
            ("*.example.com", "https://a.example.com/"),
            ("*.example.com", "https://a.b.example.com/"),
            ("http://[::1]:*", "http://[::1]:9/"),
            ("*", "https://anything/"),
        ] {
            assert!(fits(pattern, url), "{pattern}: {url}");
        }
        for (pattern, url) in [
            ("mcp.example.com", "http://mcp.example.com/"),
            ("mcp.example.com", "https://mcp.example.com:8443/"),
            ("mcp.example.com", "https://mcp.example.com.evil.net/"),
            ("mcp.example.com", "https://evil-mcp.example.com/"),
            ("*.example.com", "https://example.com/"),
            ("*.example.com", "https://evilexample.com/"),
            ("*.example.com", "https://.example.com/"),
            ("https://example.com/mcp", "https://example.com/mcpx"),
            (
                "https://example.com/mcp",
                "https://example.com/mcp/../admin",
            ),
            (
                "https://example.com/mcp",
                "https://example.com/mcp/%2e%2e/admin",
            ),
            (
                "https://example.com/mcp",
                "https://example.com/mcp/..%2fadmin",
            ),
            (
                "https://example.com/mcp",
                "https://example.com/mcp/..%5Cadmin",
            ),
            ("https://example.com/mcp", "https://example.com/MCP"),
        ] {
            assert!(!fits(pattern, url), "{pattern}: {url}");
        }
    }

    #[test]
    fn a_pattern_that_means_nothing_is_a_fault() {
        for bad in [
            "",
            "ftp://a",
            "a*",
            "*.*",
            "*.10.0.0.1",
            "a b",
            "a:b",
            "a:99999",
            "https://",
            "a@b",
            "a/*",
            "10.0.0.0/33",
            "a/b?c",
        ] {
            assert!(bad.parse::<UrlPattern>().is_err(), "{bad:?}");
        }
    }
}
