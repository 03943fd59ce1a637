//! A3: what is accepted after a store has lost its tail is carried out, though its numbers were given before.

use serde_json::{Value, json};

use super::site::{Site, field, is_quiet};
use crate::support::cluster::redis_cli;
use crate::support::http::{JSON, cancel, prompt};
use crate::support::proxy::{Mood, Proxy};
use crate::support::{Client, Redis, Stream, until};

/// Commands that are done with before the store forgets them.
const FORGOTTEN: u64 = 4;

/// A primary, a replica that can be held back, and Baton on whichever of them is the primary.
struct Pair {
    _site: Site,
    primary: Redis,
    replica: Redis,
    /// From the replica to the primary.
    link: Proxy,
    /// From Baton to the primary.
    front: Proxy,
    client: Client,
}

impl Pair {
    async fn start() -> Self {
        let primary = Redis::start_with(&["--repl-diskless-sync-delay", "0"]).await;
        let (link, front) = (
            Proxy::start(primary.port).await,
            Proxy::start(primary.port).await,
        );
        let by = link.port.to_string();
        let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &by]).await;
        let store = format!("redis://127.0.0.1:{}", front.port);
        let mut site = Site::new();
        let url = site.add_gateway(&store).await;
        site.add_worker(&store, &[]).await;
        Self {
            client: site.client(&url).await,
            _site: site,
            primary,
            replica,
            link,
            front,
        }
    }

    /// The replica has everything up to now, and gets nothing from now on.
    async fn hold_back(&self) {
        redis_cli(self.primary.port, &["set", "mark", "here"]);
        until("the replica has caught up", async || {
            let mark = redis_cli(self.replica.port, &["get", "mark"]);
            mark.starts_with("here").then_some(())
        })
        .await;
        self.link.set(Mood::Stalled);
    }

    /// The primary dies, and the replica takes its place with what it has.
    fn promote(&mut self, session: &str) {
        self.link.cut();
        let said = redis_cli(self.replica.port, &["replicaof", "no", "one"]);
        assert!(said.starts_with("OK"), "{said}");
        let last = |redis: &Redis| field(redis.port, session, "cseq").parse::<u64>();
        let [before, after] = [&self.primary, &self.replica].map(|redis| last(redis).unwrap());
        assert_eq!(before, after + FORGOTTEN, "the tail is lost");
        self.primary.process.kill();
        self.front.aim(self.replica.port);
    }

    /// Until it is accepted.
    async fn post(&self, message: &Value) {
        until("it is accepted", async || {
            let response = self.client.send(&[JSON], message.to_string()).await;
            response.status().is_success().then_some(())
        })
        .await;
    }

    /// A turn runs whose claim the replica has; what was done since then it has not.
    async fn begin(&self, text: &str) -> (String, Stream) {
        let session = self.client.new_session().await;
        let mut stream = self.client.session_stream(&session, None).await;
        let asked = prompt(json!(1), &session, text);
        self.client.post(asked).await;
        while stream.next().await.expect("an event").chunk().is_none() {}
        self.hold_back().await;
        for number in 0..FORGOTTEN {
            let id = json!(format!("m{number}"));
            let mode = ["ask", "code"][number as usize % 2];
            let params = json!({ "sessionId": session, "modeId": mode });
            let set = json!({ "jsonrpc": "2.0", "id": id, "method": "session/set_mode", "params": params });
            self.client.post(set).await;
            let answer = stream.response(&id).await;
            assert!(answer.get("result").is_some(), "{answer}");
        }
        (session, stream)
    }

    /// The answer to a prompt, from the log: streams may have been reset.
    async fn answer(&self, prompt: &Value) -> Value {
        let mut stream = self.client.one_shot(prompt.clone()).await;
        stream.response(&prompt["id"]).await
    }
}

#[tokio::test]
async fn a3_a_cancel_after_the_store_lost_its_tail_is_carried_out() {
    let mut pair = Pair::start().await;
    let asked = "/count 1\n/sleep 120000";
    let (session, _stream) = pair.begin(asked).await;
    pair.promote(&session);
    pair.post(&cancel(&session)).await;
    let answer = pair.answer(&prompt(json!(1), &session, asked)).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    is_quiet(pair.replica.port).await;
}

#[tokio::test]
async fn a3_a_prompt_after_the_store_lost_its_tail_is_answered() {
    let mut pair = Pair::start().await;
    let (session, _stream) = pair.begin("/count 300 delay=20").await;
    pair.promote(&session);
    let next = prompt(json!(2), &session, "/count 3");
    pair.post(&next).await;
    let answer = pair.answer(&next).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    is_quiet(pair.replica.port).await;
}
