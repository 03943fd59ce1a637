use axum::body::to_bytes;
use axum::http::HeaderValue;
use baton_session::event::{Event, TurnBegin};
use baton_session::id::{ConnectionId, Partition};
use baton_session::route::DeliveryPath;
use baton_session::store::{MemoryStore, Store};
use baton_session::token::{KeyRing, SigningKeys, generate};
use jsonwebtoken::Algorithm;

use super::*;
use crate::app::{GatewayConfig, StopSignals};
use crate::auth::{ANONYMOUS, AuthMethod};

#[tokio::test]
async fn what_comes_in_is_written_in_portions_and_not_from_the_future() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let keys = KeyRing::parse(&generate(Algorithm::HS256)).unwrap();
    let (config, keys) = (GatewayConfig::default(), SigningKeys::fixed(keys));
    let app = App::new(
        config,
        store.clone(),
        keys,
        AuthMethod::Open,
        StopSignals::default(),
    )
    .await;
    let (id, events) = (SessionId::mint(Partition(0)), 5000);
    let header = json!({
        "batonSession": 1, "sessionId": id, "agent": "scripted", "cwd": "/tmp",
        "updated": u64::MAX, "events": events,
    });
    let mut body = format!("{header}\n");
    // Without a message they are small, and yet something.
    for seq in 1..=events {
        let event = Event::Begin(TurnBegin {
            command: seq.into(),
            connection: ConnectionId::mint(Partition(0)),
            via: DeliveryPath::Connection,
        });
        body.extend(archive::line(seq, &event));
    }
    let before = unix_millis();
    let value = HeaderValue::from_static(CONTENT_TYPE);
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, value)]);
    let answer = import(
        State(app.unwrap()),
        Extension(Caller::anonymous()),
        Ok(Query(HistoryWish::default())),
        headers,
        body.into(),
    )
    .await;
    let answer = answer.ok().unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    let answer = to_bytes(answer.into_body(), 1024).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    let id = SessionId::parse(answer["sessionId"].as_str().unwrap()).unwrap();
    let frames = store.read(&LogId::Session(id.clone()), 1, 5000).await;
    let sizes: Vec<usize> = frames.unwrap().iter().map(|f| f.events.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 5000);
    assert!(sizes.iter().all(|size| *size <= 1024), "{sizes:?}");
    let record = store.record(&id, ANONYMOUS).await.unwrap().unwrap();
    assert!((before..=unix_millis()).contains(&record.updated));
}
