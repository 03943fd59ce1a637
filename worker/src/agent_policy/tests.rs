use super::*;

fn value(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn policy(meta: &[&str], methods: &[&str]) -> AgentPolicy {
    let patterns = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect();
    AgentPolicy {
        meta: patterns(meta),
        methods: patterns(methods),
        ..Default::default()
    }
}

fn told(policy: &AgentPolicy, method: &str, params: &str) -> String {
    let message = policy.message(method, &value(params)).unwrap();
    message.params().get().to_owned()
}

#[test]
fn only_trace_context_is_left_of_meta_and_every_other_byte_stays() {
    let closed = AgentPolicy::default();
    for (meta, left) in [
        (
            r#"{"traceparent" : "00" }"#,
            Some(r#"{"traceparent" : "00" }"#),
        ),
        (
            r#"{"a":1,"traceparent":"00"}"#,
            Some(r#"{"traceparent":"00"}"#),
        ),
        (
            r#"{"traceparent":"00" , "a":[{}] }"#,
            Some(r#"{"traceparent":"00" }"#),
        ),
        (
            r#"{ "a":1, "baggage":"x", "b":2 ,"tracestate":"y","c":{}}"#,
            Some(r#"{ "baggage":"x" ,"tracestate":"y"}"#),
        ),
        (r#"{"traceparent":{"run":"this"},"baggage":["x"]}"#, None),
        (r#"{"claudeCode":{"options":{}}}"#, None),
        (r#"{"TraceParent":"00"}"#, None),
        (r#"{"a":1,"a":2}"#, None),
        ("{}", None),
        ("null", None),
        ("\"text\"", None),
        ("[1]", None),
    ] {
        for (before, after) in [
            ("", ""),
            (r#""prompt": [ ] , "#, ""),
            ("", r#" , "prompt": [ ]"#),
        ] {
            let params = format!(r#"{{ {before}"_meta" : {meta}{after} }}"#);
            let (before, after) = match left {
                Some(_) => (before, after),
                None => (
                    before.trim_end_matches(", "),
                    after.trim_start_matches(" ,"),
                ),
            };
            let meta = left
                .map(|left| format!(r#""_meta" : {left}"#))
                .unwrap_or_default();
            let expected = format!("{{ {before}{meta}{after} }}");
            let told = told(&closed, "session/prompt", &params);
            // A blank more or less where something was.
            assert_eq!(told.replace(' ', ""), expected.replace(' ', ""), "{params}");
        }
    }
}

#[test]
fn whatever_is_cut_out_json_is_left() {
    let names = ["_meta", "prompt", "x", r"\u005fmeta", "sessionId2"];
    for first in names {
        for second in names {
            for third in names {
                let member = |name: &str| match name {
                    "_meta" => r#""_meta":{"a":1}"#.to_owned(),
                    name => format!(r#""{name}" : {{"_meta" : 7}}"#),
                };
                let all = [first, second, third].map(member).join(" ,\n");
                let params = value(&format!("{{{all}}}"));
                let Ok(message) = AgentPolicy::default().message("session/prompt", &params) else {
                    // A field twice.
                    continue;
                };
                let left: Value = serde_json::from_str(message.params().get()).unwrap();
                let expected = if [first, second, third].contains(&"prompt") {
                    json!({ "prompt": {} })
                } else {
                    json!({})
                };
                assert_eq!(left, expected, "{all}");
            }
        }
    }
}

#[test]
fn meta_is_found_wherever_it_is_and_however_it_is_written() {
    let closed = AgentPolicy::default();
    for (params, expected) in [
        (
            r#"{"prompt":[{"type":"text","text":"_meta","_meta":{"a":1}},{"_meta":{"b":2},"annotations":{"_meta":{"c":3},"priority":1.50}}]}"#,
            r#"{"prompt":[{"type":"text","text":"_meta"},{"annotations":{"priority":1.50}}]}"#,
        ),
        (r#"{"prompt":[],"\u005fmeta":{"a":1}}"#, r#"{"prompt":[]}"#),
        (
            r#"{"prompt":[{"\u005f\u006deta":{"a":1}}]}"#,
            r#"{"prompt":[{}]}"#,
        ),
        (
            r#"{"prompt":[],"_meta":{"a":1},"_meta":{"traceparent":"00","a":1}}"#,
            r#"{"prompt":[],"_meta":{"traceparent":"00"}}"#,
        ),
        (
            r#"{"_meta":{"a":1},"_meta":{"b":1},"prompt":[9007199254740993,1e2]}"#,
            r#"{"prompt":[9007199254740993,1e2]}"#,
        ),
    ] {
        assert_eq!(told(&closed, "session/prompt", params), expected);
    }
    // Input that is nested too deep is refused, not passed.
    let deep = format!(
        r#"{{"prompt":{}{{"_meta":1}}{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let refused = closed.message("session/prompt", &value(&deep)).unwrap_err();
    assert_eq!(refused.code, -32602);
}

#[test]
fn what_baton_writes_no_client_does() {
    for policy in [
        policy(&["*"], &["*"]),
        policy(&["baton/*"], &[]),
        AgentPolicy::open(),
    ] {
        let params = r#"{"prompt":[{"_meta":{"baton/transcript":true}}],"_meta":{"baton/bound":{"sandbox":"vm-17"},"baton\/bound":1,"\u0062aton/x":1}}"#;
        assert_eq!(
            told(&policy, "session/prompt", params),
            r#"{"prompt":[{}]}"#
        );
    }
    // And what Baton writes comes on top of whatever there is.
    for meta in [
        "1",
        r#""x""#,
        "[]",
        r#"{"baton/bound":{"sandbox":"hers"},"k":1}"#,
    ] {
        let params = value(&format!(r#"{{"prompt":[],"_meta":{meta}}}"#));
        let message = AgentPolicy::open()
            .message("session/prompt", &params)
            .unwrap();
        let message =
            message.with_context(Some("before".into()), Some(json!({ "sandbox": "his" })));
        let told: Value = serde_json::from_str(message.params().get()).unwrap();
        assert_eq!(told["_meta"]["baton/bound"], json!({ "sandbox": "his" }));
        assert_eq!(told["prompt"][0]["_meta"]["baton/transcript"], true);
    }
}

#[test]
fn what_is_allowed_passes_as_it_is() {
    let policy = policy(&["claudeCode", "example.com/*"], &["_test/*"]);
    let params =
        r#"{"prompt":[], "_meta" : {"claudeCode":{"_meta":{"x": 1.50}},"example.com/a":[ ]}}"#;
    assert_eq!(told(&policy, "session/prompt", params), params);
    let params = r#"{ "sessionId":"s", "big":9007199254740993, "x":{"y":[1.50]} }"#;
    assert_eq!(told(&policy, "_test/echo", params), params);
    assert_eq!(told(&policy, "_test/echo", "[ 1 ]"), "[ 1 ]");
    let open = AgentPolicy::open();
    let params = r#"{"prompt":[],"unknown": 1.50,"_meta":{"any":{}}}"#;
    assert_eq!(told(&open, "session/prompt", params), params);
}

#[test]
fn params_have_the_fields_of_the_protocol_once() {
    let closed = AgentPolicy::default();
    for (method, params, expected) in [
        (
            "session/prompt",
            r#"{"x":1,"sessionId":"s","prompt":[],"y":2}"#,
            r#"{"sessionId":"s","prompt":[]}"#,
        ),
        (
            "session/set_mode",
            r#"{"sessionId":"s","modeId":"m","env":{}}"#,
            r#"{"sessionId":"s","modeId":"m"}"#,
        ),
        (
            "session/set_config_option",
            r#"{"sessionId":"s","configId":"c","type":"boolean","value":true,"ModeId":1}"#,
            r#"{"sessionId":"s","configId":"c","type":"boolean","value":true}"#,
        ),
        (
            "session/set_model",
            r#"{"modelId":"m","a":1}"#,
            r#"{"modelId":"m"}"#,
        ),
    ] {
        assert_eq!(told(&closed, method, params), expected);
    }
    for bad in [r#"{"modeId":"a","modeId":"b"}"#, r#"["s","m"]"#, "7"] {
        let refused = closed.message("session/set_mode", &value(bad)).unwrap_err();
        assert_eq!(refused.code, -32602, "{bad}");
    }
}

#[test]
fn mcp_has_a_meta_of_its_own() {
    let closed = AgentPolicy::default();
    let params = r#"{"serverId":"s","requestId":"r","method":"m","params":{"_meta":{"progressToken":1}},"_meta":{"a":1}}"#;
    let expected =
        r#"{"serverId":"s","requestId":"r","method":"m","params":{"_meta":{"progressToken":1}}}"#;
    assert_eq!(told(&closed, "mcp/message", params), expected);
    let result = value(r#"{"result":{"_meta":{"x":1}},"_meta":{"y":1}}"#);
    let answer = closed.answer("mcp/message", Ok(result));
    assert_eq!(
        answer.message("1"),
        r#"{"jsonrpc":"2.0","id":1,"result":{"result":{"_meta":{"x":1}}}}"#
    );
}

#[test]
fn answers_are_looked_at_like_questions() {
    let closed = AgentPolicy::default();
    let result =
        value(r#"{"outcome":{"outcome":"selected","_meta":{"a":1}},"_meta":{"claudeCode":1}}"#);
    let answer = closed.answer("session/request_permission", Ok(result));
    assert_eq!(
        answer.message("1"),
        r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected"}}}"#
    );
    let failure = Failure {
        data: Some(json!({ "_meta": { "a": 1 }, "why": "x" })),
        ..Failure::internal("no")
    };
    let answer = closed.answer("fs/read_text_file", Err(failure));
    assert_eq!(
        answer.message("1"),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no","data":{"why":"x"}}}"#
    );
    let answer = AgentPolicy::default().answer("_own/question", Ok(value(" null ")));
    assert_eq!(
        answer.message("\"a\""),
        r#"{"jsonrpc":"2.0","id":"a","result":null}"#
    );
}

#[test]
fn other_methods_are_refused_by_the_name_of_the_option() {
    let params = value("{}");
    let narrow = policy(&["*"], &["_test/*"]);
    for method in [
        "_evil",
        "_tes/t",
        "session/new",
        "session/load",
        "providers/list",
        "initialize",
        "terminal/create",
        "",
        "Session/prompt",
    ] {
        let refused = narrow.message(method, &params).unwrap_err();
        assert_eq!(refused.code, -32601, "{method}");
        assert!(
            refused.message.contains("--allow-agent-methods"),
            "{refused}"
        );
    }
    let long = "_x".repeat(100_000);
    assert!(narrow.message(&long, &params).unwrap_err().message.len() < 300);
    assert_eq!(
        narrow.withheld.get_or_create(&[("what", "method")]).get(),
        10
    );
}

fn opened(policy: &AgentPolicy, stored: &str, session: Option<&str>) -> Value {
    let own = value(r#"{"name":"own","_meta":{"the":"operator's"}}"#);
    let servers = [AdmittedServer::unchecked(own)];
    let opened = OpeningFields {
        stored: stored.as_bytes(),
        cwd: "/w",
        servers: &servers,
        directories: json!(["/more", { "not": "a path" }]),
        session,
    };
    let message = policy.opening(Method::NewSession, opened).unwrap();
    serde_json::from_str(message.params().get()).unwrap()
}

#[test]
fn a_session_is_opened_with_what_the_protocol_has_for_it() {
    let stored = r#"{"cwd":"/etc","mcpServers":[{"name":"evil"}],"sessionId":"hers","additionalDirectories":["/"],
        "systemPrompt":{"mode":"append","content":[{"type":"text","text":"x","_meta":{"a":1}}]},
        "claudeCode":{},"_meta":{"claudeCode":{"options":{}},"systemPrompt":"x","traceparent":"00"}}"#;
    let servers = json!([{ "name": "own", "_meta": { "the": "operator's" } }]);
    let prompt = json!({ "mode": "append", "content": [{ "type": "text", "text": "x" }] });
    let mut expected = json!({
        "cwd": "/w", "mcpServers": servers, "additionalDirectories": ["/more"],
        "systemPrompt": prompt, "_meta": { "traceparent": "00" },
    });
    assert_eq!(opened(&AgentPolicy::default(), stored, None), expected);
    expected["sessionId"] = json!("inner");
    assert_eq!(
        opened(&AgentPolicy::default(), stored, Some("inner")),
        expected
    );
    // Stored params that cannot be read let nothing pass.
    let plain = json!({ "cwd": "/w", "mcpServers": servers, "additionalDirectories": ["/more"] });
    for odd in ["", "[]", "7", "not JSON", r#"["/etc"]"#] {
        assert_eq!(opened(&AgentPolicy::default(), odd, None), plain, "{odd}");
        assert_eq!(opened(&AgentPolicy::open(), odd, None), plain, "{odd}");
    }
    let open = opened(&AgentPolicy::open(), stored, None);
    assert_eq!(open["claudeCode"], json!({}));
    assert_eq!(open["_meta"]["systemPrompt"], "x");
    assert_eq!(open["cwd"], "/w");
}

#[test]
fn mcp_entries_pass_without_what_clients_add() {
    let entry = value(
        r#"{"name":"n","command":"c","args":[],"env":[{"name":"A","value":"b","_meta":{}}],"_meta":{"x":1}}"#,
    );
    let passed = AgentPolicy::default().server(&entry).unwrap();
    assert_eq!(
        passed.get(),
        r#"{"name":"n","command":"c","args":[],"env":[{"name":"A","value":"b"}]}"#
    );
}

#[test]
fn a_prompt_without_context_is_the_same_prompt() {
    let params = value(r#"{ "sessionId":"s",  "prompt":[{"type":"text","text":"hi"}] }"#);
    let message = AgentPolicy::default()
        .message("session/prompt", &params)
        .unwrap();
    assert_eq!(
        message.with_context(None, None).params().get(),
        params.get()
    );
    let to = message.addressed_to("a\"b");
    assert_eq!(
        to.params().get(),
        r#"{ "sessionId":"a\"b",  "prompt":[{"type":"text","text":"hi"}] }"#
    );
}

#[test]
fn a_pattern_is_a_name() {
    for bad in ["", " ", "a b", "a\n"] {
        assert!(bad.parse::<NamePattern>().is_err(), "{bad:?}");
    }
}
