//! The policy as a whole.

use serde_json::json;

use super::*;
use crate::rpc::Failure;

const ALL: McpTransports = McpTransports {
    http: true,
    sse: true,
    acp: true,
};

fn policy() -> McpPolicy {
    let own = r#"[{"name":"house", "command":"/bin/house","args":[],"env":[{"name":"PATH","value":"hush"}]}]"#;
    McpPolicy {
        commands: vec!["npx -y @example/*".parse().unwrap()],
        variables: vec!["*_TOKEN".parse().unwrap()],
        urls: vec!["https://*".parse().unwrap()],
        own: ServerEntry::read_file(own).unwrap(),
    }
}

async fn admitted(
    policy: &McpPolicy,
    asked: &[String],
    agent: McpTransports,
) -> Result<Vec<String>, Failure> {
    let asked: Vec<&RawValue> = asked
        .iter()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let admitted = policy.admit(&asked, agent).await?;
    Ok(admitted
        .iter()
        .map(|entry| entry.written().get().to_owned())
        .collect())
}

async fn refused(entry: &str) -> Failure {
    let outcome = admitted(&policy(), &[entry.to_owned()], ALL).await;
    let failure = outcome.expect_err(entry);
    assert_eq!(failure.code, -32602);
    let said = format!("{failure:?} {failure}");
    assert!(!said.contains("hush"), "a secret is told: {said}");
    failure
}

#[tokio::test]
async fn what_is_allowed_passes_byte_for_byte_and_the_operators_own_come_last() {
    let asked = [
        r#"{ "command":"npx","args" : ["-y","@example/x"], "name":"\u0066iles","env":[{"name":"A_TOKEN","value":"hush","x":1}],"extra":1.0}"#,
        r#"{"type":"http","name":"web","url":"https://1.1.1.1/mcp?key=hush","headers":[{"name":"Authorization","value":"Bearer hush"}],"_meta":{"b":1,"a":2}}"#,
        r#"{"type":"sse","name":"old","url":"https://1.1.1.1/","headers":null}"#,
        r#"{"type":"acp","name":"client","serverId":"s-1"}"#,
    ]
    .map(str::to_owned);
    let got = admitted(&policy(), &asked, ALL).await.unwrap();
    assert_eq!(got[..4], asked);
    assert!(
        got[4].starts_with(r#"{"name":"house", "command""#),
        "{got:?}"
    );
    assert_eq!(got.len(), 5);
}

#[tokio::test]
async fn each_refusal_names_the_server_and_the_rule() {
    for (entry, rule, said) in [
        (
            r#"{"name":"it","command":"/bin/sh","args":["-c","hush"],"env":[]}"#,
            json!("--allow-mcp-stdio"),
            "\"/bin/sh\"",
        ),
        (
            r#"{"name":"it","type":"stdio","command":"npx","args":["hush"],"env":[]}"#,
            json!("--allow-mcp-stdio"),
            "--allow-mcp-stdio",
        ),
        (
            r#"{"name":"it","command":"npx","args":["-y","@example/x"],"env":[{"name":"LD_PRELOAD","value":"hush"}]}"#,
            json!("--allow-mcp-env"),
            "\"LD_PRELOAD\"",
        ),
        (
            r#"{"name":"it","type":"http","url":"http://1.1.1.1/hush","headers":[]}"#,
            json!("--allow-mcp-url"),
            "http://1.1.1.1",
        ),
        (
            r#"{"name":"it","type":"sse","url":"https://127.0.0.1/hush","headers":[]}"#,
            json!("--allow-mcp-url"),
            "not public",
        ),
        (
            r#"{"name":"it","type":"http","url":"https://hush@1.1.1.1/","headers":[]}"#,
            json!(null),
            "headers",
        ),
        (
            r#"{"name":"it","type":"http","url":"https://1.1.1.1/","headers":[{"name":"HOST","value":"hush"}]}"#,
            json!(null),
            "Host",
        ),
        (
            r#"{"name":"it","type":"http","url":"https://1.1.1.1/","headers":[{"name":"a","value":"hush\r\nb: c"}]}"#,
            json!(null),
            "headers",
        ),
        (
            r#"{"name":"it","type":"http","url":"https://1.1.1.1/","headers":"hush"}"#,
            json!(null),
            "headers",
        ),
        (
            r#"{"name":"house","type":"acp","serverId":"hush"}"#,
            json!(null),
            "its own",
        ),
        (
            r#"{"name":"it","type":"carrier-pigeon","url":"hush"}"#,
            json!(null),
            "type must be",
        ),
        (
            r#"{"name":"it","type":7,"command":"hush"}"#,
            json!(null),
            "type must be",
        ),
        (r#"{"name":"it","type":"acp"}"#, json!(null), "serverId"),
        (r#"{"name":"it"}"#, json!(null), "command"),
        (
            r#"{"name":"it","command":"npx","args":"hush"}"#,
            json!(null),
            "args",
        ),
        (
            r#"{"name":"it","command":"npx","env":{"A_TOKEN":"hush"}}"#,
            json!(null),
            "env",
        ),
        (
            r#"{"name":"it","command":"npx","args":["-y","@example/x"],"url":"hush"}"#,
            json!(null),
            "two kinds",
        ),
        (
            r#"{"name":"it","type":"http","url":"https://1.1.1.1/","command":"hush"}"#,
            json!(null),
            "two kinds",
        ),
        (
            r#"{"name":"it","command":"npx","args":["-y","@example/x"],"Command":"hush"}"#,
            json!(null),
            "upper and lower",
        ),
        (
            r#"{"name":"it","command":"npx","args":["-y","@example/x"],"argſ":"hush"}"#,
            json!(null),
            "upper and lower",
        ),
    ] {
        let failure = refused(entry).await;
        let data = failure.data.unwrap();
        let name = if entry.contains("house") {
            "house"
        } else {
            "it"
        };
        assert_eq!(data, json!({ "mcpServer": name, "rule": rule }), "{entry}");
        assert!(
            failure.message.contains(said),
            "{entry}: {}",
            failure.message
        );
        assert!(
            failure.message.contains(&format!("{name:?}")),
            "{}",
            failure.message
        );
    }
}

#[tokio::test]
async fn what_has_no_name_or_comes_twice_is_refused_as_a_whole() {
    for entry in [
        "7",
        "[]",
        "{}",
        r#"{"name":7}"#,
        r#"{"name":""}"#,
        r#"{"name":"a\nb"}"#,
        r#"{"name":"a","command":"npx","command":"hush"}"#,
        r#"{"name":"a","command":"npx","comm\u0061nd":"hush"}"#,
        r#"{"name":"a","name":"hush"}"#,
    ] {
        assert_eq!(
            refused(entry).await.data.unwrap()["mcpServer"],
            json!(null),
            "{entry}"
        );
    }
    let long = format!(r#"{{"name":"{}"}}"#, "a".repeat(129));
    refused(&long).await;
    let large = format!(
        r#"{{"name":"a","type":"acp","serverId":"{}"}}"#,
        "a".repeat(70_000)
    );
    assert!(refused(&large).await.message.contains("64 KiB"));
}

#[tokio::test]
async fn names_are_unique_and_there_is_an_end_to_them() {
    let entry = |name: usize| format!(r#"{{"name":"{name}","type":"acp","serverId":"x"}}"#);
    let twice = admitted(&policy(), &[entry(1), entry(1)], ALL).await;
    assert!(twice.unwrap_err().message.contains("\"1\""));
    let most: Vec<String> = (0..MAX_SERVERS).map(entry).collect();
    assert_eq!(
        admitted(&policy(), &most, ALL).await.unwrap().len(),
        MAX_SERVERS + 1
    );
    let more: Vec<String> = (0..=MAX_SERVERS).map(entry).collect();
    let refused = admitted(&policy(), &more, ALL).await.unwrap_err();
    assert!(refused.message.contains("64"), "{}", refused.message);
}

#[tokio::test]
async fn an_agent_gets_only_what_it_takes() {
    let none = McpTransports::default();
    for (entry, kind) in [
        (
            r#"{"name":"it","type":"http","url":"https://1.1.1.1/","headers":[]}"#,
            "http",
        ),
        (
            r#"{"name":"it","type":"sse","url":"https://1.1.1.1/","headers":[]}"#,
            "sse",
        ),
        (r#"{"name":"it","type":"acp","serverId":"x"}"#, "acp"),
    ] {
        let refused = admitted(&policy(), &[entry.to_owned()], none)
            .await
            .unwrap_err();
        let message = &refused.message;
        assert!(
            message.contains(kind) && message.contains("mcpCapabilities"),
            "{message}"
        );
        // The operator's are left out instead.
        let own = ServerEntry::read_file(entry).unwrap();
        let policy = McpPolicy { own, ..policy() };
        assert_eq!(
            admitted(&policy, &[], none).await.unwrap(),
            [] as [String; 0]
        );
        assert_eq!(admitted(&policy, &[], ALL).await.unwrap(), [entry]);
    }
}

#[tokio::test]
async fn by_default_nothing_is_started_and_nothing_reached() {
    let policy = McpPolicy::default();
    for entry in [
        r#"{"name":"it","command":"/bin/true","args":[],"env":[]}"#,
        r#"{"name":"it","type":"http","url":"https://1.1.1.1/","headers":[]}"#,
    ] {
        assert!(
            admitted(&policy, &[entry.to_owned()], ALL).await.is_err(),
            "{entry}"
        );
    }
}

#[test]
fn a_policy_prints_no_secrets() {
    let printed = format!("{:?}", policy());
    assert!(
        printed.contains("house") && !printed.contains("hush"),
        "{printed}"
    );
}
