use super::*;

fn chunk(delta: Value) -> Value {
    json!({ "id": "c", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn stop(reason: &str) -> Value {
    json!({ "id": "c", "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn read(events: &[Value]) -> Answer {
    Answer::of(ModelProtocol::Chat, &(data(events) + "data: [DONE]\n\n"))
}

/// One with everything, for the other tests.
pub fn recorded() -> String {
    let call = |index: u64, id: &str, name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        chunk(json!({ "tool_calls": [{ "index": index, "id": id, "function": function }] }))
    };
    let more = |index: u64, arguments: &str| {
        let function = json!({ "arguments": arguments });
        chunk(json!({ "tool_calls": [{ "index": index, "function": function }] }))
    };
    let usage = json!({
        "prompt_tokens": 90, "completion_tokens": 40,
        "prompt_tokens_details": { "cached_tokens": 64 },
        "completion_tokens_details": { "reasoning_tokens": 7 },
    });
    let events = [
        chunk(json!({ "role": "assistant", "content": "" })),
        chunk(json!({ "reasoning_content": "Let me " })),
        chunk(json!({ "reasoning_content": "sée." })),
        chunk(json!({ "content": "I will " })),
        chunk(json!({ "content": "look — twice." })),
        call(0, "call_a", "look", ""),
        call(1, "call_b", "find", ""),
        more(1, "{\"na"),
        more(0, "{\"at\":"),
        more(1, "me\":\"ä\"}"),
        more(0, " 1}"),
        stop("tool_calls"),
        json!({ "id": "c", "choices": [], "usage": usage }),
    ];
    format!(": comment\r\n\r\n{}data: [DONE]\n\n", data(&events))
}

#[test]
fn texts_thoughts_and_interleaved_calls_are_read() {
    let answer = Answer::of(ModelProtocol::Chat, &recorded());
    let (text, thoughts, shown) = answer.shown();
    assert_eq!(text, "I will look — twice.");
    assert_eq!(thoughts, "Let me sée.");
    assert_eq!(shown, ["look {\"at\": 1}", "find {\"name\":\"ä\"}"]);
    let reply = answer.reply();
    let expected = [
        ("call_a", "look", "{\"at\": 1}"),
        ("call_b", "find", "{\"name\":\"ä\"}"),
    ];
    assert_eq!(calls(reply), expected);
    assert_eq!(reply.stop, ModelStop::ToolCalls);
    let usage = reply.usage;
    let counted = (
        usage.input,
        usage.cached_input,
        usage.output,
        usage.reasoning,
    );
    assert_eq!(counted, (90, 64, 40, 7));
}

#[test]
fn dialects_of_tool_calls_are_understood() {
    let function = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    // Whole calls, all of them numbered zero.
    let zero = |id: &str| json!([{ "index": 0, "id": id, "function": function("f", json!("{}")) }]);
    // Without an index, without ids, arguments as an object.
    let bare = |at: u64| json!([{ "function": function("g", json!({ "at": at })) }]);
    let answer = read(&[
        chunk(json!({ "tool_calls": zero("a") })),
        chunk(json!({ "tool_calls": zero("b") })),
        chunk(json!({ "tool_calls": bare(1) })),
        chunk(json!({ "tool_calls": bare(2) })),
        stop("stop"),
    ]);
    let reply = answer.reply();
    let found = calls(reply);
    assert_eq!(found[..2], [("a", "f", "{}"), ("b", "f", "{}")]);
    assert_eq!((found[2].1, found[2].2), ("g", "{\"at\":1}"));
    assert_eq!((found[3].1, found[3].2), ("g", "{\"at\":2}"));
    assert_ne!(found[2].0, found[3].0, "an id of its own");
    assert_eq!(reply.stop, ModelStop::ToolCalls, "whatever it is called");
}

#[test]
fn a_name_may_come_late_or_never_and_arguments_may_be_none() {
    let late = |call: Value| chunk(json!({ "tool_calls": [call] }));
    let answer = read(&[
        late(json!({ "index": 0, "id": "a", "function": { "arguments": "{\"x\"" } })),
        late(json!({ "index": 0, "function": { "name": "f", "arguments": ":1}" } })),
        late(json!({ "index": 1, "id": "a", "function": { "name": "g" } })),
        late(json!({ "index": 2, "id": "c", "function": { "arguments": "not json" } })),
        stop("tool_calls"),
    ]);
    let found = calls(answer.reply());
    assert_eq!(found[0], ("a", "f", "{\"x\":1}"));
    assert_eq!((found[1].1, found[1].2), ("g", "{}"));
    assert_ne!(found[1].0, "a", "an id that is taken is replaced");
    assert_eq!(found[2], ("c", "", "not json"));
}

#[test]
fn reasons_to_stop_are_told_apart() {
    let of = |events: &[Value]| read(events).reply().stop;
    let text = chunk(json!({ "content": "x" }));
    assert_eq!(of(&[text.clone(), stop("stop")]), ModelStop::EndTurn);
    assert_eq!(of(&[text.clone(), stop("length")]), ModelStop::MaxTokens);
    let filtered = stop("content_filter");
    assert_eq!(of(&[text.clone(), filtered]), ModelStop::Refusal);
    assert_eq!(of(&[text.clone(), stop("tool_calls")]), ModelStop::EndTurn);
    let refusal = chunk(json!({ "refusal": "I may not." }));
    assert_eq!(of(&[refusal, stop("stop")]), ModelStop::Refusal);
    assert_eq!(of(&[text]), ModelStop::EndTurn, "only [DONE]");
}

#[test]
fn an_end_without_done_is_an_end_if_it_was_said_why() {
    let text = chunk(json!({ "content": "x" }));
    let stopped = data(&[text.clone(), stop("stop")]);
    let of = |body: &str| Answer::of(ModelProtocol::Chat, body);
    assert_eq!(of(&stopped).reply().stop, ModelStop::EndTurn);
    assert_eq!(of(stopped.trim_end()).reply().stop, ModelStop::EndTurn);
    assert_eq!(of(&data(&[text])).error(), "broken_off");
    assert_eq!(of("").error(), "broken_off");
}

#[test]
fn thoughts_of_all_dialects_are_read_once() {
    let thinking = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "b" }] }]);
    let details = json!([{ "type": "reasoning.encrypted", "data": "zzz" }]);
    let answer = read(&[
        chunk(json!({ "reasoning": "a", "reasoning_content": "a" })),
        chunk(json!({ "content": thinking })),
        chunk(json!({ "reasoning": "c", "reasoning_details": details })),
        chunk(json!({ "content": [{ "type": "text", "text": "aloud" }] })),
        stop("stop"),
    ]);
    let (text, thoughts, _) = answer.shown();
    assert_eq!((text.as_str(), thoughts.as_str()), ("aloud", "abc"));
    let parts = &answer.reply().message.parts;
    let AssistantPart::Reasoning {
        opaque: Some(opaque),
        ..
    } = &parts[0]
    else {
        panic!("{parts:?}");
    };
    assert_eq!(opaque["reasoning_details"], details);
}

#[test]
fn errors_within_a_stream_are_told_apart() {
    let of = |error: Value| read(&[chunk(json!({ "content": "x" })), error]).error();
    let coded = json!({ "error": { "message": "busy", "code": 502 } });
    assert_eq!(of(coded), "overloaded");
    let limited = json!({ "error": { "message": "slowly", "type": "rate_limit_error" } });
    assert_eq!(of(limited), "rate_limited");
    let long = json!({ "error": { "message": "exceeds context size", "code": 400 } });
    assert_eq!(of(long), "context_too_long");
    assert_eq!(of(json!({ "error": "it crashed" })), "overloaded");
    assert_eq!(of(stop("error")), "overloaded");
}

#[test]
fn errors_that_pass_are_retryable_however_they_are_written() {
    let of = |error: Value| {
        let events = [chunk(json!({ "content": "x" })), json!({ "error": error })];
        let error = read(&events).end.expect_err("an error");
        (error.kind(), error.is_retryable())
    };
    let limited = ("rate_limited", true);
    assert_eq!(of(json!({ "message": "x", "code": "429" })), limited);
    assert_eq!(
        of(json!({ "message": "x", "code": "rate_limit_exceeded" })),
        limited
    );
    assert_eq!(
        of(json!({ "message": "x", "code": "too_many_requests" })),
        limited
    );
    assert_eq!(
        of(json!({ "message": "x", "status": "RESOURCE_EXHAUSTED" })),
        limited
    );
    assert_eq!(
        of(json!({ "message": "x", "type": "ThrottlingException" })),
        limited
    );
    let overloaded = ("overloaded", true);
    assert_eq!(of(json!({ "message": "x", "code": "503" })), overloaded);
    assert_eq!(of(json!({ "message": "x", "code": 529 })), overloaded);
    assert_eq!(
        of(json!({ "message": "x", "type": "overloaded_error" })),
        overloaded
    );
    assert_eq!(
        of(json!({ "message": "x", "type": "timeout_error" })),
        overloaded
    );
    // Those that do not pass are not.
    assert_eq!(
        of(json!({ "message": "x", "code": "401" })),
        ("unauthorized", false)
    );
    assert_eq!(
        of(json!({ "message": "x", "type": "billing_error" })),
        ("quota_spent", false)
    );
}
