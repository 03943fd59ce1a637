//! What goes out.

use super::*;

pub fn request() -> ModelRequest {
    let parameters = json!({ "type": "object", "properties": { "at": { "type": "number" } } });
    ModelRequest {
        model: "a-model".into(),
        system: "Be kind.".into(),
        messages: history(),
        tools: Arc::from(["look", "find"].map(|name| ToolDefinition {
            name: name.into(),
            description: "A tool".into(),
            parameters: parameters.clone(),
        })),
        max_output_tokens: Some(1000),
        reasoning_effort: None,
        parallel_tools: false,
    }
}

fn image() -> MessagePart {
    MessagePart::Image {
        mime_type: "image/png".into(),
        data: "aGk=".into(),
    }
}

fn text(text: &str) -> MessagePart {
    MessagePart::Text(text.into())
}

fn thought(protocol: ModelProtocol, opaque: Value) -> AssistantPart {
    AssistantPart::Reasoning {
        text: format!("{protocol:?} thinks"),
        opaque: Some(opaque),
        protocol,
    }
}

/// A turn with thoughts of every protocol, two calls, one of them malformed, and their results.
fn history() -> Vec<ModelMessage> {
    let call = |id: &str, arguments: &str| AssistantPart::ToolCall {
        id: id.into(),
        name: "look".into(),
        arguments: arguments.into(),
    };
    let result = |id: &str, content: Vec<MessagePart>, is_error: bool| ModelMessage::ToolResult {
        call_id: id.into(),
        tool: "look".into(),
        content,
        is_error,
    };
    vec![
        ModelMessage::User(vec![text("Look at"), image()]),
        ModelMessage::Assistant(AssistantMessage {
            parts: vec![
                thought(ModelProtocol::Chat, json!({ "member": "reasoning" })),
                thought(ModelProtocol::Anthropic, json!({ "signature": "sig" })),
                thought(
                    ModelProtocol::Responses,
                    json!({ "type": "reasoning", "id": "r" }),
                ),
                AssistantPart::Text("I look.".into()),
                call("a:1", "{\"at\": 1}"),
                call("b", "{\"at\":"),
            ],
        }),
        result("a:1", vec![text("seen"), image()], false),
        result("b", vec![], true),
        ModelMessage::User(vec![text("Go on")]),
    ]
}

fn written(protocol: ModelProtocol, request: &ModelRequest) -> Value {
    written_for(
        &ProviderConfig::new(protocol, "http://localhost/v1"),
        request,
    )
}

fn written_for(config: &ProviderConfig, request: &ModelRequest) -> Value {
    let provider = ModelProvider::new(config.clone()).expect("good");
    let beginning = ReplyBeginning::of(request, config, false);
    provider.body(request, beginning.as_ref(), Concessions::default())
}

#[test]
fn chat_has_results_by_id_and_images_from_the_user() {
    let body = written(ModelProtocol::Chat, &request());
    let roles = body["messages"].as_array().expect("messages").iter();
    let roles: Vec<&str> = roles.filter_map(|it| it["role"].as_str()).collect();
    let expected = [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ];
    assert_eq!(roles, expected);
    let messages = &body["messages"];
    let url = &messages[1]["content"][1]["image_url"]["url"];
    assert_eq!(url, "data:image/png;base64,aGk=");
    assert_eq!(messages[2]["tool_calls"][0]["id"], "a_1");
    let arguments = |at: usize| &messages[2]["tool_calls"][at]["function"]["arguments"];
    assert_eq!(arguments(0), "{\"at\": 1}");
    assert_eq!(arguments(1), "{\"malformed_arguments\":\"{\\\"at\\\":\"}");
    assert_eq!(messages[3]["tool_call_id"], "a_1");
    assert_eq!(messages[3]["content"], "seen");
    assert_eq!(messages[5]["content"][1]["type"], "image_url");
    assert_eq!(body["parallel_tool_calls"], false);
    assert_eq!(body["max_tokens"], 1000);
    assert!(!body.to_string().contains("thinks"), "the turn is over");
    let mut within = request();
    within.messages.pop();
    let body = written(ModelProtocol::Chat, &within);
    assert_eq!(body["messages"][2]["reasoning"], "Chat thinks");
    assert!(!body.to_string().contains("Anthropic thinks"));
}

#[test]
fn anthropic_takes_turns_and_has_cache_markers_and_signatures() {
    let body = written(ModelProtocol::Anthropic, &request());
    let messages = body["messages"].as_array().expect("messages");
    let roles: Vec<&str> = messages
        .iter()
        .filter_map(|it| it["role"].as_str())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let kinds = messages[1]["content"].as_array().expect("blocks").iter();
    let kinds: Vec<&str> = kinds.filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    let thinking = &messages[1]["content"][0];
    assert_eq!(thinking["thinking"], "Anthropic thinks");
    assert_eq!(thinking["signature"], "sig");
    let results = &messages[2]["content"];
    assert_eq!(results[0]["tool_use_id"], "a_1");
    assert_eq!(
        results[0]["content"][1]["source"]["media_type"],
        "image/png"
    );
    assert_eq!(results[1]["content"][0]["text"], "(empty)");
    assert_eq!(results[1]["is_error"], true);
    assert_eq!(results[2]["text"], "Go on");
    let marks = [&body["system"][0], &body["tools"][1], &results[2]];
    assert!(
        marks
            .iter()
            .all(|it| it["cache_control"]["type"] == "ephemeral")
    );
    assert_eq!(
        body.to_string().matches("cache_control").count(),
        marks.len()
    );
    assert_eq!(body["tool_choice"]["disable_parallel_tool_use"], true);
}

#[test]
fn responses_keeps_nothing_at_the_endpoint() {
    let body = written(ModelProtocol::Responses, &request());
    let items = body["input"].as_array().expect("items");
    let kinds: Vec<&str> = items.iter().filter_map(|it| it["type"].as_str()).collect();
    let expected = [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(items[1], json!({ "type": "reasoning", "id": "r" }));
    assert_eq!(items[3]["call_id"], "a_1");
    assert_eq!(items[5]["output"][1]["type"], "input_image");
    assert_eq!(items[6]["output"], "Error: ");
    assert_eq!(body["store"], false);
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    let mut plain = request();
    plain.model = "gpt-4o".into();
    let body = written(ModelProtocol::Responses, &plain);
    assert!(body.get("include").is_none(), "such models refuse it");
}

#[test]
fn efforts_are_written_as_each_endpoint_has_them() {
    let with = |effort: &str| ModelRequest {
        reasoning_effort: Some(effort.into()),
        ..request()
    };
    let body = written(ModelProtocol::Anthropic, &with("high"));
    assert_eq!(body["thinking"]["type"], "adaptive");
    assert_eq!(body["output_config"]["effort"], "high");
    let body = written(ModelProtocol::Anthropic, &with("8000"));
    assert_eq!(body["thinking"]["budget_tokens"], 8000);
    assert!(body["max_tokens"].as_u64() > Some(8000));
    let body = written(ModelProtocol::Responses, &with("low"));
    assert_eq!(body["reasoning"]["effort"], "low");
    let mut config = ProviderConfig::new(ModelProtocol::Chat, "https://openrouter.ai/api/v1");
    assert_eq!(
        written_for(&config, &with("low"))["reasoning"]["effort"],
        "low"
    );
    config.dialect = ChatDialect::OpenAi;
    let body = written_for(&config, &with("low"));
    assert_eq!(body["reasoning_effort"], "low");
    assert_eq!(body["max_completion_tokens"], 1000);
}

#[test]
fn a_beginning_is_sent_as_each_endpoint_continues_it() {
    let mut request = request();
    request
        .messages
        .push(ModelMessage::Assistant(AssistantMessage {
            parts: vec![AssistantPart::Text("I have \n".into())],
        }));
    let last = |config: &ProviderConfig| {
        let body = written_for(config, &request);
        let list = body.get("messages").or(body.get("input")).expect("a list");
        let list = list.as_array().expect("a list").clone();
        (
            body,
            list[list.len() - 2].clone(),
            list[list.len() - 1].clone(),
        )
    };
    let mut config = ProviderConfig::new(ModelProtocol::Chat, "http://localhost/v1");
    let (_, before, asked) = last(&config);
    assert_eq!(before["content"], "I have \n");
    assert_eq!(asked["content"], CONTINUE_REQUEST);
    config.dialect = ChatDialect::Vllm;
    let (body, _, given) = last(&config);
    assert_eq!(given["role"], "assistant");
    assert_eq!(body["continue_final_message"], true);
    assert_eq!(body["add_generation_prompt"], false);
    config.dialect = ChatDialect::Mistral;
    assert_eq!(last(&config).2["prefix"], true);
    config = ProviderConfig::new(ModelProtocol::Anthropic, "http://localhost");
    let (_, _, given) = last(&config);
    assert_eq!(
        given["content"][0]["text"], "I have",
        "space at the end is refused"
    );
    config = ProviderConfig::new(ModelProtocol::Responses, "http://localhost/v1");
    assert_eq!(last(&config).2["content"][0]["text"], CONTINUE_REQUEST);
    // Where nothing was said aloud there is nothing to continue.
    request.messages.pop();
    let fresh = written_for(&config, &request);
    request
        .messages
        .push(ModelMessage::Assistant(AssistantMessage {
            parts: vec![thought(ModelProtocol::Responses, json!({ "id": "half" }))],
        }));
    assert_eq!(written_for(&config, &request), fresh);
}
