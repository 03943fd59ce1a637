//! What was said, turn by turn.

use agent_client_protocol::v1::schema::{ContentBlock, ContentChunk, SessionUpdate};
use anyhow::{Context, Result};

/// A user's prompt and the agent text that followed it.
#[derive(Debug, PartialEq)]
pub struct Turn {
    pub user: String,
    pub agent: String,
}

impl Turn {
    pub fn counted(n: usize, prompt: usize) -> Self {
        Self {
            user: format!("/count {n}"),
            agent: counted(n, prompt, n).concat(),
        }
    }
}

pub fn chunk_texts(updates: &[SessionUpdate]) -> impl Iterator<Item = &str> {
    updates.iter().filter_map(|update| match update {
        SessionUpdate::AgentMessageChunk(chunk) => text_of(chunk),
        _ => None,
    })
}

fn text_of(chunk: &ContentChunk) -> Option<&str> {
    match &chunk.content {
        ContentBlock::Text(content) => Some(&content.text),
        _ => None,
    }
}

pub fn counted(n: usize, prompt: usize, up_to: usize) -> Vec<String> {
    (1..=up_to)
        .map(|k| format!("chunk {k} of {n}, prompt {prompt} "))
        .collect()
}

/// Groups a replay into turns.
pub fn turns_of(updates: &[SessionUpdate]) -> Result<Vec<Turn>> {
    let mut turns: Vec<Turn> = Vec::new();
    for update in updates {
        match update {
            SessionUpdate::UserMessageChunk(chunk) => turns.push(Turn {
                user: text_of(chunk)
                    .context("a user message without text")?
                    .to_owned(),
                agent: String::new(),
            }),
            SessionUpdate::AgentMessageChunk(chunk) => {
                let turn = turns
                    .last_mut()
                    .context("the replay begins with an agent message")?;
                turn.agent += text_of(chunk).context("an agent message without text")?;
            }
            _ => {}
        }
    }
    Ok(turns)
}
