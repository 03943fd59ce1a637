//! Where an endpoint is, and the requests that go there.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;

use super::config::{ModelKey, ProviderConfig};
use crate::agent::llm::model::ModelProtocol;

const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const ANTHROPIC_KEY: HeaderName = HeaderName::from_static("x-api-key");

pub struct ModelEndpoint {
    pub url: Uri,
    headers: HeaderMap,
}

impl ModelEndpoint {
    pub fn new(config: &ProviderConfig) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let agent = concat!("baton/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if config.protocol == ModelProtocol::Anthropic {
            headers.insert(ANTHROPIC_VERSION, HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &config.key {
            let (name, value) = match config.protocol {
                ModelProtocol::Anthropic => (ANTHROPIC_KEY, key.expose().to_owned()),
                _ => (AUTHORIZATION, format!("Bearer {}", key.expose())),
            };
            headers.insert(name, secret(&ModelKey::new(value)).ok_or(BAD_KEY)?);
        }
        for (name, value) in &config.headers {
            let bad = || format!("the header {name:?} for the model endpoint is not one");
            let value = secret(value).ok_or_else(bad)?;
            headers.insert(name.parse::<HeaderName>().map_err(|_| bad())?, value);
        }
        Ok(Self {
            url: address(config)?,
            headers,
        })
    }

    pub fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

const BAD_KEY: &str = "the key of the model endpoint has characters that no header may have: it \
    must be one line, without spaces around it";

fn secret(value: &ModelKey) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value.expose().trim()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The URL of the protocol's one method, from a base that has it or not, and the version or not.
fn address(config: &ProviderConfig) -> Result<Uri, String> {
    let bad = |why: &str| format!("the URL of the model endpoint {why}");
    let mut url =
        url::Url::parse(&config.url).map_err(|error| bad(&format!("is none: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad("must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("must not contain a password: give the key by itself"));
    }
    let method = match config.protocol {
        ModelProtocol::Chat => "/chat/completions",
        ModelProtocol::Responses => "/responses",
        ModelProtocol::Anthropic => "/messages",
    };
    let path = url.path().trim_end_matches('/').to_owned();
    let versioned = path.ends_with("/v1") || config.protocol != ModelProtocol::Anthropic;
    let path = if path.ends_with(method) {
        path
    } else if versioned {
        path + method
    } else {
        path + "/v1" + method
    };
    url.set_path(&path);
    url.set_fragment(None);
    url.as_str()
        .parse()
        .map_err(|error| bad(&format!("is none: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(protocol: ModelProtocol, url: &str) -> Result<String, String> {
        address(&ProviderConfig::new(protocol, url)).map(|url| url.to_string())
    }

    #[test]
    fn addresses_are_found_from_any_base() {
        use ModelProtocol::{Anthropic, Chat, Responses};
        for (protocol, base, expected) in [
            (Chat, "http://h:1/v1", "http://h:1/v1/chat/completions"),
            (Chat, "http://h/v1/", "http://h/v1/chat/completions"),
            (
                Chat,
                "https://h/a/chat/completions",
                "https://h/a/chat/completions",
            ),
            (
                Responses,
                "https://h/v1?api=2",
                "https://h/v1/responses?api=2",
            ),
            (Anthropic, "https://h", "https://h/v1/messages"),
            (Anthropic, "https://h/v1", "https://h/v1/messages"),
            (Anthropic, "https://h/proxy/", "https://h/proxy/v1/messages"),
            (Anthropic, "https://h/v1/messages", "https://h/v1/messages"),
        ] {
            assert_eq!(of(protocol, base).as_deref(), Ok(expected));
        }
        for bad in ["h:11434", "ftp://h", "", "http://u:p@h/v1"] {
            let fault = of(Chat, bad).expect_err(bad);
            assert!(fault.contains("the URL of the model endpoint"), "{fault}");
            assert!(!fault.contains("u:p"), "{fault}");
        }
    }

    #[test]
    fn keys_are_sensitive_headers_and_one_line() {
        let mut config = ProviderConfig::new(ModelProtocol::Chat, "http://h/v1");
        config.key = Some(ModelKey::new("sk-secret\n"));
        let request = ModelEndpoint::new(&config).expect("good");
        let request = request.request(Bytes::new());
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer sk-secret");
        assert!(!format!("{request:?} {config:?}").contains("sk-secret"));
        config.key = Some(ModelKey::new("sk-\nsecret"));
        let fault = ModelEndpoint::new(&config).err().expect("refused");
        assert!(!fault.contains("secret"), "{fault}");
    }
}
