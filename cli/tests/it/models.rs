//! Model endpoints as the native agent sees them, over real connections, in all protocols.

use std::sync::Arc;
use std::time::Duration;

use baton_worker::agent::llm::model::{
    AssistantMessage, AssistantPart, MessagePart, ModelEvent, ModelMessage, ModelProtocol,
    ModelReply, ModelRequest, ModelStop, ToolDefinition,
};
use baton_worker::agent::llm::model_error::{ModelError, ModelTimeout};
use baton_worker::agent::llm::provider::{
    ContinuationWay, ModelKey, ModelProvider, ModelStream, ProviderConfig,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::model_server::{ModelScript, ModelServer, ScriptStep, WireProtocol};
use crate::support::within;

const PROTOCOLS: [(WireProtocol, ModelProtocol); 3] = [
    (WireProtocol::Chat, ModelProtocol::Chat),
    (WireProtocol::Responses, ModelProtocol::Responses),
    (WireProtocol::Anthropic, ModelProtocol::Anthropic),
];
const TEXT: &str = "Every word of this answer is said once, ünd in order.";

fn config(server: &ModelServer, (wire, protocol): (WireProtocol, ModelProtocol)) -> ProviderConfig {
    let mut config = ProviderConfig::new(protocol, server.url(wire));
    config.key = Some(ModelKey::new("sk-never-shown"));
    config.retry.first_pause = Duration::from_millis(5);
    config
}

fn provider(server: &ModelServer, of: (WireProtocol, ModelProtocol)) -> ModelProvider {
    ModelProvider::new(config(server, of)).expect("a good configuration")
}

fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest {
        model: "test-model".into(),
        system: "You are tested.".into(),
        messages,
        tools: Arc::from([ToolDefinition {
            name: "look".into(),
            description: "Looks".into(),
            parameters: json!({ "type": "object", "properties": {} }),
        }]),
        max_output_tokens: None,
        reasoning_effort: None,
        parallel_tools: true,
    }
}

fn user(text: &str) -> ModelMessage {
    ModelMessage::User(vec![MessagePart::Text(text.into())])
}

fn said(text: &str) -> ModelMessage {
    ModelMessage::Assistant(AssistantMessage {
        parts: vec![AssistantPart::Text(text.into())],
    })
}

async fn stream(
    provider: &ModelProvider,
    request: &ModelRequest,
) -> Result<ModelStream, ModelError> {
    let cancel = CancellationToken::new();
    within("the answer begins", provider.stream(request, &cancel)).await
}

/// What was shown, and how it ended.
async fn rest(mut stream: ModelStream) -> (String, Result<ModelReply, ModelError>) {
    let mut shown = String::new();
    loop {
        let event = within("the answer goes on", stream.next()).await;
        match event.expect("an end before the end") {
            Ok(ModelEvent::Text(text)) => shown += &text,
            Ok(ModelEvent::Done(reply)) => {
                assert!(stream.next().await.is_none());
                return (shown, Ok(*reply));
            }
            Ok(_) => {}
            Err(error) => {
                assert!(stream.next().await.is_none());
                return (shown, Err(error));
            }
        }
    }
}

async fn ask(
    provider: &ModelProvider,
    request: &ModelRequest,
) -> (String, Result<ModelReply, ModelError>) {
    match stream(provider, request).await {
        Ok(stream) => rest(stream).await,
        Err(error) => (String::new(), Err(error)),
    }
}

#[tokio::test]
async fn every_protocol_streams_thoughts_text_and_tool_calls() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        let steps = [
            ScriptStep::Think("Hm, ".into()),
            ScriptStep::Think("well.".into()),
            ScriptStep::Text("I ".into()),
            ScriptStep::Text("look.".into()),
        ];
        let script = ModelScript::of(steps).usage(100, 20);
        let script = script.and_call("look", r#"{"at":"the first thing"}"#);
        server.then(script.and_call("look", r#"{"at": broken"#));
        let provider = provider(&server, protocol);
        let (shown, reply) = ask(&provider, &request(vec![user("Look around")])).await;
        let reply = reply.expect("complete");
        assert_eq!(shown, "I look.", "{protocol:?}");
        assert_eq!(reply.stop, ModelStop::ToolCalls);
        assert_eq!((reply.usage.input, reply.usage.output), (100, 20));
        let parts = &reply.message.parts;
        assert_eq!(parts.len(), 4, "{parts:?}");
        let thought = matches!(
            &parts[0],
            AssistantPart::Reasoning { text, opaque: Some(_), .. } if text == "Hm, well."
        );
        assert!(thought, "{parts:?}");
        let arguments = parts.iter().filter_map(|part| match part {
            AssistantPart::ToolCall { arguments, .. } => Some(arguments.as_str()),
            _ => None,
        });
        let expected = [r#"{"at":"the first thing"}"#, r#"{"at": broken"#];
        assert_eq!(arguments.collect::<Vec<_>>(), expected);
        // It all goes back, and the results with it.
        let mut messages = vec![user("Look around"), ModelMessage::Assistant(reply.message)];
        for id in ["call_1", "call_2"] {
            messages.push(ModelMessage::ToolResult {
                call_id: id.into(),
                tool: "look".into(),
                content: vec![MessagePart::Text(format!("result of {id}"))],
                is_error: false,
            });
        }
        server.then(ModelScript::text(TEXT));
        let (shown, reply) = ask(&provider, &request(messages)).await;
        assert_eq!(reply.expect("complete").stop, ModelStop::EndTurn);
        assert_eq!(shown, TEXT);
        let call = server.call(1).await;
        let results = call.tool_results();
        assert_eq!(results[0], ("call_1".into(), "result of call_1".into()));
        assert_eq!(results.len(), 2);
        assert_eq!(call.prompt(), "Look around");
        assert_eq!(call.tools(), ["look"]);
        let body = call.body.to_string();
        let kept = ["encrypted-0", "signature-0", "reasoning_content"];
        assert!(kept.iter().any(|kept| body.contains(kept)), "{body}");
        server.quiet().await;
    }
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_goes_on_where_it_was() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        server.always(|_| ModelScript::text(TEXT));
        let mut config = config(&server, protocol);
        config.retry.retries = 0;
        let provider = ModelProvider::new(config).expect("a good configuration");
        for cut in (0..).step_by(37) {
            server.then(ModelScript::text(TEXT).breaks_at(cut));
            let (mut shown, end) = ask(&provider, &request(vec![user("Speak")])).await;
            assert!(TEXT.starts_with(&shown), "{protocol:?} at {cut}: {shown:?}");
            let Err(error) = end else {
                // All but what no answer needs.
                assert!(
                    shown == TEXT && cut > 1000,
                    "{protocol:?} at {cut}: {shown:?}"
                );
                break;
            };
            assert!(matches!(error, ModelError::BrokenOff { .. }), "{error:?}");
            let messages = vec![user("Speak"), said(&shown)];
            let (more, reply) = ask(&provider, &request(messages)).await;
            shown += &more;
            assert_eq!(shown, TEXT, "{protocol:?} at {cut}");
            assert_eq!(reply.expect("continued").message.text(), TEXT);
        }
    }
}

#[tokio::test]
async fn every_way_to_continue_says_each_word_once() {
    let ways = [
        ContinuationWay::Ask,
        ContinuationWay::Prefill,
        ContinuationWay::PrefixMark,
        ContinuationWay::FinalMessage,
    ];
    for protocol in PROTOCOLS {
        for way in ways {
            let server = ModelServer::start().await;
            let mut config = config(&server, protocol);
            config.continuation = Some(way);
            let provider = ModelProvider::new(config).expect("a good configuration");
            // One goes on, the other begins anew.
            server.then(ModelScript::text(TEXT));
            server.then(ModelScript::text(TEXT).deaf());
            for _ in 0..2 {
                let beginning = "Every word of this answer is said once, ";
                let messages = vec![user("Speak"), said(beginning)];
                let (shown, reply) = ask(&provider, &request(messages)).await;
                assert_eq!(shown, "ünd in order.", "{protocol:?} {way:?}");
                assert_eq!(reply.expect("complete").message.text(), TEXT);
            }
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_takes_no_beginning_is_asked_in_words() {
    let server = ModelServer::start().await;
    let message = "Prefilling assistant messages is not supported for this model.";
    let error = json!({ "type": "invalid_request_error", "message": message });
    server.then(ModelScript::error(
        400,
        json!({ "type": "error", "error": error }),
    ));
    server.then(ModelScript::text(TEXT));
    let provider = provider(&server, PROTOCOLS[2]);
    let messages = vec![user("Speak"), said("Every word ")];
    let (shown, reply) = ask(&provider, &request(messages)).await;
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(shown, TEXT["Every word ".len()..]);
    let calls = server.calls();
    assert_eq!(
        calls[0].messages().last().expect("one")["role"],
        "assistant"
    );
    assert_eq!(calls[1].messages().last().expect("one")["role"], "user");
}

#[tokio::test]
async fn failures_that_may_pass_are_tried_again() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        let busy = json!({ "error": { "message": "slow down" } });
        server.then(ModelScript::error(429, &busy).header("retry-after", "0"));
        server.then(ModelScript::error(529, &busy).header("retry-after-ms", "3"));
        server.then(ModelScript::error(500, "<html>oops</html>"));
        server.then(ModelScript::text(TEXT).breaks_at(0));
        server.then(ModelScript::text(TEXT));
        let provider = provider(&server, protocol);
        let stream = stream(&provider, &request(vec![user("Speak")])).await;
        let stream = stream.expect("at last");
        assert_eq!(stream.retries(), 4);
        assert_eq!(rest(stream).await.0, TEXT);
        // And those that never pass are not tried for ever.
        server.always(move |_| ModelScript::error(503, &busy));
        let (_, error) = ask(&provider, &request(vec![user("Speak")])).await;
        assert!(
            matches!(error, Err(ModelError::Overloaded { .. })),
            "{error:?}"
        );
        assert_eq!(server.calls().len(), 10);
    }
}

#[tokio::test]
async fn refusals_say_what_to_do_and_never_the_key() {
    let too_long = "This model's maximum context length is 8192 tokens.";
    let no_tools = "registry.ollama.ai/library/tiny does not support tools";
    let cases = [
        (
            401,
            "Incorrect API key provided: sk-never-shown.",
            "unauthorized",
        ),
        (403, "not for you", "unauthorized"),
        (402, "Insufficient credits", "quota_spent"),
        (
            404,
            "The model `test-model` does not exist",
            "unknown_model",
        ),
        (400, "test-model is not a valid model ID", "unknown_model"),
        (404, "page not found", "bad_request"),
        (400, too_long, "context_too_long"),
        (413, "Request too large", "context_too_long"),
        (400, no_tools, "tools_unsupported"),
        (400, "Your credit balance is too low", "quota_spent"),
        (429, "You exceeded your current quota", "quota_spent"),
        (422, "temperature: must be a number", "bad_request"),
    ];
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        let provider = provider(&server, protocol);
        for (number, (status, message, kind)) in cases.into_iter().enumerate() {
            let bodies = [
                json!({ "error": { "message": message } }),
                json!({ "error": message }),
                json!({ "detail": message }),
                json!({ "object": "error", "message": message }),
            ];
            server.then(ModelScript::error(status, &bodies[number % bodies.len()]));
            let (_, error) = ask(&provider, &request(vec![user("Speak")])).await;
            let error = error.expect_err(message);
            assert_eq!(error.kind(), kind, "{status} {message}: {error}");
            assert!(!error.to_string().contains("sk-never-shown"), "{error}");
        }
        assert_eq!(server.calls().len(), cases.len(), "none is tried again");
    }
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_closes_its_connection() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        let held = || ModelScript::text(TEXT).until(2, ScriptStep::Stall);
        let provider = provider(&server, protocol);
        let ask = request(vec![user("Speak")]);
        // Before it began, while it runs, and dropped.
        server.then(ModelScript::unfinished([ScriptStep::Stall]));
        let cancel = CancellationToken::new();
        let begins = async {
            server.call(0).await;
            cancel.cancel();
        };
        let (stream, ()) = tokio::join!(provider.stream(&ask, &cancel), begins);
        assert_eq!(stream.err(), Some(ModelError::Cancelled));
        server.quiet().await;
        for drops in [true, false] {
            server.then(held());
            let cancel = CancellationToken::new();
            let stream = within("it begins", provider.stream(&ask, &cancel)).await;
            let stream = stream.expect("it begins");
            if drops {
                drop(stream);
            } else {
                cancel.cancel();
                let (shown, end) = rest(stream).await;
                assert_eq!(end.err(), Some(ModelError::Cancelled));
                assert!(TEXT.starts_with(&shown));
            }
            server.quiet().await;
        }
    }
}

#[tokio::test]
async fn a_silent_endpoint_is_given_up() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        let mut config = config(&server, protocol);
        config.retry.retries = 0;
        config.first_byte_timeout = Duration::from_millis(300);
        config.silence_timeout = Duration::from_millis(300);
        let provider = ModelProvider::new(config).expect("a good configuration");
        let timeout = |end: Result<ModelReply, ModelError>| match end {
            Err(ModelError::Timeout { which, .. }) => which,
            other => panic!("{protocol:?}: {other:?}"),
        };
        server.then(ModelScript::unfinished([ScriptStep::Stall]));
        let (_, end) = ask(&provider, &request(vec![user("Speak")])).await;
        assert_eq!(timeout(end), ModelTimeout::FirstByte);
        server.then(ModelScript::text(TEXT).until(3, ScriptStep::Stall));
        let (shown, end) = ask(&provider, &request(vec![user("Speak")])).await;
        assert_eq!(timeout(end), ModelTimeout::Silence);
        assert_eq!(shown, "Every word of ");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_or_is_something_else_is_named() {
    let server = ModelServer::start().await;
    for protocol in PROTOCOLS {
        let page = ModelScript::error(200, "<html>Welcome</html>");
        server.then(page.header("content-type", "text/html; charset=utf-8"));
        let provider = provider(&server, protocol);
        let (_, error) = ask(&provider, &request(vec![user("Speak")])).await;
        assert!(
            matches!(error, Err(ModelError::Malformed { .. })),
            "{error:?}"
        );
    }
    let mut config = config(&server, PROTOCOLS[0]);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = nobody.local_addr().expect("bound").port();
    drop(nobody);
    config.url = format!("http://127.0.0.1:{port}/v1");
    let provider = ModelProvider::new(config).expect("a good configuration");
    let (_, error) = ask(&provider, &request(vec![user("Speak")])).await;
    let error = error.expect_err("nobody is there");
    assert_eq!(error.kind(), "unreachable", "{error:?}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn a_connection_is_used_again_after_an_answer_was_read() {
    let server = ModelServer::start().await;
    server.always(|_| ModelScript::text(TEXT));
    let provider = provider(&server, PROTOCOLS[0]);
    for _ in 0..5 {
        assert_eq!(ask(&provider, &request(vec![user("Speak")])).await.0, TEXT);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn words_are_shown_as_they_come() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        let words = ["One ", "two ", "three"].map(|word| ScriptStep::Text(word.into()));
        let [one, two, three] = words;
        let script = ModelScript::of([one, ScriptStep::Hold, two, ScriptStep::Hold, three]);
        server.then(script.slowly(Duration::from_millis(1)).stops_for("length"));
        let provider = provider(&server, protocol);
        let mut stream = stream(&provider, &request(vec![user("Count")]))
            .await
            .expect("begun");
        let mut shown = Vec::new();
        loop {
            let event = within("the answer goes on", stream.next()).await;
            match event.expect("an end before the end").expect("no error") {
                ModelEvent::Text(word) => shown.push(word),
                ModelEvent::Done(reply) => {
                    assert_eq!(reply.stop, ModelStop::MaxTokens);
                    break;
                }
                other => panic!("{other:?}"),
            }
            // Nothing more is sent before this word was seen.
            within("the server waits", server.holding(shown.len())).await;
            server.release();
        }
        assert_eq!(shown, ["One ", "two ", "three"], "{protocol:?}");
    }
}

#[tokio::test]
async fn keys_and_headers_are_sent_as_each_protocol_has_them() {
    for protocol in PROTOCOLS {
        let server = ModelServer::start().await;
        server.then(ModelScript::call("look", &json!({ "at": 1 })));
        let mut config = config(&server, protocol);
        config.headers = vec![("x-team".into(), ModelKey::new("blue"))];
        let provider = ModelProvider::new(config).expect("a good configuration");
        let (_, reply) = ask(&provider, &request(vec![user("Look")])).await;
        assert_eq!(reply.expect("complete").stop, ModelStop::ToolCalls);
        let call = server.call(0).await;
        assert_eq!(call.headers["x-team"], "blue");
        if protocol.0 == WireProtocol::Anthropic {
            assert_eq!(call.headers["x-api-key"], "sk-never-shown");
            assert_eq!(call.headers["anthropic-version"], "2023-06-01");
        } else {
            assert_eq!(call.headers["authorization"], "Bearer sk-never-shown");
        }
        assert_eq!(call.path.matches("/v1").count(), 1, "{}", call.path);
    }
}

#[tokio::test]
async fn what_cannot_be_read_ends_an_answer_where_it_stands() {
    let bad = "data: {\"type\": broken\n\n";
    for protocol in PROTOCOLS {
        for last in [ScriptStep::Raw(bad.into()), ScriptStep::BreakOff] {
            let kind = match last {
                ScriptStep::Raw(_) => "malformed",
                _ => "broken_off",
            };
            let server = ModelServer::start().await;
            server.then(ModelScript::text(TEXT).until(4, last));
            let provider = provider(&server, protocol);
            let (shown, end) = ask(&provider, &request(vec![user("Speak")])).await;
            assert_eq!(shown, "Every word of this ", "{protocol:?}");
            assert_eq!(end.expect_err("broken").kind(), kind);
        }
    }
}
