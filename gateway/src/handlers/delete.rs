//! DELETE detaches the client: its connection stream ends. Sessions and running turns are not
//! touched, since clients send this after every hiccup, and one that comes back is welcome.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use baton_session::command::Idempotency;
use baton_session::event::Event;

use crate::app::App;
use crate::auth::Caller;
use crate::edge;
use crate::error::Reject;

pub async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Reject> {
    let connection = edge::connection(&headers, &app, &caller)?;
    let key = Idempotency::of(&connection.id, None, b"");
    app.store.post(&connection.id, Event::Closed, &key).await?;
    Ok((StatusCode::ACCEPTED, [(header::CONTENT_LENGTH, "0")]))
}
