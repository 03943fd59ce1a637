//! Forwarding headers of proxies: `Forwarded` (RFC 7239), or the older `X-Forwarded-…`. Only parsed
//! here; `proxies.rs` decides whether they are trusted.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header};

const X_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// One proxy's statement about its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyHop {
    /// `None` if it would not say, or not by address.
    pub address: Option<IpAddr>,
    /// Whether they came with https; `None` if it does not say.
    pub https: Option<bool>,
}

/// All that one kind of header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedChain {
    /// In the order of the way: whoever is nearest comes last.
    pub hops: Vec<ProxyHop>,
    /// The names by which the client asked.
    pub hosts: Vec<String>,
}

/// Not what it should be. A proxy appends to what it was given, so nothing of it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableForwarded;

/// Reads `Forwarded`, if it is there.
pub fn standard(headers: &HeaderMap) -> Result<Option<ForwardedChain>, UnreadableForwarded> {
    let Some(text) = joined(headers, &header::FORWARDED)? else {
        return Ok(None);
    };
    let mut trail = ForwardedChain::default();
    let mut rest = ForwardedScanner(&text);
    loop {
        let element = rest.element()?;
        if let Some(element) = element {
            trail.hops.push(ProxyHop {
                address: element.node.as_deref().and_then(node),
                https: element.proto.as_deref().map(is_https),
            });
            trail.hosts.extend(element.host);
        }
        if !rest.take(',') {
            return if rest.0.is_empty() {
                Ok(Some(trail))
            } else {
                Err(UnreadableForwarded)
            };
        }
    }
}

/// Reads `X-Forwarded-For`, `-Proto` and `-Host`, if one of them is there.
pub fn customary(headers: &HeaderMap) -> Result<Option<ForwardedChain>, UnreadableForwarded> {
    let (nodes, protos, hosts) = (
        joined(headers, &X_FOR)?,
        joined(headers, &X_PROTO)?,
        joined(headers, &X_HOST)?,
    );
    if nodes.is_none() && protos.is_none() && hosts.is_none() {
        return Ok(None);
    }
    let nodes: Vec<_> = listed(&nodes).map(node).collect();
    let protos: Vec<_> = listed(&protos).map(is_https).collect();
    // Some proxies append a protocol to the list as they do with addresses, some replace it: then
    // it is not known whose it is, and all must be good.
    let all = (!protos.is_empty()).then(|| protos.iter().all(|https| *https));
    let https = |at: usize| {
        if protos.len() == nodes.len() {
            Some(protos[at])
        } else {
            all
        }
    };
    let mut hops: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(at, address)| ProxyHop {
            address: *address,
            https: https(at),
        })
        .collect();
    if hops.is_empty() && all.is_some() {
        hops.push(ProxyHop {
            address: None,
            https: all,
        });
    }
    Ok(Some(ForwardedChain {
        hops,
        hosts: listed(&hosts).map(str::to_owned).collect(),
    }))
}

/// Several lines of one header are one list.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, UnreadableForwarded> {
    let mut joined: Option<String> = None;
    for value in headers.get_all(name) {
        let text = value.to_str().map_err(|_| UnreadableForwarded)?;
        match &mut joined {
            Some(joined) => {
                joined.push(',');
                joined.push_str(text);
            }
            None => joined = Some(text.to_owned()),
        }
    }
    Ok(joined)
}

fn listed(list: &Option<String>) -> impl Iterator<Item = &str> {
    let entries = list.iter().flat_map(|list| list.split(','));
    entries.map(str::trim).filter(|entry| !entry.is_empty())
}

fn is_https(proto: &str) -> bool {
    proto.eq_ignore_ascii_case("https") || proto.eq_ignore_ascii_case("wss")
}

/// An address, with or without a port. Anything else is an unknown name.
fn node(text: &str) -> Option<IpAddr> {
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            if !port.is_empty() && !port.starts_with(':') {
                return None;
            }
            IpAddr::V6(address.parse().ok()?)
        }
        None => match text.parse() {
            Ok(address) => address,
            Err(_) => IpAddr::V4(text.split_once(':')?.0.parse().ok()?),
        },
    };
    Some(address.to_canonical())
}

/// The pairs between two commas that are of interest.
#[derive(Default)]
struct ForwardedElement {
    node: Option<String>,
    proto: Option<String>,
    host: Option<String>,
}

/// The rest of the header.
struct ForwardedScanner<'a>(&'a str);

impl ForwardedScanner<'_> {
    /// `None` for an empty one, as lists may have them.
    fn element(&mut self) -> Result<Option<ForwardedElement>, UnreadableForwarded> {
        let mut element = ForwardedElement::default();
        let mut any = false;
        loop {
            self.skip_spaces();
            if let Some(name) = self.token() {
                if !self.take('=') {
                    return Err(UnreadableForwarded);
                }
                let value = self.value()?;
                let known = match name.to_ascii_lowercase().as_str() {
                    "for" => Some(&mut element.node),
                    "proto" => Some(&mut element.proto),
                    "host" => Some(&mut element.host),
                    _ => None,
                };
                if known.is_some_and(|place| place.replace(value).is_some()) {
                    return Err(UnreadableForwarded);
                }
                any = true;
            }
            self.skip_spaces();
            if !self.take(';') {
                return Ok(any.then_some(element));
            }
        }
    }

    fn value(&mut self) -> Result<String, UnreadableForwarded> {
        if !self.take('"') {
            return self.token().ok_or(UnreadableForwarded);
        }
        let mut value = String::new();
        let mut characters = self.0.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Ok(value);
                }
                '\\' => value.push(characters.next().ok_or(UnreadableForwarded)?.1),
                character => value.push(character),
            }
        }
        Err(UnreadableForwarded)
    }

    fn token(&mut self) -> Option<String> {
        let part = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let end = self.0.find(|c| !part(c)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        (!token.is_empty()).then(|| token.to_owned())
    }

    fn take(&mut self, character: char) -> bool {
        let rest = self.0.strip_prefix(character);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn skip_spaces(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn read(value: &'static str) -> Result<ForwardedChain, UnreadableForwarded> {
        standard(&headers(&[("forwarded", value)])).map(Option::unwrap_or_default)
    }

    fn hop(address: &str, https: Option<bool>) -> ProxyHop {
        let address = (!address.is_empty()).then(|| address.parse().unwrap());
        ProxyHop { address, https }
    }

    #[test]
    fn the_standards_own_examples_are_read() {
        let cases = [
            (r#"for="_gazonk""#, vec![hop("", None)]),
            (
                r#"For="[2001:db8:cafe::17]:4711""#,
                vec![hop("2001:db8:cafe::17", None)],
            ),
            (
                "for=192.0.2.60;proto=http;by=203.0.113.43",
                vec![hop("192.0.2.60", Some(false))],
            ),
            (
                "for=192.0.2.43, for=198.51.100.17",
                vec![hop("192.0.2.43", None), hop("198.51.100.17", None)],
            ),
            (
                r#"for=192.0.2.43,for="[2001:db8:cafe::17]",for=unknown"#,
                vec![
                    hop("192.0.2.43", None),
                    hop("2001:db8:cafe::17", None),
                    hop("", None),
                ],
            ),
            (
                r#"for="192.0.2.43:47011";PROTO=HTTPS;host="a.example""#,
                vec![hop("192.0.2.43", Some(true))],
            ),
            (
                r#"for="::1", for="[::ffff:192.0.2.1]:_port""#,
                vec![hop("::1", None), hop("192.0.2.1", None)],
            ),
            ("proto=https", vec![hop("", Some(true))]),
            ("", vec![]),
            (
                ", for=192.0.2.1 ,, ; for=192.0.2.2;",
                vec![hop("192.0.2.1", None), hop("192.0.2.2", None)],
            ),
        ];
        for (text, hops) in cases {
            assert_eq!(read(text).map(|trail| trail.hops), Ok(hops), "{text}");
        }
        let named = read(r#"host=a.example;for=unknown, host="b.example:\8""#).unwrap();
        assert_eq!(named.hosts, ["a.example", "b.example:8"]);
    }

    #[test]
    fn what_is_not_a_list_of_pairs_is_refused_as_a_whole() {
        let broken = [
            "for",
            "for=",
            "=192.0.2.1",
            "for=192.0.2.1 proto=https",
            "for=192.0.2.1;for=192.0.2.2",
            "for=[2001:db8::1]",
            "for=192.0.2.1:80",
            r#"for="192.0.2.1"#,
            r#"for="192.0.2.1\"#,
            r#"for="192.0.2.1"x"#,
            r#"for = 192.0.2.1"#,
            // A client's header must not swallow the part that a proxy appended.
            r#"for="x, for="[2001:db8::1]:80";proto=http"#,
            r#"for="x, for=192.0.2.1"#,
        ];
        for text in broken {
            assert_eq!(read(text), Err(UnreadableForwarded), "{text}");
        }
        let strange = HeaderValue::from_bytes(b"for=\xff").unwrap();
        let headers = HeaderMap::from_iter([(header::FORWARDED, strange)]);
        assert_eq!(standard(&headers), Err(UnreadableForwarded));
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = headers(&[
            ("forwarded", "for=192.0.2.1"),
            ("forwarded", "for=192.0.2.2"),
        ]);
        let trail = standard(&lines).unwrap().unwrap();
        assert_eq!(trail.hops.len(), 2);
        let lines = headers(&[
            ("x-forwarded-for", "192.0.2.1, 192.0.2.2"),
            ("x-forwarded-for", "192.0.2.3"),
        ]);
        let trail = customary(&lines).unwrap().unwrap();
        assert_eq!(trail.hops.last(), Some(&hop("192.0.2.3", None)));
        assert_eq!(customary(&HeaderMap::new()), Ok(None));
        assert_eq!(standard(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn addresses_come_with_and_without_ports() {
        let list = "192.0.2.1, 192.0.2.2:80, 2001:db8::1, [2001:db8::2], [2001:db8::3]:80, \
                    ::ffff:192.0.2.3, unknown, 192.0.2, [192.0.2.1], [::1]x, [::1";
        let lines = headers(&[("x-forwarded-for", list)]);
        let trail = customary(&lines).unwrap().unwrap();
        let addresses: Vec<_> = trail.hops.iter().map(|hop| hop.address).collect();
        let known = [
            "192.0.2.1",
            "192.0.2.2",
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8::3",
            "192.0.2.3",
        ];
        let known = known.iter().map(|text| Some(text.parse().unwrap()));
        let expected: Vec<Option<IpAddr>> = known.chain([None; 5]).collect();
        assert_eq!(addresses, expected);
    }

    #[test]
    fn a_protocol_belongs_to_its_address_or_to_all() {
        let https = |protos: &'static str| {
            let lines = headers(&[
                ("x-forwarded-for", "192.0.2.1, 192.0.2.2"),
                ("x-forwarded-proto", protos),
            ]);
            let trail = customary(&lines).unwrap().unwrap();
            let of = |at: usize| trail.hops[at].https.unwrap();
            (of(0), of(1))
        };
        assert_eq!(https("https, http"), (true, false));
        assert_eq!(https("https"), (true, true));
        assert_eq!(https("http"), (false, false));
        assert_eq!(https("https, https, http"), (false, false));
        assert_eq!(https("wss"), (true, true));
        let alone = headers(&[("x-forwarded-proto", "https")]);
        let trail = customary(&alone).unwrap().unwrap();
        assert_eq!(trail.hops, [hop("", Some(true))]);
    }
}
