//! The same for all protocols: whatever happens to the bytes, nothing wrong is shown.

use super::*;

fn recorded(protocol: ModelProtocol) -> String {
    match protocol {
        ModelProtocol::Chat => chat::recorded(),
        ModelProtocol::Responses => responses::recorded(),
        ModelProtocol::Anthropic => anthropic::recorded(),
    }
}

#[test]
fn pieces_of_any_size_make_no_difference() {
    for protocol in ALL {
        let body = recorded(protocol);
        let whole = Answer::of(protocol, &body);
        let provider = provider(protocol);
        for size in 1..=7 {
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
            let answer = Answer::read(&provider, &pieces);
            assert_eq!(answer.events, whole.events);
            assert_eq!(answer.end, whole.end);
        }
    }
}

#[test]
fn a_stream_cut_at_any_byte_shows_a_beginning_and_says_that_it_broke() {
    for protocol in ALL {
        let body = recorded(protocol);
        let whole = Answer::of(protocol, &body);
        let provider = provider(protocol);
        let mut complete = 0;
        for cut in 0..body.len() {
            let answer = Answer::read(&provider, &[&body.as_bytes()[..cut]]);
            assert!(
                whole.events.starts_with(&answer.events),
                "{protocol:?} at {cut}"
            );
            match &answer.end {
                Err(error) => {
                    assert_eq!(error.kind(), "broken_off", "{protocol:?} at {cut}");
                    assert_eq!(complete, 0, "nothing is missing any more");
                }
                Ok(reply) => {
                    assert_eq!(answer.events, whole.events);
                    assert_eq!(reply.message, whole.reply().message);
                    complete += 1;
                }
            }
        }
        assert!(
            complete > 0,
            "{protocol:?}: the last line break is not needed"
        );
    }
}

#[test]
fn an_event_that_is_not_json_is_malformed() {
    for protocol in ALL {
        let body = recorded(protocol);
        let (before, after) = body.split_at(body.find("\n\n").unwrap_or_default());
        for bad in ["{\"type\":", "[1,2", "null nothing", "\u{0}"] {
            let body = format!("{before}\n\ndata: {bad}\n\n{after}");
            let answer = Answer::of(protocol, &body);
            assert_eq!(answer.error(), "malformed", "{protocol:?} {bad}");
        }
        // JSON of a form that nobody expects is refused or passed over.
        for odd in ["1", "[]", "{}", "\"x\"", "{\"choices\":{}}", "{\"type\":5}"] {
            let body = format!("data: {odd}\n\n{body}");
            let answer = Answer::of(protocol, &body);
            let passed = answer.end.is_ok();
            assert!(
                passed || answer.error() == "malformed",
                "{protocol:?} {odd}"
            );
        }
    }
}

#[test]
fn answers_are_bounded_in_bytes_calls_and_events() {
    let text = |protocol: ModelProtocol, text: &str| match protocol {
        ModelProtocol::Chat => json!({ "choices": [{ "delta": { "content": text } }] }),
        ModelProtocol::Responses => {
            json!({ "type": "response.output_text.delta", "output_index": 0, "delta": text })
        }
        ModelProtocol::Anthropic => json!({
            "type": "content_block_delta", "index": 0,
            "delta": { "type": "text_delta", "text": text },
        }),
    };
    let call = |protocol: ModelProtocol, at: usize| match protocol {
        ModelProtocol::Chat => {
            let call = json!({ "index": at, "function": { "name": "f" } });
            json!({ "choices": [{ "delta": { "tool_calls": [call] } }] })
        }
        ModelProtocol::Responses => json!({
            "type": "response.output_item.added", "output_index": at,
            "item": { "type": "function_call", "name": "f" },
        }),
        ModelProtocol::Anthropic => json!({
            "type": "content_block_start", "index": at,
            "content_block": { "type": "tool_use", "id": "", "name": "f" },
        }),
    };
    for protocol in ALL {
        let mut config = ProviderConfig::new(protocol, "http://localhost/v1");
        config.max_reply_bytes = 10_000;
        let provider = ModelProvider::new(config).expect("good");
        let read = |body: String| Answer::read(&provider, &[body.as_bytes()]);
        let many = data(&[text(protocol, &"x".repeat(100))]).repeat(101);
        assert_eq!(read(many).error(), "too_large", "{protocol:?}: many events");
        let huge = format!("data: {}", "x".repeat(30_000));
        assert_eq!(
            read(huge).error(),
            "too_large",
            "{protocol:?}: a huge event"
        );
        let calls: Vec<Value> = (0..200).map(|at| call(protocol, at)).collect();
        assert_eq!(
            read(data(&calls)).error(),
            "too_large",
            "{protocol:?}: many calls"
        );
    }
}

#[test]
fn a_continued_answer_is_whole_and_shows_only_what_is_new() {
    for protocol in ALL {
        let beginning = "I will look — twice. And then I will";
        let request = ModelRequest {
            messages: vec![
                ModelMessage::User(vec![MessagePart::Text("Look".into())]),
                ModelMessage::Assistant(AssistantMessage {
                    parts: vec![AssistantPart::Text(beginning.into())],
                }),
            ],
            ..requests::request()
        };
        // The endpoint begins anew and says what it said the other time.
        let body = recorded(protocol).replace("twice.", "twice. And then I will rest.");
        let provider = provider(protocol);
        let begun = ReplyBeginning::of(&request, provider.config(), false);
        let reader = provider.reader(begun.as_ref(), &provider.context("m"));
        let answer = Answer::read_with(reader, &[body.as_bytes()]);
        assert_eq!(answer.shown().0, " rest.", "{protocol:?}");
        let whole = answer.reply().message.text();
        assert_eq!(whole, format!("{beginning} rest."), "{protocol:?}");
    }
}

#[test]
fn a_malformed_event_shows_no_secret() {
    for protocol in ALL {
        let mut context = provider(protocol).context("a-model");
        context.secrets = vec![ModelKey::new("sk-very-secret")];
        // Some of them stand where the message is cut.
        for before in [0, 90, 96, 130] {
            let padding = "x".repeat(before);
            let body = format!("data: {padding} Authorization: Bearer sk-very-secret\n\n");
            let reader = provider(protocol).reader(None, &context);
            let error = Answer::read_with(reader, &[body.as_bytes()]).end;
            let error = error.expect_err("not JSON");
            assert_eq!(error.kind(), "malformed");
            assert!(!error.to_string().contains("sk-"), "{protocol:?}: {error}");
        }
    }
}
