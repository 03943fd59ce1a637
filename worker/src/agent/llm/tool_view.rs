//! Tool calls as clients see them, and what comes out of them.

use serde_json::{Value, json};

use super::model::MessagePart;
use super::user_content::part_of;

/// A call as clients show it.
#[derive(Debug)]
pub struct ToolView {
    pub title: String,
    pub kind: &'static str,
    pub locations: Vec<Value>,
}

pub fn file_view(verb: &str, kind: &'static str, path: &str, cwd: &str) -> ToolView {
    let path = absolute(cwd, path);
    ToolView {
        title: format!("{verb} {path}"),
        kind,
        locations: vec![json!({ "path": path })],
    }
}

/// Clients want absolute paths.
pub fn absolute(cwd: &str, path: &str) -> String {
    std::path::Path::new(cwd)
        .join(path)
        .to_string_lossy()
        .into_owned()
}

/// The outcome of a call.
#[derive(Debug, Default)]
pub struct ToolOutcome {
    /// For the model.
    pub text: String,
    pub is_error: bool,
    /// For clients; `None` leaves what they show already.
    pub content: Option<Vec<Value>>,
    /// Clients show the text before the content.
    pub shows_text: bool,
    /// As metrics have it, if it did not just succeed or fail.
    pub kind: Option<&'static str>,
}

impl ToolOutcome {
    pub fn done(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The user sees why, too.
    pub fn failed(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            content: Some(Vec::new()),
            shows_text: true,
            kind: None,
        }
    }

    pub fn of_kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    pub fn showing(mut self, content: Vec<Value>) -> Self {
        self.content = Some(content);
        self
    }
}

pub fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// An output that is not too long for the model: of a long one its beginning and its end.
pub fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    let head = (0..=most / 2).rev().find(|at| text.is_char_boundary(*at));
    let tail = (text.len() - most / 2..).find(|at| text.is_char_boundary(*at));
    let (head, tail) = (head.unwrap_or(0), tail.unwrap_or(text.len()));
    let left_out = tail - head;
    format!(
        "{}\n[… {left_out} bytes were left out: ask for less at once …]\n{}",
        &text[..head],
        &text[tail..]
    )
}

/// The result of a call for the model: its output, and the images in what clients are shown.
pub fn result_parts(output: Option<String>, shown: Option<&Value>) -> Vec<MessagePart> {
    let shown = shown.and_then(Value::as_array).into_iter().flatten();
    let images = shown.map(|it| &it["content"]);
    let images = images.filter(|block| block["type"] == "image").map(part_of);
    output
        .map(MessagePart::Text)
        .into_iter()
        .chain(images)
        .collect()
}

/// As [`MessagePart`]s, which the model gets.
pub fn parts(text: &str) -> Vec<MessagePart> {
    vec![MessagePart::Text(text.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_beginning_and_end_are_kept() {
        assert_eq!(cut("short".into(), 10), "short");
        let text = format!("begin{}end", "ä".repeat(1000));
        for most in 0..100 {
            let kept = cut(text.clone(), most);
            assert!(
                kept.len() < most + 80 && kept.contains("bytes were left out"),
                "{kept}"
            );
        }
        let kept = cut(text, 100);
        assert!(kept.starts_with("begin") && kept.ends_with("end"));
    }

    #[test]
    fn relative_paths_are_those_of_the_session() {
        assert_eq!(absolute("/work", "a/b"), "/work/a/b");
        assert_eq!(absolute("/work", "/etc/hosts"), "/etc/hosts");
    }
}
