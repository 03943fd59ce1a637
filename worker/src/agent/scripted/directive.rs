//! The language of the script.

use std::time::Duration;

use serde_json::{Value, value::RawValue};

use crate::agent::{Failure, StopReason};

#[derive(Debug)]
pub(super) enum ScriptDirective {
    Count {
        chunks: u64,
        delay: Duration,
        size: usize,
    },
    Permission,
    Tool,
    Plan,
    Think,
    Mode(String),
    Config(String, String),
    Commands,
    Usage,
    Title(String),
    Read(String),
    Write(String, String),
    Terminal(String),
    Elicit,
    Sleep(Duration),
    Fail,
    Refuse,
    Bind(String, String),
    Bound,
    Servers,
    Mcp(String),
    Call {
        server: String,
        tool: String,
        arguments: String,
    },
    Stop(StopReason),
    Update(Box<RawValue>),
    Echo(String),
}

/// The directives of a prompt, in order. Content that is not text is named, not read.
pub(super) fn lines(prompt: &RawValue) -> Result<Vec<ScriptDirective>, Failure> {
    let blocks: Vec<Value> = serde_json::from_str(prompt.get()).map_err(|e| {
        Failure::invalid_params(format!(
            "params.prompt must be an array of content blocks: {e}"
        ))
    })?;
    let mut script = Vec::new();
    for block in &blocks {
        match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().unwrap_or_default();
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                for line in lines {
                    script.push(parse(line)?);
                }
            }
            Some(kind) => script.push(ScriptDirective::Echo(format!("[{kind}]"))),
            None => {
                return Err(Failure::invalid_params(
                    "each content block of params.prompt needs a type",
                ));
            }
        }
    }
    Ok(script)
}

fn parse(line: &str) -> Result<ScriptDirective, Failure> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let pair = || {
        let (first, second) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        (first.to_owned(), second.trim().to_owned())
    };
    Ok(match name {
        "/count" => count(rest)?,
        "/permission" => ScriptDirective::Permission,
        "/tool" => ScriptDirective::Tool,
        "/plan" => ScriptDirective::Plan,
        "/think" => ScriptDirective::Think,
        "/mode" => ScriptDirective::Mode(rest.to_owned()),
        "/config" => {
            let (id, value) = pair();
            ScriptDirective::Config(id, value)
        }
        "/commands" => ScriptDirective::Commands,
        "/usage" => ScriptDirective::Usage,
        "/title" => ScriptDirective::Title(rest.to_owned()),
        "/read" => ScriptDirective::Read(rest.to_owned()),
        "/write" => {
            let (path, text) = pair();
            ScriptDirective::Write(path, text)
        }
        "/terminal" => ScriptDirective::Terminal(rest.to_owned()),
        "/elicit" => ScriptDirective::Elicit,
        "/sleep" => ScriptDirective::Sleep(Duration::from_millis(number("/sleep MS", rest)?)),
        "/fail" => ScriptDirective::Fail,
        "/refuse" => ScriptDirective::Refuse,
        "/bind" => {
            let (key, value) = pair();
            ScriptDirective::Bind(key, value)
        }
        "/bound" => ScriptDirective::Bound,
        "/servers" => ScriptDirective::Servers,
        "/mcp" => ScriptDirective::Mcp(rest.to_owned()),
        "/call" => {
            let (server, rest) = pair();
            let (tool, arguments) = rest
                .split_once(char::is_whitespace)
                .unwrap_or((rest.as_str(), "{}"));
            ScriptDirective::Call {
                server,
                tool: tool.to_owned(),
                arguments: arguments.trim().to_owned(),
            }
        }
        "/stop" => ScriptDirective::Stop(stop(rest)?),
        "/update" => ScriptDirective::Update(update(rest)?),
        _ => ScriptDirective::Echo(line.to_owned()),
    })
}

fn stop(rest: &str) -> Result<StopReason, Failure> {
    serde_json::from_value(Value::from(rest)).map_err(|_| {
        Failure::invalid_params(format!(
            "/stop {rest:?} is not known; valid: end_turn, max_tokens, max_turn_requests, \
             refusal, cancelled"
        ))
    })
}

fn update(rest: &str) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(rest.to_owned())
        .ok()
        .filter(|update| update.get().starts_with('{'))
        .ok_or_else(|| Failure::invalid_params("/update needs a JSON object on the same line"))
}

const MAX_CHUNKS: u64 = 1_000_000;
const MAX_SIZE: u64 = 1 << 20;

fn count(rest: &str) -> Result<ScriptDirective, Failure> {
    const USAGE: &str = "/count N [delay=MS] [size=BYTES]";
    let mut words = rest.split_whitespace();
    let chunks = number(USAGE, words.next().unwrap_or_default())?;
    let (mut delay, mut size) = (0, 0);
    for word in words {
        match word.split_once('=') {
            Some(("delay", value)) => delay = number(USAGE, value)?,
            Some(("size", value)) => size = number(USAGE, value)?,
            _ => {
                return Err(Failure::invalid_params(format!(
                    "{word:?} is no part of {USAGE}"
                )));
            }
        }
    }
    if chunks > MAX_CHUNKS || size > MAX_SIZE {
        let limits = format!("at most {MAX_CHUNKS} chunks of {MAX_SIZE} bytes");
        return Err(Failure::invalid_params(format!("{USAGE}: {limits}")));
    }
    Ok(ScriptDirective::Count {
        chunks,
        delay: Duration::from_millis(delay),
        size: size as usize,
    })
}

fn number(usage: &str, text: &str) -> Result<u64, Failure> {
    text.parse()
        .map_err(|_| Failure::invalid_params(format!("{text:?} is not a number: {usage}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Vec<ScriptDirective>, Failure> {
        let prompt = serde_json::json!([{ "type": "text", "text": text }]).to_string();
        lines(&RawValue::from_string(prompt).unwrap())
    }

    #[test]
    fn each_line_is_a_directive_and_other_text_is_echoed() {
        let read = script("/count 3 delay=10 size=100\n\n hello world \n/write /a b c").unwrap();
        let count = ScriptDirective::Count {
            chunks: 3,
            delay: Duration::from_millis(10),
            size: 100,
        };
        let write = ScriptDirective::Write("/a".into(), "b c".into());
        let expected = [count, ScriptDirective::Echo("hello world".into()), write];
        assert_eq!(format!("{read:?}"), format!("{expected:?}"));
    }

    #[test]
    fn a_bad_directive_says_how_it_is_written() {
        assert!(
            script("/count many")
                .unwrap_err()
                .message
                .contains("/count N")
        );
        assert!(
            script("/count 2 speed=9")
                .unwrap_err()
                .message
                .contains("speed=9")
        );
        assert!(
            script("/count 99999999")
                .unwrap_err()
                .message
                .contains("at most")
        );
    }
}
