//! Answers and entries for a connection's outbox, which its stream carries.

use baton_protocol::{ErrorCode, compose};
use baton_session::command::IdempotencyKey;
use baton_session::event::Event;
use baton_session::id::SessionId;
use baton_session::store::PostOutcome;
use baton_session::token::ConnectionToken;
use bytes::Bytes;

use super::{ClientMessage, ID_REUSED, MethodAnswer, MethodCall, MethodError, MethodServices};
use crate::error::GatewayError;
use crate::limits::{LimitKind, LimitRefusal};

pub(super) const UNREAD: LimitRefusal = LimitRefusal {
    limit: LimitKind::Outbox,
    wait: None,
};

/// Puts an answer that belongs to no session on the connection's stream.
pub async fn post_answer(
    services: &MethodServices,
    connection: &ConnectionToken,
    message: ClientMessage<'_>,
    answer: MethodAnswer,
) -> Result<(), GatewayError> {
    let MethodAnswer {
        message: answer,
        key,
        ..
    } = answer;
    // The same request with the same content has its answer already, or will get this one.
    match services
        .store
        .post(
            &connection.id,
            Event::Message {
                message: answer.clone(),
            },
            &key,
        )
        .await?
    {
        // An earlier try of `session/new` was let in. If it got as far as the session, the answer
        // comes from there.
        PostOutcome::Known(Event::Watch { session, .. }) => {
            let (id, principal) = (&connection.id, &connection.principal);
            let created = services.store.attachment(&session, id, principal).await?;
            match created {
                Some(_) => Ok(()),
                None => post_fresh(services, connection, message, answer).await,
            }
        }
        PostOutcome::New { .. } | PostOutcome::Known(_) | PostOutcome::Delivered => Ok(()),
        PostOutcome::Full => Err(UNREAD.into()),
        PostOutcome::Conflict => {
            let id = message.inbound.id().unwrap_or("null");
            let error = compose::error(id, ErrorCode::IdReused, ID_REUSED);
            post_fresh(services, connection, message, error).await
        }
    }
}

/// For an answer to a request whose key is taken.
async fn post_fresh(
    services: &MethodServices,
    connection: &ConnectionToken,
    message: ClientMessage<'_>,
    answer: Bytes,
) -> Result<(), GatewayError> {
    let key = IdempotencyKey::of(&connection.id, None, message.inbound.bytes());
    let event = Event::Message { message: answer };
    let posted = services.store.post(&connection.id, event, &key).await?;
    not_full(posted)
}

/// A client that does not read its stream gets an answer that needs no stream.
pub fn not_full(posted: PostOutcome) -> Result<(), GatewayError> {
    match posted {
        PostOutcome::Full => Err(UNREAD.into()),
        PostOutcome::New { .. }
        | PostOutcome::Known(_)
        | PostOutcome::Delivered
        | PostOutcome::Conflict => Ok(()),
    }
}

impl MethodCall<'_> {
    /// Tells the holder of the connection's stream to tail the session.
    pub(super) async fn watch(&self, session: &SessionId, after: u64) -> Result<(), MethodError> {
        let watch = Event::Watch {
            session: session.clone(),
            after,
        };
        let key = IdempotencyKey::of(&self.connection.id, None, b"");
        let posted = self.services.store.post(&self.connection.id, watch, &key);
        Ok(not_full(posted.await?)?)
    }

    /// Before work whose answer goes to the connection's stream: whether anybody reads that.
    pub(super) async fn check_outbox(&self) -> Result<(), MethodError> {
        let (store, id) = (&self.services.store, &self.connection.id);
        if self.message.one_shot || store.has_outbox_room(id).await? {
            return Ok(());
        }
        Err(MethodError::Reject(UNREAD.into()))
    }
}
