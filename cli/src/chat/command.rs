//! Parses a typed line. A line that is none of our commands is for the agent, slash or not; two
//! slashes are a literal one.

pub struct ChatCommand {
    pub name: &'static str,
    pub arguments: &'static str,
    pub does: &'static str,
}

/// A line that was typed.
#[derive(Debug, PartialEq, Eq)]
pub enum TypedLine<'a> {
    Nothing,
    Command {
        name: &'static str,
        rest: &'a str,
    },
    /// For the agent.
    Words(&'a str),
}

const fn command(name: &'static str, arguments: &'static str, does: &'static str) -> ChatCommand {
    ChatCommand {
        name,
        arguments,
        does,
    }
}

pub const COMMANDS: [ChatCommand; 11] = [
    command("help", "", "this list"),
    command("mode", "[ID]", "the agent's modes, or change to one"),
    command("model", "[ID]", "the agent's models, or change to one"),
    command("config", "[ID VALUE]", "the agent's options, or change one"),
    command("sessions", "", "your sessions, with numbers for /load"),
    command("load", "ID|NUMBER", "change to another session"),
    command("new", "", "begin another session"),
    command(
        "fork",
        "",
        "go on in a copy of this session; the old one stays as it is",
    ),
    command("title", "", "what this session is called, and its id"),
    command(
        "cancel",
        "",
        "end a turn that somebody else began; yours ends with Ctrl-C",
    ),
    command("quit", "", "or Ctrl-D; the session stays"),
];

pub fn read(line: &str) -> TypedLine<'_> {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return TypedLine::Nothing;
    }
    let Some(after) = trimmed.strip_prefix('/') else {
        return TypedLine::Words(trimmed);
    };
    if after.starts_with('/') {
        return TypedLine::Words(after);
    }
    let (word, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    match COMMANDS.iter().find(|command| command.name == word) {
        Some(command) => TypedLine::Command {
            name: command.name,
            rest: rest.trim(),
        },
        None => TypedLine::Words(trimmed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_of_ours_is_for_the_agent() {
        let mode = TypedLine::Command {
            name: "mode",
            rest: "ask",
        };
        assert_eq!(read("/mode  ask "), mode);
        assert_eq!(read("//mode ask"), TypedLine::Words("/mode ask"));
        assert_eq!(read("/count 5"), TypedLine::Words("/count 5"));
        assert_eq!(read("/modes"), TypedLine::Words("/modes"));
        assert_eq!(read("hello\nyou"), TypedLine::Words("hello\nyou"));
        assert_eq!(read(" \n"), TypedLine::Nothing);
    }
}
