//! The transport that Streamable HTTP has replaced, which servers still speak: a stream of events
//! that begins with an address, and messages posted to that address.

use std::collections::HashMap;
use std::io;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use rmcp::RoleClient;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use url::Url;

use super::streamable_http::{
    EVENTS, EventReader, MAX_EVENT, McpHttp, has_type, refusal, with_protocol,
};

pub struct SseTransport {
    http: McpHttp,
    headers: HashMap<HeaderName, HeaderValue>,
    /// Where messages go.
    endpoint: Url,
    events: EventReader,
}

impl SseTransport {
    /// `admits`: whether messages may be posted there.
    pub async fn open(
        http: McpHttp,
        url: &Url,
        headers: &HashMap<HeaderName, HeaderValue>,
        admits: impl Fn(&Url) -> bool,
    ) -> Result<Self, String> {
        let asked = with_protocol(headers, EVENTS, None);
        let sent = http.send(Method::GET, url.as_str(), &asked, Bytes::new());
        let response = sent.await.map_err(|failure| failure.to_string())?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        if !has_type(response.headers(), EVENTS) {
            return Err("it answers with no stream of events: is its type http?".into());
        }
        let mut events = EventReader::new(response, MAX_EVENT);
        let endpoint = loop {
            let next = events.next().await.map_err(|error| error.to_string())?;
            let event = next.ok_or("its stream ended before it said where to send messages")?;
            if event.event.as_deref() == Some("endpoint") {
                break endpoint_of(url, event.data.as_deref().unwrap_or_default(), admits)?;
            }
        };
        Ok(Self {
            http,
            headers: headers.clone(),
            endpoint,
            events,
        })
    }
}

/// A server may not send its messages, and the headers with them, to another host.
fn endpoint_of(url: &Url, said: &str, admits: impl Fn(&Url) -> bool) -> Result<Url, String> {
    let endpoint = url.join(said.trim()).ok();
    let endpoint = endpoint.filter(|it| it.origin() == url.origin());
    let endpoint = endpoint.ok_or("it wants messages to be sent to another host")?;
    if admits(&endpoint) {
        Ok(endpoint)
    } else {
        Err("it wants messages to be sent to a path that --allow-mcp-url does not have".into())
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let http = self.http.clone();
        let headers = with_protocol(&self.headers, "application/json", None);
        let endpoint = self.endpoint.clone();
        async move {
            let body = Bytes::from(serde_json::to_vec(&message)?);
            let sent = http.send(Method::POST, endpoint.as_str(), &headers, body);
            let response = sent.await.map_err(io::Error::other)?;
            if response.status().is_success() {
                return Ok(());
            }
            Err(io::Error::other(refusal(response).await))
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = self.events.next().await.ok()??;
            let data = event.data.unwrap_or_default();
            match serde_json::from_str(&data) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "an MCP server said something odd"),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_same_host_where_they_may() {
        let url = Url::parse("https://mcp.example/a/sse").expect("a URL");
        let at = |said: &str| endpoint_of(&url, said, |it| !it.path().starts_with("/closed"));
        for (said, expected) in [
            ("/messages?s=1", "https://mcp.example/messages?s=1"),
            ("messages", "https://mcp.example/a/messages"),
            ("https://mcp.example:443/m", "https://mcp.example/m"),
        ] {
            assert_eq!(at(said).expect(said).as_str(), expected);
        }
        for said in [
            "https://other.example/m",
            "//other.example/m",
            "http://mcp.example/m",
            "https://mcp.example:8443/m",
            "file:///etc/passwd",
            "/closed/m",
        ] {
            assert!(at(said).is_err(), "{said}");
        }
    }
}
