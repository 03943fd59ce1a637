//! Cursors and ids from anybody: what is read is written the same way again.

use baton_session::cursor::Cursor;
use baton_session::id::{ConnectionId, SessionId};
use baton_session::revocation::Revocation;
use baton_session::route::Route;
use baton_session::token::carriers;

pub fn cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
    if let Some(session) = SessionId::parse(text) {
        assert_eq!(session.as_str(), text);
        let _ = carriers::clear_cookie(&session);
    }
    if let Some(connection) = ConnectionId::parse(text) {
        assert_eq!(connection.as_str(), text);
    }
    if let Some(route) = Route::from_text(text) {
        assert_eq!(Route::from_text(&route.to_text()), Some(route));
    }
    if let Some(revocation) = Revocation::from_text(text) {
        assert_eq!(Revocation::from_text(&revocation.text()), Some(revocation));
    }
}
