//! A session as Markdown. The words are as they were said, Markdown and HTML in them too; the
//! user's are quoted, so that nobody speaks in another's name.

use std::io::{BufRead, Write};

use baton_protocol::UpdateKind;
use baton_protocol::update::kind_of;
use serde_json::Value;

use super::archive::{ArchiveReader, PageEvent};
use super::words;
use crate::ConversionError;
use crate::history_writer::Written;
use crate::tools::first_line;

struct MarkdownPage<'a> {
    out: &'a mut dyn Write,
    speaker: &'static str,
    /// The words of the user begin on a new line.
    at_line_start: bool,
}

pub fn write(archive: &mut ArchiveReader<'_, impl BufRead>, out: &mut dyn Write) -> Written {
    let mut page = MarkdownPage {
        out,
        speaker: "",
        at_line_start: true,
    };
    let title = first_line(&archive.head.title);
    let title = if title.is_empty() {
        "A conversation"
    } else {
        &title
    };
    let head = &archive.head;
    page.put(&format!("# {title}\n\n"))?;
    page.put(&format!(
        "`{}` in `{}`\n",
        one_line(&head.agent),
        one_line(&head.cwd)
    ))?;
    while let Some(event) = archive.next()? {
        match event {
            PageEvent::User(update) => page.user(&words::of_block(&update["content"]))?,
            PageEvent::Update(update) => page.update(&update)?,
            PageEvent::End(result) => match result["stopReason"].as_str() {
                None | Some("end_turn") => page.speaker = "",
                Some(reason) => page.note(&format!("*The turn ended: {}*", one_line(reason)))?,
            },
        }
    }
    page.put("\n")
}

fn one_line(text: &str) -> String {
    first_line(text).replace('`', "'")
}

impl MarkdownPage<'_> {
    fn put(&mut self, text: &str) -> Written {
        self.out
            .write_all(text.as_bytes())
            .map_err(ConversionError::Write)
    }

    fn speak(&mut self, speaker: &'static str) -> Written {
        if self.speaker != speaker {
            self.speaker = speaker;
            self.at_line_start = true;
            self.put(&format!("\n\n## {speaker}\n\n"))?;
        }
        Ok(())
    }

    fn user(&mut self, text: &str) -> Written {
        self.speak("User")?;
        self.quoted(text)?;
        self.put("\n>\n")?;
        self.at_line_start = true;
        Ok(())
    }

    fn quoted(&mut self, text: &str) -> Written {
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            if self.at_line_start {
                self.put("> ")?;
            }
            self.put(line.trim_end_matches('\r'))?;
            self.at_line_start = lines.peek().is_some();
            if self.at_line_start {
                self.put("\n")?;
            }
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> Written {
        self.speaker = "";
        self.put(&format!("\n\n{text}\n"))
    }

    fn update(&mut self, update: &Value) -> Written {
        match kind_of(update) {
            UpdateKind::AgentMessageChunk => {
                self.speak("Agent")?;
                self.put(&words::of_block(&update["content"]))
            }
            UpdateKind::AgentThoughtChunk => {
                self.speak("Thought")?;
                self.quoted(&words::of_block(&update["content"]))
            }
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => {
                let title = one_line(&words::of_title(update));
                self.note(&format!("**Tool** `{title}`"))?;
                words::of_call(update)
                    .iter()
                    .try_for_each(|part| self.fenced(part))
            }
            UpdateKind::Plan => self.note(&words::of_plan(update)),
            UpdateKind::Notice => {
                let title = update["title"].as_str().unwrap_or_default();
                self.note(&format!("*{}*", first_line(title)))
            }
            UpdateKind::Compaction => {
                self.note("*The conversation was compacted*")?;
                let summary = update["summary"].as_array().into_iter().flatten();
                summary
                    .map(words::of_block)
                    .try_for_each(|part| self.fenced(&part))
            }
            _ => Ok(()),
        }
    }

    /// The fence is longer than any in the text.
    fn fenced(&mut self, text: &str) -> Written {
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        self.put(&format!(
            "\n{fence}\n{}\n{fence}\n",
            text.trim_end_matches('\n')
        ))
    }
}
