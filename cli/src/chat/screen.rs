//! Where things are shown: words as they come, everything else a line at a time.

use std::collections::VecDeque;
use std::io::{IsTerminal as _, Write, stderr, stdout};
use std::sync::mpsc;

use super::text::{harmless, one_line};

pub struct ChatScreen {
    /// Everything but the agent's words goes to standard error, so that these can be piped on.
    words_alone: bool,
    colours: bool,
    /// Prints above the line that is being typed.
    above: Option<mpsc::Sender<String>>,
    is_typing: bool,
    /// The current speaker, if the line has not ended.
    speaker: Option<Speaker>,
    /// The beginning of a line that cannot be printed above another before it ends.
    begun: String,
    /// Notes that came in the middle of words which stand alone. They wait for their end.
    held: VecDeque<String>,
}

/// So many notes are held at most: the last ones.
const MOST_HELD: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    Agent,
    Thoughts,
    User,
}

#[derive(Clone, Copy)]
pub enum TextColour {
    None,
    Dim,
    Bold,
    Green,
    Yellow,
    Red,
}

impl ChatScreen {
    pub fn new(words_alone: bool, above: Option<mpsc::Sender<String>>) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let terminal = if words_alone {
            stdout().is_terminal() && stderr().is_terminal()
        } else {
            stdout().is_terminal()
        };
        Self {
            words_alone,
            colours: wanted && terminal,
            above,
            is_typing: false,
            speaker: None,
            begun: String::new(),
            held: VecDeque::new(),
        }
    }

    /// Whether nothing is wanted on standard output but what the agent says now.
    pub fn is_for_words_alone(&self) -> bool {
        self.words_alone
    }

    /// A line is being typed from now on, or not any more.
    pub fn typing(&mut self, is_typing: bool) {
        if is_typing != self.is_typing {
            self.end();
            self.is_typing = is_typing;
        }
    }

    /// A piece of what somebody says.
    pub fn say(&mut self, speaker: Speaker, text: &str) {
        let begins = self.speaker != Some(speaker);
        if begins {
            self.end();
        }
        let mut text = harmless(text);
        if speaker == Speaker::User {
            text = text.replace('\n', "\n> ");
            if begins {
                text.insert_str(0, "> ");
            }
        }
        let colour = match speaker {
            Speaker::Agent => TextColour::None,
            Speaker::Thoughts => TextColour::Dim,
            Speaker::User => TextColour::Bold,
        };
        let is_open = !text.ends_with('\n');
        self.put(speaker == Speaker::Agent, &self.painted(colour, &text));
        self.speaker = is_open.then_some(speaker);
    }

    /// The end of what somebody says.
    pub fn end(&mut self) {
        if let Some(speaker) = self.speaker.take() {
            self.put(speaker == Speaker::Agent, "\n");
        }
        for note in std::mem::take(&mut self.held) {
            self.note(&note);
        }
    }

    /// Something that happened, by the way.
    pub fn note(&mut self, text: &str) {
        if self.words_alone && self.speaker == Some(Speaker::Agent) {
            if self.held.len() == MOST_HELD {
                self.held.pop_front();
            }
            self.held.push_back(text.to_owned());
            return;
        }
        self.line(&[(TextColour::Dim, &format!("· {}", one_line(text)))]);
    }

    /// The same about the network, which has no place in the middle of what is piped on.
    pub fn interject(&mut self, text: &str) {
        let speaker = self.speaker.take_if(|_| self.words_alone);
        self.note(text);
        self.speaker = speaker;
    }

    /// Something that went wrong.
    pub fn fault(&mut self, text: &str) {
        self.line(&[(TextColour::Red, &one_line(text))]);
    }

    pub fn line(&mut self, parts: &[(TextColour, &str)]) {
        self.end();
        let parts = parts
            .iter()
            .map(|(colour, text)| self.painted(*colour, &harmless(text)));
        let line: String = parts.chain(["\n".to_owned()]).collect();
        self.put(false, &line);
    }

    /// Shows what has waited for the end of its line for too long.
    pub fn flush(&mut self) {
        if !self.begun.is_empty() {
            self.end();
        }
    }

    fn painted(&self, colour: TextColour, text: &str) -> String {
        let code = match colour {
            _ if !self.colours => return text.to_owned(),
            TextColour::None => return text.to_owned(),
            TextColour::Bold => 1,
            TextColour::Dim => 2,
            TextColour::Red => 31,
            TextColour::Green => 32,
            TextColour::Yellow => 33,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The reader of the output may be gone; that is noticed elsewhere, or does not matter.
    fn put(&mut self, is_word: bool, text: &str) {
        if let (true, Some(above)) = (self.is_typing, &self.above) {
            self.begun.push_str(text);
            if let Some(end) = self.begun.rfind('\n') {
                let rest = self.begun.split_off(end + 1);
                let _ = above.send(std::mem::replace(&mut self.begun, rest));
            }
        } else if self.words_alone && !is_word {
            let _ = stderr().write_all(text.as_bytes());
        } else {
            let mut out = stdout().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}
