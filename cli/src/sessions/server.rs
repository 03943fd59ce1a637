//! The Baton at the other end.

use std::path::Path;

use anyhow::{Context as _, bail};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::terminal::on_a_line;

pub struct Server {
    pub http: Client,
    url: Url,
}

impl Server {
    pub fn new(url: Url, credential: Option<&Path>) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        if let Some(path) = credential {
            let named = || format!("--credential-file {}", path.display());
            let text = std::fs::read_to_string(path).with_context(named)?;
            let bearer = format!("Bearer {}", text.trim());
            let mut value = HeaderValue::from_str(&bearer).with_context(named)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = Client::builder().default_headers(headers).build()?;
        Ok(Self { http, url })
    }

    pub fn endpoint(&self, path: &str) -> anyhow::Result<Url> {
        let joined = self.url.join(path);
        joined.with_context(|| format!("--url {} cannot be used", self.url))
    }
}

/// What the server says is wrong is what the user is told.
pub async fn succeeded(url: &Url, sent: reqwest::Result<Response>) -> anyhow::Result<Response> {
    let response = sent.with_context(|| format!("cannot reach {url}"))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.bytes().await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match body["error"]["message"].as_str() {
        Some(message) => bail!("{}", on_a_line(message)),
        None => bail!("{url} answered {status}"),
    }
}
