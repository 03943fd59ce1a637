//! What can be done to another's session: nothing, by callers, agents and workers alike.

use std::sync::Arc;
use std::time::Duration;

use baton_session::event::Event;
use baton_session::id::{Nonce, SessionId};
use baton_session::store::redis::RedisStore;
use baton_session::store::{
    AppendOutcome, AppendRequest, Claim, ClaimToken, Claimant, WorkerId, WorkerStore as _,
};
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::browsers::raw;
use super::forge::{Forge, SESSION, claims};
use super::{Probe, guarded};
use crate::auth::{A, B, Caller, Guarded};
use crate::support::http::{load, prompt};
use crate::support::sse::counted;
use crate::support::websocket::initialize;
use crate::support::{Client, Cluster, Event as Said, Stream, until};

const MISSING: &str = "000-0123456789012345678901";

/// The session's own stream.
async fn stream_of(guarded: &Guarded, key: &str, caller: &Caller<'_>, session: &str) -> Stream {
    let headers = [
        ("acp-connection-id", caller.connection.as_str()),
        ("acp-session-id", session),
        ("accept", "text/event-stream"),
    ];
    let response = guarded.send(Method::GET, Some(key), &headers, None).await;
    assert_eq!(response.status(), StatusCode::OK);
    Stream::unchecked(response)
}

async fn accepted(guarded: &Guarded, key: &str, caller: &Caller<'_>, message: Value) {
    let headers = [("acp-connection-id", caller.connection.as_str())];
    let answer = guarded.send(Method::POST, Some(key), &headers, Some(message));
    assert_eq!(answer.await.status(), StatusCode::ACCEPTED);
}

#[tokio::test]
async fn row_25_what_an_agent_says_names_no_other_session() {
    let guarded = guarded().await;
    let (alice, bob) = (guarded.open(A).await, guarded.open(B).await);
    let (mine, theirs) = (alice.new_session().await, bob.new_session().await);
    for made in [&mine, &theirs] {
        assert_eq!(
            SessionId::parse(made).map(String::from).as_ref(),
            Some(made)
        );
    }
    let mut watched = stream_of(&guarded, B, &bob, &theirs).await;
    let mut own = stream_of(&guarded, A, &alice, &mine).await;
    let long = "x".repeat(10_000);
    let broken = format!("{mine}\r\n\r\nid: 9\r\ndata: {{}}\r\n\r\n");
    let named = [
        &theirs,
        "",
        &broken,
        "a:b.c@d",
        &long,
        &theirs.to_uppercase(),
    ];
    let text: String = named
        .into_iter()
        .map(|id| {
            let content = json!({ "type": "text", "text": id });
            let update = json!({
                "sessionUpdate": "agent_message_chunk", "content": content, "messageId": "m",
                "sessionId": id, "params": { "sessionId": id }, "_meta": { "sessionId": id },
            });
            format!("/update {update}\n")
        })
        .collect();
    // A question names its session, too, and so does what is bound to it.
    let text = format!("{text}/title {theirs}\n/bind sessionId {theirs}\n/permission");
    accepted(&guarded, A, &alice, prompt(json!(7), &mine, &text)).await;
    let mut said = Vec::new();
    let question = loop {
        let event = own.next().await.expect("the stream goes on");
        let message = event.message();
        assert_eq!(message["params"]["sessionId"], json!(mine), "{message}");
        said.extend(event.chunk());
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    assert_eq!(said, named);
    let id = question["id"].as_str().unwrap();
    assert_eq!(id.split(':').next(), Some(mine.as_str()), "{id}");
    let outcome = json!({ "outcome": { "outcome": "cancelled" } });
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": outcome });
    accepted(&guarded, A, &alice, answer).await;
    own.response(&json!(7)).await;
    // The other one has heard nothing of it.
    accepted(&guarded, B, &bob, prompt(json!(8), &theirs, "/count 2")).await;
    let (before, _) = watched.until_response(&json!(8)).await;
    let before: Vec<_> = before.iter().filter_map(Said::chunk).collect();
    assert_eq!(before, counted(2, 1));
    for (caller, session) in [(&alice, &mine), (&bob, &theirs)] {
        let listed = caller.call(9, "session/list", json!({})).await;
        let listed = listed["result"]["sessions"].as_array().unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["sessionId"], json!(session));
    }
}

#[tokio::test]
async fn row_30_header_games() {
    let guarded = guarded().await;
    let (alice, probe) = (guarded.open(A).await, Probe::of(&guarded, Some(A)));
    let (one, other) = (
        alice.new_session().await,
        alice
            .call(2, "session/new", json!({ "cwd": "/tmp", "mcpServers": [] }))
            .await,
    );
    let other = other["result"]["sessionId"].as_str().unwrap();
    let connection = ("acp-connection-id", alice.connection.as_str());
    let forge = Forge::of(&guarded);
    let [token, another] = ["first", "second"].map(|family| {
        let mut claims = claims("key:alice");
        claims["sid"] = json!(one);
        claims["fam"] = json!(family);
        forge.token(SESSION, &claims)
    });
    let body = Some(prompt(json!(5), &one, "/count 1"));
    let mut carries = prompt(json!(5), &one, "/count 1");
    carries["params"]["_meta"] = json!({ "baton/session": { "token": another } });
    let session = ("acp-session-id", one.as_str());
    for (headers, body) in [
        (&[][..], &body),
        (&[connection, connection], &body),
        (&[connection, session, session], &body),
        (&[connection, session, ("acp-session-id", other)], &body),
        (
            &[
                connection,
                ("acp-session-token", &token),
                ("acp-session-token", &token),
            ],
            &body,
        ),
        (&[connection, ("acp-session-token", &token)], &Some(carries)),
        (
            &[connection],
            &Some(json!([
                prompt(json!(5), &one, "x"),
                prompt(json!(6), other, "x")
            ])),
        ),
    ] {
        let answer = probe.send(Method::POST, headers, body.clone()).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{headers:?}");
    }
    for headers in [
        &[connection, session, session][..],
        &[connection, ("last-event-id", "1"), ("last-event-id", "2")],
        &[connection, connection],
    ] {
        assert_eq!(probe.get(headers).await, 400, "{headers:?}");
    }
    assert_eq!(
        probe.bytes("acp-connection-id", "é".as_bytes()).await,
        Some(400)
    );
    // Two credentials are none.
    let key = format!("Bearer {A}");
    let doubled = [("authorization", key.as_str()), connection];
    assert_eq!(probe.get(&doubled).await, 401);
    // A header that contradicts the payload is wrong about the content: its stream says it.
    let one_shot = [
        connection,
        ("acp-session-id", other),
        ("accept", "text/event-stream"),
    ];
    let answer = probe.send(Method::POST, &one_shot, body.clone()).await;
    let answer = Stream::unchecked(answer).response(&json!(5)).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    // Two ways to read one request are one too many.
    let length = initialize().to_string().len();
    for lines in [
        format!("Content-Length: {length}\r\nAcp-Session-Id: {one}\r\n {other}\r\n"),
        format!(
            "Content-Length: {length}\r\nContent-Length: {}\r\n",
            length + 1
        ),
        format!("Content-Length: {length}\r\nAcp-Session-Id : {one}\r\n"),
        format!("Content-Length: {length}\r\nAcp-Session-Id: {one}\0\r\n"),
        "Transfer-Encoding: chunked, identity\r\n".to_owned(),
    ] {
        let request = format!(
            "POST /acp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {key}\r\nContent-Type: \
             application/json\r\n{lines}\r\n{}",
            initialize()
        );
        assert_eq!(raw(&guarded.url, &request).await, 400, "{lines:?}");
    }
    // None of it has reached a session.
    for session in [&one, other] {
        let mut stream = stream_of(&guarded, A, &alice, session).await;
        accepted(
            &guarded,
            A,
            &alice,
            prompt(json!(session), session, "/count 1"),
        )
        .await;
        assert_eq!(stream.turn(&json!(session)).await, counted(1, 1));
    }
}

#[tokio::test]
async fn row_31_nothing_gets_into_anothers_session() {
    let guarded = guarded().await;
    let (alice, bob) = (guarded.open(A).await, guarded.open(B).await);
    let session = alice.new_session().await;
    let mut stream = stream_of(&guarded, A, &alice, &session).await;
    accepted(
        &guarded,
        A,
        &alice,
        prompt(json!(3), &session, "/permission\n/count 2"),
    )
    .await;
    let question = loop {
        let message = stream.next().await.expect("a question").message();
        if message["method"] == "session/request_permission" {
            break message;
        }
    };
    let place = json!({ "cwd": "/tmp", "mcpServers": [] });
    let calls = [
        ("session/load", place.clone()),
        ("session/resume", place.clone()),
        ("session/fork", place),
        ("session/close", json!({})),
        ("session/delete", json!({})),
        ("session/set_mode", json!({ "modeId": "ask" })),
        (
            "session/set_config_option",
            json!({ "configId": "model", "value": "large" }),
        ),
        ("session/set_model", json!({ "modelId": "large" })),
        (
            "session/prompt",
            json!({ "prompt": [{ "type": "text", "text": "/count 1" }] }),
        ),
        ("_extension", json!({})),
    ];
    for (at, (method, params)) in (10..).step_by(2).zip(calls) {
        let with = |session: &str| {
            let mut params = params.clone();
            params["sessionId"] = json!(session);
            params
        };
        let foreign = bob.call(at, method, with(&session)).await;
        // To delete what is not there is no error, and does nothing.
        let refused = foreign["error"]["code"] == -32002 || method == "session/delete";
        assert!(refused, "{method}: {foreign}");
        let unknown = bob.call(at + 1, method, with(MISSING)).await.to_string();
        let same = foreign.to_string().replace(&session, MISSING);
        let same = same.replace(&format!("\"id\":{at}"), "");
        let unknown = unknown.replace(&format!("\"id\":{}", at + 1), "");
        assert_eq!(same, unknown, "{method}");
    }
    // What nobody answers is taken, and nothing comes of it.
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_always" } });
    let about = json!({ "sessionId": session });
    for message in [
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome }),
        json!({ "jsonrpc": "2.0", "id": question["id"], "error": { "code": 1, "message": "no" } }),
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": about }),
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 3, "sessionId": session } }),
        json!({ "jsonrpc": "2.0", "method": "_extension", "params": about }),
    ] {
        accepted(&guarded, B, &bob, message).await;
    }
    let mut silent = stream_of(&guarded, B, &bob, &session).await;
    let listed = bob.call(50, "session/list", json!({})).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
    let base = guarded.url.trim_end_matches("/acp");
    for (credential, expected) in [(B, StatusCode::NOT_FOUND), (A, StatusCode::OK)] {
        let export = reqwest::Client::new()
            .get(format!("{base}/v1/sessions/{session}/export"))
            .bearer_auth(credential);
        assert_eq!(export.send().await.unwrap().status(), expected);
    }
    // The owner's answer is the first that counts, and all that is said is said to the owner.
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "reject_once" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    accepted(&guarded, A, &alice, answer).await;
    let mut expected = vec!["permission reject_once ".to_owned()];
    expected.extend(counted(2, 1));
    assert_eq!(stream.turn(&json!(3)).await, expected);
    assert_eq!(
        bob.call(51, "session/list", json!({})).await["result"]["sessions"],
        json!([])
    );
    let start = silent
        .block()
        .await
        .expect("a stream begins with its cursor");
    assert_eq!(start.data, "");
    let deleted = format!("Bearer {B}");
    let ended = reqwest::Client::new()
        .delete(&guarded.url)
        .header("authorization", deleted)
        .header("acp-connection-id", &bob.connection);
    assert_eq!(ended.send().await.unwrap().status(), StatusCode::ACCEPTED);
    silent.ends().await;
}

/// A worker as it comes up under a name that another had before.
fn namesake() -> Claimant {
    Claimant {
        worker: WorkerId("pod-0".into()),
        agent: "scripted".into(),
        token: ClaimToken::random(),
        lease: Duration::from_millis(300),
        takes_over: Some(u64::MAX),
    }
}

async fn claimed(store: &RedisStore, session: &SessionId, claimant: &Claimant) -> Claim {
    until("the lease is over", async || {
        store.claim(session, claimant).await.expect("Redis answers")
    })
    .await
}

async fn says(
    store: &RedisStore,
    session: &SessionId,
    claim: &Claim,
    first: u64,
    text: &str,
) -> AppendOutcome {
    let content = json!({ "type": "text", "text": text });
    let update =
        json!({ "sessionUpdate": "agent_message_chunk", "content": content, "messageId": "m" });
    let params = json!({ "sessionId": session, "update": update });
    let message = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    let event = Event::Update {
        turn: false,
        message: message.to_string().into(),
    };
    let (session, token) = (session.clone(), claim.token.clone());
    let append = AppendRequest::new(session, token, Nonce::random(), first, vec![event]);
    store.append(&append).await.expect("Redis answers")
}

#[tokio::test]
async fn row_34_a_worker_under_the_name_of_another_is_another() {
    let mut cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.url()).await;
    let name = client.new_session().await;
    let mut stream = client.session_stream(&name, None).await;
    client.post(load(json!(0), &name)).await;
    stream.response(&json!(0)).await;
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    client.post(prompt(json!(1), &name, "/count 3")).await;
    let session = SessionId::parse(&name).expect("an id");
    let store = RedisStore::connect(&cluster.redis.store(), "baton").await;
    let store = Arc::new(store.expect("Redis answers"));
    // The first falls silent in the middle of its work, and the second has its name.
    let first = claimed(&store, &session, &namesake()).await;
    let head = first.head;
    let done = |head| AppendOutcome::Done {
        head,
        released: false,
    };
    assert_eq!(
        says(&store, &session, &first, head + 1, "one ").await,
        done(head + 1)
    );
    let second = claimed(&store, &session, &namesake()).await;
    assert_eq!((second.head, second.inbox.len()), (head + 1, 1));
    // It lives after all: nothing it writes gets in, be the numbers right.
    assert_eq!(
        says(&store, &session, &first, head + 2, "ghost ").await,
        AppendOutcome::Fenced
    );
    assert_eq!(
        says(&store, &session, &second, head + 2, "two ").await,
        done(head + 2)
    );
    assert_eq!(
        says(&store, &session, &first, head + 3, "ghost ").await,
        AppendOutcome::Fenced
    );
    let claims = [(session.clone(), first.token.clone())];
    let lost = store.renew(&claims, Duration::from_secs(9));
    assert_eq!(lost.await.expect("Redis answers").first(), Some(&session));
    // A real one finishes what was asked for, and the client has seen no ghost.
    cluster.workers[0] = cluster.worker(2);
    let mut expected = vec!["one ".to_owned(), "two ".to_owned()];
    expected.extend(counted(3, 1));
    assert_eq!(stream.turn(&json!(1)).await, expected);
}

#[tokio::test]
async fn row_35_privilege_by_fork() {
    let guarded = guarded().await;
    let (alice, bob) = (guarded.open(A).await, guarded.open(B).await);
    let parent = alice.new_session().await;
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let params = json!({ "sessionId": parent, "prompt": text("/count 2") });
    alice.call(2, "session/prompt", params).await;
    let fork = |of: &str| json!({ "sessionId": of, "cwd": "/tmp", "mcpServers": [] });
    let foreign = bob.call(3, "session/fork", fork(&parent)).await.to_string();
    let unknown = bob.call(3, "session/fork", fork(MISSING)).await.to_string();
    assert_eq!(foreign.replace(&parent, MISSING), unknown);
    assert!(unknown.contains("-32002"), "{unknown}");
    // Who may only watch may not fork.
    let mut claims = claims("key:alice");
    claims["sid"] = json!(parent);
    claims["scp"] = json!("o");
    let token = Forge::of(&guarded).token(SESSION, &claims);
    let body =
        json!({ "jsonrpc": "2.0", "id": 4, "method": "session/fork", "params": fork(&parent) });
    let headers = [
        ("acp-session-token", token.as_str()),
        ("accept", "text/event-stream"),
    ];
    let answer = guarded
        .send(Method::POST, Some(A), &headers, Some(body))
        .await;
    let answer = Stream::unchecked(answer).response(&json!(4)).await;
    assert_eq!(answer["error"]["code"], 4008);

    let forks = (100..120).map(|id| alice.call(id, "session/fork", fork(&parent)));
    let forks = join_all(forks).await;
    let id = |answer: &Value| {
        answer["result"]["sessionId"]
            .as_str()
            .expect("a child")
            .to_owned()
    };
    let mut children: Vec<_> = forks.iter().map(id).collect();
    children.push(parent.clone());
    children.sort();
    children.dedup();
    assert_eq!(children.len(), 21);
    let child = id(&forks[0]);
    // A child has the past, belongs to who made it, and needs no parent.
    let unknown = bob.call(5, "session/load", fork(MISSING)).await.to_string();
    let foreign = bob.call(5, "session/load", fork(&child)).await.to_string();
    assert_eq!(foreign.replace(&child, MISSING), unknown);
    alice
        .call(6, "session/delete", json!({ "sessionId": parent }))
        .await;
    let gone = alice.call(7, "session/load", fork(&parent)).await;
    assert_eq!(gone["error"]["code"], -32002);
    let mut stream = stream_of(&guarded, A, &alice, &child).await;
    accepted(
        &guarded,
        A,
        &alice,
        json!({ "jsonrpc": "2.0", "id": 8, "method": "session/load", "params": fork(&child) }),
    )
    .await;
    let (past, _) = stream.until_response(&json!(8)).await;
    let past: Vec<_> = past.iter().filter_map(Said::chunk).collect();
    assert_eq!(past, counted(2, 1));
    accepted(&guarded, A, &alice, prompt(json!(9), &child, "/count 1")).await;
    assert_eq!(stream.turn(&json!(9)).await, counted(1, 2));
}
