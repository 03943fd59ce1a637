//! The agent's requests: for permission, or to fill in a form.

use baton_protocol::Method;
use serde_json::{Map, Value, json};

use self::field::FormField;
use super::screen::{ChatScreen, TextColour};
use super::session::{list, text};

mod field;

pub struct AgentQuestion {
    /// Of the request, for its answer.
    pub id: Value,
    asks: QuestionKind,
}

enum QuestionKind {
    Permission {
        what: String,
        options: Vec<QuestionChoice>,
    },
    Form {
        message: String,
        fields: Vec<FormField>,
        /// As far as it is filled in.
        content: Map<String, Value>,
    },
}

struct QuestionChoice {
    id: String,
    name: String,
    rejects: bool,
    /// A letter that stands for it: the first one of its name that no other has.
    key: char,
}

/// The result of an answer.
pub enum QuestionReply {
    Result(Value),
    /// There is more to answer.
    More,
    /// With what may be answered.
    Unclear(String),
}

impl AgentQuestion {
    /// `None` if it is none that we can ask; then the answer is what it gets.
    pub fn read(id: Value, method: &str, params: &Value) -> Option<Result<Self, Value>> {
        let asks = match Method::of(method) {
            Method::RequestPermission => QuestionKind::Permission {
                what: text(&params["toolCall"]["title"]),
                options: choices(&params["options"]),
            },
            Method::CreateElicitation => {
                let Some(fields) = FormField::all(&params["requestedSchema"]) else {
                    return Some(Err(json!({ "action": "decline" })));
                };
                QuestionKind::Form {
                    message: text(&params["message"]),
                    fields,
                    content: Map::new(),
                }
            }
            _ => return None,
        };
        Some(Ok(Self { id, asks }))
    }

    pub fn show(&self, screen: &mut ChatScreen) {
        match &self.asks {
            QuestionKind::Permission { what, options } => {
                screen.line(&[
                    (TextColour::Yellow, "Permission: "),
                    (TextColour::Bold, what),
                ]);
                for (number, option) in (1..).zip(options) {
                    let keys = format!("  {number} or {}  ", option.key);
                    screen.line(&[
                        (TextColour::Yellow, &keys),
                        (TextColour::None, &option.name),
                    ]);
                }
            }
            QuestionKind::Form {
                message, fields, ..
            } => {
                screen.line(&[
                    (TextColour::Yellow, "Question: "),
                    (TextColour::Bold, message),
                ]);
                if let Some(field) = self.open(fields) {
                    screen.line(&[(TextColour::None, &format!("  {}", field.asked()))]);
                }
            }
        }
    }

    fn open<'a>(&self, fields: &'a [FormField]) -> Option<&'a FormField> {
        match &self.asks {
            QuestionKind::Form { content, .. } => fields.get(content.len()),
            QuestionKind::Permission { .. } => None,
        }
    }

    pub fn answer(&mut self, line: &str) -> QuestionReply {
        match &mut self.asks {
            QuestionKind::Permission { options, .. } => chosen(options, line.trim()),
            QuestionKind::Form {
                fields, content, ..
            } => {
                let Some(field) = fields.get(content.len()) else {
                    return QuestionReply::Result(
                        json!({ "action": "accept", "content": content }),
                    );
                };
                match field.value(line.trim()) {
                    Ok(value) => content.insert(field.name.clone(), value),
                    Err(hint) => return QuestionReply::Unclear(hint),
                };
                if content.len() == fields.len() {
                    content.retain(|_, value| !value.is_null());
                    QuestionReply::Result(json!({ "action": "accept", "content": content }))
                } else {
                    QuestionReply::More
                }
            }
        }
    }

    /// For Ctrl-C.
    pub fn cancelled(&self) -> Value {
        match self.asks {
            QuestionKind::Permission { .. } => json!({ "outcome": { "outcome": "cancelled" } }),
            QuestionKind::Form { .. } => json!({ "action": "cancel" }),
        }
    }

    /// For when there is nobody to answer.
    pub fn declined(&self) -> Value {
        match &self.asks {
            QuestionKind::Permission { options, .. } => {
                let rejecting = options.iter().find(|option| option.rejects);
                rejecting.map_or_else(|| self.cancelled(), selected)
            }
            QuestionKind::Form { .. } => json!({ "action": "decline" }),
        }
    }
}

fn selected(choice: &QuestionChoice) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": choice.id } })
}

fn choices(options: &Value) -> Vec<QuestionChoice> {
    let mut taken = String::new();
    let mut choices = Vec::new();
    for option in list(options) {
        let name = text(&option["name"]);
        let letters = name.chars().flat_map(char::to_lowercase);
        let mut letters = letters.filter(|letter| letter.is_alphabetic());
        let key = letters.find(|letter| !taken.contains(*letter));
        let key = key.unwrap_or('-');
        taken.push(key);
        choices.push(QuestionChoice {
            // As it came: it goes back.
            id: option["optionId"].as_str().unwrap_or_default().to_owned(),
            rejects: option["kind"] == "reject_once",
            name,
            key,
        });
    }
    choices
}

fn chosen(options: &[QuestionChoice], line: &str) -> QuestionReply {
    let number = line.parse::<usize>().ok();
    let by_number = number.and_then(|number| options.get(number.checked_sub(1)?));
    let is_meant = |option: &&QuestionChoice| {
        let mut letters = line.chars().flat_map(char::to_lowercase);
        letters.next() == Some(option.key) && letters.next().is_none()
            || line.eq_ignore_ascii_case(&option.name)
    };
    match by_number.or_else(|| options.iter().find(is_meant)) {
        Some(option) => QuestionReply::Result(selected(option)),
        None => {
            let count = options.len();
            QuestionReply::Unclear(format!(
                "answer with a number from 1 to {count}, or with the letter beside it; Ctrl-C \
                 cancels"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
