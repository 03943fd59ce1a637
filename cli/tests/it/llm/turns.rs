//! Turns without tools.

use serde_json::{Value, json};

use super::editor::Editor;
use super::{MODEL, served};
use crate::support::http::{cancel, load};
use crate::support::model_server::{ModelScript, ScriptStep};
use crate::support::process::baton;

const MODEL_FAILED: i64 = 5008;

#[tokio::test]
async fn words_thoughts_usage_and_a_title_reach_the_client() {
    let (model, baton) = served(&["--llm-context", "2000"]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    let steps = [
        ScriptStep::Think("hm, ".into()),
        ScriptStep::Think("well".into()),
        ScriptStep::Text("Good ".into()),
        ScriptStep::Text("morning.".into()),
    ];
    model.then(ModelScript::of(steps).usage(120, 7));
    let answer = editor.turn("Say good morning,\nplease").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.said(), "Good morning.");
    let ids: Vec<_> = editor.updates("agent_message_chunk");
    assert!(ids[0]["messageId"].is_string() && ids[0]["messageId"] == ids[1]["messageId"]);
    let thoughts = editor.updates("agent_thought_chunk");
    let thoughts = thoughts
        .iter()
        .filter_map(|it| it["content"]["text"].as_str());
    assert_eq!(thoughts.collect::<String>(), "hm, well");
    let usage = &editor.updates("usage_update")[0];
    assert_eq!(
        (&usage["used"], &usage["size"]),
        (&json!(127), &json!(2000))
    );
    let title = &editor.updates("session_info_update")[0]["title"];
    assert_eq!(title, "Say good morning,");
    // What was said is told to the model in the next turn.
    model.then(ModelScript::text("Again."));
    editor.turn("Once more").await;
    let call = model.call(1).await;
    let roles: Vec<_> = call
        .messages()
        .iter()
        .map(|it| it["role"].clone())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert!(
        call.messages()[2].to_string().contains("Good morning."),
        "{:?}",
        call.body
    );
    assert_eq!(editor.updates("session_info_update").len(), 1);
}

#[tokio::test]
async fn a_model_that_fails_is_reported_with_what_to_do() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    let body = json!({ "error": { "message": "Incorrect API key" } });
    model.then(ModelScript::error(401, body));
    let answer = editor.turn("Hello").await;
    assert_eq!(answer["error"]["code"], MODEL_FAILED, "{answer}");
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("Incorrect API key") && text.contains("BATON_LLM_KEY"),
        "{text}"
    );
    assert_eq!(answer["error"]["data"]["retryable"], false);
    assert_eq!(answer["error"]["data"]["kind"], "unauthorized");
    // The session is as good as before.
    model.then(ModelScript::text("Here I am."));
    let answer = editor.turn("Are you there?").await;
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(editor.said(), "Here I am.");
}

#[tokio::test]
async fn a_turn_is_cancelled_at_any_moment() {
    let (model, baton) = served(&[]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    for said in [0, 2] {
        model.then(ModelScript::text("one two three").until(said, ScriptStep::Stall));
        let number = model.calls().len();
        let id = editor.ask("Count").await;
        model.call(number).await;
        editor.client.post(cancel(&editor.session)).await;
        let answer = editor.answer(&id).await;
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        model.quiet().await;
    }
    model.then(ModelScript::text("Fine."));
    assert_eq!(
        editor.turn("Go on").await["result"]["stopReason"],
        "end_turn"
    );
}

#[tokio::test]
async fn modes_models_and_effort_are_chosen_by_options_and_commands() {
    let (model, baton) = served(&["--llm-model", "test-model,other"]).await;
    let mut editor = Editor::begin(&baton.url()).await;
    model.always(|_| ModelScript::text("ok"));
    let chosen = json!({ "configId": "effort", "value": "high" });
    let answer = editor.call("session/set_config_option", chosen).await;
    assert_eq!(
        answer["result"]["configOptions"][1]["currentValue"], "high",
        "{answer}"
    );
    assert_eq!(answer["result"]["configOptions"][0]["category"], "model");
    let refused = json!({ "configId": "model", "value": "huge" });
    let answer = editor.call("session/set_config_option", refused).await;
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("valid: test-model, other"), "{answer}");
    editor.turn("/model other").await;
    assert_eq!(editor.said(), "The model is other from now on.");
    assert!(model.calls().is_empty());
    editor.turn("Hello").await;
    let call = model.call(0).await;
    assert_eq!(
        (call.model(), &call.body["reasoning_effort"]),
        ("other", &json!("high"))
    );
    // They were announced when the session was new: before this client read its stream.
    editor.client.post(load(json!("l"), &editor.session)).await;
    editor.answer(&json!("l")).await;
    let commands = editor.updates("available_commands_update");
    assert_eq!(commands[0]["availableCommands"][0]["name"], "model");
}

#[tokio::test]
async fn a_conversation_is_known_after_a_restart_and_in_a_fork() {
    let model = crate::support::model_server::ModelServer::start().await;
    let url = model.url(crate::support::model_server::WireProtocol::Chat);
    let arguments = ["--agent", "llm", "--llm-url", &url, "--llm-model", MODEL];
    let mut baton = crate::support::Served::start_with(&arguments).await;
    let mut editor = Editor::begin(&baton.url()).await;
    model.then(super::reads("/tmp/a"));
    model.then(ModelScript::text("The word is pineapple."));
    editor.files.insert("/tmp/a".into(), "pineapple".into());
    editor.turn("What is the word?").await;
    baton.kill_and_restart().await;
    let mut again = Editor::begin(&baton.url()).await;
    again.session.clone_from(&editor.session);
    again.stream = again.client.session_stream(&editor.session, None).await;
    again.client.post(load(json!("l"), &editor.session)).await;
    again.answer(&json!("l")).await;
    assert_eq!(again.said(), "The word is pineapple.");
    model.always(|_| ModelScript::text("ok"));
    again.turn("Are you sure?").await;
    let params = json!({ "sessionId": again.session, "cwd": "/tmp", "mcpServers": [] });
    let fork = json!({ "jsonrpc": "2.0", "id": "f", "method": "session/fork", "params": params });
    let forked = again
        .client
        .one_shot(fork)
        .await
        .response(&json!("f"))
        .await;
    let parent = again.session.clone();
    again.session = forked["result"]["sessionId"]
        .as_str()
        .expect("an id")
        .into();
    again.stream = again.client.session_stream(&again.session, None).await;
    again.turn("In the fork").await;
    assert_ne!(again.session, parent);
    let first = model.call(2).await;
    let told = tool_messages(&first.body);
    assert_eq!(told, [json!("call_1"), json!("pineapple")]);
    let fork = model.call(3).await;
    assert_eq!(tool_messages(&fork.body), told);
    assert!(fork.body.to_string().contains("Are you sure?"));
}

fn tool_messages(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().expect("messages");
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools
        .flat_map(|it| [it["tool_call_id"].clone(), it["content"].clone()])
        .collect()
}

#[test]
fn all_that_is_wrong_with_the_options_is_said_at_once() {
    let wrong = [
        "--llm-context",
        "1",
        "--llm-steps",
        "0",
        "--llm-key-file",
        "/no/such",
    ];
    let output = baton()
        .args(["serve", "--ephemeral", "--agent", "llm"])
        .args(wrong)
        .output()
        .expect("baton runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "--llm-url",
        "--llm-model",
        "--llm-context 1",
        "--llm-steps 0",
        "/no/such",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
