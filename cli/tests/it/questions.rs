//! A question of the agent waits for its answer, whoever asked it and whoever carries it.

use serde_json::{Value, json};

use crate::support::http::{load, prompt};
use crate::support::sse::counted;
use crate::support::{Client, Cluster, Served, Stream};

async fn question(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "session/request_permission" {
            return message;
        }
    }
}

/// A session with a stream of its own, whose agent has just asked.
async fn asked(client: &Client) -> (String, Stream, Value) {
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    client
        .post(prompt(json!(1), &session, "/permission\n/count 3"))
        .await;
    let asked = question(&mut stream).await;
    (session, stream, asked)
}

fn answer(question: &Value, option: &str) -> Value {
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome })
}

#[tokio::test]
async fn a_new_controller_is_asked_again_after_everybody_else_was_killed() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let (session, _cut_off, asked) = asked(&client).await;
    cluster.gateways[0].kill();
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    let worker = cluster.worker(2);

    let other = Client::initialize(&cluster.gateway_url(1)).await;
    let mut stream = other.session_stream(&session, None).await;
    other.post(load(json!("l"), &session)).await;
    stream.response(&json!("l")).await;
    assert_eq!(question(&mut stream).await["id"], asked["id"]);
    // The first answer counts; a second one, of whoever, changes nothing.
    other.post(answer(&asked, "allow_once")).await;
    other.post(answer(&asked, "reject_once")).await;
    let again = client.at(&cluster.gateway_url(1));
    again.post(answer(&asked, "reject_once")).await;
    let mut turn = again.session_stream(&session, None).await;
    let mut expected = vec!["permission allow_once ".to_owned()];
    expected.extend(counted(3, 1));
    assert_eq!(turn.turn(&json!(1)).await, expected);
    // Nothing is left to be asked.
    let third = Client::initialize(&cluster.gateway_url(1)).await;
    let mut stream = third.session_stream(&session, None).await;
    third.post(load(json!("l"), &session)).await;
    stream.response(&json!("l")).await;
    third.post(prompt(json!(2), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(2)).await, counted(2, 2));
    drop(worker);
}

#[tokio::test]
async fn a_cancel_resolves_what_was_asked() {
    let baton = Served::start().await;
    let client = Client::initialize(&baton.url()).await;
    let (session, mut stream, asked) = asked(&client).await;
    client
        .post(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }))
        .await;
    let stopped = stream.response(&json!(1)).await;
    assert_eq!(stopped["result"]["stopReason"], "cancelled", "{stopped}");
    // Too late, and nobody is asked again.
    client.post(answer(&asked, "allow_once")).await;
    client.post(load(json!(2), &session)).await;
    stream.response(&json!(2)).await;
    client.post(prompt(json!(3), &session, "/count 2")).await;
    assert_eq!(stream.turn(&json!(3)).await, counted(2, 2));
}
