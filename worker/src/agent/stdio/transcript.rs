//! A conversation as text, for an agent that was not there.

use baton_session::event::Event;
use serde::Deserialize;
use serde_json::Value;

/// More than this is not handed over; the end of a conversation matters most.
const MOST: usize = 256 << 10;

/// One message after the other, by whom it was.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    spoken: Vec<(Speaker, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    User,
    Agent,
    Tool,
}

#[derive(Deserialize)]
struct Message {
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    update: Value,
}

impl Transcript {
    /// Without a prompt that nobody has begun to answer: the agent is about to get it.
    pub fn of(past: &[Event]) -> Self {
        let mut transcript = Self::default();
        let begun = past
            .iter()
            .rposition(|event| matches!(event, Event::Begin(_)));
        let answers = |event: &Event| {
            matches!(
                event,
                Event::Update { turn: true, .. } | Event::Response { turn: true, .. }
            )
        };
        let end = begun.filter(|begun| !past[*begun..].iter().any(answers));
        for event in &past[..end.unwrap_or(past.len())] {
            if let Event::Echo { message, .. } | Event::Update { message, .. } = event {
                transcript.add(message);
            }
        }
        transcript
    }

    pub fn is_empty(&self) -> bool {
        self.spoken.is_empty()
    }

    /// A `session/update`.
    pub fn add(&mut self, message: &[u8]) {
        let Ok(Message { params }) = serde_json::from_slice(message) else {
            return;
        };
        let update = params.update;
        let (speaker, text) = match update["sessionUpdate"].as_str() {
            Some("user_message_chunk") => (Speaker::User, content(&update["content"])),
            Some("agent_message_chunk") => (Speaker::Agent, content(&update["content"])),
            Some("tool_call") => {
                let title = update["title"].as_str().unwrap_or("a tool");
                (Speaker::Tool, format!("{title}\n"))
            }
            _ => return,
        };
        match self.spoken.last_mut() {
            Some((last, said)) if *last == speaker => said.push_str(&text),
            _ => self.spoken.push((speaker, text)),
        }
    }

    /// What people said, to compare two tellings of one conversation: they may differ in how it is cut
    /// into pieces, and in what tools did.
    pub fn words(&self) -> String {
        let said = self.spoken.iter();
        let said = said.filter(|(speaker, _)| *speaker != Speaker::Tool);
        said.flat_map(|(_, text)| text.split_whitespace()).collect()
    }

    /// For the agent to read before the next prompt.
    pub fn handed_over(&self) -> String {
        let mut told = String::new();
        for (speaker, text) in &self.spoken {
            let name = match speaker {
                Speaker::User => "User",
                Speaker::Agent => "Assistant",
                Speaker::Tool => "Tool",
            };
            told.push_str(&format!("{name}: {}\n\n", text.trim_end()));
        }
        let cut = told.len().saturating_sub(MOST);
        let cut = (cut..told.len()).find(|at| told.is_char_boundary(*at));
        let cut = cut.unwrap_or(0);
        let left_out = if cut > 0 { "[…]\n" } else { "" };
        format!(
            "<conversation-so-far>\nThis is context, not a request: the conversation up to now, which began in another \
             process. Go on from here.\n\n{left_out}{}</conversation-so-far>\n",
            &told[cut..]
        )
    }
}

/// The text of a block, or what kind of block it is.
fn content(block: &Value) -> String {
    let named = |value: &Value| value.as_str().map(str::to_owned);
    named(&block["text"])
        .or_else(|| named(&block["resource"]["text"]))
        .unwrap_or_else(|| {
            let name = named(&block["uri"]).or_else(|| named(&block["resource"]["uri"]));
            let kind = block["type"].as_str().unwrap_or("content");
            match name {
                Some(name) => format!("[{kind}: {name}]"),
                None => format!("[{kind}]"),
            }
        })
}

#[cfg(test)]
mod tests {
    use baton_session::event::Begin;
    use baton_session::id::{ConnectionId, Partition};
    use baton_session::route::Via;
    use serde_json::json;

    use super::*;
    use crate::rpc;

    fn told(updates: &[Value]) -> Transcript {
        let mut transcript = Transcript::default();
        for update in updates {
            transcript.add(&rpc::update("000-A", update));
        }
        transcript
    }

    fn said(kind: &str, text: &str) -> Value {
        json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
    }

    #[test]
    fn pieces_become_messages() {
        let transcript = told(&[
            said("user_message_chunk", "What is "),
            said("user_message_chunk", "this?"),
            said("agent_thought_chunk", "hm"),
            json!({ "sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read a file" }),
            said("agent_message_chunk", "A te"),
            said("agent_message_chunk", "st."),
        ]);
        let text = transcript.handed_over();
        assert!(
            text.contains("User: What is this?\n\nTool: Read a file\n\nAssistant: A test.\n"),
            "{text}"
        );
        let other = told(&[
            said("user_message_chunk", "What is this?"),
            said("agent_message_chunk", "A test."),
        ]);
        assert_eq!(transcript.words(), other.words());
        assert!(told(&[]).is_empty());
    }

    #[test]
    fn a_prompt_that_waits_for_the_agent_is_not_past() {
        let connection = ConnectionId::mint(Partition(0));
        let begin = |command: u64| {
            Event::Begin(Begin {
                command: command.into(),
                connection: connection.clone(),
                via: Via::Connection,
            })
        };
        let echo = |text: &str| Event::Echo {
            by: connection.clone(),
            message: rpc::update("s", said("user_message_chunk", text)),
        };
        let update = |text: &str| Event::Update {
            turn: true,
            message: rpc::update("s", said("agent_message_chunk", text)),
        };
        let mut past = vec![
            begin(1),
            echo("one"),
            update("first"),
            begin(2),
            echo("two"),
        ];
        assert_eq!(Transcript::of(&past).words(), "onefirst");
        // It has begun to answer: what it said is past.
        past.push(update("second"));
        assert_eq!(Transcript::of(&past).words(), "onefirsttwosecond");
    }

    #[test]
    fn of_a_long_conversation_the_end_is_handed_over() {
        let long = "ä".repeat(MOST);
        let transcript = told(&[
            said("user_message_chunk", &long),
            said("agent_message_chunk", "the end"),
        ]);
        let text = transcript.handed_over();
        assert!(text.len() < MOST + 1024);
        assert!(text.contains("[…]") && text.contains("the end"));
    }
}
