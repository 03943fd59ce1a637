//! Updates of ACP, with what is known of their origin in `_meta`.

use baton_protocol::{UpdateKind, limits::MAX_NAME, meta};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// All that a tool has written down about a part of a conversation.
#[derive(Clone, Copy, Default)]
pub struct UpdateOrigin<'a> {
    /// Its id there.
    pub id: &'a str,
    /// When, as it was written.
    pub at: &'a str,
    pub model: &'a str,
    /// Of a thought: the model's provider takes it back only with this.
    pub signature: &'a str,
    /// Of a tool call: the tool's name.
    pub tool: &'a str,
}

impl UpdateOrigin<'_> {
    fn mark(&self, update: &mut Value) {
        let fields = [
            ("id", self.id, MAX_NAME),
            ("at", self.at, 64),
            ("model", self.model, MAX_NAME),
            ("signature", self.signature, 64 << 10),
            ("tool", self.tool, MAX_NAME),
        ];
        let fields = fields
            .into_iter()
            .filter(|(_, value, most)| !value.is_empty() && value.len() <= *most)
            .map(|(name, value, _)| (name.to_owned(), json!(value)));
        let fields: Map<String, Value> = fields.collect();
        if !fields.is_empty() {
            update["_meta"] = json!({ meta::HISTORY: fields });
        }
    }
}

pub fn chunk(kind: UpdateKind, message: &str, content: Value, origin: &UpdateOrigin<'_>) -> Value {
    let mut update = json!({ "sessionUpdate": kind.name(), "content": content });
    if !message.is_empty() {
        update["messageId"] = json!(message);
    }
    origin.mark(&mut update);
    update
}

/// `fields`: of the call, beside its id.
pub fn tool(kind: UpdateKind, id: &str, mut fields: Value, origin: &UpdateOrigin<'_>) -> Value {
    fields["sessionUpdate"] = json!(kind.name());
    fields["toolCallId"] = json!(id);
    origin.mark(&mut fields);
    fields
}

pub fn plan(entries: Vec<Value>, origin: &UpdateOrigin<'_>) -> Value {
    let mut update = json!({ "sessionUpdate": UpdateKind::Plan.name(), "entries": entries });
    origin.mark(&mut update);
    update
}

pub fn notice(severity: &str, title: &str, origin: &UpdateOrigin<'_>) -> Value {
    let mut update = json!({
        "sessionUpdate": UpdateKind::Notice.name(),
        "severity": severity,
        "title": baton_protocol::limits::cut_title(title),
    });
    origin.mark(&mut update);
    update
}

/// The model went on with a summary of what came before.
pub fn compaction(id: &str, summary: Option<&str>, origin: &UpdateOrigin<'_>) -> Value {
    let mut update = json!({
        "sessionUpdate": UpdateKind::Compaction.name(),
        "compactionId": name(id),
        "status": "completed",
    });
    if let Some(summary) = summary {
        update["summary"] = json!([crate::content::text(summary)]);
    }
    origin.mark(&mut update);
    update
}

/// An id as a name: one that is long or has odd characters gets another, always the same.
pub fn name(id: &str) -> String {
    if !id.is_empty() && id.len() <= MAX_NAME && id.chars().all(|c| c.is_ascii_graphic()) {
        return id.to_owned();
    }
    let digest = Sha256::digest(id);
    let digest = digest.iter().take(16).map(|byte| format!("{byte:02x}"));
    format!("id-{}", digest.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_id_becomes_a_plain_one() {
        assert_eq!(name("toolu_01"), "toolu_01");
        for odd in ["", "a\nb", "\u{1b}[2J", "ä", &"x".repeat(300)] {
            let plain = name(odd);
            assert!(plain.len() < 40 && plain.chars().all(|c| c.is_ascii_graphic()));
            assert_eq!(plain, name(odd));
        }
        assert_ne!(name("a\n"), name("b\n"));
    }
}
