//! The connection token: what `initialize` opened.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyRing, TokenRefusal, unix_seconds};
use crate::command::ClientCapabilities;
use crate::id::ConnectionId;
use crate::secret::Secret;

pub const CONNECTION_LIFETIME: Duration = Duration::from_secs(24 * 3600);

pub(super) const TYPE: &str = "baton-connection+jwt";

/// The content of a verified connection token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionToken {
    pub id: ConnectionId,
    pub principal: String,
    pub protocol_version: u16,
    pub client: ClientCapabilities,
    /// The agent that its sessions get, unless a request names another.
    pub agent: Option<String>,
    /// With which rights it was opened, if that were not all.
    pub rights: Option<String>,
    /// In seconds since 1970.
    pub issued: u64,
    /// Of a token that was verified.
    pub expires: u64,
}

#[derive(Serialize, Deserialize)]
struct ConnectionClaims {
    cid: ConnectionId,
    prn: String,
    ver: u16,
    cap: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rts: Option<String>,
}

impl KeyRing {
    pub fn sign_connection(&self, connection: &ConnectionToken, lifetime: Duration) -> Secret {
        let claims = ConnectionClaims {
            cid: connection.id.clone(),
            prn: connection.principal.clone(),
            ver: connection.protocol_version,
            cap: connection.client.letters(),
            agt: connection.agent.clone(),
            rts: connection.rights.clone(),
        };
        let expires = connection.issued.saturating_add(lifetime.as_secs());
        self.sign(TYPE, claims, connection.issued, expires)
    }

    pub fn verify_connection(&self, token: &str) -> Result<ConnectionToken, TokenRefusal> {
        self.verify_connection_at(token, unix_seconds())
    }

    /// As the clock stands at `now`.
    pub fn verify_connection_at(
        &self,
        token: &str,
        now: u64,
    ) -> Result<ConnectionToken, TokenRefusal> {
        let timed = self.verify::<ConnectionClaims>(TYPE, token, now)?;
        Ok(ConnectionToken {
            id: timed.claims.cid,
            principal: timed.claims.prn,
            protocol_version: timed.claims.ver,
            client: ClientCapabilities::from_letters(&timed.claims.cap),
            agent: timed.claims.agt,
            rights: timed.claims.rts,
            issued: timed.iat,
            expires: timed.exp,
        })
    }
}
