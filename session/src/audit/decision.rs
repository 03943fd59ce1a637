//! Everything that is audited, on one page. `docs/operate/audit.md` has this table, and a test
//! compares the two.

use serde::Serialize;

use super::text::AuditText;
use crate::id::{ConnectionId, SessionId};

/// One macro, so that the enum and the table cannot differ.
macro_rules! decisions {
    ($(
        $(#[doc = $when:literal])+
        $name:ident = $text:literal { $($field:ident: $kind:ty),* $(,)? }
    )*) => {
        #[derive(Clone, Debug, Serialize)]
        #[serde(tag = "decision")]
        pub enum Decision {
            $($(#[doc = $when])+ #[serde(rename = $text)] $name { $($field: $kind),* },)*
        }

        /// Name, fields and meaning of each.
        pub const TABLE: &[(&str, &[&str], &str)] =
            &[$(($text, &[$(stringify!($field)),*], concat!($($when),+))),*];
    };
}

decisions! {
    /// The first line of a new file.
    LogStarted = "log_started" {}
    /// A process goes on with a file. `torn`: so many bytes of an unfinished line stand before it.
    LogResumed = "log_resumed" { torn: u64 }
    /// The first line of a file that takes the place of one that was moved away or emptied.
    LogContinued = "log_continued" {}
    /// So many lines could not be written, since the last that was.
    LinesLost = "lines_lost" { count: u64 }
    /// A request was refused. `skipped`: so many refusals before it have no line, since there were
    /// too many.
    Refused = "refused" {
        status: u16,
        reason: AuditText,
        method: AuditText,
        path: AuditText,
        skipped: u64,
    }
    /// A credential was exchanged for a cookie.
    Login = "login" {}
    /// A cookie was taken back by its holder.
    Logout = "logout" {}
    /// A credential was exchanged for a ticket.
    TicketIssued = "ticket_issued" {}
    /// `initialize`, or what a session token alone opens in its place.
    ConnectionOpened = "connection_opened" { agent: Option<AuditText> }
    /// A client detached.
    ConnectionClosed = "connection_closed" {}
    /// `session/new`.
    SessionCreated = "session_created" { session: SessionId, agent: AuditText }
    /// `session/load` or `session/resume`; `observe` if only to read along.
    SessionLoaded = "session_loaded" { session: SessionId, observe: bool }
    /// A token lets somebody watch the session of `owner`, and was used for it.
    SessionShared = "session_shared" { session: SessionId, owner: AuditText }
    /// A link lets whoever has it watch a session, for so long.
    LinkCreated = "link_created" { session: SessionId, seconds: u64 }
    /// All links of a session were taken back.
    LinksRevoked = "links_revoked" { session: SessionId }
    /// `session/fork`.
    SessionForked = "session_forked" { session: SessionId, parent: SessionId }
    /// `session/close`.
    SessionClosed = "session_closed" { session: SessionId }
    /// `session/delete`.
    SessionDeleted = "session_deleted" { session: SessionId }
    /// A session was read as an archive.
    SessionExported = "session_exported" { session: SessionId }
    /// An archive became a session.
    SessionImported = "session_imported" { session: SessionId, agent: AuditText }
    /// The agent asks whether it may use a tool. Written by the worker.
    PermissionAsked = "permission_asked" {
        session: SessionId,
        question: AuditText,
        title: AuditText,
    }
    /// The first answer to that question, `option` as the client chose it. Written by the worker;
    /// `connection` says who.
    PermissionAnswered = "permission_answered" {
        session: SessionId,
        question: AuditText,
        title: AuditText,
        option: AuditText,
    }
    /// An administrator took something back. `subject`: `s` and a session, `c` and a connection, or
    /// `p` and a principal.
    Revoked = "revoked" { subject: AuditText }
    /// An administrator has asked a process to end in order.
    ProcessDrained = "process_drained" { process: AuditText }
    /// An administrator's request. Requests of other callers are `refused`.
    AdminCall = "admin_call" { method: AuditText, path: AuditText, status: u16 }
    /// A file of keys, certificates or API keys was read again, or cannot be.
    KeysReloaded = "keys_reloaded" { what: AuditText }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionOutcome {
    #[default]
    Done,
    Refused,
    Failed,
}

/// The actor, as far as it is known. Fields of every line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AuditActor {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<AuditText>,
    /// From where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<std::net::IpAddr>,
    /// Which key or token, by a name that is no secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<AuditText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionId>,
    /// The trace that the request belongs to, if it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<AuditText>,
}
