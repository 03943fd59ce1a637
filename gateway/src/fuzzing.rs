//! What fuzz targets reach of what is nobody else's.

use axum::http::{HeaderMap, header};
use baton_session::id::SessionId;
use baton_session::token::carriers;
use bytes::Bytes;

use crate::{auth, dispatch, pass, rpc};

pub struct Read {
    /// The session token, and the message without it.
    pub carried: Option<(String, Bytes)>,
}

/// As every POST is read, up to what its params must be.
pub fn read_message(bytes: &Bytes) -> Option<Read> {
    let envelope = dispatch::parse(bytes).ok()?;
    let carried = rpc::carried(&envelope, bytes).ok()?;
    dispatch::read_params(&envelope);
    let _ = envelope.session_id();
    Some(Read {
        carried: carried.map(|carried| (carried.token.expose().to_owned(), carried.message)),
    })
}

pub fn read_credentials(headers: &HeaderMap) {
    let _ = auth::credential(headers);
    let session = SessionId::parse("07a-abcdefghijklmnopqrstuv").expect("an id");
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|cookie| cookie.to_str().ok());
    let _ = carriers::cookie_value(cookies, &session);
    let _ = pass::token(headers, None, Some(session.as_str()));
}
