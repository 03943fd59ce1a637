//! DELETE detaches the client: its connection is over on every gateway, and the streams on it end.
//! Sessions and running turns are not touched, since clients send this after every hiccup, and one
//! that comes back with another connection finds them.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use baton_session::audit::Decision;
use baton_session::command::IdempotencyKey;
use baton_session::event::Event;
use baton_session::revocation::Revocation;

use crate::app::App;
use crate::auth::Caller;
use crate::error::GatewayError;
use crate::trace;

pub async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, GatewayError> {
    let connection = app.access.connection(&caller, &headers)?;
    trace::record_ids(app.config.traces, None, &connection.id);
    let key = IdempotencyKey::of(&connection.id, None, b"");
    app.store.post(&connection.id, Event::Closed, &key).await?;
    let closed = connection.id.clone();
    let over = Revocation::of_ended(connection.id, &caller.principal);
    app.store.revoke(&over).await?;
    // Here at once, whatever becomes of the signal.
    app.issuer.revocations.add(over);
    app.audit
        .record_done(&caller, Some(&closed), || Decision::ConnectionClosed {});
    Ok((StatusCode::ACCEPTED, [(header::CONTENT_LENGTH, "0")]))
}
