//! Paths: `/acp/NAME` is `/acp`, for one agent.

use serde_json::json;

use super::{Several, listed, turn};
use crate::clients;
use crate::support::Client;
use crate::support::http::{load, new_session, prompt};
use crate::support::sse::counted;
use crate::support::websocket::{Socket, initialize};

#[tokio::test]
async fn a_path_chooses_the_agent_on_every_gateway() {
    let several = Several::start(&[]).await;
    for (gateway, agent) in [(0, "other"), (1, "other"), (0, "scripted"), (1, "scripted")] {
        let client = Client::initialize(&several.url_of(gateway, agent)).await;
        let session = client.new_session().await;
        // As SDK clients do: a stream, and POSTs beside it, wherever they go.
        let mut stream = client.session_stream(&session, None).await;
        let elsewhere = client.at(&several.url_of(1 - gateway, agent));
        elsewhere
            .post(prompt(json!("a"), &session, "/count 2"))
            .await;
        assert_eq!(stream.turn(&json!("a")).await, counted(2, 1));
        assert_eq!(several.agent_of(&session), agent);
        assert_eq!(client.delete().await, 202);

        let mut socket = Socket::open(&several.url_of(gateway, agent), false).await;
        socket.send(initialize()).await;
        assert!(socket.next().await["result"].is_object());
        socket.send(new_session(json!("new"))).await;
        let session = loop {
            let message = socket.next().await;
            if message["id"] == "new" {
                break message["result"]["sessionId"].as_str().unwrap().to_owned();
            }
        };
        assert_eq!(several.agent_of(&session), agent);
    }
    let client = Client::initialize(&several.cluster.url()).await;
    let session = client.new_session().await;
    assert_eq!(several.agent_of(&session), "scripted");
}

#[tokio::test]
async fn a_session_stays_with_its_agent_whatever_the_path() {
    let several = Several::start(&[]).await;
    let url = several.cluster.url();
    let first = Client::initialize(&several.url_of(0, "other")).await;
    let session = first.new_session().await;
    turn(&first, &session, 1).await;
    // Another client, which has never heard of that agent.
    let second = Client::initialize(&url).await;
    let mut loaded = second.one_shot(load(json!("l"), &session)).await;
    let (history, answer) = loaded.until_response(&json!("l")).await;
    assert!(answer["result"].is_object() && !history.is_empty());
    turn(&second, &session, 2).await;
    assert_eq!(several.agent_of(&session), "other");
    // Even by the path of a third one, and so does what is forked off it.
    let third = second.at(&several.url_of(1, "scripted"));
    turn(&third, &session, 3).await;
    assert_eq!(several.agent_of(&session), "other");
    let params = json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] });
    let fork = json!({ "jsonrpc": "2.0", "id": "f", "method": "session/fork", "params": params });
    let forked = third.one_shot(fork).await.response(&json!("f")).await;
    let child = forked["result"]["sessionId"].as_str().expect("an id");
    turn(&third, child, 4).await;
    assert_eq!(several.agent_of(child), "other");
}

#[tokio::test]
async fn a_connection_has_the_agent_it_was_opened_for_unless_a_request_names_another() {
    let several = Several::start(&[]).await;
    let plain = several.cluster.gateway_url(1);
    let opened = Client::initialize(&several.url_of(0, "other")).await;
    let session = opened.at(&plain).new_session().await;
    assert_eq!(several.agent_of(&session), "other");
    let opened = Client::initialize(&plain).await;
    let session = opened.at(&several.url_of(0, "other")).new_session().await;
    assert_eq!(several.agent_of(&session), "other");
    let session = opened.new_session().await;
    assert_eq!(several.agent_of(&session), "scripted");
}

#[tokio::test]
async fn an_unknown_name_is_an_error_that_names_the_others() {
    let several = Several::start(&[]).await;
    let nobody = several.url_of(0, "nobody");
    let (client, answer) = Client::open(&nobody, json!({ "protocolVersion": 1 }))
        .await
        .expect("an answer, and a connection");
    let check = |answer: &serde_json::Value| {
        assert_eq!(answer["error"]["code"], 5001, "{answer}");
        let text = answer["error"]["message"].as_str().unwrap();
        for part in ["\"nobody\"", "/acp/other, /acp/scripted"] {
            assert!(text.contains(part), "{text}");
        }
    };
    check(&answer);
    // The connection is good all the same: for streams, for sessions that exist, for other paths.
    let mut stream = client.connection_stream(None).await;
    client.post(new_session(json!("n"))).await;
    check(&stream.response(&json!("n")).await);
    let other = client.at(&several.url_of(1, "other"));
    let session = other.new_session().await;
    turn(&client, &session, 1).await;
    assert_eq!(several.agent_of(&session), "other");

    let mut socket = Socket::open(&nobody, false).await;
    socket.send(initialize()).await;
    check(&socket.next().await);
    // What can be no name is no path at all.
    let long = "a".repeat(65);
    for text in ["a%20b", ".hidden", &long, "other/more", ""] {
        let client = client.at(&several.url_of(0, text));
        let response = client.get(&[]).await;
        assert_eq!(response.status(), 404, "{text}");
    }
    assert_eq!(listed(&several.cluster.url()).await.len(), 2);
}

#[tokio::test]
async fn the_official_clients_use_an_agent_by_its_path() {
    let several = Several::start(&[]).await;
    let url = format!("{}/other", several.cluster.url());
    // Where they go if they went elsewhere: nobody is there to answer.
    let mut several = several;
    for worker in &mut several.cluster.workers {
        worker.kill();
    }
    for transport in ["http", "ws"] {
        for client in [clients::rust(), clients::typescript(), clients::python()] {
            clients::plays(client, transport, &url).await;
        }
    }
}
