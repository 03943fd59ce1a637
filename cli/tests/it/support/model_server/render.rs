//! Steps as bytes of a stream, as each protocol has them.

use serde_json::{Value, json};

use super::call::{ModelCall, WireProtocol};
use super::script::{ModelScript, ScriptStep};

pub struct Rendering {
    protocol: WireProtocol,
    model: String,
    begun: bool,
    /// The kind of the block or item that takes more text.
    open: Option<&'static str>,
    /// Blocks or items so far.
    blocks: usize,
    calls: usize,
}

/// Arguments come in pieces of so many letters.
const PIECE: usize = 9;

impl Rendering {
    pub fn new(call: &ModelCall) -> Self {
        Self {
            protocol: call.protocol,
            model: call.model().to_owned(),
            begun: false,
            open: None,
            blocks: 0,
            calls: 0,
        }
    }

    pub fn step(&mut self, step: &ScriptStep, script: &ModelScript) -> String {
        let mut written = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            written.extend(self.start(script));
        }
        match step {
            ScriptStep::Raw(raw) => return written.concat() + raw,
            ScriptStep::Text(text) => self.say("text", text, &mut written),
            ScriptStep::Think(text) => self.say("thinking", text, &mut written),
            ScriptStep::Call {
                id,
                name,
                arguments,
            } => self.call(id, name, arguments, &mut written),
            ScriptStep::End => self.end(script, &mut written),
            _ => {}
        }
        written.concat()
    }

    fn start(&self, script: &ModelScript) -> Option<String> {
        let usage = json!({ "input_tokens": script.usage.0, "output_tokens": 1 });
        match self.protocol {
            WireProtocol::Chat => Some(self.delta(&json!({ "role": "assistant", "content": "" }))),
            WireProtocol::Responses => Some(event(json!({
                "type": "response.created",
                "response": { "id": "resp_1", "status": "in_progress", "model": self.model },
            }))),
            WireProtocol::Anthropic => {
                let message = json!({
                    "id": "msg_1", "type": "message", "role": "assistant", "content": [],
                    "model": self.model, "stop_reason": null, "usage": usage,
                });
                let start = event(json!({ "type": "message_start", "message": message }));
                Some(start + &event(json!({ "type": "ping" })))
            }
        }
    }

    fn say(&mut self, kind: &'static str, text: &str, written: &mut Vec<String>) {
        if self.open != Some(kind) {
            self.close(written);
            self.open(kind, written);
        }
        let (at, thinks) = (self.blocks - 1, kind == "thinking");
        written.push(match (self.protocol, thinks) {
            (WireProtocol::Chat, true) => self.delta(&json!({ "reasoning_content": text })),
            (WireProtocol::Chat, false) => self.delta(&json!({ "content": text })),
            (WireProtocol::Responses, true) => event(json!({
                "type": "response.reasoning_summary_text.delta",
                "output_index": at, "summary_index": 0, "delta": text,
            })),
            (WireProtocol::Responses, false) => event(json!({
                "type": "response.output_text.delta",
                "output_index": at, "content_index": 0, "delta": text,
            })),
            (WireProtocol::Anthropic, true) => {
                block_delta(at, &json!({ "type": "thinking_delta", "thinking": text }))
            }
            (WireProtocol::Anthropic, false) => {
                block_delta(at, &json!({ "type": "text_delta", "text": text }))
            }
        });
    }

    fn open(&mut self, kind: &'static str, written: &mut Vec<String>) {
        let at = self.blocks;
        self.blocks += 1;
        self.open = Some(kind);
        match self.protocol {
            WireProtocol::Chat => {}
            WireProtocol::Responses => {
                let item = match kind {
                    "text" => json!({ "type": "message", "role": "assistant", "content": [] }),
                    _ => json!({ "type": "reasoning", "id": format!("rs_{at}"), "summary": [] }),
                };
                written.push(item_event("added", at, &item));
            }
            WireProtocol::Anthropic => {
                let block = match kind {
                    "text" => json!({ "type": "text", "text": "" }),
                    _ => json!({ "type": "thinking", "thinking": "", "signature": "" }),
                };
                written.push(block_start(at, &block));
            }
        }
    }

    fn close(&mut self, written: &mut Vec<String>) {
        let Some(kind) = self.open.take() else {
            return;
        };
        let at = self.blocks - 1;
        match (self.protocol, kind) {
            (WireProtocol::Chat, _) => {}
            (WireProtocol::Responses, "text") => {
                written.push(item_event("done", at, &json!({ "type": "message" })));
            }
            (WireProtocol::Responses, _) => written.push(item_event(
                "done",
                at,
                &json!({
                    "type": "reasoning", "id": format!("rs_{at}"), "summary": [],
                    "encrypted_content": format!("encrypted-{at}"),
                }),
            )),
            (WireProtocol::Anthropic, kind) => {
                if kind == "thinking" {
                    let signature = format!("signature-{at}");
                    let delta = json!({ "type": "signature_delta", "signature": signature });
                    written.push(block_delta(at, &delta));
                }
                written.push(event(json!({ "type": "content_block_stop", "index": at })));
            }
        }
    }

    fn call(&mut self, id: &str, name: &str, arguments: &str, written: &mut Vec<String>) {
        self.close(written);
        let letters: Vec<char> = arguments.chars().collect();
        let pieces = letters.chunks(PIECE).map(String::from_iter);
        let (at, number) = (self.blocks, self.calls);
        self.blocks += 1;
        self.calls += 1;
        match self.protocol {
            WireProtocol::Chat => {
                let function = json!({ "name": name, "arguments": "" });
                let begun = json!({
                    "index": number, "id": id, "type": "function", "function": function,
                });
                written.push(self.delta(&json!({ "tool_calls": [begun] })));
                written.extend(pieces.map(|piece| {
                    let more = json!({ "index": number, "function": { "arguments": piece } });
                    self.delta(&json!({ "tool_calls": [more] }))
                }));
            }
            WireProtocol::Responses => {
                let item = |arguments: &str| {
                    json!({
                        "type": "function_call", "id": format!("fc_{at}"), "call_id": id,
                        "name": name, "arguments": arguments,
                    })
                };
                written.push(item_event("added", at, &item("")));
                written.extend(pieces.map(|piece| {
                    event(json!({
                        "type": "response.function_call_arguments.delta",
                        "output_index": at, "delta": piece,
                    }))
                }));
                written.push(item_event("done", at, &item(arguments)));
            }
            WireProtocol::Anthropic => {
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                written.push(block_start(at, &block));
                written.extend(pieces.map(|piece| {
                    let delta = json!({ "type": "input_json_delta", "partial_json": piece });
                    block_delta(at, &delta)
                }));
                written.push(event(json!({ "type": "content_block_stop", "index": at })));
            }
        }
    }

    fn end(&mut self, script: &ModelScript, written: &mut Vec<String>) {
        self.close(written);
        let (read, said) = script.usage;
        let usual = if script.calls_tools() {
            "tool_calls"
        } else {
            "stop"
        };
        let stop = script.stop.as_deref().unwrap_or(usual);
        match self.protocol {
            WireProtocol::Chat => {
                let usage = json!({
                    "prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said,
                });
                written.push(self.chunk(&json!({}), Some(stop)));
                written.push(event(json!({ "choices": [], "usage": usage })));
                written.push("data: [DONE]\n\n".into());
            }
            WireProtocol::Responses => {
                let usage = json!({ "input_tokens": read, "output_tokens": said });
                let (status, details) = match stop {
                    "length" => ("incomplete", json!({ "reason": "max_output_tokens" })),
                    _ => ("completed", Value::Null),
                };
                written.push(event(json!({
                    "type": format!("response.{status}"),
                    "response": {
                        "id": "resp_1", "status": status, "usage": usage,
                        "incomplete_details": details,
                    },
                })));
            }
            WireProtocol::Anthropic => {
                let reason = match stop {
                    "stop" => "end_turn",
                    "tool_calls" => "tool_use",
                    "length" => "max_tokens",
                    other => other,
                };
                written.push(event(json!({
                    "type": "message_delta",
                    "delta": { "stop_reason": reason, "stop_sequence": null },
                    "usage": { "output_tokens": said },
                })));
                written.push(event(json!({ "type": "message_stop" })));
            }
        }
    }

    fn delta(&self, delta: &Value) -> String {
        self.chunk(delta, None)
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> String {
        event(json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
        }))
    }
}

/// Named by its type, if it has one.
fn event(data: Value) -> String {
    let name = data["type"].as_str();
    let name = name.map(|name| format!("event: {name}\n"));
    format!("{}data: {data}\n\n", name.unwrap_or_default())
}

fn block_start(at: usize, block: &Value) -> String {
    event(json!({ "type": "content_block_start", "index": at, "content_block": block }))
}

fn block_delta(at: usize, delta: &Value) -> String {
    event(json!({ "type": "content_block_delta", "index": at, "delta": delta }))
}

fn item_event(what: &str, at: usize, item: &Value) -> String {
    let kind = format!("response.output_item.{what}");
    event(json!({ "type": kind, "output_index": at, "item": item }))
}
