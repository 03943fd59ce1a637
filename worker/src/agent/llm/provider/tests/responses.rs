use super::*;

fn read(events: &[Value]) -> Answer {
    Answer::of(ModelProtocol::Responses, &data(events))
}

fn item(what: &str, at: u64, item: Value) -> Value {
    let kind = format!("response.output_item.{what}");
    json!({ "type": kind, "output_index": at, "item": item })
}

fn call(id: &str, arguments: &str) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "look",
        "arguments": arguments,
    })
}

fn completed() -> Value {
    let usage = json!({
        "input_tokens": 90, "output_tokens": 40,
        "input_tokens_details": { "cached_tokens": 64 },
        "output_tokens_details": { "reasoning_tokens": 7 },
    });
    json!({ "type": "response.completed", "response": { "usage": usage, "error": null } })
}

fn delta(kind: &str, at: u64, text: &str) -> Value {
    json!({ "type": format!("response.{kind}.delta"), "output_index": at, "delta": text })
}

fn thought() -> Value {
    let summary = json!([{ "type": "summary_text", "text": "Let me sée." }]);
    json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA" })
}

pub fn recorded() -> String {
    let events = [
        json!({ "type": "response.created", "response": { "status": "in_progress" } }),
        item("added", 0, json!({ "type": "reasoning", "summary": [] })),
        delta("reasoning_summary_text", 0, "Let me "),
        delta("reasoning_summary_text", 0, "sée."),
        item("done", 0, thought()),
        item("added", 1, json!({ "type": "message", "content": [] })),
        delta("output_text", 1, "I will "),
        delta("output_text", 1, "look — twice."),
        item(
            "done",
            1,
            json!({
                "type": "message",
                "content": [{ "type": "output_text", "text": "I will look — twice." }],
            }),
        ),
        item("added", 2, call("call_a", "")),
        item("added", 3, call("call_b", "")),
        delta("function_call_arguments", 3, "{\"name\""),
        delta("function_call_arguments", 2, "{\"at\""),
        delta("function_call_arguments", 2, ": 1}"),
        delta("function_call_arguments", 3, ":\"ä\"}"),
        item("done", 2, call("call_a", "{\"at\": 1}")),
        item("done", 3, call("call_b", "{\"name\":\"ä\"}")),
        completed(),
    ];
    data(&events)
}

#[test]
fn texts_thoughts_and_interleaved_calls_are_read() {
    let answer = Answer::of(ModelProtocol::Responses, &recorded());
    let (text, thoughts, shown) = answer.shown();
    assert_eq!(text, "I will look — twice.");
    assert_eq!(thoughts, "Let me sée.");
    assert_eq!(shown, ["look {\"at\": 1}", "look {\"name\":\"ä\"}"]);
    let reply = answer.reply();
    let expected = [
        ("call_a", "look", "{\"at\": 1}"),
        ("call_b", "look", "{\"name\":\"ä\"}"),
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
    let sealed = AssistantPart::Reasoning {
        text: "Let me sée.".into(),
        opaque: Some(thought()),
        protocol: ModelProtocol::Responses,
    };
    assert_eq!(reply.message.parts[0], sealed);
}

#[test]
fn items_that_come_only_as_a_whole_are_read() {
    let text = json!([{ "type": "output_text", "text": "whole" }]);
    let answer = read(&[
        item("done", 0, thought()),
        item("done", 1, json!({ "type": "message", "content": text })),
        item("done", 2, call("a", "{\"b\":2}")),
        completed(),
    ]);
    assert_eq!(answer.shown().0, "whole");
    assert_eq!(calls(answer.reply()), [("a", "look", "{\"b\":2}")]);
    assert_eq!(answer.reply().message.parts.len(), 3);
}

#[test]
fn ends_and_errors_are_told_apart() {
    let begun = || delta("output_text", 0, "x");
    let incomplete = |reason: &str| {
        let details = json!({ "reason": reason });
        let response = json!({ "incomplete_details": details });
        json!({ "type": "response.incomplete", "response": response })
    };
    let stop = |last: Value| read(&[begun(), last]).reply().stop;
    assert_eq!(stop(completed()), ModelStop::EndTurn);
    assert_eq!(stop(incomplete("max_output_tokens")), ModelStop::MaxTokens);
    assert_eq!(stop(incomplete("content_filter")), ModelStop::Refusal);
    let refused = read(&[delta("refusal", 0, "I may not."), completed()]);
    assert_eq!(refused.reply().stop, ModelStop::Refusal);
    let error = |last: Value| read(&[begun(), last]).error();
    let failed = |code: &str, message: &str| {
        let error = json!({ "code": code, "message": message });
        json!({ "type": "response.failed", "response": { "error": error } })
    };
    assert_eq!(error(failed("server_error", "oops")), "overloaded");
    assert_eq!(error(failed("rate_limit_exceeded", "oops")), "rate_limited");
    let long = "Your input exceeds the context window of this model.";
    assert_eq!(
        error(failed("context_length_exceeded", long)),
        "context_too_long"
    );
    let quota = json!({ "type": "error", "code": "insufficient_quota", "message": "pay" });
    assert_eq!(error(quota), "quota_spent");
    assert_eq!(error(json!({ "hello": 1 })), "malformed");
    assert_eq!(read(&[begun()]).error(), "broken_off");
}
