//! A6: a prompt that is sent again is joined, though its session has rested meanwhile.

use serde_json::{Value, json};

use super::site::{Site, field, key};
use crate::support::cluster::redis_cli;
use crate::support::http::prompt;
use crate::support::sse::counted;
use crate::support::{Client, Redis, until};

struct Scene {
    site: Site,
    redis: Redis,
    url: String,
    client: Client,
    session: String,
}

impl Scene {
    async fn start() -> Self {
        let redis = Redis::start().await;
        let mut site = Site::new();
        let url = site.add_gateway(&redis.store()).await;
        site.add_worker(&redis.store(), &[]).await;
        let client = site.client(&url).await;
        let session = client.new_session().await;
        Self {
            site,
            redis,
            url,
            client,
            session,
        }
    }

    fn prompt(&self, id: Value) -> Value {
        prompt(id, &self.session, "/count 2")
    }

    /// The chunks tell how many prompts the agent has seen.
    async fn runs_as(&self, by: &Client, id: Value, number: u64) {
        let mut stream = by.one_shot(self.prompt(id.clone())).await;
        assert_eq!(stream.turn(&id).await, counted(2, number));
    }

    /// Until it was made smaller.
    async fn rests(&self) {
        let frozen = key("z", &self.session);
        until("the session rests", async || {
            let there = redis_cli(self.redis.port, &["exists", &frozen]);
            there.starts_with('1').then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a6_the_first_of_several_prompts_is_joined_after_a_rest() {
    let scene = Scene::start().await;
    for number in 1..=5 {
        scene.runs_as(&scene.client, json!(number), number).await;
    }
    scene.rests().await;
    for number in 1..=5 {
        scene.runs_as(&scene.client, json!(number), number).await;
    }
    scene.runs_as(&scene.client, json!(6), 6).await;
}

#[tokio::test]
async fn a6_another_clients_requests_do_not_make_a_prompt_run_twice() {
    let scene = Scene::start().await;
    scene.runs_as(&scene.client, json!(1), 1).await;
    let other = scene.site.client(&scene.url).await;
    for number in 2..22 {
        scene.runs_as(&other, json!(number), number).await;
    }
    scene.runs_as(&scene.client, json!(1), 1).await;
    scene.rests().await;
    scene.runs_as(&scene.client, json!(1), 1).await;
    scene.runs_as(&scene.client, json!(2), 22).await;
}

/// A failover took the prompt back, its worker has read it, and its client sends it again: the body tells all of the turn
/// that the first one began.
#[tokio::test]
async fn a_prompt_that_was_lost_while_it_ran_is_told_from_its_beginning() {
    let scene = Scene::start().await;
    let port = scene.redis.port;
    let asked = prompt(json!(1), &scene.session, "/count 100 delay=20");
    let mut first = scene.client.one_shot(asked.clone()).await;
    while first.next().await.expect("an event").chunk().is_none() {}
    drop(first);
    redis_cli(port, &["del", &key("c", &scene.session)]);
    let before = field(port, &scene.session, "cseq").parse::<u64>();
    let before = (before.expect("a number") - 1).to_string();
    let session = key("s", &scene.session);
    redis_cli(port, &["hset", &session, "known", "", "cseq", &before]);
    let mut again = scene.client.one_shot(asked).await;
    assert_eq!(again.turn(&json!(1)).await, counted(100, 1));
    until("nothing waits", async || {
        let waiting = redis_cli(port, &["hlen", &key("c", &scene.session)]);
        waiting.starts_with('0').then_some(())
    })
    .await;
}
