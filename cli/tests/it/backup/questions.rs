//! What is named by numbers alone is told from what was lost, too: questions of agents, and messages of users.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Place, loaded};
use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Stream, until};

async fn question(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "session/request_permission" {
            return message;
        }
    }
}

/// The question that comes after another one. The turn is that of a connection which is gone: who loads the session is
/// asked.
async fn next_question(client: &Client, session: &str, before: &Value) -> Value {
    until("the next question", async || {
        let (mut stream, ..) = loaded(client, session).await;
        let asked = timeout(Duration::from_millis(500), question(&mut stream)).await;
        asked.ok().filter(|asked| asked["id"] != before["id"])
    })
    .await
}

fn answer(question: &Value, option: &str) -> Value {
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome })
}

/// The names of all messages of users.
async fn names(url: &str, session: &str) -> Vec<String> {
    let client = Client::initialize(url).await;
    let mut stream = client.session_stream(session, None).await;
    client
        .post(crate::support::http::load(json!("l"), session))
        .await;
    let (events, _) = stream.until_response(&json!("l")).await;
    let updates = events.iter().map(|event| event.message());
    let names = updates.filter_map(|message| {
        let update = &message["params"]["update"];
        let is_users = update["sessionUpdate"] == "user_message_chunk";
        is_users.then(|| update["messageId"].as_str().expect("a name").to_owned())
    });
    names.collect()
}

#[tokio::test]
async fn an_answer_to_a_question_that_was_lost_is_none_to_another() {
    let place = Place::new();
    let mut server = place.serve("data").await;
    let client = Client::initialize(&server.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    // The first turn waits for an answer, the second one for the first.
    client.post(prompt(json!(1), &session, "/permission")).await;
    let first = question(&mut stream).await;
    let second = "/permission\n/count 2";
    client.post(prompt(json!(2), &session, second)).await;
    place.backup("data", "backup");
    client.post(answer(&first, "allow_once")).await;
    let lost = question(&mut stream).await;
    let [kept_name, lost_name] = &names(&server.url(), &session).await[..] else {
        panic!("two messages");
    };
    server.process.kill();

    place.restore("backup", "restored");
    let server = place.serve("restored").await;
    let client = Client::initialize(&server.url()).await;
    let (mut stream, ..) = loaded(&client, &session).await;
    // It is in the log: the same question, under the same name.
    let again = question(&mut stream).await;
    assert_eq!(again["id"], first["id"]);
    client.post(answer(&again, "allow_once")).await;
    let new = next_question(&client, &session, &first).await;
    assert_ne!(new["id"], lost["id"]);
    client.post(answer(&lost, "reject_once")).await;
    client.post(answer(&new, "allow_once")).await;
    let last = counted(2, 2).pop();
    let chunks = until("the turn has ended", async || {
        // What a stream has not read comes again on the next one of its connection.
        let client = Client::initialize(&server.url()).await;
        let (_, chunks, _) = loaded(&client, &session).await;
        (chunks.last() == last.as_ref()).then_some(chunks)
    })
    .await;
    let mut expected = vec!["permission allow_once ".to_owned(); 2];
    expected.extend(counted(2, 2));
    assert_eq!(chunks, expected);

    let found = names(&server.url(), &session).await;
    assert_eq!(found[0], *kept_name);
    assert!(found[1].starts_with(&format!("{lost_name}-")), "{found:?}");
    // A fork finds both, and not the one that was lost.
    for (name, is_there) in [(&found[0], true), (&found[1], true), (lost_name, false)] {
        let meta = json!({ "baton/fork": { "atMessageId": name } });
        let params =
            json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [], "_meta": meta });
        let id = json!(format!("fork {name}"));
        let fork =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/fork", "params": params });
        let answer = client.one_shot(fork).await.response(&id).await;
        assert_eq!(answer.get("result").is_some(), is_there, "{name}: {answer}");
    }
}
