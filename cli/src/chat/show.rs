//! How updates of a session are shown.

use baton_protocol::{UpdateKind, update};
use serde_json::Value;

use super::screen::{ChatScreen, Speaker, TextColour};
use super::session::{ChatSession, list, text};

pub fn update(screen: &mut ChatScreen, session: &mut ChatSession, update: &Value) {
    match update::kind_of(update) {
        UpdateKind::AgentMessageChunk => screen.say(Speaker::Agent, &content(&update["content"])),
        UpdateKind::AgentThoughtChunk => {
            screen.say(Speaker::Thoughts, &content(&update["content"]))
        }
        UpdateKind::UserMessageChunk => screen.say(Speaker::User, &content(&update["content"])),
        UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => tool(screen, session, update),
        UpdateKind::Plan => plan(screen, update),
        UpdateKind::CurrentMode => mode(screen, session, &text(&update["currentModeId"])),
        UpdateKind::ConfigOption => options(screen, session, &update["configOptions"]),
        UpdateKind::AvailableCommands => commands(screen, session, update),
        UpdateKind::SessionInfo => title(screen, session, update),
        UpdateKind::Usage => {
            let (used, size) = (&update["used"], &update["size"]);
            screen.note(&format!("context: {used} of {size} tokens"));
        }
        UpdateKind::Notice => {
            let (title, more) = (text(&update["title"]), text(&update["description"]));
            screen.note(&format!("{}: {title} {more}", text(&update["severity"])));
        }
        UpdateKind::Compaction => {
            screen.note(&format!("compaction: {}", status(&update["status"])));
        }
        // The protocol grows; what we do not know is nothing to show.
        UpdateKind::Other => {}
    }
}

/// Text, or what else it is.
fn content(block: &Value) -> String {
    match (block["text"].as_str(), block["uri"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(uri)) => format!("[{uri}]"),
        (None, None) => format!("[{}]", text(&block["type"])),
    }
}

fn status(value: &Value) -> String {
    text(value).replace('_', " ")
}

/// A line whenever it gets further.
fn tool(screen: &mut ChatScreen, session: &mut ChatSession, update: &Value) {
    let id = text(&update["toolCallId"]);
    let known = session.tools.get(&id).cloned();
    let (mut title, mut state) = known.clone().unwrap_or(("a tool".into(), "pending".into()));
    if update["title"].is_string() {
        title = text(&update["title"]);
    }
    if update["status"].is_string() {
        state = status(&update["status"]);
    }
    let now = (title, state);
    if known.as_ref() == Some(&now) {
        return;
    }
    let colour = match now.1.as_str() {
        "completed" => TextColour::Green,
        "failed" => TextColour::Red,
        _ => TextColour::Yellow,
    };
    screen.line(&[
        (colour, &format!("[{}]", now.1)),
        (TextColour::None, " "),
        (TextColour::None, &now.0),
    ]);
    session.tools.insert(id, now);
}

fn plan(screen: &mut ChatScreen, update: &Value) {
    screen.line(&[(TextColour::Bold, "Plan")]);
    for entry in list(&update["entries"]) {
        let (mark, colour) = match entry["status"].as_str() {
            Some("completed") => ("  [x] ", TextColour::Green),
            Some("in_progress") => ("  [>] ", TextColour::Yellow),
            _ => ("  [ ] ", TextColour::None),
        };
        screen.line(&[(colour, mark), (TextColour::None, &text(&entry["content"]))]);
    }
}

pub fn mode(screen: &mut ChatScreen, session: &mut ChatSession, mode: &str) {
    if session.mode != mode {
        session.mode = mode.to_owned();
        screen.note(&format!("mode: {mode}"));
    }
}

pub fn options(screen: &mut ChatScreen, session: &mut ChatSession, options: &Value) {
    for option in session.set_options(options) {
        screen.note(&format!("{}: {}", option.id, option.value));
    }
}

fn commands(screen: &mut ChatScreen, session: &mut ChatSession, update: &Value) {
    let commands = list(&update["availableCommands"]);
    let commands = commands.map(|command| (text(&command["name"]), text(&command["description"])));
    session.commands = commands.collect();
    let names: Vec<_> = session
        .commands
        .iter()
        .map(|(name, _)| format!("/{name}"))
        .collect();
    screen.note(&format!("the agent's commands: {}", names.join(" ")));
}

fn title(screen: &mut ChatScreen, session: &mut ChatSession, update: &Value) {
    let title = text(&update["title"]);
    if !title.is_empty() && session.title.as_ref() != Some(&title) {
        screen.note(&format!("title: {title}"));
        session.title = Some(title);
    }
}
