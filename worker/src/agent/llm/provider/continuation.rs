//! How a model goes on after a beginning: an answer whose stream broke off.

use serde::{Deserialize, Serialize};

use super::config::{ChatDialect, ProviderConfig};
use super::prefix_cut::PrefixCut;
use crate::agent::llm::model::{
    AssistantMessage, AssistantPart, ModelMessage, ModelProtocol, ModelRequest,
};

/// The last message of a request that asks for the rest.
pub const CONTINUE_REQUEST: &str = "The connection was lost while you wrote your last message. It \
    ends where you see it end, possibly within a word. Go on from exactly that character: repeat \
    nothing, and do not mention the interruption.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContinuationWay {
    /// The beginning is the last message, and the endpoint goes on after it by itself.
    Prefill,
    /// The same, if the message is marked with `prefix`.
    PrefixMark,
    /// The same, with `continue_final_message`.
    FinalMessage,
    /// The model is asked to, in words.
    Ask,
}

/// The beginning of an answer.
#[derive(Debug)]
pub struct ReplyBeginning {
    pub message: AssistantMessage,
    pub way: ContinuationWay,
    /// As it is sent.
    pub text: String,
    /// So many bytes of space at its end are not sent, because the endpoint takes none there.
    withheld: usize,
}

impl ReplyBeginning {
    /// `None` if the request asks for a new answer: also if nothing was said aloud yet, since
    /// reasoning alone cannot be continued.
    pub fn of(
        request: &ModelRequest,
        config: &ProviderConfig,
        only_ask: bool,
    ) -> Option<ReplyBeginning> {
        let Some(ModelMessage::Assistant(message)) = request.messages.last() else {
            return None;
        };
        let said = message.text();
        if said.trim().is_empty() {
            return None;
        }
        let way = if only_ask {
            ContinuationWay::Ask
        } else {
            way(request, config)
        };
        // Only the last message may not end with space.
        let trims = config.protocol == ModelProtocol::Anthropic && way != ContinuationWay::Ask;
        let text = if trims { said.trim_end() } else { &said };
        Some(Self {
            message: spoken(message),
            way,
            withheld: said.len() - text.len(),
            text: text.to_owned(),
        })
    }

    pub fn cut(&self) -> PrefixCut {
        let said = self.message.text();
        match self.way {
            ContinuationWay::Ask => PrefixCut::asked(said),
            _ => PrefixCut::exact(said, self.withheld),
        }
    }
}

/// Without tool calls: those of an answer that broke off are asked for again.
fn spoken(message: &AssistantMessage) -> AssistantMessage {
    let parts = message.parts.iter();
    let spoken = parts.filter(|part| !matches!(part, AssistantPart::ToolCall { .. }));
    AssistantMessage {
        parts: spoken.cloned().collect(),
    }
}

fn way(request: &ModelRequest, config: &ProviderConfig) -> ContinuationWay {
    if let Some(way) = config.continuation {
        return way;
    }
    match (config.protocol, config.dialect) {
        // A model that thinks begins with a thought, so its beginning cannot be given.
        (ModelProtocol::Anthropic, _) if request.reasoning_effort.is_some() => ContinuationWay::Ask,
        (ModelProtocol::Anthropic, _) => ContinuationWay::Prefill,
        (ModelProtocol::Responses, _) => ContinuationWay::Ask,
        (ModelProtocol::Chat, dialect) => match dialect {
            ChatDialect::Vllm => ContinuationWay::FinalMessage,
            ChatDialect::LlamaCpp | ChatDialect::Ollama | ChatDialect::OpenRouter => {
                ContinuationWay::Prefill
            }
            ChatDialect::LiteLlm | ChatDialect::Mistral => ContinuationWay::PrefixMark,
            // DeepSeek has it on another URL only.
            ChatDialect::Plain | ChatDialect::OpenAi | ChatDialect::DeepSeek => {
                ContinuationWay::Ask
            }
        },
    }
}
