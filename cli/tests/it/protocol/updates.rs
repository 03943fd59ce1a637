//! `session/update`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scene::Scene;
use super::{EVERYWHERE, Row, row};
use crate::support::schema;

pub fn rows() -> Vec<Row> {
    vec![
        row!(
            "session/update",
            "every kind passes byte for byte",
            "all kinds of the schema, with spaces, escapes and fields in an order of their own: \
             live, and again when the session is loaded",
            EVERYWHERE,
            known
        ),
        row!(
            "session/update",
            "kinds that nobody knows pass as well",
            "an extension and a kind of a later version: live, and again when the session is \
             loaded",
            EVERYWHERE,
            unknown
        ),
        row!(
            "session/update",
            "numbers, text and `_meta` survive untouched",
            "integers beyond 2^53, fractions as they were written, escapes, an emoji, unknown \
             fields",
            EVERYWHERE,
            untouched
        ),
    ]
}

/// Written as no serializer would.
const KNOWN: &[&str] = &[
    r#"{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"text":"a","type":"text"}}"#,
    r#"{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "\u0061\/b"}}"#,
    r#"{"content":{"type":"image","data":"AAAA","mimeType":"image/png"},"sessionUpdate":"agent_message_chunk"}"#,
    r#"{"sessionUpdate":"agent_thought_chunk","content":{"type":"resource_link","uri":"file:///a","name":"a"}}"#,
    r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","kind":"edit","status":"pending","rawInput":{"z":1,"a":[1.0]},"locations":[{"path":"/a","line":7}],"content":[{"type":"diff","path":"/a","oldText":null,"newText":"b"},{"type":"terminal","terminalId":"x"}]}"#,
    r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed","rawOutput":"done"}"#,
    r#"{"sessionUpdate":"plan","entries":[{"status":"pending","priority":"high","content":"look"}]}"#,
    r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[]}}"#,
    r#"{"sessionUpdate":"plan_removed","planId":"p"}"#,
    r#"{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"go","description":"Goes","input":{"hint":"where"}}]}"#,
    r#"{"sessionUpdate":"current_mode_update","currentModeId":"ask"}"#,
    r#"{"sessionUpdate":"config_option_update","configOptions":[{"type":"boolean","id":"verbose","name":"Verbose","currentValue":true}]}"#,
    r#"{"sessionUpdate":"session_info_update","title":"A title","updatedAt":"2026-01-01T00:00:00Z"}"#,
    r#"{"sessionUpdate":"session_info_update","title":null}"#,
    r#"{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.10,"currency":"EUR"}}"#,
    r#"{"sessionUpdate":"notice","severity":"warning","title":"Mind the gap"}"#,
    r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"in_progress"}"#,
    r#"{"sessionUpdate":"compaction_summary_chunk","compactionId":"c","content":{"type":"text","text":"short"}}"#,
    r#"{"sessionUpdate":"subagent_update","sessionId":"child","title":"Helper"}"#,
    r#"{"sessionUpdate":"session_message","messageId":"m2","senderSessionId":"child"}"#,
    r#"{"sessionUpdate":"session_message_chunk","messageId":"m2","content":{"type":"text","text":"hi"}}"#,
];

const UNKNOWN: &[&str] = &[
    r#"{"sessionUpdate":"_example.com/dance","steps":[1,2.50,{"b":null,"a":true}]}"#,
    r#"{"later" : {"deep":[[]]}, "sessionUpdate":"a_kind_of_tomorrow"}"#,
];

const UNTOUCHED: &[&str] = &[
    r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"T","rawInput":{"large":9223372036854775807,"larger":18446744073709551616,"small":1e-7,"exact":1.50}}"#,
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"é \u00e9 🎭 \ud83c\udfad \" \\ \u0000"}}"#,
    r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x","annotations":{"zeta":1}},"unknown":[],"_meta":{"example.com/b":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}"#,
];

async fn known(scene: Scene) {
    let kinds = KNOWN.iter().map(|update| kind(update));
    assert_eq!(kinds.collect::<BTreeSet<_>>(), schema::update_kinds());
    passes(scene, KNOWN, false).await;
}

async fn unknown(scene: Scene) {
    passes(scene, UNKNOWN, true).await;
}

async fn untouched(scene: Scene) {
    passes(scene, UNTOUCHED, false).await;
}

fn kind(update: &str) -> String {
    let update: Value = serde_json::from_str(update).expect("JSON");
    let kind = update["sessionUpdate"].as_str();
    kind.expect("a kind").to_owned()
}

async fn passes(scene: Scene, updates: &[&str], beyond_the_schema: bool) {
    let (peer, reader) = (scene.peer().await, scene.peer().await);
    if beyond_the_schema {
        for update in updates {
            peer.tolerates(&kind(update));
            reader.tolerates(&kind(update));
        }
    }
    let session = peer.new_session().await;
    let script: Vec<String> = updates
        .iter()
        .map(|update| format!("/update {update}"))
        .collect();
    let turn = peer.prompt(&session, &script.join("\n")).await;
    assert_eq!(turn.updates.len(), updates.len());
    reader.history(&session).await;
    for update in updates {
        // The user's own words have it inside a string, with other escapes.
        let said = format!("\"update\":{update}}}");
        assert_eq!(peer.inbox.count(&said), 1, "live: {update}");
        assert_eq!(reader.inbox.count(&said), 1, "loaded: {update}");
    }
}
