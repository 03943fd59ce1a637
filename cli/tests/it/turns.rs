//! Sessions and their turns, for callers who think in turns.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::auth::{ALICE, BOB};
use crate::support::http::{bearing, prompt};
use crate::support::{Client, Cluster, within};

async fn ask(url: &str, key: &str, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let base = url.strip_suffix("/acp").expect("the address of /acp");
    let request = bearing(key)
        .request(method, format!("{base}/v1/sessions{path}"))
        .header("content-type", "application/json")
        .body(body.to_string());
    let response = within("an answer", request.send())
        .await
        .expect("an answer");
    let status = response.status();
    let text = response.text().await.expect("a body");
    let body = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
    (status, body)
}

async fn get(url: &str, key: &str, path: &str) -> (StatusCode, Value) {
    ask(url, key, Method::GET, path, Value::Null).await
}

async fn talk(client: &Client, session: &str, id: u64, text: &str) {
    let mut stream = client.one_shot(prompt(json!(id), session, text)).await;
    stream.response(&json!(id)).await;
}

#[tokio::test]
async fn turns_are_listed_and_forked_at_each_of_them() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let session = alice.new_session().await;
    for (id, text) in ["/count 1", "/fail", "/stop max_tokens"].iter().enumerate() {
        talk(&alice, &session, 10 + id as u64, text).await;
    }
    let (status, listed) = get(&url, ALICE, &format!("/{session}/turns")).await;
    assert_eq!(status, StatusCode::OK);
    let turns = listed["turns"].as_array().expect("turns");
    let told = |name: &str| {
        turns
            .iter()
            .map(|turn| turn[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(told("state"), ["ended", "failed", "ended"]);
    assert_eq!(
        told("stopReason"),
        [json!("end_turn"), Value::Null, json!("max_tokens")]
    );
    assert!(turns[1]["error"]["message"].is_string(), "{listed}");
    for turn in turns {
        let times = [&turn["beganAt"], &turn["endedAt"]].map(|at| at.as_str().expect("a time"));
        assert!(times[0] <= times[1], "{turn}");
    }
    // A page at a time.
    let mut paged = Vec::new();
    let mut path = format!("/{session}/turns?limit=2");
    loop {
        let (_, page) = get(&url, ALICE, &path).await;
        paged.extend(page["turns"].as_array().expect("turns").clone());
        match page["next"].as_str() {
            Some(next) => path = format!("/{session}/turns?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(&paged, turns);
    for (at, turn) in turns.iter().enumerate() {
        let wish = json!({ "turn": turn["id"] });
        let path = format!("/{session}/fork");
        let (status, forked) = ask(&url, ALICE, Method::POST, &path, wish).await;
        assert_eq!(status, StatusCode::CREATED, "{forked}");
        let child = forked["sessionId"].as_str().expect("a session");
        let (_, inherited) = get(&url, ALICE, &format!("/{child}/turns")).await;
        assert_eq!(inherited["turns"], json!(turns[..=at]));
    }
    let (_, one) = get(&url, ALICE, &format!("/{session}")).await;
    assert_eq!(
        (&one["agent"], &one["state"]),
        (&json!("scripted"), &json!("idle"))
    );
    let (_, all) = get(&url, ALICE, "?cwd=%2Ftmp").await;
    assert_eq!(all["sessions"].as_array().expect("sessions").len(), 4);
}

#[tokio::test]
async fn what_is_not_ones_own_or_no_turn_is_unknown() {
    let cluster = Cluster::start_with_keys().await;
    let url = cluster.url();
    let alice = Client::with_key(&url, ALICE).await;
    let session = alice.new_session().await;
    talk(&alice, &session, 10, "hello").await;
    let (_, listed) = get(&url, ALICE, &format!("/{session}/turns")).await;
    let turn = listed["turns"][0]["id"].as_str().expect("a turn");
    let fork = format!("/{session}/fork");
    for path in [String::new(), "/turns".into()] {
        let (status, _) = get(&url, BOB, &format!("/{session}{path}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    let wish = json!({ "turn": turn });
    assert_eq!(
        ask(&url, BOB, Method::POST, &fork, wish).await.0,
        StatusCode::NOT_FOUND
    );
    let (_, none) = get(&url, BOB, "").await;
    assert_eq!(none["sessions"], json!([]));
    for (wish, status) in [
        (json!({ "turn": "turn_1" }), StatusCode::BAD_REQUEST),
        (
            json!({ "turn": "turn_9999_00000000" }),
            StatusCode::NOT_FOUND,
        ),
        (json!({ "turn": 7 }), StatusCode::BAD_REQUEST),
        (json!({ "trun": turn }), StatusCode::BAD_REQUEST),
        (json!({ "cwd": "here" }), StatusCode::BAD_REQUEST),
    ] {
        let answered = ask(&url, ALICE, Method::POST, &fork, wish.clone()).await;
        assert_eq!(answered.0, status, "{wish}: {}", answered.1);
    }
    for query in ["limit=0", "limit=101", "after=x"] {
        let (status, _) = get(&url, ALICE, &format!("/{session}/turns?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
    }
}
