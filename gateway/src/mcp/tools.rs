//! The tools as clients see them: few, and always the same, since clients keep the list. Agents are
//! an argument.

use serde_json::{Value, json};

/// The extension for long turns.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

pub const INSTRUCTIONS: &str = "Baton runs agents in sessions that outlive this connection. \
    `start` begins one with a prompt and answers with its `session`, a handle for all other tools; \
    `continue` sends the next prompt. A result with status `working` is no end: call `status` to \
    wait. With `input_required` the agent waits for the user: ask, then call `continue` with \
    `answers`.";

/// `tools` of `tools/list`.
pub fn list() -> Value {
    json!([
        tool(
            "list_agents",
            "List agents",
            "Lists the agents that sessions can be started with.",
            json!({}),
            &[],
            READS,
            json!({ "agents": { "type": "array", "items": { "type": "object" } } }),
        ),
        tool(
            "start",
            "Start a session",
            "Starts a new session of an agent with a prompt, and waits for its answer. The result \
             has the session's handle.",
            json!({
                "prompt": { "type": "string", "description": "What the agent is asked." },
                "agent": {
                    "type": "string",
                    "description": "Which agent, by its name in list_agents.",
                },
                "cwd": {
                    "type": "string",
                    "description": "The absolute path of the directory that the agent works in, on \
                                    the machine where it runs.",
                },
                "waitSeconds": wait_seconds(),
            }),
            &["prompt"],
            WORKS,
            turn_fields(),
        ),
        tool(
            "continue",
            "Continue a session",
            "Sends a session its next prompt, or the answers to its agent's questions, and waits \
             for the answer. With fork it goes on in a copy, and the session stays as it is.",
            json!({
                "session": session(),
                "prompt": { "type": "string", "description": "What the agent is asked." },
                "fork": {
                    "type": "boolean",
                    "description": "Continue in a new session that shares the past of this one.",
                },
                "forkAt": {
                    "type": "string",
                    "description": "With fork: the message after which the copy begins, by its id \
                                    in read. Default: the last.",
                },
                "answers": {
                    "type": "object",
                    "description": "Answers to questions, by the id of each: the id of the chosen \
                                    option, or an object with the fields of its form.",
                },
                "waitSeconds": wait_seconds(),
            }),
            &[],
            WORKS,
            turn_fields(),
        ),
        tool(
            "status",
            "Look at a session",
            "Tells what a session does: whether its turn works, waits for an answer or is over, \
             and what the agent has said in it. With waitSeconds it waits for the turn's end.",
            json!({ "session": session(), "waitSeconds": wait_seconds() }),
            &[],
            READS,
            turn_fields(),
        ),
        tool(
            "read",
            "Read a session",
            "Reads what was said and done in a session, from the beginning, page by page.",
            json!({
                "session": session(),
                "cursor": { "type": "string", "description": "The nextCursor of the page before." },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 200,
                    "description": "Entries of the page at most. Default: 50.",
                },
            }),
            &[],
            READS,
            json!({
                "session": { "type": "string" },
                "entries": { "type": "array", "items": { "type": "object" } },
                "nextCursor": { "type": "string" },
            }),
        ),
        tool(
            "cancel",
            "Cancel a turn",
            "Asks the agent of a session to stop its turn. Prompts that wait are cancelled, too.",
            json!({ "session": session() }),
            &[],
            ENDS,
            json!({ "session": { "type": "string" }, "cancelled": { "type": "boolean" } }),
        ),
        tool(
            "list_sessions",
            "List sessions",
            "Lists your sessions, the last used first.",
            json!({
                "cursor": { "type": "string", "description": "The nextCursor of the page before." },
                "cwd": { "type": "string", "description": "Only sessions of this directory." },
            }),
            &[],
            READS,
            json!({
                "sessions": { "type": "array", "items": { "type": "object" } },
                "nextCursor": { "type": "string" },
            }),
        ),
        tool(
            "close",
            "Close a session",
            "Cancels what a session does and frees what its agent holds. It can still be read, and \
             continue opens it again.",
            json!({ "session": session() }),
            &[],
            ENDS,
            json!({ "session": { "type": "string" }, "closed": { "type": "boolean" } }),
        ),
    ])
}

/// What a tool does to the world, for whoever decides about calls of it.
#[derive(Clone, Copy)]
struct ToolEffect {
    reads: bool,
    destroys: bool,
    repeats: bool,
}

const READS: ToolEffect = ToolEffect {
    reads: true,
    destroys: false,
    repeats: true,
};
/// An agent may do anything.
const WORKS: ToolEffect = ToolEffect {
    reads: false,
    destroys: true,
    repeats: false,
};
const ENDS: ToolEffect = ToolEffect {
    reads: false,
    destroys: true,
    repeats: true,
};

fn tool(
    name: &str,
    title: &str,
    description: &str,
    properties: Value,
    required: &[&str],
    effect: ToolEffect,
    output: Value,
) -> Value {
    let works = !effect.reads && !effect.repeats;
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
        "outputSchema": { "type": "object", "properties": output },
        "annotations": {
            "title": title,
            "readOnlyHint": effect.reads,
            "destructiveHint": effect.destroys,
            "idempotentHint": effect.repeats,
            "openWorldHint": works,
        },
    })
}

fn session() -> Value {
    json!({
        "type": "string",
        "description": "The handle of the session, from an earlier result. Default: the last that \
                        was started here.",
    })
}

fn wait_seconds() -> Value {
    json!({
        "type": "integer",
        "minimum": 0,
        "description": "How long to wait for the end of the turn. After that the result says \
                        working, and status waits for the rest.",
    })
}

fn turn_fields() -> Value {
    json!({
        "session": { "type": "string", "description": "The handle of the session." },
        "status": {
            "type": "string",
            "enum": ["idle", "working", "input_required", "completed", "failed", "cancelled"],
        },
        "text": { "type": "string", "description": "What the agent has said in the turn." },
        "truncated": { "type": "boolean", "description": "There was more before: read has it." },
        "stopReason": { "type": "string" },
        "questions": { "type": "array", "items": { "type": "object" } },
        "error": { "type": "object" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_what_it_takes_what_it_gives_and_what_it_does() {
        let tools = list();
        let tools = tools.as_array().unwrap();
        assert_eq!(tools.len(), 8);
        for tool in tools {
            for field in ["name", "title", "description"] {
                assert!(tool[field].as_str().is_some_and(|text| !text.is_empty()));
            }
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert_eq!(tool["outputSchema"]["type"], "object");
            assert!(tool["annotations"]["readOnlyHint"].is_boolean());
        }
    }
}
