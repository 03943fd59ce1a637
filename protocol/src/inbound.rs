//! A client's message as a gateway takes it: read once, and whatever later stages need of it
//! travels along.
//!
//! The message is looked at twice and no more: for its envelope, then as a whole ([`strict`]),
//! which collects the fields of the params on its way. Positions in the bytes are kept instead of
//! copies, so that a message whose session token is taken out of it
//! ([`Inbound::take_session_token`]) need not be read again.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use serde_json::value::RawValue;

use self::members::MetaMembers;
use self::params::{CollectedFields, ValueShape};
use crate::envelope::{Envelope, EnvelopeError};
use crate::limits::MAX_REQUEST_ID;
use crate::{Method, meta};

mod members;
mod params;
mod strict;
#[cfg(test)]
mod tests;

pub use self::params::ParamField;

/// Where in the message something is.
type Span = Range<usize>;

pub struct Inbound {
    bytes: Bytes,
    id: Option<Span>,
    method: Option<(Method, Box<str>)>,
    params: Option<Span>,
    fields: CollectedFields,
    session_id: Option<String>,
    meta: MetaMembers,
}

/// Why bytes are refused as a whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreadable {
    NotJson(String),
    NotAMessage(&'static str),
}

/// A field of `_meta`.
#[derive(Debug, PartialEq, Eq)]
pub enum MetaField<'a> {
    /// Also if it is `null`.
    Absent,
    /// As it was written.
    Json(&'a str),
    /// There twice: which one counts, others may see otherwise.
    Repeated,
}

/// A field that says who may do what is there twice: which one counts is nobody's guess.
#[derive(Debug, PartialEq, Eq)]
pub struct Ambiguous;

impl Inbound {
    pub fn read(bytes: Bytes) -> Result<Self, Unreadable> {
        // Also where nobody looks, or the message could not be passed on.
        let text = std::str::from_utf8(&bytes).map_err(not_json)?;
        let envelope = envelope(text)?;
        let fields = params::collect(text).map_err(not_json)?;
        let span = |part: &str| {
            let start = crate::address::offset(&bytes, part);
            start..start + part.len()
        };
        let id = envelope.id().map(span);
        let params = envelope.params.map(|params| span(params.get()));
        let method = envelope.method.as_deref();
        let method = method.map(|name| (Method::of(name), name.into()));
        let session_id = fields.get(ParamField::SessionId);
        let session_id = session_id.and_then(|span| serde_json::from_str(&text[span]).ok());
        let meta = fields.get(ParamField::Meta);
        let meta = meta.map(|span| MetaMembers::read(text, span));
        Ok(Self {
            id,
            method,
            params,
            session_id,
            meta: meta.unwrap_or_default(),
            fields,
            bytes,
        })
    }

    /// The message as it is kept and passed on.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The id exactly as it was written.
    pub fn id(&self) -> Option<&str> {
        Some(self.part(self.id.as_ref()?))
    }

    /// `None` for an answer to the agent.
    pub fn method(&self) -> Option<Method> {
        self.method.as_ref().map(|(method, _)| *method)
    }

    /// As the client wrote it.
    pub fn method_name(&self) -> Option<&str> {
        self.method.as_ref().map(|(_, name)| &**name)
    }

    pub fn is_request(&self) -> bool {
        self.id.is_some() && self.method.is_some()
    }

    /// The id, if it is a request.
    pub fn request_id(&self) -> Option<&str> {
        self.method.as_ref().and(self.id())
    }

    /// The params as they were written; an empty object if there are none.
    pub fn params(&self) -> &str {
        self.params.as_ref().map_or("{}", |span| self.part(span))
    }

    /// `params.sessionId`, if it is there once and a string.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id
            .as_deref()
            .filter(|_| !self.fields.is_ambiguous())
    }

    /// A field of the params as it was written; `None` also for `null`.
    pub fn field(&self, field: ParamField) -> Option<&str> {
        self.fields.get(field).map(|span| self.part(&span))
    }

    /// Whether the params are an object in which no field that a gateway reads is there twice.
    pub fn has_plain_params(&self) -> bool {
        self.fields.are_plain()
    }

    /// Whether `params.prompt` is an array.
    pub fn has_prompt(&self) -> bool {
        self.fields.prompt == Some(ValueShape::Array)
    }

    /// Whether `params._meta` is absent, `null` or an object.
    pub fn has_plain_meta(&self) -> bool {
        self.field(ParamField::Meta).is_none() || self.meta.is_object
    }

    pub fn meta(&self, name: &str) -> MetaField<'_> {
        match self.meta.find(name) {
            Ok(None) => MetaField::Absent,
            Ok(Some(span)) if self.part(&span) == "null" => MetaField::Absent,
            Ok(Some(span)) => MetaField::Json(self.part(&span)),
            Err(Ambiguous) => MetaField::Repeated,
        }
    }

    /// `traceparent` and `tracestate` in `params._meta`.
    pub fn trace_context(&self) -> Option<(String, Option<String>)> {
        if self.fields.is_ambiguous() {
            return None;
        }
        let MetaField::Json(parent) = self.meta(meta::TRACE_PARENT) else {
            return None;
        };
        let state = match self.meta(meta::TRACE_STATE) {
            MetaField::Absent => None,
            MetaField::Json(state) => Some(serde_json::from_str(state).ok()?),
            MetaField::Repeated => return None,
        };
        Some((serde_json::from_str(parent).ok()?, state))
    }

    /// `params._meta["baton/session"].token`, if it is there and a string. It is between the client
    /// and the gateways, so it is taken out of the message: every other byte outside of `_meta`
    /// stays as it came.
    pub fn take_session_token(&mut self) -> Result<Option<String>, Ambiguous> {
        if self.fields.is_ambiguous() {
            return Err(Ambiguous);
        }
        let (Some(session), Some(whole)) = (
            self.meta.find(meta::SESSION)?,
            self.fields.get(ParamField::Meta),
        ) else {
            return Ok(None);
        };
        let Some(token) = members::token(self.part(&session))? else {
            return Ok(None);
        };
        let rest = self.meta.without(meta::SESSION, self.text());
        self.replace(whole, &rest);
        Ok(Some(token))
    }

    /// Puts another `_meta` in the place of the one there, and moves what comes after it.
    fn replace(&mut self, old: Span, new: &str) {
        let (before, after) = (&self.bytes[..old.start], &self.bytes[old.end..]);
        self.bytes = [before, new.as_bytes(), after].concat().into();
        let moved = |span: &mut Span| {
            let shift = |at: &mut usize| {
                if *at >= old.end {
                    *at = *at - old.len() + new.len();
                }
            };
            shift(&mut span.start);
            shift(&mut span.end);
        };
        self.id.iter_mut().for_each(moved);
        self.params.iter_mut().for_each(moved);
        self.fields.spans().for_each(moved);
        let meta = old.start..old.start + new.len();
        self.meta = MetaMembers::read(self.text(), meta);
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("checked when it was read")
    }

    fn part(&self, span: &Span) -> &str {
        &self.text()[span.clone()]
    }
}

const WRONG_TYPE: Unreadable =
    Unreadable::NotAMessage("not a JSON-RPC message: a field has the wrong type");

fn envelope(text: &str) -> Result<Envelope<'_>, Unreadable> {
    let envelope = match Envelope::read(text.as_bytes()) {
        Ok(envelope) => envelope,
        Err(EnvelopeError::List) => {
            serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
            return Err(Unreadable::NotAMessage(
                "batches are not supported: send one message per request",
            ));
        }
        Err(EnvelopeError::NotJson(error)) => return Err(not_json(error)),
        Err(EnvelopeError::Field(_)) => return Err(WRONG_TYPE),
    };
    let version = envelope
        .jsonrpc
        .map(|version| serde_json::from_str(version.get()));
    let version: Option<Cow<str>> = version.transpose().map_err(|_| WRONG_TYPE)?;
    let fault = if version.as_deref() != Some("2.0") {
        "not a JSON-RPC message: \"jsonrpc\" must be \"2.0\""
    } else if !envelope.id().is_none_or(is_id) {
        "\"id\" must be a string or an integer"
    } else if envelope.id().is_some_and(|id| id.len() > MAX_REQUEST_ID) {
        "\"id\" may have 1024 bytes at most"
    } else if envelope.method.is_none() && envelope.id().is_none() {
        "not a JSON-RPC message: it has neither \"method\" nor \"id\""
    } else {
        return Ok(envelope);
    };
    Err(Unreadable::NotAMessage(fault))
}

fn is_id(id: &str) -> bool {
    id.starts_with(['"', '-']) || id.starts_with(|c: char| c.is_ascii_digit())
}

fn not_json(error: impl ToString) -> Unreadable {
    Unreadable::NotJson(error.to_string())
}
