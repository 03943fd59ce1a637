//! The input of a request as content of a prompt. The words of the user are content as they are;
//! what was said before them, by clients that keep a conversation themselves, comes as one text in
//! front.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fault::{invalid, unsupported};
use crate::error::GatewayError;

/// Before the id of a question, in the `call_id` of a function call.
pub const CALL: &str = "call_";
/// The same in the id of an approval request.
pub const APPROVAL: &str = "mcpr_";

#[derive(Debug)]
pub struct PromptInput {
    /// Content blocks, of which the first is an object without `_meta`. There are none only beside
    /// answers.
    pub blocks: Vec<Value>,
    /// After the last words of the user.
    pub answers: Vec<InputAnswer>,
}

/// To a question of the agent, which names its session.
#[derive(Debug, PartialEq, Eq)]
pub struct InputAnswer {
    pub question: String,
    pub given: GivenAnswer,
}

#[derive(Debug, PartialEq, Eq)]
pub enum GivenAnswer {
    Approval(bool),
    Output(String),
}

impl PromptInput {
    pub fn read(
        input: Option<&RawValue>,
        instructions: Option<&str>,
    ) -> Result<Self, GatewayError> {
        let input: Value = match input {
            Some(input) => serde_json::from_str(input.get())
                .map_err(|error| GatewayError::NotJson(error.to_string()))?,
            None => Value::Null,
        };
        let mut reader = InputReader::default();
        match &input {
            Value::String(text) => reader.user.push(text_block(text)),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    reader.item(&format!("input[{at}]"), item)?;
                }
            }
            Value::Null => {
                return Err(invalid("input", "input is missing: send a string or items"));
            }
            _ => {
                return Err(invalid(
                    "input",
                    "input must be a string or an array of items",
                ));
            }
        }
        let answers = std::mem::take(&mut reader.answers);
        let blocks = reader.finish(instructions);
        if blocks.is_empty() && answers.is_empty() {
            return Err(invalid("input", "input has no message of the user"));
        }
        Ok(Self { blocks, answers })
    }
}

#[derive(Default)]
struct InputReader {
    /// Of the system or the developer.
    guidance: Vec<String>,
    /// All that was said before the last words of the user.
    before: String,
    user: Vec<Value>,
    answers: Vec<InputAnswer>,
}

impl InputReader {
    fn item(&mut self, at: &str, item: &Value) -> Result<(), GatewayError> {
        let kind = item["type"].as_str();
        match kind.unwrap_or("message") {
            "message" => self.message(at, item),
            "function_call" => {
                let name = item["name"].as_str().unwrap_or_default();
                let arguments = item["arguments"].as_str().unwrap_or_default();
                self.said("Function call", &format!("{name}({arguments})"));
                Ok(())
            }
            "function_call_output" => {
                self.output(item);
                Ok(())
            }
            "mcp_approval_request" => Ok(()),
            "mcp_approval_response" => self.approval(at, item),
            // Thoughts of a model are its own.
            "reasoning" => Ok(()),
            "item_reference" => Err(unsupported(
                at,
                "items are not kept by their ids: use previous_response_id, or send the item",
            )),
            other => Err(invalid(
                at,
                format!(
                    "{at}: there is no item of type {}",
                    baton_protocol::limits::echo(other)
                ),
            )),
        }
    }

    fn output(&mut self, item: &Value) {
        let output = &item["output"];
        let text = output
            .as_str()
            .map_or_else(|| output.to_string(), str::to_owned);
        let call = item["call_id"].as_str().unwrap_or_default();
        match call.strip_prefix(CALL) {
            Some(question) => self.answers.push(InputAnswer {
                question: question.to_owned(),
                given: GivenAnswer::Output(text),
            }),
            None => self.said("Function output", &text),
        }
    }

    fn approval(&mut self, at: &str, item: &Value) -> Result<(), GatewayError> {
        let request = item["approval_request_id"].as_str().unwrap_or_default();
        let question = request.strip_prefix(APPROVAL);
        let (Some(question), Some(approve)) = (question, item["approve"].as_bool()) else {
            let text = format!(
                "{at} needs approval_request_id, that of an mcp_approval_request, and approve, \
                 true or false"
            );
            return Err(invalid(at, text));
        };
        self.answers.push(InputAnswer {
            question: question.to_owned(),
            given: GivenAnswer::Approval(approve),
        });
        Ok(())
    }

    fn message(&mut self, at: &str, item: &Value) -> Result<(), GatewayError> {
        let content = match &item["content"] {
            Value::String(text) => vec![text_block(text)],
            Value::Array(parts) => {
                let parts = parts.iter().enumerate();
                let parts =
                    parts.map(|(part, content)| block(&format!("{at}.content[{part}]"), content));
                parts.collect::<Result<_, _>>()?
            }
            _ => {
                return Err(invalid(
                    at,
                    format!("{at}.content must be a string or an array"),
                ));
            }
        };
        match item["role"].as_str() {
            Some("user") => {
                self.user.extend(content);
                // The agent has gone on since they were given.
                self.answers.clear();
            }
            Some("assistant") => self.said("Assistant", &words(&content)),
            Some("system" | "developer") => self.guidance.push(words(&content)),
            _ => {
                let text = format!("{at}.role must be user, assistant, system or developer");
                return Err(invalid(at, text));
            }
        }
        Ok(())
    }

    /// The words of the user until now have been answered.
    fn said(&mut self, by: &str, text: &str) {
        let asked = std::mem::take(&mut self.user);
        for (by, text) in [("User", words(&asked).as_str()), (by, text)] {
            if !text.is_empty() {
                self.before.push_str(&format!("{by}: {text}\n\n"));
            }
        }
    }

    fn finish(mut self, instructions: Option<&str>) -> Vec<Value> {
        let mut blocks = Vec::new();
        let guidance = instructions.map(str::to_owned).into_iter();
        let guidance: Vec<String> = guidance.chain(self.guidance).collect();
        if !guidance.is_empty() {
            blocks.push(for_the_agent(&guidance.join("\n\n")));
        }
        if !self.before.is_empty() {
            let text = format!("The conversation so far:\n\n{}", self.before);
            blocks.push(for_the_agent(text.trim_end()));
        }
        blocks.append(&mut self.user);
        blocks
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Nothing that the user has just said.
fn for_the_agent(text: &str) -> Value {
    json!({ "type": "text", "text": text, "annotations": { "audience": ["assistant"] } })
}

/// Of content that is told again as text.
fn words(content: &[Value]) -> String {
    let text = |block: &Value| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", block["type"].as_str().unwrap_or_default()),
    };
    content.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn block(at: &str, part: &Value) -> Result<Value, GatewayError> {
    let text = |name: &str| {
        let text = part[name].as_str();
        text.ok_or_else(|| invalid(at, format!("{at}.{name} must be a string")))
    };
    match part["type"].as_str() {
        Some("input_text" | "output_text" | "text") => Ok(text_block(text("text")?)),
        Some("refusal") => Ok(text_block(text("refusal")?)),
        Some("input_image") => {
            let url = part["image_url"].as_str();
            let url = url.ok_or_else(|| {
                invalid(
                    at,
                    format!("{at}.image_url must be a URL: files have no ids here"),
                )
            })?;
            Ok(image(at, url)?)
        }
        Some("input_file") => file(at, part),
        other => {
            let kind = baton_protocol::limits::echo(other.unwrap_or_default());
            Err(invalid(
                at,
                format!("{at}: there is no content of type {kind}"),
            ))
        }
    }
}

fn image(at: &str, url: &str) -> Result<Value, GatewayError> {
    match data_url(url) {
        Some((mime, data)) => Ok(json!({ "type": "image", "mimeType": mime, "data": data })),
        None if url.starts_with("data:") => {
            let text = format!("{at}.image_url must be data:TYPE;base64,DATA or a URL");
            Err(invalid(at, text))
        }
        None => Ok(json!({ "type": "resource_link", "name": "image", "uri": url })),
    }
}

fn file(at: &str, part: &Value) -> Result<Value, GatewayError> {
    let name = part["filename"].as_str().unwrap_or("file");
    if let Some(url) = part["file_url"].as_str() {
        return Ok(json!({ "type": "resource_link", "name": name, "uri": url }));
    }
    let Some(data) = part["file_data"].as_str() else {
        let text = format!("{at} needs file_data or file_url: files have no ids here");
        return Err(invalid(at, text));
    };
    let (mime, data) = data_url(data).unwrap_or(("application/octet-stream", data));
    let uri = format!("attachment:{name}");
    let resource = json!({ "uri": uri, "mimeType": mime, "blob": data });
    Ok(json!({ "type": "resource", "resource": resource }))
}

/// The type and the data of `data:TYPE;base64,DATA`.
fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value, instructions: Option<&str>) -> Result<Vec<Value>, GatewayError> {
        let raw = RawValue::from_string(input.to_string()).unwrap();
        Ok(PromptInput::read(Some(&raw), instructions)?.blocks)
    }

    #[test]
    fn the_users_words_are_content_and_the_rest_stands_before_them() {
        let blocks = read(json!("hello"), None).unwrap();
        assert_eq!(blocks, [json!({ "type": "text", "text": "hello" })]);
        let blocks = read(
            json!([
                { "role": "developer", "content": "be brief" },
                { "role": "user", "content": "one" },
                { "type": "message", "role": "assistant",
                  "content": [{ "type": "output_text", "text": "two" }] },
                { "type": "reasoning", "summary": [] },
                { "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c", "output": "5" },
                { "role": "user", "content": [
                    { "type": "input_text", "text": "three" },
                    { "type": "input_image", "image_url": "data:image/png;base64,aGk=" },
                    { "type": "input_file", "filename": "a.txt", "file_data": "aGk=" },
                    { "type": "input_file", "file_url": "https://example.com/a" } ] },
            ]),
            Some("be kind"),
        )
        .unwrap();
        let text = |at: usize| blocks[at]["text"].as_str().unwrap();
        assert_eq!(text(0), "be kind\n\nbe brief");
        let told = "The conversation so far:\n\nUser: one\n\nAssistant: two\n\nFunction call: \
            f({})\n\nFunction output: 5";
        assert_eq!(text(1), told);
        assert_eq!(text(2), "three");
        assert_eq!(blocks[3]["mimeType"], "image/png");
        assert_eq!(blocks[4]["resource"]["blob"], "aGk=");
        assert_eq!(blocks[5]["type"], "resource_link");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (input, named) in [
            (json!(null), "input"),
            (json!(7), "input"),
            (json!([]), "input"),
            (
                json!([{ "type": "item_reference", "id": "msg_1" }]),
                "input[0]",
            ),
            (json!([{ "type": "computer_call" }]), "input[0]"),
            (json!([{ "role": "user" }]), "input[0]"),
            (json!([{ "role": "critic", "content": "x" }]), "input[0]"),
            (
                json!([{ "role": "user", "content": [{ "type": "input_audio" }] }]),
                "input[0].content[0]",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "input_image" }] }]),
                "input[0].content[0]",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "input_image", "image_url": "data:x" }] }]),
                "input[0].content[0]",
            ),
        ] {
            let Err(GatewayError::Door(fault)) = read(input.clone(), None) else {
                panic!("{input} was taken");
            };
            assert_eq!(fault.param.as_deref(), Some(named), "{input}");
        }
    }
}
