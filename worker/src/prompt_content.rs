//! The content of a prompt, checked against what the agent says it takes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::rpc::Failure;

/// The agent's `promptCapabilities`. Text and links to resources are always taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptCapabilities {
    image: bool,
    audio: bool,
    embedded_context: bool,
}

impl PromptCapabilities {
    /// From the agent's own `initialize` result.
    pub fn of(initialize: &Value) -> Self {
        let capabilities = &initialize["agentCapabilities"]["promptCapabilities"];
        Self::deserialize(capabilities).unwrap_or_default()
    }

    /// The blocks of a prompt, each as it was written.
    pub fn check<'a>(&self, prompt: &'a RawValue) -> Result<Vec<&'a RawValue>, Failure> {
        let blocks: Vec<&RawValue> = serde_json::from_str(prompt.get())
            .map_err(|_| invalid("params.prompt must be an array of content blocks"))?;
        for (at, block) in blocks.iter().enumerate() {
            self.check_block(block)
                .map_err(|fault| invalid(format!("params.prompt[{at}]: {fault}")))?;
        }
        Ok(blocks)
    }

    fn check_block(&self, block: &RawValue) -> Result<(), String> {
        let wrong = |_| "a content block must be an object with a type".to_owned();
        let block: ContentBlock = serde_json::from_str(block.get()).map_err(wrong)?;
        let (allowed, capability) = match &*block.r#type {
            "text" => {
                block.needs(&[("text", &block.text)])?;
                return Ok(());
            }
            "resource_link" => {
                block.needs(&[("name", &block.name), ("uri", &block.uri)])?;
                return Ok(());
            }
            "image" | "audio" => {
                block.needs(&[("data", &block.data), ("mimeType", &block.mime_type)])?;
                match &*block.r#type {
                    "image" => (self.image, "image"),
                    _ => (self.audio, "audio"),
                }
            }
            "resource" => {
                let resource: Option<EmbeddedResource> = block
                    .resource
                    .and_then(|resource| serde_json::from_str(resource.get()).ok());
                let complete = |resource: &EmbeddedResource| {
                    is_text(&resource.uri) && (is_text(&resource.text) || is_text(&resource.blob))
                };
                if !resource.as_ref().is_some_and(complete) {
                    return Err(
                        "a resource block needs \"resource\" with uri and either text or blob"
                            .into(),
                    );
                }
                (self.embedded_context, "embeddedContext")
            }
            other => {
                return Err(format!(
                    "there is no content of type {other:?}; valid: text, image, audio, resource, \
                     resource_link"
                ));
            }
        };
        if allowed {
            Ok(())
        } else {
            Err(format!(
                "the agent takes no content of type {:?}: its promptCapabilities.{capability} is \
                 not true",
                block.r#type
            ))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentBlock<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    mime_type: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EmbeddedResource<'a> {
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    blob: Option<&'a RawValue>,
}

impl ContentBlock<'_> {
    fn needs(&self, fields: &[(&str, &Option<&RawValue>)]) -> Result<(), String> {
        match fields.iter().find(|(_, value)| !is_text(value)) {
            None => Ok(()),
            Some((name, _)) => Err(format!(
                "a block of type {:?} needs {name:?}, a string",
                self.r#type
            )),
        }
    }
}

fn is_text(value: &Option<&RawValue>) -> bool {
    value.is_some_and(|value| value.get().starts_with('"'))
}

fn invalid(text: impl Into<String>) -> Failure {
    Failure::invalid_params(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(accepts: PromptCapabilities, blocks: &Value) -> Result<usize, String> {
        let prompt = RawValue::from_string(blocks.to_string()).unwrap();
        let checked = accepts.check(&prompt);
        checked
            .map(|blocks| blocks.len())
            .map_err(|failure| failure.message)
    }

    fn all() -> Vec<(&'static str, Value)> {
        let text = json!({ "type": "text", "text": "hello" });
        let link = json!({ "type": "resource_link", "name": "a", "uri": "file:///a" });
        let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
        let audio = json!({ "type": "audio", "data": "aGk=", "mimeType": "audio/wav" });
        let resource =
            json!({ "type": "resource", "resource": { "uri": "file:///a", "text": "a" } });
        vec![
            ("", text),
            ("", link),
            ("image", image),
            ("audio", audio),
            ("embeddedContext", resource),
        ]
    }

    #[test]
    fn an_agent_gets_what_it_says_it_takes_and_nothing_else() {
        for (capability, block) in all() {
            let card =
                json!({ "agentCapabilities": { "promptCapabilities": { capability: true } } });
            assert_eq!(
                check(PromptCapabilities::of(&card), &json!([block])),
                Ok(1),
                "{block}"
            );
            let refused = check(PromptCapabilities::default(), &json!([block]));
            match capability {
                "" => assert_eq!(refused, Ok(1), "{block}"),
                _ => assert!(refused.unwrap_err().contains(capability), "{block}"),
            }
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let everything = PromptCapabilities {
            image: true,
            audio: true,
            embedded_context: true,
        };
        let cases = [
            (json!([{ "type": "text" }]), "\"text\", a string"),
            (json!([{ "type": "text", "text": 1 }]), "\"text\", a string"),
            (json!([{ "type": "image", "data": "x" }]), "\"mimeType\""),
            (json!([{ "type": "resource_link", "uri": "x" }]), "\"name\""),
            (
                json!([{ "type": "resource", "resource": {} }]),
                "uri and either",
            ),
            (json!([{ "type": "video" }]), "valid: text, image"),
            (json!([{}]), "object with a type"),
            (json!(["hello"]), "object with a type"),
            (json!({}), "an array"),
        ];
        for (blocks, expected) in cases {
            let fault = check(everything, &blocks).unwrap_err();
            assert!(fault.contains(expected), "{blocks}: {fault}");
        }
        let second = json!([{ "type": "text", "text": "a" }, { "type": "text" }]);
        assert!(
            check(everything, &second)
                .unwrap_err()
                .contains("prompt[1]")
        );
    }
}
