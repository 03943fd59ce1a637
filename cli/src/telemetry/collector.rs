//! Where a signal goes: what the option and OpenTelemetry's variables say about the collector.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use super::signal::OtlpSignal;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    Grpc,
    Http,
}

pub struct OtlpCollector {
    pub url: String,
    pub protocol: OtlpProtocol,
    pub timeout: Duration,
    /// Headers for the collector, such as a key. The exporter of spans reads them itself.
    pub headers: HeaderMap,
}

/// As it was given, and the name by which.
pub struct CollectorEndpoint {
    pub name: String,
    pub url: String,
}

impl CollectorEndpoint {
    /// The option counts more than the variables.
    pub fn of(signal: OtlpSignal, option: Option<&str>) -> Option<Self> {
        let option = option.filter(|url| !url.is_empty());
        let given = option.map(|url| ("--otlp-endpoint".to_owned(), url.to_owned()));
        let (name, url) = given.or_else(|| signal.variable("ENDPOINT"))?;
        Some(Self { name, url })
    }

    fn is_url(&self) -> bool {
        Url::parse(&self.url)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    }
}

impl OtlpCollector {
    pub fn of(signal: OtlpSignal, endpoint: CollectorEndpoint) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let protocol = protocol(signal).unwrap_or_else(|fault| {
            faults.push(fault);
            OtlpProtocol::Http
        });
        if let Some((name, value)) = signal.variable("COMPRESSION")
            && value != "none"
        {
            faults.push(format!("{name}: must be none, or not set"));
        }
        let headers = headers(signal).unwrap_or_else(|fault| {
            faults.push(fault);
            HeaderMap::new()
        });
        if !endpoint.is_url() {
            // Not what was given: there may be a password in it.
            faults.push(format!(
                "{}: must be a URL of http or https, such as http://127.0.0.1:4318",
                endpoint.name
            ));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        // The standard has one base for all signals, or an address for this one.
        let whole = signal.owns(&endpoint.name) || protocol == OtlpProtocol::Grpc;
        Ok(Self {
            url: if whole {
                endpoint.url
            } else {
                format!(
                    "{}/v1/{}",
                    endpoint.url.trim_end_matches('/'),
                    signal.name()
                )
            },
            protocol,
            timeout: timeout(signal),
            headers,
        })
    }
}

fn protocol(signal: OtlpSignal) -> Result<OtlpProtocol, String> {
    let Some((name, given)) = signal.variable("PROTOCOL") else {
        return Ok(OtlpProtocol::Http);
    };
    match given.as_str() {
        "http/protobuf" => Ok(OtlpProtocol::Http),
        "grpc" => Ok(OtlpProtocol::Grpc),
        other => Err(format!("{name} {other:?}: must be grpc or http/protobuf")),
    }
}

fn timeout(signal: OtlpSignal) -> Duration {
    let given = signal.variable("TIMEOUT");
    let given = given.and_then(|(_, given)| given.parse().ok());
    given.map_or(DEFAULT_TIMEOUT, Duration::from_millis)
}

fn headers(signal: OtlpSignal) -> Result<HeaderMap, String> {
    let Some((name, given)) = signal.variable("HEADERS") else {
        return Ok(HeaderMap::new());
    };
    // Not what was given: it is a secret.
    parse_headers(&given).ok_or_else(|| {
        format!("{name}: must be headers as name=value,name=value, with values as in a URL")
    })
}

/// Values are marked as secrets, and libraries then keep them out of their logs.
fn parse_headers(given: &str) -> Option<HeaderMap> {
    let pairs = given.split(',').map(str::trim);
    let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value: Vec<u8> = percent_decode_str(value.trim()).collect();
        let mut value = HeaderValue::from_bytes(&value).ok()?;
        value.set_sensitive(true);
        Some((name.trim().parse::<HeaderName>().ok()?, value))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_standard_has_them() {
        let headers = parse_headers("authorization=Bearer%20a=b, x-Tenant = one ,").expect("good");
        assert_eq!(headers["authorization"], "Bearer a=b");
        assert_eq!(headers["x-tenant"], "one");
        assert_eq!(headers.len(), 2);
        assert!(!format!("{headers:?}").contains("Bearer"), "{headers:?}");
        for bad in ["secret", "a b=c", "a=b%0Ac", "=b"] {
            assert!(parse_headers(bad).is_none(), "{bad}");
        }
    }
}
