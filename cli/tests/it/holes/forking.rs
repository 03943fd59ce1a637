//! F6: a fork at a message does not read the log.

use serde_json::{Value, json};

use crate::support::auth::ALICE;
use crate::support::cluster::redis_cli;
use crate::support::http::{load, prompt};
use crate::support::{Client, Cluster};

const EVENTS: u64 = 20_000;

/// Bytes that Redis has sent, and commands that it was sent.
fn sent(cluster: &Cluster) -> (u64, u64) {
    let info = redis_cli(cluster.redis.port, &["info", "stats"]);
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let value = line.expect("a line").trim_start_matches(':').trim();
        value.parse::<u64>().expect("a number")
    };
    (
        number("total_net_output_bytes"),
        number("total_commands_processed"),
    )
}

/// The ids of all messages in the history, in its order.
async fn messages(client: &Client, id: u64, session: &str) -> Vec<String> {
    let mut stream = client.one_shot(load(json!(id), session)).await;
    let (events, _) = stream.until_response(&json!(id)).await;
    let ids = events
        .iter()
        .map(|event| event.message()["params"]["update"]["messageId"].clone());
    let mut ids: Vec<String> = ids.filter_map(|id| Some(id.as_str()?.to_owned())).collect();
    ids.dedup();
    ids
}

#[tokio::test]
async fn f6_a_fork_at_a_message_does_not_read_the_log() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.gateway_url(0), ALICE).await;
    let session = alice.new_session().await;
    let turn = async |id: u64, text: &str| {
        let mut stream = alice.one_shot(prompt(json!(id), &session, text)).await;
        while stream.next().await.expect("an event").message()["id"] != id {}
    };
    turn(1, "/mode ask\nfirst words").await;
    let first = messages(&alice, 2, &session).await;
    let user = first.first().expect("messages");
    turn(3, &format!("/count {EVENTS}")).await;
    turn(4, "/mode architect\nlast words").await;

    let fork = async |id: u64, at: &str| -> Value {
        let meta = json!({ "baton/fork": { "atMessageId": at } });
        let params = json!({ "sessionId": session, "_meta": meta });
        let fork =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/fork", "params": params });
        let before = sent(&cluster);
        let answer = alice.one_shot(fork).await.response(&json!(id)).await;
        let after = sent(&cluster);
        let (bytes, commands) = (after.0 - before.0, after.1 - before.1);
        println!("{at}: {bytes} bytes, {commands} commands");
        // Workers look for work meanwhile.
        assert!(bytes < 100_000, "{at}: {bytes} bytes, {commands} commands");
        answer["result"].clone()
    };
    // The user's first words: in the very beginning, and the mode has changed since.
    let child = fork(5, user).await;
    assert_eq!(child["modes"]["currentModeId"], "code", "{child}");
    let child = child["sessionId"].as_str().expect("a fork");
    assert_eq!(messages(&alice, 6, child).await, std::slice::from_ref(user));
    // The agent's last ones.
    let all = messages(&alice, 7, &session).await;
    let child = fork(8, all.last().expect("messages")).await;
    assert_eq!(child["modes"]["currentModeId"], "architect", "{child}");
    let child = child["sessionId"].as_str().expect("a fork");
    assert_eq!(messages(&alice, 9, child).await, all);
}

#[tokio::test]
async fn a_message_of_the_agent_is_found_behind_many_others() {
    let cluster = Cluster::start_with_keys().await;
    let alice = Client::with_key(&cluster.gateway_url(0), ALICE).await;
    let session = alice.new_session().await;
    for (id, text) in [
        (1, "/mode ask\nfirst words"),
        (2, "/count 5000"),
        (3, "/mode code\nlast"),
    ] {
        let mut stream = alice.one_shot(prompt(json!(id), &session, text)).await;
        while stream.next().await.expect("an event").message()["id"] != id {}
    }
    let all = messages(&alice, 4, &session).await;
    let meta = json!({ "baton/fork": { "atMessageId": all[1] } });
    let params = json!({ "sessionId": session, "_meta": meta });
    let fork = json!({ "jsonrpc": "2.0", "id": 5, "method": "session/fork", "params": params });
    let child = alice.one_shot(fork).await.response(&json!(5)).await;
    assert_eq!(child["result"]["modes"]["currentModeId"], "ask", "{child}");
    let child = child["result"]["sessionId"].as_str().expect("a fork");
    assert_eq!(messages(&alice, 6, child).await, all[..2]);
}
