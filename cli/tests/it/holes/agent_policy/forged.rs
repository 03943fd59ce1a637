//! Fields that an agent believes are Baton's.

use serde_json::{Value, json};

use super::{call, employ};
use crate::stdio::{Visit, actor};
use crate::support::auth::{ALICE, BOB};
use crate::support::{Client, Cluster};

/// The actor gives back the `_meta` of a prompt.
async fn bound(visit: &Visit, id: &str, meta: Value) -> Value {
    let text = json!({ "type": "text", "text": "say x", "_meta": { "baton/transcript": true } });
    let params = json!({ "sessionId": visit.session, "prompt": [text], "_meta": meta });
    let answer = call(&visit.client, id, "session/prompt", params).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    answer["result"]["_meta"].clone()
}

#[tokio::test]
async fn f1_nobody_writes_what_was_bound_to_anothers_session() {
    let mut cluster = Cluster::start_with_keys().await;
    // Not even where everything else passes.
    let open = [("BATON_ALLOW_AGENT_META", "*")];
    let url = employ(&mut cluster, "actor", &actor(""), &open).await;
    let mut alice = Visit::of_key(&url, ALICE).await;
    alice.says("bind sandbox vm-17").await;
    let bob = Visit::of_key(&url, BOB).await;
    let hers = json!({ "baton/bound": { "sandbox": "vm-17" }, "example": 1 });
    assert_eq!(
        bound(&bob, "1", hers.clone()).await,
        json!({ "example": 1 })
    );
    let escaped = json!({ "baton/bound": { "sandbox": "vm-17" } }).to_string();
    let escaped = escaped.replace("baton/", "\\u0062aton\\/");
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":"2","method":"session/prompt","params":{{"sessionId":"{}","prompt":[{{"type":"text","text":"say x"}}],"_meta":{escaped}}}}}"#,
        bob.session
    );
    let stream = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
    ];
    let response = bob.client.send(&stream, message).await;
    let answer = bob.client.stream(response).response(&json!("2")).await;
    assert_eq!(answer["result"], json!({ "stopReason": "end_turn" }));
    // And she gets hers, whatever she writes.
    let forged = json!({ "baton/bound": { "sandbox": "vm-1" } });
    let expected = json!({ "baton/bound": { "sandbox": "vm-17" } });
    assert_eq!(bound(&alice, "3", forged).await, expected);
}

impl Visit {
    async fn of_key(url: &str, key: &str) -> Self {
        let client = Client::with_key(url, key).await;
        let session = client.new_session().await;
        Self::of(client, session).await
    }
}
