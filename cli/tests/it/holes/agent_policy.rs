//! What an agent is told of what clients say. A client's `_meta` and methods of its own are options to some
//! agents, and some of those run commands.

mod claude;
mod forged;
mod options;
mod told;

use serde_json::{Value, json};

use crate::support::auth::ALICE;
use crate::support::process::Process;
use crate::support::{Client, Cluster, until};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// What must not reach an agent, and what may.
fn poison() -> Value {
    json!({
        "claudeCode": { "options": { "evil": true } },
        "baton/bound": { "evil": "vm-17" },
        "evil": [{ "evil": 1 }],
        "traceparent": TRACE,
        "tracestate": "a=b",
        "baggage": "c=d",
    })
}

/// What is left of it.
fn harmless() -> Value {
    json!({ "traceparent": TRACE, "tracestate": "a=b", "baggage": "c=d" })
}

/// One more worker, whose agent is at `/acp/NAME`.
pub(super) async fn employ(
    cluster: &mut Cluster,
    name: &str,
    agent: &str,
    variables: &[(&str, &str)],
) -> String {
    let number = cluster.workers.len();
    let worker: Process = cluster.worker_with(number, |command| {
        command.env("BATON_AGENT", agent);
        command.env("BATON_AGENT_NAME", name);
        command.envs(variables.iter().copied());
    });
    cluster.workers.push(worker);
    let url = format!("{}/{name}", cluster.url());
    until("the agent is registered", async || {
        Client::try_with_key(&url, ALICE).await
    })
    .await;
    url
}

pub(super) async fn call(client: &Client, id: &str, method: &str, params: Value) -> Value {
    let id = json!(id);
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    client.one_shot(message).await.response(&id).await
}

async fn notify(client: &Client, method: &str, params: Value) {
    let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    client.post(message).await;
}
