//! What a request costs on Redis, counted and not timed, so that no other load on the machine moves it. A change that
//! makes one dearer is named here; where the time goes is in docs/internals/performance.md.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::support::cluster::redis_cli;
use crate::support::http::{new_session, prompt};
use crate::support::{Client, Cluster};

/// Beyond this a figure has changed.
const TOLERANCE: f64 = 0.03;

/// Of one request: commands that a process sent, scripts among them, commands that those called, bytes of the commands
/// that were sent, and bytes that were published.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RedisCost {
    sent: usize,
    scripts: usize,
    called: usize,
    bytes: usize,
    published: usize,
}

/// With 20 chunks of 100 bytes, in a session that its worker holds.
const PROMPT: RedisCost = RedisCost {
    sent: 4,
    scripts: 2,
    called: 18,
    bytes: 4684,
    published: 3403,
};
/// `session/new` until it is answered on the connection's stream.
const NEW_SESSION: RedisCost = RedisCost {
    sent: 5,
    scripts: 5,
    called: 32,
    bytes: 3389,
    published: 829,
};

#[tokio::test]
async fn a_request_costs_on_redis_what_it_did() {
    let cluster = Cluster::start().await;
    let client = Client::initialize(&cluster.gateway_url(0)).await;
    let watched = RedisMonitor::start(cluster.redis.port);
    let mut stream = client.connection_stream(None).await;
    let mut made = Vec::new();
    let mut session = String::new();
    // The first one is not like the others: scripts have to be sent, and modes to be kept.
    for number in 100..106 {
        watched.until_now();
        client.post(new_session(json!(number))).await;
        let answer = stream.response(&json!(number)).await;
        session = answer["result"]["sessionId"]
            .as_str()
            .expect("an id")
            .to_owned();
        made.push(cost_of(&watched.until_now(), &session));
    }
    let mut stream = client.session_stream(&session, None).await;
    let mut asked = Vec::new();
    for number in 10..30 {
        watched.until_now();
        let message = prompt(json!(number), &session, "/count 20 size=100");
        client.post(message).await;
        stream.turn(&json!(number)).await;
        asked.push(cost_of(&watched.until_now(), &session));
    }
    let (made, asked) = (median(&made[1..]), median(&asked));
    let grown: Vec<String> = [
        ("session/new", made, NEW_SESSION),
        ("session/prompt", asked, PROMPT),
    ]
    .into_iter()
    .flat_map(|(request, now, before)| changes(request, now, before))
    .collect();
    assert!(
        grown.is_empty(),
        "{}\nIf that is worth it, or if it is less, write the new figures here: {made:?} {asked:?}",
        grown.join("\n")
    );
}

fn changes(request: &str, now: RedisCost, before: RedisCost) -> Vec<String> {
    let of = |cost: RedisCost| {
        [
            ("commands sent", cost.sent),
            ("scripts", cost.scripts),
            ("commands called by scripts", cost.called),
            ("bytes sent", cost.bytes),
            ("bytes published", cost.published),
        ]
    };
    let both = of(now).into_iter().zip(of(before));
    let changed = both.filter(|((_, now), (_, before))| {
        now.abs_diff(*before) as f64 > *before as f64 * TOLERANCE
    });
    changed
        .map(|((what, now), (_, before))| format!("{request}: {now} {what}, where it was {before}"))
        .collect()
}

fn median(costs: &[RedisCost]) -> RedisCost {
    let of = |figure: fn(&RedisCost) -> usize| {
        let mut all: Vec<usize> = costs.iter().map(figure).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    RedisCost {
        sent: of(|cost| cost.sent),
        scripts: of(|cost| cost.scripts),
        called: of(|cost| cost.called),
        bytes: of(|cost| cost.bytes),
        published: of(|cost| cost.published),
    }
}

/// Of what was seen, what is about the session's record, log and inbox, or notes where its request went. What processes do
/// every second anyway is about other keys.
fn cost_of(seen: &[SeenCommand], session: &str) -> RedisCost {
    let mut cost = RedisCost::default();
    let mut counts = false;
    for command in seen {
        if !command.by_script {
            counts = command.is_about(session);
        }
        if !counts {
            continue;
        }
        let name = command.words[0].to_ascii_uppercase();
        if command.by_script {
            cost.called += 1;
            if name == "SPUBLISH" {
                cost.published += command.words[2].len();
            }
        } else {
            cost.sent += 1;
            cost.scripts += usize::from(name.starts_with("EVAL"));
            cost.bytes += command.bytes();
        }
    }
    cost
}

struct SeenCommand {
    by_script: bool,
    words: Vec<String>,
}

impl SeenCommand {
    /// A line of MONITOR: `time [database address] "WORD" "WORD"`, where other bytes are written as `\x00`.
    fn read(line: &str) -> Option<Self> {
        let (head, rest) = line.split_once("] ")?;
        let mut words = Vec::new();
        let mut letters = rest.chars();
        while letters.next()? == '"' {
            let mut word = String::new();
            loop {
                match letters.next()? {
                    '"' => break,
                    '\\' if letters.next()? == 'x' => {
                        letters.nth(1)?;
                        word.push('?');
                    }
                    '\\' => word.push('?'),
                    letter => word.push(letter),
                }
            }
            words.push(word);
            if letters.next().is_none() {
                break;
            }
        }
        Some(Self {
            by_script: head.ends_with("lua"),
            words,
        })
    }

    fn is_about(&self, session: &str) -> bool {
        let is_script = self.words[0].starts_with("EVAL");
        let key = self.words.get(if is_script { 3 } else { 1 });
        key.is_some_and(|key| key.ends_with(&format!(":s:{session}")) || key.contains("}:q:"))
    }

    /// As it is sent.
    fn bytes(&self) -> usize {
        let of = |word: &String| word.len() + word.len().to_string().len() + 5;
        self.words.iter().map(of).sum::<usize>() + 4
    }
}

/// Everything that Redis is told, in order.
struct RedisMonitor {
    process: Child,
    lines: Receiver<String>,
    port: u16,
}

impl RedisMonitor {
    fn start(port: u16) -> Self {
        let mut process = Command::new("redis-cli")
            .args(["-p", &port.to_string(), "monitor"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli runs");
        let output = process.stdout.take().expect("it is piped");
        let (sink, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sink.send(line).is_err() {
                    return;
                }
            }
        });
        let monitor = Self {
            process,
            lines,
            port,
        };
        assert_eq!(monitor.next(), "OK");
        monitor
    }

    fn next(&self) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(30));
        line.expect("Redis tells everything")
    }

    /// What was told since the last call.
    fn until_now(&self) -> Vec<SeenCommand> {
        redis_cli(self.port, &["echo", "until-now"]);
        let mut seen = Vec::new();
        loop {
            let line = self.next();
            if line.contains("until-now") {
                return seen;
            }
            seen.extend(SeenCommand::read(&line));
        }
    }
}

impl Drop for RedisMonitor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
