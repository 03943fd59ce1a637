//! `session/update`: its kinds, and how one is read.

use serde::Deserialize;

macro_rules! update_kinds {
    ($($kind:ident = $name:literal,)*) => {
        /// The `sessionUpdate` field of an update.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum UpdateKind {
            $($kind,)*
            /// Of a later version of ACP, or of an agent's own.
            Other,
        }

        impl UpdateKind {
            pub fn of(name: &str) -> Self {
                match name {
                    $($name => Self::$kind,)*
                    _ => Self::Other,
                }
            }

            /// Empty for [`Self::Other`].
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                    Self::Other => "",
                }
            }
        }
    };
}

update_kinds! {
    UserMessageChunk = "user_message_chunk",
    AgentMessageChunk = "agent_message_chunk",
    AgentThoughtChunk = "agent_thought_chunk",
    ToolCall = "tool_call",
    ToolCallUpdate = "tool_call_update",
    Plan = "plan",
    AvailableCommands = "available_commands_update",
    CurrentMode = "current_mode_update",
    ConfigOption = "config_option_update",
    SessionInfo = "session_info_update",
    Usage = "usage_update",
    Notice = "notice",
    Compaction = "compaction_update",
}

/// The field that names the kind.
pub const KIND_FIELD: &str = "sessionUpdate";

/// `params.update` of a message, in the form the caller needs. `None` if the message has none of
/// that form.
pub fn read<'a, U: Deserialize<'a>>(message: &'a [u8]) -> Option<U> {
    #[derive(Deserialize)]
    struct UpdateMessage<P> {
        params: P,
    }
    #[derive(Deserialize)]
    struct WithUpdate<U> {
        update: U,
    }
    let message: UpdateMessage<WithUpdate<U>> = serde_json::from_slice(message).ok()?;
    Some(message.params.update)
}

/// The kind of an update that was read as a value.
pub fn kind_of(update: &serde_json::Value) -> UpdateKind {
    let name = update[KIND_FIELD].as_str();
    name.map_or(UpdateKind::Other, UpdateKind::of)
}

/// The kind of the update that a message brings.
pub fn kind(message: &[u8]) -> Option<UpdateKind> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct UpdateHead {
        session_update: String,
    }
    let update: UpdateHead = read(message)?;
    Some(UpdateKind::of(&update.session_update))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn an_update_is_found_in_its_message() {
        let message = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan", "entries":[]}}}"#;
        let update: &RawValue = read(message).unwrap();
        assert_eq!(update.get(), r#"{"sessionUpdate":"plan", "entries":[]}"#);
        assert_eq!(kind(message), Some(UpdateKind::Plan));
        assert_eq!(kind(b"{\"params\":{}}"), None);
        let later = br#"{"params":{"update":{"sessionUpdate":"of_tomorrow"}}}"#;
        assert_eq!(kind(later), Some(UpdateKind::Other));
    }
}
