//! A5: a question waits for its answer, however many workers vanish meanwhile.

use serde_json::{Value, json};

use super::site::{Site, field};
use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Redis, Served, Stream, until};

const KILLS: usize = 5;
/// What a worker says that refuses the command instead of trying it.
const GIVEN_UP: &str = "every worker that ran it stopped";

/// A session whose agent has just asked, and the question.
async fn asked(client: &Client) -> (String, Stream, Value) {
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let text = "/permission\n/count 3";
    client.post(prompt(json!(1), &session, text)).await;
    loop {
        let message = stream.next().await.expect("an event").message();
        if message["method"] == "session/request_permission" {
            return (session, stream, message);
        }
    }
}

async fn can_be_answered(client: &Client, question: &Value, stream: &mut Stream) {
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    client
        .post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome }))
        .await;
    let mut expected = vec!["permission allow_once ".to_owned()];
    expected.extend(counted(3, 1));
    assert_eq!(stream.turn(&json!(1)).await, expected);
}

#[tokio::test]
async fn a5_a_question_outlives_five_workers() {
    let redis = Redis::start().await;
    let mut site = Site::new();
    let url = site.add_gateway(&redis.store()).await;
    let arguments = ["--lease-ms", "1500"];
    site.add_worker(&redis.store(), &arguments).await;
    let client = site.client(&url).await;
    let (session, mut stream, question) = asked(&client).await;
    for _ in 0..KILLS {
        let vanishes = field(redis.port, &session, "wk");
        let holder = site.worker_by_id(&vanishes).expect("one of the workers");
        site.add_worker(&redis.store(), &arguments).await;
        site.workers[holder].kill();
        until("the session is taken over", async || {
            let mut logs = site.workers.iter().map(|worker| worker.output());
            assert!(!logs.any(|log| log.contains(GIVEN_UP)));
            let worker = field(redis.port, &session, "wk");
            (worker != vanishes).then_some(())
        })
        .await;
    }
    can_be_answered(&client, &question, &mut stream).await;
}

#[tokio::test]
async fn a5_a_question_outlives_five_kills_of_the_server() {
    let mut baton = Served::start_with(&["--lease-ms", "1500"]).await;
    let client = Client::initialize(&baton.url()).await;
    let (session, mut stream, question) = asked(&client).await;
    for _ in 0..KILLS {
        baton.kill_and_restart().await;
        until("the session is taken over", async || {
            let log = baton.process.output();
            assert!(!log.contains(GIVEN_UP), "{log}");
            log.contains("resuming an interrupted turn").then_some(())
        })
        .await;
    }
    let cursor = stream.last_id.clone();
    stream = client.session_stream(&session, Some(&cursor)).await;
    can_be_answered(&client, &question, &mut stream).await;
}
