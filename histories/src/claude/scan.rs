//! As much of a line as the tree needs.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScannedLine<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(default, borrow)]
    pub uuid: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub parent_uuid: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub logical_parent_uuid: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub session_id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub timestamp: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub cwd: Option<Cow<'a, str>>,
    #[serde(default)]
    pub is_sidechain: bool,
    #[serde(default)]
    pub is_meta: bool,
    #[serde(default)]
    pub is_compact_summary: bool,
    #[serde(default, borrow)]
    pub subtype: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    message: Option<ScannedMessage<'a>>,
    #[serde(default, borrow)]
    pub summary: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub custom_title: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub ai_title: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub leaf_uuid: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ScannedMessage<'a> {
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ScannedBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    text: Option<Cow<'a, str>>,
}

/// The part that a line has in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeClass {
    Prompt,
    Assistant,
    /// Results of tools.
    Results,
    /// The user stopped the agent.
    Interrupt,
    /// The output of a command of Claude Code itself.
    Local,
    /// The model goes on with a summary from here.
    Boundary,
    Summary,
    /// Something to be told, perhaps.
    System,
    /// Nothing of a conversation, though others hang on it.
    Silent,
}

/// Kinds of lines that say nothing of a conversation.
const SILENT: [&str; 13] = [
    "agent-name",
    "attachment",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "summary",
    "tag",
    "custom-title",
    "ai-title",
];

const INTERRUPTED: &str = "[Request interrupted by user";

impl<'a> ScannedLine<'a> {
    /// `None`: its kind is not known.
    pub fn class(&self) -> Option<NodeClass> {
        Some(match &*self.kind {
            "user" if self.is_compact_summary => NodeClass::Summary,
            "user" if self.is_meta => NodeClass::Silent,
            "user" => self.user_class(),
            "assistant" => NodeClass::Assistant,
            "system" if self.subtype.as_deref() == Some("compact_boundary") => NodeClass::Boundary,
            "system" => NodeClass::System,
            kind if SILENT.contains(&kind) => NodeClass::Silent,
            _ => return None,
        })
    }

    fn user_class(&self) -> NodeClass {
        let content = self.message.as_ref().and_then(|message| message.content);
        let content = content.map_or("null", RawValue::get);
        if let Ok(text) = serde_json::from_str::<Cow<'_, str>>(content) {
            return text_class(&text);
        }
        let Ok(blocks) = serde_json::from_str::<Vec<ScannedBlock<'_>>>(content) else {
            return NodeClass::Prompt;
        };
        if blocks
            .iter()
            .any(|block| block.kind.ends_with("tool_result"))
        {
            return NodeClass::Results;
        }
        match blocks.as_slice() {
            [
                ScannedBlock {
                    text: Some(text), ..
                },
            ] => text_class(text),
            _ => NodeClass::Prompt,
        }
    }

    /// Several lines may be one message of the model.
    pub fn message_id(&self) -> Option<&str> {
        self.message.as_ref()?.id.as_deref()
    }

    /// How lines like this are counted.
    pub fn counted_as(&self) -> Cow<'_, str> {
        match (&*self.kind, self.subtype.as_deref()) {
            ("system", Some(subtype)) => format!("system/{subtype}").into(),
            ("user", _) if self.is_meta => "user (not shown)".into(),
            (kind, _) => kind.into(),
        }
    }
}

fn text_class(text: &str) -> NodeClass {
    const LOCAL: [&str; 5] = [
        "<local-command-stdout>",
        "<local-command-stderr>",
        "<bash-stdout>",
        "<bash-stderr>",
        "<local-command-caveat>",
    ];
    if text.starts_with(INTERRUPTED) {
        NodeClass::Interrupt
    } else if LOCAL.iter().any(|tag| text.starts_with(tag)) {
        NodeClass::Local
    } else {
        NodeClass::Prompt
    }
}
