//! Converted files as a few words a line.

use std::collections::BTreeMap;
use std::io::Cursor;

use baton_histories::line::HistoryLine;
use baton_histories::report::ImportReport;
use baton_histories::{ConversionError, SourceTool, convert};
use serde_json::Value;

pub struct ToldFile {
    pub sessions: Vec<ToldSession>,
    pub report: ImportReport,
}

pub struct ToldSession {
    pub branch: String,
    pub title: String,
    pub cwd: String,
    pub live: bool,
    /// The branch it continues, and how many events they share.
    pub fork: Option<(String, u64)>,
    pub events: Vec<String>,
    pub updates: Vec<Value>,
}

pub fn seed(target: &str, name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds");
    std::fs::read(format!("{folder}/{target}/{name}")).expect("the file is there")
}

pub fn converted(tool: SourceTool, file: &[u8]) -> Result<ToldFile, ConversionError> {
    let mut lines = Vec::new();
    let report = convert(tool, &mut Cursor::new(file), &mut lines)?;
    let mut sessions: Vec<ToldSession> = Vec::new();
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        match serde_json::from_slice(line).expect("a line of a history") {
            HistoryLine::Session(head) => sessions.push(ToldSession {
                branch: head.branch,
                title: head.title,
                cwd: head.cwd,
                live: head.live,
                fork: head.fork.map(|fork| (fork.branch, fork.after)),
                events: Vec::new(),
                updates: Vec::new(),
            }),
            event => {
                let session = sessions.last_mut().expect("a session comes first");
                session.events.push(words(&event));
                if let HistoryLine::User(update) | HistoryLine::Update(update) = event {
                    session.updates.push(update);
                }
            }
        }
    }
    Ok(ToldFile { sessions, report })
}

fn words(event: &HistoryLine<Value>) -> String {
    match event {
        HistoryLine::Session(_) => unreachable!("no event"),
        HistoryLine::Begin => "begin".into(),
        HistoryLine::End(ending) => {
            let reason = serde_json::to_value(ending.stop_reason).expect("a reason");
            let tokens = ending
                .usage
                .map(|usage| format!(" {} tokens", usage.total_tokens));
            format!(
                "end {}{}",
                reason.as_str().unwrap_or_default(),
                tokens.unwrap_or_default()
            )
        }
        HistoryLine::User(update) => format!("user: {}", content(&update["content"])),
        HistoryLine::Update(update) => update_words(update),
    }
}

fn update_words(update: &Value) -> String {
    let text = |field: &str| update[field].as_str().unwrap_or("-").to_owned();
    match update["sessionUpdate"].as_str().expect("a kind") {
        "agent_message_chunk" => format!("agent: {}", content(&update["content"])),
        "agent_thought_chunk" => format!("thought: {}", content(&update["content"])),
        "tool_call" => format!(
            "call {} [{}] {}",
            text("toolCallId"),
            text("kind"),
            text("title")
        ),
        "tool_call_update" => {
            let parts = update["content"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|part| match part["type"].as_str() {
                    Some("diff") => format!("diff {} > {}", part["oldText"], part["newText"]),
                    _ => content(&part["content"]),
                });
            let parts = parts.collect::<Vec<_>>().join("; ");
            format!("result {} {}: {parts}", text("toolCallId"), text("status"))
        }
        "plan" => {
            // Fields in one order: serde_json keeps that of the text if another crate wants it to.
            let entries = update["entries"].clone();
            let entries: Vec<BTreeMap<String, Value>> =
                serde_json::from_value(entries).expect("entries");
            format!("plan {}", serde_json::to_string(&entries).expect("JSON"))
        }
        "notice" => format!("notice {}: {}", text("severity"), text("title")),
        "compaction_update" => {
            format!(
                "compaction {} {}",
                text("compactionId"),
                content(&update["summary"][0])
            )
        }
        other => other.to_owned(),
    }
}

fn content(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("image") => format!("({} {})", block["mimeType"], block["data"]),
        Some(kind) => format!("({kind})"),
        None => String::new(),
    }
}

impl ToldFile {
    pub fn of(&self, branch: &str) -> &ToldSession {
        let found = self
            .sessions
            .iter()
            .find(|session| session.branch == branch);
        found.unwrap_or_else(|| panic!("there is no branch {branch}"))
    }

    /// The words of a branch with those that it shares, without what belongs to turns.
    pub fn all_words(&self, branch: &str) -> Vec<String> {
        let session = self.of(branch);
        let shared = session.fork.as_ref().map(|(with, after)| {
            let mut events = self.all_events(with);
            events.truncate(*after as usize);
            events
        });
        let events = shared
            .unwrap_or_default()
            .into_iter()
            .chain(session.events.clone());
        let words = |event: &String| event.starts_with("user: ") || event.starts_with("agent: ");
        events.filter(words).collect()
    }

    fn all_events(&self, branch: &str) -> Vec<String> {
        let session = self.of(branch);
        let mut events = session.fork.as_ref().map_or(Vec::new(), |(with, after)| {
            let mut events = self.all_events(with);
            events.truncate(*after as usize);
            events
        });
        events.extend(session.events.clone());
        events
    }
}
