use super::*;

fn read(events: &[Value]) -> Answer {
    Answer::of(ModelProtocol::Anthropic, &data(events))
}

fn start(at: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": at, "content_block": block })
}

fn delta(at: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": at, "delta": delta })
}

fn stop(at: u64) -> Value {
    json!({ "type": "content_block_stop", "index": at })
}

fn text(at: u64, text: &str) -> Value {
    delta(at, json!({ "type": "text_delta", "text": text }))
}

fn thinking(text: &str) -> Value {
    delta(0, json!({ "type": "thinking_delta", "thinking": text }))
}

fn signature(text: &str) -> Value {
    delta(0, json!({ "type": "signature_delta", "signature": text }))
}

fn tool(at: u64, id: &str, input: Value) -> Value {
    start(
        at,
        json!({ "type": "tool_use", "id": id, "name": "look", "input": input }),
    )
}

fn input(at: u64, json: &str) -> Value {
    delta(
        at,
        json!({ "type": "input_json_delta", "partial_json": json }),
    )
}

fn ended(reason: &str) -> [Value; 2] {
    let usage = json!({ "output_tokens": 40 });
    let why = json!({ "stop_reason": reason, "stop_sequence": null });
    [
        json!({ "type": "message_delta", "delta": why, "usage": usage }),
        json!({ "type": "message_stop" }),
    ]
}

pub fn recorded() -> String {
    let usage = json!({
        "input_tokens": 10, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 16,
        "output_tokens": 1,
    });
    let mut events = vec![
        json!({ "type": "message_start", "message": { "id": "m", "usage": usage } }),
        start(
            0,
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
        ),
        json!({ "type": "ping" }),
        thinking("Let me "),
        thinking("sée."),
        signature("EqQ"),
        signature("B=="),
        stop(0),
        start(1, json!({ "type": "redacted_thinking", "data": "hidden" })),
        stop(1),
        start(2, json!({ "type": "text", "text": "" })),
        text(2, "I will "),
        text(2, "look — twice."),
        stop(2),
        tool(3, "toolu_a", json!({})),
        tool(4, "toolu_b", json!({})),
        input(3, ""),
        input(4, "{\"name\""),
        input(3, "{\"at\""),
        input(3, ": 1}"),
        input(4, ":\"ä\"}"),
        stop(3),
        stop(4),
    ];
    events.extend(ended("tool_use"));
    let named = events.iter().map(|event| {
        let name = event["type"].as_str().expect("all have one");
        format!("event: {name}\r\ndata: {event}\r\n\r\n")
    });
    named.collect()
}

#[test]
fn texts_thoughts_and_interleaved_calls_are_read() {
    let answer = Answer::of(ModelProtocol::Anthropic, &recorded());
    let (text, thoughts, shown) = answer.shown();
    assert_eq!(text, "I will look — twice.");
    assert_eq!(thoughts, "Let me sée.");
    assert_eq!(shown, ["look {\"at\": 1}", "look {\"name\":\"ä\"}"]);
    let reply = answer.reply();
    let expected = [
        ("toolu_a", "look", "{\"at\": 1}"),
        ("toolu_b", "look", "{\"name\":\"ä\"}"),
    ];
    assert_eq!(calls(reply), expected);
    assert_eq!(reply.stop, ModelStop::ToolCalls);
    let usage = reply.usage;
    let read = (usage.input, usage.cached_input, usage.cache_written);
    assert_eq!((read, usage.output), ((90, 64, 16), 40));
    let opaque = |part: &AssistantPart| match part {
        AssistantPart::Reasoning { opaque, .. } => opaque.clone(),
        _ => None,
    };
    let kept: Vec<_> = reply.message.parts.iter().filter_map(opaque).collect();
    assert_eq!(
        kept,
        [
            json!({ "signature": "EqQB==" }),
            json!({ "data": "hidden" })
        ]
    );
}

#[test]
fn input_may_come_with_the_beginning_of_a_call_or_not_at_all() {
    let mut events = vec![
        tool(0, "a", json!({ "whole": true })),
        stop(0),
        tool(1, "b", json!({})),
        stop(1),
        tool(2, "c", json!({ "ignored": true })),
        input(2, "{\"mal"),
        stop(2),
    ];
    events.extend(ended("tool_use"));
    let answer = read(&events);
    let found = calls(answer.reply());
    let arguments: Vec<&str> = found.iter().map(|(_, _, arguments)| *arguments).collect();
    assert_eq!(arguments, ["{\"whole\":true}", "{}", "{\"mal"]);
}

#[test]
fn ends_and_errors_are_told_apart() {
    let begun = || vec![start(0, json!({ "type": "text", "text": "x" }))];
    let why = |reason: &str| {
        let mut events = begun();
        events.extend(ended(reason));
        read(&events).reply().stop
    };
    assert_eq!(why("end_turn"), ModelStop::EndTurn);
    assert_eq!(why("stop_sequence"), ModelStop::EndTurn);
    assert_eq!(why("max_tokens"), ModelStop::MaxTokens);
    assert_eq!(why("model_context_window_exceeded"), ModelStop::MaxTokens);
    assert_eq!(why("refusal"), ModelStop::Refusal);
    assert_eq!(why("pause_turn"), ModelStop::Paused);
    let error = |kind: &str, message: &str| {
        let error = json!({ "type": kind, "message": message });
        let mut events = begun();
        events.push(json!({ "type": "error", "error": error }));
        read(&events).error()
    };
    assert_eq!(error("overloaded_error", "Overloaded"), "overloaded");
    assert_eq!(error("api_error", "Internal server error"), "overloaded");
    assert_eq!(error("rate_limit_error", "slowly"), "rate_limited");
    assert_eq!(
        error("authentication_error", "invalid x-api-key"),
        "unauthorized"
    );
    let long = "prompt is too long: 210000 tokens > 200000 maximum";
    assert_eq!(error("invalid_request_error", long), "context_too_long");
    assert_eq!(
        error("not_found_error", "model: claude-none"),
        "unknown_model"
    );
    assert_eq!(read(&begun()).error(), "broken_off");
    assert_eq!(read(&[json!({ "x": 1 })]).error(), "malformed");
}

#[test]
fn blocks_that_only_begin_are_bounded_in_bytes() {
    let mut config = ProviderConfig::new(ModelProtocol::Anthropic, "http://localhost/v1");
    config.max_reply_bytes = 10_000;
    let provider = ModelProvider::new(config).expect("good");
    let much = "x".repeat(1000);
    let blocks = [
        json!({ "type": "redacted_thinking", "data": much }),
        json!({ "type": "tool_use", "id": "", "name": "f", "input": { "much": much } }),
        json!({ "type": "thinking", "thinking": "", "signature": much }),
    ];
    for block in blocks {
        let body = data(
            &(0..20)
                .map(|at| start(at, block.clone()))
                .collect::<Vec<_>>(),
        );
        let answer = Answer::read(&provider, &[body.as_bytes()]);
        assert_eq!(answer.error(), "too_large", "{}", block["type"]);
    }
}
