//! How updates of a session are shown.

use serde_json::Value;

use super::screen::{Colour, Screen, Speaker};
use super::session::{Session, list, text};

pub fn update(screen: &mut Screen, session: &mut Session, update: &Value) {
    match update["sessionUpdate"].as_str().unwrap_or_default() {
        "agent_message_chunk" => screen.say(Speaker::Agent, &content(&update["content"])),
        "agent_thought_chunk" => screen.say(Speaker::Thoughts, &content(&update["content"])),
        "user_message_chunk" => screen.say(Speaker::User, &content(&update["content"])),
        "tool_call" | "tool_call_update" => tool(screen, session, update),
        "plan" => plan(screen, update),
        "current_mode_update" => mode(screen, session, &text(&update["currentModeId"])),
        "config_option_update" => options(screen, session, &update["configOptions"]),
        "available_commands_update" => commands(screen, session, update),
        "session_info_update" => title(screen, session, update),
        "usage_update" => {
            let (used, size) = (&update["used"], &update["size"]);
            screen.note(&format!("context: {used} of {size} tokens"));
        }
        "notice" => {
            let (title, more) = (text(&update["title"]), text(&update["description"]));
            screen.note(&format!("{}: {title} {more}", text(&update["severity"])));
        }
        "compaction_update" => {
            screen.note(&format!("compaction: {}", status(&update["status"])));
        }
        // The protocol grows; what we do not know is nothing to show.
        _ => {}
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
fn tool(screen: &mut Screen, session: &mut Session, update: &Value) {
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
        "completed" => Colour::Green,
        "failed" => Colour::Red,
        _ => Colour::Yellow,
    };
    screen.line(&[
        (colour, &format!("[{}]", now.1)),
        (Colour::None, " "),
        (Colour::None, &now.0),
    ]);
    session.tools.insert(id, now);
}

fn plan(screen: &mut Screen, update: &Value) {
    screen.line(&[(Colour::Bold, "Plan")]);
    for entry in list(&update["entries"]) {
        let (mark, colour) = match entry["status"].as_str() {
            Some("completed") => ("  [x] ", Colour::Green),
            Some("in_progress") => ("  [>] ", Colour::Yellow),
            _ => ("  [ ] ", Colour::None),
        };
        screen.line(&[(colour, mark), (Colour::None, &text(&entry["content"]))]);
    }
}

pub fn mode(screen: &mut Screen, session: &mut Session, mode: &str) {
    if session.mode != mode {
        session.mode = mode.to_owned();
        screen.note(&format!("mode: {mode}"));
    }
}

pub fn options(screen: &mut Screen, session: &mut Session, options: &Value) {
    for option in session.set_options(options) {
        screen.note(&format!("{}: {}", option.id, option.value));
    }
}

fn commands(screen: &mut Screen, session: &mut Session, update: &Value) {
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

fn title(screen: &mut Screen, session: &mut Session, update: &Value) {
    let title = text(&update["title"]);
    if !title.is_empty() && session.title.as_ref() != Some(&title) {
        screen.note(&format!("title: {title}"));
        session.title = Some(title);
    }
}
