//! A session as a page that needs nothing else: no script, no request, and every word escaped.

use std::io::{BufRead, Write};

use baton_protocol::UpdateKind;
use baton_protocol::update::kind_of;
use serde_json::Value;

use super::archive::{ArchiveReader, PageEvent};
use super::words;
use crate::ConversionError;
use crate::history_writer::Written;
use crate::tools::first_line;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:50em;margin:2em auto;\
padding:0 1em;color-scheme:light dark}section{margin:1em 0;padding:.5em 1em;border-left:4px solid \
#888}.user{border-color:#26c}.tool,.note,.thought{border-color:#bbb;font-size:.9em}h2{font-size:\
1em;margin:0}pre{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;margin:.5em 0;\
font:inherit}.tool pre{font-family:ui-monospace,monospace}img{max-width:100%}";

struct HtmlPage<'a> {
    out: &'a mut dyn Write,
    /// The section that is open.
    section: Option<(&'static str, String)>,
}

pub fn write(archive: &mut ArchiveReader<'_, impl BufRead>, out: &mut dyn Write) -> Written {
    let mut page = HtmlPage { out, section: None };
    let head = &archive.head;
    let title = first_line(&head.title);
    let title = escaped(if title.is_empty() {
        "A conversation"
    } else {
        &title
    });
    let place = format!("{} in {}", escaped(&head.agent), escaped(&head.cwd));
    page.put(&format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title><style>{STYLE}</style></head><body>\n\
         <h1><bdi>{title}</bdi></h1><p><bdi>{place}</bdi></p>\n"
    ))?;
    while let Some(event) = archive.next()? {
        match event {
            PageEvent::User(update) => page.said("user", "User", &update)?,
            PageEvent::Update(update) => page.update(&update)?,
            PageEvent::End(result) => {
                page.close()?;
                let reason = result["stopReason"].as_str().unwrap_or("end_turn");
                if reason != "end_turn" {
                    page.block("note", &format!("The turn ended: {reason}"), &[])?;
                }
            }
        }
    }
    page.close()?;
    page.put("</body></html>\n")
}

impl HtmlPage<'_> {
    fn put(&mut self, text: &str) -> Written {
        self.out
            .write_all(text.as_bytes())
            .map_err(ConversionError::Write)
    }

    fn close(&mut self) -> Written {
        match self.section.take() {
            Some(_) => self.put("</pre></section>\n"),
            None => Ok(()),
        }
    }

    fn said(&mut self, class: &'static str, speaker: &str, update: &Value) -> Written {
        let message = update["messageId"].as_str().unwrap_or_default();
        let section = Some((class, message.to_owned()));
        if self.section != section {
            self.close()?;
            self.section = section;
            let head = format!("<section class=\"{class}\"><h2>{speaker}</h2><pre>");
            self.put(&head)?;
        }
        match image(&update["content"]) {
            Some(image) => self.put(&image),
            None => self.put(&escaped(&words::of_block(&update["content"]))),
        }
    }

    fn block(&mut self, class: &str, head: &str, parts: &[String]) -> Written {
        self.close()?;
        let head = escaped(head);
        self.put(&format!(
            "<section class=\"{class}\"><h2><bdi>{head}</bdi></h2>"
        ))?;
        for part in parts {
            self.put(&format!("<pre>{part}</pre>"))?;
        }
        self.put("</section>\n")
    }

    fn update(&mut self, update: &Value) -> Written {
        match kind_of(update) {
            UpdateKind::AgentMessageChunk => self.said("agent", "Agent", update),
            UpdateKind::AgentThoughtChunk => self.said("thought", "Thought", update),
            UpdateKind::ToolCall | UpdateKind::ToolCallUpdate => {
                let parts = words::of_call(update);
                let mut parts: Vec<String> = parts.iter().map(|part| escaped(part)).collect();
                let shown = update["content"].as_array().into_iter().flatten();
                parts.extend(shown.filter_map(|part| image(&part["content"])));
                self.block("tool", &words::of_title(update), &parts)
            }
            UpdateKind::Plan => self.block("note", "Plan", &[escaped(&words::of_plan(update))]),
            UpdateKind::Notice => {
                self.block("note", update["title"].as_str().unwrap_or_default(), &[])
            }
            UpdateKind::Compaction => {
                let summary = update["summary"].as_array().into_iter().flatten();
                let summary = summary.map(|block| escaped(&words::of_block(block)));
                let summary: Vec<String> = summary.collect();
                self.block("note", "The conversation was compacted", &summary)
            }
            _ => Ok(()),
        }
    }
}

/// An image that a browser shows and cannot take for anything else.
fn image(block: &Value) -> Option<String> {
    const KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let (kind, data) = (block["mimeType"].as_str()?, block["data"].as_str()?);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let safe = block["type"] == "image" && KINDS.contains(&kind) && data.bytes().all(plain);
    safe.then(|| format!("<img alt=\"\" src=\"data:{kind};base64,{data}\">"))
}

fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '"' => plain.push_str("&quot;"),
            '\'' => plain.push_str("&#39;"),
            '\n' | '\t' => plain.push(c),
            c if c.is_control() => plain.push('\u{fffd}'),
            c => plain.push(c),
        }
    }
    plain
}
