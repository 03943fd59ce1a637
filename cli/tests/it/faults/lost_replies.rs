//! A7: a cancel whose step is repeated, because its reply was lost, cancels nothing that came after it.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::site::Site;
use crate::support::http::{JSON, cancel, prompt};
use crate::support::proxy::{Mood, Proxy};
use crate::support::{Client, Redis, Stream};

/// How often a gateway may be too late to repeat the step.
const ATTEMPTS: u64 = 5;

async fn question(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await.expect("an event").message();
        if message["method"] == "session/request_permission" {
            return message;
        }
    }
}

/// A turn that ends when somebody answers.
async fn ask(client: &Client, session: &str, id: u64, stream: &mut Stream) -> Value {
    let asked = prompt(json!(id), session, "/permission");
    client.post(asked).await;
    question(stream).await
}

#[tokio::test]
async fn a7_a_cancel_that_is_repeated_does_not_reach_the_next_prompt() {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port).await;
    let mut site = Site::new();
    let shaky = format!("redis://127.0.0.1:{}", proxy.port);
    let (first, second) = (
        site.add_gateway(&shaky).await,
        site.add_gateway(&redis.store()).await,
    );
    site.add_worker(&redis.store(), &[]).await;
    let client = site.client(&second).await;
    let elsewhere = client.at(&first);
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    for attempt in 0..ATTEMPTS {
        let (cancelled, next) = (2 * attempt, 2 * attempt + 1);
        ask(&client, &session, cancelled, &mut stream).await;
        proxy.set(Mood::CutsRepliesFrom("session/cancel"));
        let cancel = cancel(&session).to_string();
        let (response, question) = tokio::join!(elsewhere.send(&[JSON], cancel), async {
            let answer = stream.response(&json!(cancelled)).await;
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
            let question = ask(&client, &session, next, &mut stream).await;
            proxy.set(Mood::Clear);
            question
        });
        // The gateway knows now that its cancel has arrived, or has given up before it could ask again.
        let repeated = response.status() == StatusCode::ACCEPTED;
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
        client.post(answer).await;
        let answer = stream.response(&json!(next)).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        if repeated {
            return;
        }
    }
    panic!("no step was repeated");
}
