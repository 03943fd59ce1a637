//! Sessions that go out again.

use std::io::Cursor;

use baton_histories::export::{ExportForm, export, folder_name, session_uuid};
use baton_histories::line::HistoryLine;
use baton_histories::{SourceTool, convert};
use serde_json::{Value, json};

use crate::told::seed;

const SESSION: &str = "000-aaaaaaaaaaaaaaaaaaaaaa";

/// The first session of a file as the server exports it.
fn archive(tool: SourceTool, file: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    convert(tool, &mut Cursor::new(file), &mut lines).expect("it is converted");
    let mut head = Value::Null;
    let mut events = Vec::new();
    for line in lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let (kind, message) = match serde_json::from_slice::<HistoryLine<Value>>(line)
            .expect("a line")
        {
            HistoryLine::Session(_) if !head.is_null() => break,
            HistoryLine::Session(found) => {
                head = json!({
                    "batonSession": 1, "sessionId": SESSION, "agent": "scripted",
                    "title": found.title, "cwd": found.cwd, "updated": found.updated,
                });
                continue;
            }
            HistoryLine::Begin => ("begin", Value::Null),
            HistoryLine::User(update) => ("user", json!({ "params": { "update": update } })),
            HistoryLine::Update(update) => ("update", json!({ "params": { "update": update } })),
            HistoryLine::End(ending) => ("end", json!({ "result": ending })),
        };
        let line: Value = json!({ "seq": events.len() + 1, "kind": kind, "message": message });
        events.push(line);
    }
    head["events"] = json!(events.len());
    let lines: Vec<String> = [head]
        .iter()
        .chain(&events)
        .map(|line| format!("{line}\n"))
        .collect();
    lines.concat().into_bytes()
}

fn exported(form: ExportForm, archive: &[u8]) -> String {
    let mut out = Vec::new();
    let session = export(form, &mut Cursor::new(archive), &mut out).expect("it is exported");
    assert_eq!(session.session, SESSION);
    String::from_utf8(out).expect("text")
}

const FILES: [(SourceTool, &str, &str); 6] = [
    (SourceTool::Claude, "claude_file", "plain.jsonl"),
    (SourceTool::Claude, "claude_file", "compact.jsonl"),
    (SourceTool::Claude, "claude_file", "damage.jsonl"),
    (SourceTool::Codex, "codex_file", "rollout.jsonl"),
    (SourceTool::Goose, "goose_file", "export.json"),
    (SourceTool::Opencode, "opencode_file", "export.json"),
];

#[test]
fn a_file_of_claude_code_comes_back_as_it_went_out() {
    for (tool, folder, name) in FILES {
        let first = exported(ExportForm::Claude, &archive(tool, &seed(folder, name)));
        let again = archive(SourceTool::Claude, first.as_bytes());
        let second = exported(ExportForm::Claude, &again);
        for (first, second) in first.lines().zip(second.lines()) {
            assert_eq!(first, second, "{name}");
        }
        assert_eq!(first, second, "{name}");
    }
}

#[test]
fn its_lines_are_those_that_claude_code_writes() {
    let file = archive(SourceTool::Claude, &seed("claude_file", "plain.jsonl"));
    let file = exported(ExportForm::Claude, &file);
    let lines: Vec<Value> = file
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let (title, nodes) = lines.split_last().expect("lines");
    assert_eq!(
        (&title["type"], &title["customTitle"]),
        (&json!("custom-title"), &json!("About a.txt"))
    );
    let mut parent = Value::Null;
    for node in nodes {
        assert_eq!(node["parentUuid"], parent);
        assert_eq!(node["sessionId"], json!(session_uuid(SESSION)));
        assert_eq!(node["cwd"], "/home/me/project");
        assert_eq!(node["uuid"].as_str().map(str::len), Some(36), "{node}");
        assert_eq!(node["type"], node["message"]["role"], "{node}");
        parent = node["uuid"].clone();
    }
    let uuids: std::collections::HashSet<&str> = nodes
        .iter()
        .filter_map(|node| node["uuid"].as_str())
        .collect();
    assert_eq!(uuids.len(), nodes.len());
    // Every result comes right after its call.
    for pair in nodes.windows(2) {
        let (call, result) = (
            &pair[0]["message"]["content"][0],
            &pair[1]["message"]["content"][0],
        );
        if call["type"] == "tool_use" {
            assert_eq!(result["tool_use_id"], call["id"], "{result}");
            assert_eq!(pair[0]["message"]["stop_reason"], "tool_use");
        }
    }
    let thought = &nodes[1]["message"]["content"][0];
    assert_eq!(
        (&thought["type"], &thought["signature"]),
        (&json!("thinking"), &json!("c2ln"))
    );
    assert_eq!(nodes[1]["timestamp"], "2026-05-01T10:00:04.000Z");
    // A folder is a name, whatever the directory is.
    assert_eq!(folder_name("/home/me/my project"), "-home-me-my-project");
    assert_eq!(folder_name("/../../etc/\u{1b}x\n"), "-------etc--x-");
}

#[test]
fn pages_tell_the_whole_conversation_and_run_nothing() {
    for (tool, folder, name) in FILES {
        let file = archive(tool, &seed(folder, name));
        let html = exported(ExportForm::Html, &file);
        assert!(
            !html.contains("<script") && !html.contains("javascript:"),
            "{html}"
        );
        let markdown = exported(ExportForm::Markdown, &file);
        assert!(
            markdown.starts_with("# ") && markdown.contains("\n> "),
            "{markdown}"
        );
    }
    let file = archive(SourceTool::Claude, &seed("claude_file", "plain.jsonl"));
    let html = exported(ExportForm::Html, &file);
    for part in [
        "What is in a.txt?",
        "-hello",
        "+bye",
        "data:image/png;base64,iVBORw0KGgo=",
        "Done.",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let markdown = exported(ExportForm::Markdown, &file);
    for part in [
        "## User\n\n> What is in a.txt?\n",
        "## Agent\n\nI will read it.",
        "-hello\n+bye",
    ] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    let hostile = archive(SourceTool::Claude, &seed("claude_file", "hostile.jsonl"));
    let html = exported(ExportForm::Html, &hostile);
    assert!(
        html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{html}"
    );
    assert!(html.contains("<title>&lt;script&gt;alert(&quot;t&quot;)&lt;/script&gt;</title>"));
    let image = br#"{"type":"user","uuid":"u","sessionId":"s","cwd":"/","message":{"content":[
        {"type":"image","source":{"type":"base64","media_type":"image/svg+xml","data":"AAAA"}},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"\"><b>"}},
        {"type":"text","text":"hi"}]}}"#;
    let image: Vec<u8> = image
        .iter()
        .copied()
        .filter(|byte| *byte != b'\n')
        .collect();
    let html = exported(ExportForm::Html, &archive(SourceTool::Claude, &image));
    assert!(!html.contains("<img") && !html.contains("<b>"), "{html}");
}

#[test]
fn an_export_that_breaks_off_is_refused() {
    let file = archive(SourceTool::Claude, &seed("claude_file", "plain.jsonl"));
    let cut = &file[..file.len() / 2];
    for archive in [
        cut,
        b"",
        b"{}\n",
        b"{\"batonSession\":2,\"sessionId\":\"a\",\"events\":0}\n",
    ] {
        for form in ExportForm::ALL {
            let refused = export(form, &mut Cursor::new(archive), &mut Vec::new());
            assert!(refused.is_err(), "{form:?}");
        }
    }
}
