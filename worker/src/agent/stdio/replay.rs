//! The conversation that an agent replays when a session is restored. The log has it already, so it
//! is neither written nor shown again, whichever method restored the session, and also if it comes
//! after that method's answer.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::LazyLock;

use baton_protocol::{UpdateKind, update};
use baton_session::event::Event;
use memchr::memmem::Finder;
use serde_json::Value;

use super::transcript::Speaker;

/// Updates without any of these are no part of a conversation.
static MARKS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["_chunk\"", "\"tool_call", "\"plan\""].map(Finder::new));
/// Of a log, as much is compared with what comes late.
const MOST: usize = 1 << 20;

/// A part of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub enum ConversationPart {
    Words(Speaker, String),
    /// Thoughts, tool calls and plans, which differ between replays.
    Aside,
}

impl ConversationPart {
    /// `None` if the message is something else, which is as new as anything.
    pub fn of(message: &[u8]) -> Option<Self> {
        if !MARKS.iter().any(|mark| mark.find(message).is_some()) {
            return None;
        }
        let update: Value = update::read(message)?;
        let speaker = match update::kind_of(&update) {
            UpdateKind::UserMessageChunk => Speaker::User,
            UpdateKind::AgentMessageChunk => Speaker::Agent,
            UpdateKind::AgentThoughtChunk
            | UpdateKind::ToolCall
            | UpdateKind::ToolCallUpdate
            | UpdateKind::Plan => {
                return Some(Self::Aside);
            }
            _ => return None,
        };
        let content = &update["content"];
        let text = content["text"].as_str();
        let text = text.or_else(|| content["resource"]["text"].as_str());
        Some(Self::Words(speaker, text.unwrap_or_default().to_owned()))
    }
}

/// The text of a conversation. Spaces do not count, nor how it is cut into chunks.
#[derive(Clone, Default)]
struct ConversationText {
    /// Its beginning.
    text: Vec<u8>,
    length: usize,
    all: DefaultHasher,
    last: Option<Speaker>,
}

impl ConversationText {
    fn add(&mut self, speaker: Speaker, text: &str) {
        let more = self.next(speaker, text);
        if more.is_empty() {
            return;
        }
        self.last = Some(speaker);
        self.length += more.len();
        self.all.write(&more);
        let room = MOST - self.text.len();
        self.text.extend(more.into_iter().take(room));
    }

    /// The text that this message adds.
    fn next(&self, speaker: Speaker, text: &str) -> Vec<u8> {
        let mut next: Vec<u8> = text.split_whitespace().flat_map(str::bytes).collect();
        if !next.is_empty() && self.last != Some(speaker) {
            next.insert(0, speaker as u8);
        }
        next
    }

    fn mark(&self) -> TextMark {
        TextMark {
            text: self.text.len(),
            length: self.length,
            hash: self.all.finish(),
        }
    }
}

/// A position in a conversation's text.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TextMark {
    text: usize,
    length: usize,
    hash: u64,
}

/// The conversation that a log has.
#[derive(Default)]
pub struct LoggedConversation {
    all: ConversationText,
    /// Where it was when the last turn began, if that is not over.
    before: Option<TextMark>,
}

impl LoggedConversation {
    pub fn add_event(&mut self, event: &Event) {
        match event {
            Event::Begin(_) => self.before = Some(self.all.mark()),
            Event::Response { turn: true, .. } => self.before = None,
            Event::Echo { message, .. } | Event::Update { message, .. } => {
                if let Some(ConversationPart::Words(speaker, text)) = ConversationPart::of(message)
                {
                    self.all.add(speaker, &text);
                }
            }
            _ => {}
        }
    }

    /// Without the turn that runs.
    fn settled(&self) -> &[u8] {
        let end = self.before.map_or(self.all.text.len(), |mark| mark.text);
        &self.all.text[..end]
    }
}

/// The conversation that the agent has replayed so far.
#[derive(Default)]
pub struct AgentReplay {
    told: ConversationText,
    parts: usize,
    /// The logged conversation to compare a late replay with; read when it is needed.
    past: Option<Vec<u8>>,
    /// Something was told late.
    late: bool,
    over: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum ReplayVerdict {
    New,
    Replayed,
    /// To be asked again with [`AgentReplay::past_is`].
    Unsure,
}

impl AgentReplay {
    /// Of a session that the agent has never had.
    pub fn none() -> Self {
        Self {
            over: true,
            ..Self::default()
        }
    }

    /// While the session is brought back. False if it has nothing to do with the past.
    pub fn take(&mut self, message: &[u8]) -> bool {
        let Some(part) = ConversationPart::of(message) else {
            return false;
        };
        self.parts += 1;
        if let ConversationPart::Words(speaker, text) = part {
            self.told.add(speaker, &text);
        }
        true
    }

    pub fn has_told(&self) -> bool {
        self.parts > 0
    }

    /// The session was brought back. Returns how much the agent told and how much there is, if that
    /// is not the same conversation. Of a turn that runs it may know or not.
    pub fn compare(&mut self, past: &LoggedConversation) -> Option<(usize, usize)> {
        let told = self.told.mark();
        let same = told == past.all.mark() || Some(told) == past.before;
        // The position in a different conversation is unknown.
        let begun = past.settled().starts_with(&self.told.text);
        self.over |= same || !begun;
        self.past_is(past);
        (!same).then_some((self.told.length, past.all.length))
    }

    /// From here on everything is new: the agent has answered a prompt.
    pub fn end(&mut self) {
        *self = Self::none();
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    pub fn past_is(&mut self, past: &LoggedConversation) {
        self.past = Some(past.settled().to_vec());
    }

    /// After the session was brought back. `asked`: a prompt is under way.
    pub fn judge(&mut self, part: &ConversationPart, asked: bool) -> ReplayVerdict {
        if self.over {
            return ReplayVerdict::New;
        }
        let at = self.told.length;
        let Some(past) = &self.past else {
            // A replay begins with the user's first message.
            return match part {
                ConversationPart::Words(Speaker::User, _) => ReplayVerdict::Unsure,
                _ => ReplayVerdict::New,
            };
        };
        // An answer may begin like the one that was cut off. So a prompt ends what is told of the
        // past, unless that goes on.
        let may_go_on = !asked || self.late;
        if !may_go_on && !matches!(part, ConversationPart::Words(Speaker::User, _)) {
            self.over |= matches!(part, ConversationPart::Words(..));
            return ReplayVerdict::New;
        }
        let left = past.get(at..).unwrap_or_default();
        let (speaker, text) = match part {
            ConversationPart::Words(speaker, text) if !text.trim().is_empty() => (*speaker, text),
            _ if at > 0 && !left.is_empty() => return ReplayVerdict::Replayed,
            _ => return ReplayVerdict::New,
        };
        if left.starts_with(&self.told.next(speaker, text)) {
            self.told.add(speaker, text);
            self.late = true;
            return ReplayVerdict::Replayed;
        }
        self.over = asked;
        // Without a prompt, user messages can only be replayed.
        if speaker == Speaker::User && !asked {
            ReplayVerdict::Replayed
        } else {
            ReplayVerdict::New
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::compose;
    use baton_session::command::CommandId;
    use baton_session::event::TurnBegin;
    use baton_session::id::{ConnectionId, Partition};
    use baton_session::route::DeliveryPath;
    use serde_json::json;

    use super::*;

    fn said(kind: &str, text: &str) -> bytes::Bytes {
        let content = json!({ "type": "text", "text": text });
        compose::update("s", json!({ "sessionUpdate": kind, "content": content }))
    }

    fn user(text: &str) -> bytes::Bytes {
        said("user_message_chunk", text)
    }

    fn agent(text: &str) -> bytes::Bytes {
        said("agent_message_chunk", text)
    }

    fn tool() -> bytes::Bytes {
        compose::update(
            "s",
            json!({ "sessionUpdate": "tool_call", "toolCallId": "1" }),
        )
    }

    fn past() -> LoggedConversation {
        let mut past = LoggedConversation::default();
        for message in [user("say it"), agent("it is "), agent("said")] {
            past.add_event(&Event::Update {
                turn: true,
                message,
            });
        }
        past
    }

    fn judged(replay: &mut AgentReplay, message: &[u8], asked: bool) -> ReplayVerdict {
        let part = ConversationPart::of(message).expect("a part");
        match replay.judge(&part, asked) {
            ReplayVerdict::Unsure => {
                replay.past_is(&past());
                replay.judge(&part, asked)
            }
            verdict => verdict,
        }
    }

    #[test]
    fn pieces_do_not_matter_and_other_updates_are_no_part_of_it() {
        let mut replay = AgentReplay::default();
        for message in [
            user("say "),
            user("i"),
            user("t"),
            tool(),
            agent("it is said"),
        ] {
            assert!(replay.take(&message));
        }
        let title = json!({ "sessionUpdate": "session_info_update", "title": "a _chunk\" of it" });
        assert!(!replay.take(&compose::update("s", title)));
        assert_eq!(replay.compare(&past()), None);
        assert!(replay.is_over());
    }

    #[test]
    fn a_difference_is_told_with_both_lengths() {
        let mut replay = AgentReplay::default();
        replay.take(&user("say it"));
        replay.take(&agent("no"));
        assert_eq!(replay.compare(&past()), Some((9, 15)));
        assert_eq!(judged(&mut replay, &agent("new"), true), ReplayVerdict::New);
    }

    #[test]
    fn what_comes_late_is_recognised_until_something_new_comes() {
        for asked in [false, true] {
            let mut replay = AgentReplay::default();
            for message in [user("say it"), tool(), agent("it is"), agent("said")] {
                let verdict = judged(&mut replay, &message, asked);
                assert_eq!(verdict, ReplayVerdict::Replayed, "{message:?} {asked}");
            }
            assert_eq!(judged(&mut replay, &tool(), asked), ReplayVerdict::New);
            assert_eq!(
                judged(&mut replay, &agent("it is"), asked),
                ReplayVerdict::New
            );
        }
    }

    #[test]
    fn a_replay_may_begin_in_time_and_end_late() {
        let mut replay = AgentReplay::default();
        replay.take(&user("say it"));
        assert_eq!(replay.compare(&past()), Some((6, 15)));
        // While nothing is asked. With a prompt it would be the same words once more.
        let mut asked = AgentReplay::default();
        asked.take(&user("say it"));
        asked.compare(&past());
        assert_eq!(judged(&mut asked, &tool(), true), ReplayVerdict::New);
        assert_eq!(
            judged(&mut asked, &agent("it is"), true),
            ReplayVerdict::New
        );
        assert_eq!(
            judged(&mut replay, &agent("it is said"), false),
            ReplayVerdict::Replayed
        );
        assert_eq!(
            judged(&mut replay, &agent("it is said"), true),
            ReplayVerdict::New
        );
    }

    #[test]
    fn an_answer_is_new_although_it_was_given_before() {
        let mut replay = AgentReplay::default();
        assert_eq!(
            judged(&mut replay, &agent("it is said"), true),
            ReplayVerdict::New
        );
        let mut replay = AgentReplay::none();
        assert_eq!(
            judged(&mut replay, &user("say it"), true),
            ReplayVerdict::New
        );
    }

    #[test]
    fn nobody_speaks_for_the_user_while_nothing_is_asked() {
        let mut replay = AgentReplay::default();
        assert_eq!(
            judged(&mut replay, &user("otherwise"), false),
            ReplayVerdict::Replayed
        );
        assert_eq!(
            judged(&mut replay, &user("otherwise"), true),
            ReplayVerdict::New
        );
    }

    #[test]
    fn a_turn_that_runs_may_be_told_or_not() {
        let mut all = past();
        all.add_event(&Event::Begin(TurnBegin {
            command: CommandId::from(1),
            connection: ConnectionId::mint(Partition(0)),
            via: DeliveryPath::Session,
        }));
        all.add_event(&Event::Update {
            turn: true,
            message: agent("now"),
        });
        let told = [user("say it"), agent("it is said")];
        for more in [&[][..], &[agent("now")]] {
            let mut replay = AgentReplay::default();
            for message in told.iter().chain(more) {
                replay.take(message);
            }
            assert_eq!(replay.compare(&all), None);
        }
        let mut replay = AgentReplay::default();
        replay.past_is(&all);
        for message in &told {
            assert_eq!(judged(&mut replay, message, true), ReplayVerdict::Replayed);
        }
        assert_eq!(judged(&mut replay, &agent("now"), true), ReplayVerdict::New);
    }
}
