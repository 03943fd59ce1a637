//! The Baton at the other end.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use baton_client::Credential;
use baton_client::credential::CredentialSource;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::terminal::on_a_line;

pub struct SessionsServer {
    pub http: Client,
    url: Url,
}

impl SessionsServer {
    pub async fn new(url: Url, credential: Option<PathBuf>) -> anyhow::Result<Self> {
        let source = credential.map_or(CredentialSource::None, CredentialSource::File);
        let header = Credential::new(source).header(None).await?;
        let headers = HeaderMap::from_iter(header.map(|header| (AUTHORIZATION, header)));
        let http = Client::builder().default_headers(headers).build()?;
        Ok(Self { http, url })
    }

    pub fn endpoint(&self, path: &str) -> anyhow::Result<Url> {
        let joined = self.url.join(path);
        joined.with_context(|| format!("--url {} cannot be used", self.url))
    }
}

/// The server's error text is shown to the user.
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
