//! Agents that are programs. The one in `tests/agents/actor.py` does what it is told, also what no good
//! agent would do; those of others are in `real`.

mod bringing_back;
mod carrying;
mod choosing;
mod clientele;
mod crashing;
mod hostile;
mod logging_in;
mod memory;
mod named;
mod real;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::cluster::{address, url};
use crate::support::http::prompt;
use crate::support::process::{Process, free_port};
use crate::support::{Client, Cluster, Event, Served, Stream, until};

pub(crate) fn actor(arguments: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/actor.py");
    format!("stdio:python3 {} {arguments}", file.display())
}

/// Everything in one process, with this agent.
pub(crate) async fn served(actor_arguments: &str, arguments: &[&str]) -> Served {
    served_by(&actor(actor_arguments), arguments).await
}

pub(crate) async fn served_by(agent: &str, arguments: &[&str]) -> Served {
    let mut all = vec!["--agent", agent, "--ephemeral"];
    all.extend(arguments);
    Served::start_with(&all).await
}

/// A cluster with two more workers that run one agent, at `/acp/NAME`.
pub(crate) struct Staged {
    /// They end first: their logs are in the cluster's directory.
    workers: Vec<Process>,
    /// Where the two tell of themselves.
    probes: [String; 2],
    cluster: Cluster,
    name: String,
}

impl Staged {
    pub(crate) async fn start(actor_arguments: &str, variables: &[(&str, &str)]) -> Self {
        Self::with("actor", &actor(actor_arguments), variables).await
    }

    pub(crate) async fn with(name: &str, agent: &str, variables: &[(&str, &str)]) -> Self {
        let cluster = Cluster::start().await;
        let ports = [free_port(), free_port()];
        let start = |number, port| {
            cluster.worker_with(number, |command| {
                command.env("BATON_AGENT", agent);
                command.env("BATON_PROBE_LISTEN", address(port));
                command.envs(variables.iter().copied());
            })
        };
        let workers = vec![start(2, ports[0]), start(3, ports[1])];
        let staged = Self {
            cluster,
            workers,
            probes: ports.map(url),
            name: name.to_owned(),
        };
        until("the agents are registered", async || {
            let url = staged.cluster.url().replace("/acp", "/v1/agents");
            let listed = reqwest::get(url).await.ok()?.text().await.ok()?;
            let listed: Value = serde_json::from_str(&listed).ok()?;
            let mut agents = listed["agents"].as_array()?.iter();
            agents
                .any(|agent| agent["name"] == name && agent["workers"] == 2)
                .then_some(())
        })
        .await;
        staged
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.cluster.url(), self.name)
    }

    /// Which of the two holds the session.
    pub(crate) fn holder(&self, session: &str) -> usize {
        let worker = self.cluster.redis.worker_of(session);
        let mut all = self.workers.iter();
        let found = all.position(|process| process.output().contains(&worker));
        found.unwrap_or_else(|| panic!("no worker logged the id {worker:?}"))
    }
}

/// A session with a stream of its own.
pub(crate) struct Visit {
    pub(crate) client: Client,
    pub(crate) session: String,
    pub(crate) stream: Stream,
    pub(crate) prompts: u64,
}

impl Visit {
    pub(crate) async fn begin(url: &str) -> Self {
        let client = Client::initialize(url).await;
        let session = client.new_session().await;
        Self::of(client, session).await
    }

    pub(crate) async fn of(client: Client, session: String) -> Self {
        let stream = client.session_stream(&session, None).await;
        Self {
            client,
            session,
            stream,
            prompts: 0,
        }
    }

    /// Sends a prompt and does not wait. Returns its id.
    pub(crate) async fn ask(&mut self, text: &str) -> Value {
        self.prompts += 1;
        let id = json!(self.prompts);
        let message = prompt(id.clone(), &self.session, text);
        self.client.post(message).await;
        id
    }

    /// All that is said, in one piece, and the answer.
    pub(crate) async fn turn(&mut self, text: &str) -> (String, Value) {
        let id = self.ask(text).await;
        self.end_of(&id).await
    }

    pub(crate) async fn end_of(&mut self, id: &Value) -> (String, Value) {
        let (events, answer) = self.stream.until_response(id).await;
        (events.iter().filter_map(Event::chunk).collect(), answer)
    }

    /// What is said in a turn that ends well.
    pub(crate) async fn says(&mut self, text: &str) -> String {
        let (said, answer) = self.turn(text).await;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        said
    }

    /// What the agent has been told in this session, prompt by prompt.
    pub(crate) async fn told(&mut self) -> Vec<Vec<String>> {
        let said = self.says("recall").await;
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
    }

    /// The next request for permission.
    pub(crate) async fn question(&mut self) -> Value {
        loop {
            let event = self.stream.next().await.expect("the stream goes on");
            if event.message()["method"] == "session/request_permission" {
                return event.message();
            }
        }
    }

    pub(crate) async fn choose(&self, question: &Value, option: &str) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
        self.client.post(answer).await;
    }

    pub(crate) async fn next_chunk(&mut self) -> String {
        loop {
            let event = self.stream.next().await.expect("the stream goes on");
            if let Some(chunk) = event.chunk() {
                return chunk;
            }
        }
    }
}

/// What is marked as told by Baton, of what an agent was told.
pub const CONTEXT: &str = "<conversation-so-far>";

pub(crate) fn process(pid: &str) -> PathBuf {
    Path::new("/proc").join(pid)
}

/// Gone, or dead and not yet waited for.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(process(pid).join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map_or("", |(_, after)| after.trim());
    !state.is_empty() && !state.starts_with('Z')
}

/// What a process has started that still runs, and what that has started.
pub(crate) fn descendants(pid: &str) -> Vec<String> {
    let threads = std::fs::read_dir(process(pid).join("task"));
    let children = threads.into_iter().flatten().flatten().map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children"));
        children.unwrap_or_default()
    });
    let children: Vec<_> = children.collect();
    let children = children.iter().flat_map(|pids| pids.split_whitespace());
    let with_theirs = |pid: &str| [vec![pid.to_owned()], descendants(pid)].concat();
    children.flat_map(with_theirs).collect()
}

pub(crate) async fn is_gone(pid: &str) {
    until("the process ends", async || (!is_alive(pid)).then_some(())).await;
}
