//! Open streams.

use futures_util::SinkExt as _;
use reqwest::StatusCode;
use serde_json::json;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{Limited, counted, list, refused_with_429};
use crate::support::auth::ALICE;
use crate::support::http::{JSON, ONE_SHOT, prompt};
use crate::support::{Client, Stream, sse, until, within};

/// With Alice's key; the status if it is refused.
async fn upgrade(
    url: &str,
) -> Result<impl futures_util::Sink<Message, Error = Error> + use<>, StatusCode> {
    let url = url.replace("http://", "ws://");
    let mut request = url.into_client_request().expect("a URL");
    let key = format!("Bearer {ALICE}").parse().expect("a header value");
    request.headers_mut().insert("authorization", key);
    match within("an upgrade", connect_async(request)).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => {
            let retry = response.headers().get("retry-after");
            assert!(retry.is_some(), "{response:?}");
            Err(StatusCode::from_u16(response.status().as_u16()).expect("a status"))
        }
        Err(error) => panic!("{error}"),
    }
}

/// As soon as the bodies before it have ended here, too.
async fn opened(client: &Client, headers: &[(&str, &str)]) -> Stream {
    until("there is room for a stream", async || {
        let response = client.get(headers).await;
        let is_open = response.status().is_success();
        is_open.then(|| client.stream(response))
    })
    .await
}

#[tokio::test]
async fn streams_of_all_kinds_count_together_and_are_given_back() {
    let baton = Limited::start(json!({ "streams": 2 })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let connection = opened(&alice, &[]).await;
    let mut stream = opened(&alice, &[("acp-session-id", &session)]).await;

    let third = alice.get(&[("acp-session-id", "other")]).await;
    refused_with_429(third, "streams").await;
    let body = prompt(json!(1), &session, "/count 1").to_string();
    let one_shot = alice.send(&[JSON, ONE_SHOT], body).await;
    refused_with_429(one_shot, "streams").await;
    let refused = upgrade(&baton.url()).await.err();
    assert_eq!(refused, Some(StatusCode::TOO_MANY_REQUESTS));
    // What needs no further stream goes on, and the refused prompt was not taken.
    alice.post(prompt(json!(2), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(2)).await, sse::counted(2, 1));
    assert!(counted(&baton.url(), "streams").await);
    baton.bob_is_served().await;

    drop(connection);
    let mut socket = until("there is room for a socket", async || {
        upgrade(&baton.url()).await.ok()
    })
    .await;
    let one_shot = alice.send(&[JSON, ONE_SHOT], list("3").to_string()).await;
    refused_with_429(one_shot, "streams").await;
    socket.close().await.expect("the socket is open");
    drop(socket);
    until("there is room for a body", async || {
        let body = list("4").to_string();
        let response = alice.send(&[JSON, ONE_SHOT], body).await;
        response.status().is_success().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_is_opened_again_takes_its_own_place() {
    let baton = Limited::start(json!({ "streams": 1 })).await;
    let alice = baton.alice().await;
    let session = alice.new_session().await;
    let mut before = opened(&alice, &[("acp-session-id", &session)]).await;
    let mut stream = alice.session_stream(&session, None).await;
    before.ends().await;
    alice.post(prompt(json!(1), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(1)).await, sse::counted(2, 1));
    refused_with_429(alice.get(&[]).await, "streams").await;
}
