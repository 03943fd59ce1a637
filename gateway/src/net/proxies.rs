//! Which proxies are believed, and what follows from what they say. Anybody can write a header;
//! only what was added by somebody known counts.

use std::net::IpAddr;

use axum::http::HeaderMap;
use ipnet::IpNet;

use super::forwarded::{self, ForwardedChain};
use super::peer::ClientPeer;
use crate::error::GatewayError;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

/// A request's peer, and what else is known of the way it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPeer {
    pub peer: ClientPeer,
    /// By which names the proxies were asked for it.
    pub hosts: Vec<String>,
}

impl TrustedProxies {
    /// Networks such as 10.0.0.0/8, or single addresses. Reports all invalid entries together.
    pub fn parse(list: &[String]) -> Result<Self, Vec<String>> {
        let (mut networks, mut faults) = (Vec::new(), Vec::new());
        for text in list.iter().map(|text| text.trim()) {
            let address = text.parse::<IpAddr>().map(IpNet::from).ok();
            match address.or_else(|| text.parse().ok()) {
                Some(network) => networks.push(network),
                None => faults.push(format!(
                    "{text:?}: a network such as 10.0.0.0/8 or 2001:db8::/32, or an address"
                )),
            }
        }
        if faults.is_empty() {
            Ok(Self(networks))
        } else {
            Err(faults)
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Anybody could be one of them.
    pub fn are_everybody(&self) -> bool {
        self.0.iter().any(|network| network.prefix_len() == 0)
    }

    pub fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Resolves the client, given the peer of the socket.
    pub fn arrival(
        &self,
        nearest: ClientPeer,
        headers: &HeaderMap,
    ) -> Result<ResolvedPeer, GatewayError> {
        if !self.trust(nearest.address) {
            return Ok(ResolvedPeer {
                peer: nearest,
                hosts: Vec::new(),
            });
        }
        let unreadable = |_| GatewayError::Forwarded(UNREADABLE);
        let standard = forwarded::standard(headers).map_err(unreadable)?;
        let customary = forwarded::customary(headers).map_err(unreadable)?;
        let has_hops = |trail: &ForwardedChain| !trail.hops.is_empty();
        let followed = |trail: &ForwardedChain| self.follow(trail);
        let seen = (
            standard
                .as_ref()
                .filter(|trail| has_hops(trail))
                .map(followed),
            customary
                .as_ref()
                .filter(|trail| has_hops(trail))
                .map(followed),
        );
        let peer = match seen {
            (None, None) => nearest,
            (Some((address, secure)), None) | (None, Some((address, secure))) => ClientPeer {
                address: address.unwrap_or(nearest.address),
                secure: secure.unwrap_or(nearest.secure),
            },
            // A proxy that knows one of the two passes on the other as a client sent it.
            (Some(one), Some(other)) => {
                if other.0.is_some() && one.0 != other.0 {
                    return Err(GatewayError::Forwarded(CONTRADICTION));
                }
                ClientPeer {
                    address: one.0.unwrap_or(nearest.address),
                    secure: (one.1, other.1) == (Some(true), Some(true)),
                }
            }
        };
        let hosts = [standard, customary].into_iter().flatten();
        Ok(ResolvedPeer {
            peer,
            hosts: hosts.flat_map(|trail| trail.hosts).collect(),
        })
    }

    /// Back along the way, as long as those who tell are trusted. The last of them says who the
    /// client is and whether it came with https, if anything is said about that at all.
    fn follow(&self, trail: &ForwardedChain) -> (Option<IpAddr>, Option<bool>) {
        let (mut address, mut secure) = (None, None);
        let has_hops = trail.hops.iter().any(|hop| hop.https.is_some());
        for hop in trail.hops.iter().rev() {
            secure = has_hops.then_some(hop.https == Some(true));
            // Where the trail is lost, the last proxy stands for all beyond it.
            let Some(next) = hop.address else { break };
            address = Some(next);
            if !self.trust(next) {
                break;
            }
        }
        (address, secure)
    }
}

const UNREADABLE: &str = "a proxy's Forwarded or X-Forwarded-… header cannot be read: it should \
    replace what clients send, or append to it only what is well-formed";
const CONTRADICTION: &str = "Forwarded and X-Forwarded-For name different clients: the proxy \
    should remove the one that it does not write itself";

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn arrival(
        from: &str,
        secure: bool,
        lines: &[(&'static str, &'static str)],
    ) -> Option<(String, bool)> {
        let list = ["10.0.0.0/8", "192.0.2.9", "fd00::/8"].map(str::to_owned);
        let proxies = TrustedProxies::parse(&list).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let nearest = ClientPeer {
            address: from.parse().unwrap(),
            secure,
        };
        let peer = proxies.arrival(nearest, &headers).ok()?.peer;
        Some((peer.address.to_string(), peer.secure))
    }

    fn is(address: &str, secure: bool) -> Option<(String, bool)> {
        Some((address.to_owned(), secure))
    }

    #[test]
    fn strangers_are_not_listened_to() {
        let said = [
            ("x-forwarded-for", "203.0.113.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "localhost"),
        ];
        assert_eq!(arrival("192.0.2.8", false, &said), is("192.0.2.8", false));
        let said = [("forwarded", "for=203.0.113.1;proto=https")];
        assert_eq!(arrival("192.0.2.8", false, &said), is("192.0.2.8", false));
        // Not even if it makes no sense.
        let said = [("forwarded", "\"")];
        assert_eq!(arrival("192.0.2.8", true, &said), is("192.0.2.8", true));
        assert_eq!(arrival("10.1.1.1", true, &said), None);
    }

    #[test]
    fn the_way_is_walked_back_past_trusted_hops_only() {
        // The first entry is what the client made up.
        let said = [
            (
                "x-forwarded-for",
                "127.0.0.1, 203.0.113.1, 10.2.2.2, 192.0.2.9",
            ),
            ("x-forwarded-proto", "https"),
        ];
        assert_eq!(arrival("10.1.1.1", false, &said), is("203.0.113.1", true));
        let said = [(
            "forwarded",
            concat!(
                r#"for=127.0.0.1;proto=https, for="[2001:db8::1]:80";proto=http, "#,
                r#"for="[fd00::1]";proto=https"#
            ),
        )];
        assert_eq!(arrival("10.1.1.1", false, &said), is("2001:db8::1", false));
        // All of them trusted: the farthest.
        let said = [("x-forwarded-for", "10.3.3.3, 10.2.2.2")];
        assert_eq!(arrival("10.1.1.1", true, &said), is("10.3.3.3", true));
        // One that is not named ends the way.
        let said = [(
            "forwarded",
            "for=203.0.113.1;proto=http, for=_hidden;proto=https",
        )];
        assert_eq!(arrival("10.1.1.1", false, &said), is("10.1.1.1", true));
        assert_eq!(arrival("10.1.1.1", false, &[]), is("10.1.1.1", false));
    }

    #[test]
    fn a_trusted_proxy_knows_better_than_the_socket() {
        let said = [
            ("x-forwarded-for", "203.0.113.1"),
            ("x-forwarded-proto", "http"),
        ];
        assert_eq!(arrival("10.1.1.1", true, &said), is("203.0.113.1", false));
        // It says nothing of the protocol.
        let said = [("x-forwarded-for", "203.0.113.1")];
        assert_eq!(arrival("10.1.1.1", true, &said), is("203.0.113.1", true));
        assert_eq!(arrival("10.1.1.1", false, &said), is("203.0.113.1", false));
        // One hop does not speak for another.
        let said = [("forwarded", "for=203.0.113.1, for=10.2.2.2;proto=https")];
        assert_eq!(arrival("10.1.1.1", false, &said), is("203.0.113.1", false));
    }

    #[test]
    fn two_kinds_of_headers_must_agree() {
        let said = [
            ("forwarded", "for=203.0.113.1;proto=https"),
            ("x-forwarded-for", "203.0.113.1"),
            ("x-forwarded-proto", "https"),
        ];
        assert_eq!(arrival("10.1.1.1", false, &said), is("203.0.113.1", true));
        assert_eq!(
            arrival("10.1.1.1", false, &said[..2]),
            is("203.0.113.1", false)
        );
        let said = [
            ("forwarded", "for=127.0.0.1;proto=https"),
            ("x-forwarded-for", "203.0.113.1"),
        ];
        assert_eq!(arrival("10.1.1.1", false, &said), None);
        // Only one of them names anybody.
        let said = [
            ("forwarded", "for=203.0.113.1;proto=https"),
            ("x-forwarded-host", "baton.example"),
            ("x-forwarded-proto", "http"),
        ];
        assert_eq!(
            arrival("10.1.1.1", false, &said[..2]),
            is("203.0.113.1", true)
        );
        assert_eq!(arrival("10.1.1.1", false, &said), is("203.0.113.1", false));
    }

    #[test]
    fn a_list_says_all_that_is_wrong_with_it() {
        let list = ["10.0.0.0/33", " 10.0.0.0/8", "nginx", ""].map(str::to_owned);
        assert_eq!(TrustedProxies::parse(&list).unwrap_err().len(), 3);
        let list = ["0.0.0.0/0".to_owned()];
        assert!(TrustedProxies::parse(&list).unwrap().are_everybody());
        let some = TrustedProxies::parse(&["10.0.0.0/8".to_owned()]).unwrap();
        assert!(!some.are_everybody() && !some.is_empty());
        assert!(TrustedProxies::parse(&[]).unwrap().is_empty());
    }
}
