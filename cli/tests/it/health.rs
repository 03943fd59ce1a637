//! `baton health`, as containers ask it.

use std::process::Output;

use crate::support::process::baton;
use crate::support::{Cluster, until};

async fn health(url: String) -> Output {
    let asked = tokio::task::spawn_blocking(move || baton().arg("health").arg(url).output());
    asked.await.expect("it does not panic").expect("baton runs")
}

#[tokio::test]
async fn it_says_what_a_gateway_waits_for_and_when_there_is_none() {
    let mut cluster = Cluster::start().await;
    let url = cluster.gateway_url(0).replace("/acp", "/readyz");
    let ready = health(url.clone()).await;
    assert_eq!(ready.status.code(), Some(0));
    assert_eq!(ready.stdout, b"ready\n");

    cluster.redis.process.kill();
    let said = until("not ready", async || {
        let output = health(url.clone()).await;
        (output.status.code() == Some(1))
            .then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    })
    .await;
    assert!(
        said.contains("503") && said.contains("waiting for the store"),
        "{said}"
    );

    cluster.gateways[0].kill();
    let gone = health(url.clone()).await;
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8_lossy(&gone.stderr);
    assert!(said.contains("no answer") && said.contains(&url), "{said}");
}
