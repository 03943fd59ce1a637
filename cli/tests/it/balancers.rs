//! Real balancers, with the configurations of `deploy/`, in front of two gateways. Whatever decides
//! where a request goes, clients get what they ask for. The official ones are in `clients`, restarts in
//! `rolling`.

mod carrying;
mod losing;
mod retrying;
mod routing;
mod tokens;

use serde_json::{Value, json};

use crate::support::balancer::Kind;
use crate::support::{Cluster, Stream};

macro_rules! behind {
    ($($name:ident: $kind:ident;)*) => {
        $(mod $name {
            use super::*;

            #[tokio::test]
            async fn everything_is_carried_and_a_killed_gateway_is_not_missed() {
                let mut cluster = Cluster::start_behind(Kind::$kind).await;
                match Kind::$kind {
                    Kind::RoundRobin => routing::a_session_has_many_gateways(&cluster).await,
                    _ => routing::a_session_has_one_gateway(&cluster).await,
                }
                carrying::events_come_at_once(&cluster).await;
                carrying::a_socket_works(&cluster).await;
                carrying::an_agent_has_its_path(&cluster).await;
                carrying::names_are_passed_on_and_metrics_are_not(&cluster).await;
                losing::a_killed_gateway_is_not_missed(&mut cluster).await;
            }

            #[tokio::test]
            async fn only_what_does_not_happen_twice_is_sent_again() {
                retrying::only_what_does_not_happen_twice_is_sent_again(Kind::$kind).await;
            }
        })*
    };
}

behind! {
    round_robin: RoundRobin;
    nginx: Nginx;
    haproxy: Haproxy;
    envoy: Envoy;
}

/// A counter or gauge of each gateway, asked past the balancer.
async fn measured(cluster: &Cluster, metric: &str) -> [u64; 2] {
    let mut values = [0; 2];
    for (number, value) in values.iter_mut().enumerate() {
        let url = cluster.gateway_url(number).replace("/acp", "/metrics");
        let Ok(response) = reqwest::get(url).await else {
            continue;
        };
        let text = response.text().await.expect("metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(metric));
        let number = line.and_then(|line| line.trim().parse().ok());
        *value = number.unwrap_or_else(|| panic!("no {metric} in {text}"));
    }
    values
}

/// What the gateways have heard so far, whatever became of it.
async fn heard(cluster: &Cluster) -> [u64; 2] {
    let [messages, refused] = [
        measured(cluster, "baton_gateway_messages_total").await,
        measured(cluster, "baton_gateway_refused_total").await,
    ];
    [messages[0] + refused[0], messages[1] + refused[1]]
}

async fn question(stream: &mut Stream) -> Value {
    loop {
        let message = stream.next().await.expect("the stream goes on").message();
        if message["method"] == "session/request_permission" {
            return message;
        }
    }
}

fn allowed(question: &Value) -> Value {
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome })
}
