//! Tickets: a page cannot send headers with a WebSocket's upgrade, but it can name subprotocols.
//! One of them may be a ticket, which stands for the credential once and shortly after it was asked
//! for.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use baton_session::clock::unix_seconds;
use baton_session::token::{MAX_SKEW, Ticket};

use super::{
    ActiveLogin, AuthFailure, Authenticator, Caller, IdentifiedCaller, SingleUseCredential,
    SingleUseKind,
};
use crate::error::GatewayError;

/// The WebSocket subprotocol; chosen whenever it is offered.
pub const PROTOCOL: &str = "acp";
const PREFIX: &str = "baton.ticket.";

pub fn issue(auth: &Authenticator, caller: &Caller) -> Ticket {
    let issued = auth.revocations().login_time(&caller.principal);
    Ticket {
        login: caller.login.as_ref().map(|login| login.family.to_string()),
        source: Some(caller.credential.source.clone()),
        ..Ticket::new(caller.principal.to_string(), issued, caller.expires)
    }
}

/// A browser takes a socket only if one of the subprotocols it offered was chosen. That is never
/// the ticket, which nobody in between is to see again; so there must be another one.
pub fn offered(headers: &HeaderMap) -> Result<Option<&str>, GatewayError> {
    let offered = || {
        let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(',')).map(str::trim)
    };
    let mut tickets = offered().filter_map(|offered| offered.strip_prefix(PREFIX));
    let Some(ticket) = tickets.next() else {
        return Ok(None);
    };
    if tickets.next().is_some() {
        return Err(AuthFailure::because("two tickets").into());
    }
    if offered().any(|offered| offered == PROTOCOL) {
        Ok(Some(ticket))
    } else {
        Err(GatewayError::Header(
            "offer the subprotocol acp beside the ticket: new WebSocket(url, \
             [\"acp\", \"baton.ticket.…\"])",
        ))
    }
}

/// A ticket is valid for its first use, on whichever gateway.
pub fn redeem(auth: &Authenticator, token: &str) -> Result<IdentifiedCaller, GatewayError> {
    let ticket = auth.issuer.keys.ring().verify_ticket(token);
    let ticket = ticket.map_err(|why| AuthFailure::because(why.to_string()))?;
    let login = ticket.login.as_deref();
    let revocations = auth.revocations();
    if revocations.is_credential_revoked(&ticket.principal, ticket.issued, login) {
        return Err(AuthFailure::because("a ticket that was revoked").into());
    }
    let source = ticket.source.as_deref();
    let recalled = auth
        .method
        .recall(&ticket.principal, source, ticket.credential);
    let mut caller = recalled?;
    // The clock of another gateway may be behind: it takes the ticket for as much longer.
    let left = ticket.expires.saturating_sub(unix_seconds()) + MAX_SKEW;
    let issued = ticket.issued;
    caller.login = ticket.login.map(|family| ActiveLogin {
        family: family.into(),
        issued,
    });
    let once = SingleUseCredential {
        name: format!("ticket {}", ticket.id),
        lasts: Duration::from_secs(left),
        kind: SingleUseKind::Ticket,
    };
    Ok(IdentifiedCaller {
        caller,
        once: Some(once),
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn found(lines: &[&'static str]) -> Option<Option<String>> {
        let line = |line: &&'static str| {
            let value = HeaderValue::from_static(line);
            (header::SEC_WEBSOCKET_PROTOCOL, value)
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.iter().map(line) {
            headers.append(name, value);
        }
        let found = offered(&headers).ok();
        found.map(|ticket| ticket.map(str::to_owned))
    }

    #[test]
    fn a_ticket_is_found_wherever_it_is_offered() {
        let ticket = Some(Some("a.b-c_d".to_owned()));
        for lines in [
            &["acp, baton.ticket.a.b-c_d"][..],
            &["baton.ticket.a.b-c_d,acp"],
            &["baton.ticket.a.b-c_d", "other , acp"],
        ] {
            assert_eq!(found(lines), ticket, "{lines:?}");
        }
        for lines in [&[][..], &["acp"], &["acp, other", "baton.ticket"]] {
            assert_eq!(found(lines), Some(None), "{lines:?}");
        }
    }

    #[test]
    fn two_tickets_or_a_ticket_alone_are_refused() {
        for lines in [
            &["acp, baton.ticket.a, baton.ticket.b"][..],
            &["acp, baton.ticket.a", "baton.ticket.a"],
            &["baton.ticket.a"],
            &["baton.ticket.a, ACP"],
        ] {
            assert_eq!(found(lines), None, "{lines:?}");
        }
    }
}
