//! A conversation as text, for an agent that was not there.

use std::collections::VecDeque;

use baton_protocol::{UpdateKind, update};
use baton_session::event::Event;
use bytes::Bytes;
use serde_json::Value;

/// More than this is not handed over; the end of a conversation matters most.
const MOST: usize = 256 << 10;

/// One message after the other, by whom it was: as many of the last ones as are handed over.
#[derive(Default)]
pub struct Transcript {
    spoken: VecDeque<(Speaker, String)>,
    /// Bytes of the messages.
    bytes: usize,
    /// There was more before it.
    left_out: bool,
    /// Messages since the begin of a turn that the agent has not begun to answer.
    waiting: Option<Vec<Bytes>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    User,
    Agent,
    Tool,
}

impl Transcript {
    /// Adds the next event of a log. A prompt without any output yet is not part of it: the agent
    /// is about to get it.
    pub fn add_event(&mut self, event: &Event) {
        match event {
            Event::Begin(_) => {
                self.flush_waiting();
                self.waiting = Some(Vec::new());
            }
            Event::Update { turn: true, .. } | Event::Response { turn: true, .. } => {
                self.flush_waiting()
            }
            _ => {}
        }
        if let Event::Echo { message, .. } | Event::Update { message, .. } = event {
            match &mut self.waiting {
                Some(waiting) => waiting.push(message.clone()),
                None => self.add(message),
            }
        }
    }

    fn flush_waiting(&mut self) {
        for message in self.waiting.take().into_iter().flatten() {
            self.add(&message);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.spoken.is_empty()
    }

    /// A `session/update`.
    pub fn add(&mut self, message: &[u8]) {
        let Some(update) = update::read::<Value>(message) else {
            return;
        };
        let (speaker, text) = match update::kind_of(&update) {
            UpdateKind::UserMessageChunk => (Speaker::User, content(&update["content"])),
            UpdateKind::AgentMessageChunk => (Speaker::Agent, content(&update["content"])),
            UpdateKind::ToolCall => {
                let title = update["title"].as_str().unwrap_or("a tool");
                (Speaker::Tool, format!("{title}\n"))
            }
            _ => return,
        };
        self.bytes += text.len();
        match self.spoken.back_mut() {
            Some((last, said)) if *last == speaker => said.push_str(&text),
            _ => self.spoken.push_back((speaker, text)),
        }
        // Not at every piece of a long message.
        if self.bytes > 2 * MOST {
            self.forget();
        }
    }

    /// Drops what is too old to be handed over.
    fn forget(&mut self) {
        let mut excess = self.bytes.saturating_sub(MOST);
        while excess > 0
            && let Some((_, first)) = self.spoken.front_mut()
        {
            let cut = (excess.min(first.len())..).find(|at| first.is_char_boundary(*at));
            let cut = cut.expect("the end is one");
            first.drain(..cut);
            first.shrink_to_fit();
            (self.bytes, self.left_out) = (self.bytes - cut, true);
            excess = excess.saturating_sub(cut);
            if first.is_empty() {
                self.spoken.pop_front();
            }
        }
    }

    /// For the agent to read before the next prompt.
    pub fn as_prompt_text(&self) -> String {
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
        let left_out = if cut > 0 || self.left_out {
            "[…]\n"
        } else {
            ""
        };
        format!(
            "<conversation-so-far>\nThis is context, not a request: the conversation up to \
             now, which began in another process. Go on from here.\n\n{left_out}{}\
             </conversation-so-far>\n",
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
    use baton_protocol::compose;
    use baton_session::event::TurnBegin;
    use baton_session::id::{ConnectionId, Partition};
    use baton_session::route::DeliveryPath;
    use serde_json::json;

    use super::*;

    fn told(updates: &[Value]) -> Transcript {
        let mut transcript = Transcript::default();
        for update in updates {
            transcript.add(&compose::update("000-A", update));
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
        let text = transcript.as_prompt_text();
        assert!(
            text.contains("User: What is this?\n\nTool: Read a file\n\nAssistant: A test.\n"),
            "{text}"
        );
        assert!(told(&[]).is_empty());
    }

    #[test]
    fn a_prompt_that_waits_for_the_agent_is_not_past() {
        let connection = ConnectionId::mint(Partition(0));
        let begin = |command: u64| {
            Event::Begin(TurnBegin {
                command: command.into(),
                connection: connection.clone(),
                via: DeliveryPath::Connection,
            })
        };
        let echo = |text: &str| Event::Echo {
            by: connection.clone(),
            at: None,
            message: compose::update("s", said("user_message_chunk", text)),
        };
        let update = |text: &str| Event::Update {
            turn: true,
            message: compose::update("s", said("agent_message_chunk", text)),
        };
        let one = [
            said("user_message_chunk", "one"),
            said("agent_message_chunk", "first"),
        ];
        let two = [
            said("user_message_chunk", "two"),
            said("agent_message_chunk", "second"),
        ];
        let mut past = Transcript::default();
        for event in [
            begin(1),
            echo("one"),
            update("first"),
            begin(2),
            echo("two"),
        ] {
            past.add_event(&event);
        }
        assert_eq!(past.as_prompt_text(), told(&one).as_prompt_text());
        // It has begun to answer: what it said is past.
        past.add_event(&update("second"));
        let both = told(&[one, two].concat());
        assert_eq!(past.as_prompt_text(), both.as_prompt_text());
    }

    #[test]
    fn of_a_long_conversation_the_end_is_handed_over() {
        let long = "ä".repeat(MOST);
        let transcript = told(&[
            said("user_message_chunk", &long),
            said("agent_message_chunk", "the end"),
        ]);
        let text = transcript.as_prompt_text();
        assert!(text.len() < MOST + 1024);
        assert!(text.contains("[…]") && text.contains("the end"));
    }

    #[test]
    fn of_a_long_conversation_no_more_is_kept_than_is_handed_over() {
        let mut transcript = Transcript::default();
        for number in 0..100 {
            let text = format!("{number} {}", "ä".repeat(MOST / 10));
            for kind in ["user_message_chunk", "agent_message_chunk"] {
                transcript.add(&compose::update("000-A", said(kind, &text)));
            }
            let kept = transcript.spoken.iter().map(|(_, text)| text.capacity());
            assert!(kept.sum::<usize>() < 4 * MOST);
        }
        let text = transcript.as_prompt_text();
        assert!(text.len() > MOST && text.contains("Assistant: 99 ") && text.contains("[…]"));
    }
}
