//! A gateway is killed behind a balancer.

use reqwest::StatusCode;
use serde_json::json;

use super::{allowed, heard, measured};
use crate::support::http::{JSON, prompt};
use crate::support::sse::{Event, counted};
use crate::support::{Client, Cluster, until};

/// It is killed under a session that waits for its client. The stream goes on from its cursor, the
/// turn goes on, and so does everybody else, without knowing of it. Then the gateway is back.
pub async fn a_killed_gateway_is_not_missed(cluster: &mut Cluster) {
    let client = Client::initialize(&cluster.url()).await;
    let session = client.new_session().await;
    // Streams of before that end meanwhile would hide which gateway holds the new one.
    let held = until("earlier streams have ended", async || {
        let held = measured(cluster, "baton_gateway_streams").await;
        (held == [0; 2]).then_some(held)
    })
    .await;
    let mut stream = client.session_stream(&session, None).await;
    let opened = measured(cluster, "baton_gateway_streams").await;
    let text = "/count 3\n/permission\n/count 4";
    client.post(prompt(json!(1), &session, text)).await;
    let mut events: Vec<Event> = Vec::new();
    let asked = loop {
        let event = stream.next().await.expect("the stream goes on");
        let message = event.message();
        if message["method"] == "session/request_permission" {
            break message;
        }
        events.push(event);
    };
    let holder = usize::from(opened[1] > held[1]);
    cluster.gateways[holder].kill();
    stream.ends().await;

    // What was under way may fail; what is sent again does not happen twice.
    let mut resumed = until("the stream goes on", async || {
        let from = [
            ("acp-session-id", session.as_str()),
            ("last-event-id", stream.last_id.as_str()),
        ];
        let response = client.get(&from).await;
        (response.status() == StatusCode::OK).then(|| client.stream(response))
    })
    .await;
    until("the answer arrives", async || {
        let response = client.send(&[JSON], allowed(&asked).to_string()).await;
        (response.status() == StatusCode::ACCEPTED).then_some(())
    })
    .await;
    let (more, answer) = resumed.until_response(&json!(1)).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    events.extend(more);
    let said: Vec<String> = events.iter().filter_map(Event::chunk).collect();
    let mut expected = counted(3, 1);
    expected.push("permission allow_once ".into());
    expected.extend(counted(4, 1));
    assert_eq!(said, expected);

    // Nobody has to try twice from now on, wherever the requests would have gone.
    for _ in 0..6 {
        turn(&Client::initialize(&cluster.url()).await).await;
    }

    cluster.revive_gateway(holder).await;
    until("the gateway is used again", async || {
        turn(&Client::initialize(&cluster.url()).await).await;
        // Of one that was started anew: every second request may be one that brings no events.
        let events = measured(cluster, "baton_gateway_events_total").await[holder];
        (events + heard(cluster).await[holder] > 0).then_some(())
    })
    .await;
}

async fn turn(client: &Client) {
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let message = prompt(json!(1), &session, "/count 2").to_string();
    let named = [JSON, ("acp-session-id", session.as_str())];
    let response = client.send(&named, message).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(stream.turn(&json!(1)).await, counted(2, 1));
}
