use baton_histories::SourceTool;

use crate::told::{converted, seed};

#[test]
fn a_rollout_is_told_once_although_it_is_there_twice() {
    let file = converted(SourceTool::Codex, &seed("codex_file", "rollout.jsonl")).unwrap();
    let [session] = file.sessions.as_slice() else {
        panic!("one session");
    };
    assert_eq!(
        (&*session.title, &*session.cwd),
        ("Fix a.txt", "/home/me/project")
    );
    let expected = [
        "begin",
        "user: Fix a.txt",
        "user: (\"image/png\" \"AAAA\")",
        "thought: Thinking",
        "call call_1 [execute] shell: cat a.txt",
        "result call_1 completed: old",
        "call call_2 [edit] apply_patch",
        "result call_2 completed: ",
        "call call_3 [think] update_plan",
        r#"plan [{"content":"fix","priority":"medium","status":"completed"},{"content":"rest","priority":"medium","status":"pending"}]"#,
        "result call_3 completed: Plan updated",
        "call message-3 [fetch] web_search: a.txt",
        "result message-3 completed: ",
        "call call_4 [execute] shell",
        "result call_4 failed: failed to parse",
        "agent: Fixed.",
        "compaction compaction-26 Summary: it was fixed",
        "end end_turn 100 tokens",
        "begin",
        "user: Now wait",
        "call call_5 [execute] local_shell: sleep 9",
        "call mine [execute] exec_command: ls",
        "result mine completed: a.txt",
        "notice error: Out of luck",
        "notice info: The last 1 turns were taken back",
        "- call_5 failed",
        "end cancelled",
    ];
    let mut events = session.events.clone();
    let failed = events
        .iter_mut()
        .find(|event| event.starts_with("result call_5 failed"));
    *failed.expect("it has failed") = "- call_5 failed".into();
    assert_eq!(events, expected);
    let patch = session
        .updates
        .iter()
        .find(|update| update["toolCallId"] == "call_2")
        .unwrap();
    assert_eq!(patch["content"][0]["newText"], "new");
    let thought = &session.updates[2]["_meta"]["baton/history"];
    assert_eq!(
        (&thought["id"], &thought["model"]),
        (&"rs_1".into(), &"gpt-x".into())
    );
    let report = &file.report;
    for kind in [
        "event_msg/agent_message",
        "event_msg/exec_command_begin",
        "message/developer",
    ] {
        assert_eq!(
            report.left_out.get(kind),
            Some(&1),
            "{kind}: {:?}",
            report.left_out
        );
    }
    for kind in [
        "response_item/of_tomorrow",
        "event_msg/odd_event",
        "from_tomorrow",
    ] {
        assert_eq!(
            report.unknown.get(kind),
            Some(&1),
            "{kind}: {:?}",
            report.unknown
        );
    }
    assert_eq!(report.damaged["half a line"], 1);
    assert_eq!(report.lines, 38);
}

#[test]
fn rollouts_of_the_first_versions_are_read_too() {
    let file = converted(
        SourceTool::Codex,
        &seed("codex_file", "first-version.jsonl"),
    )
    .unwrap();
    assert_eq!(file.all_words(""), ["user: <b>hi</b>", "agent: hello"]);
    let damaged = &file.report.damaged;
    assert_eq!(damaged["NUL bytes"], 1, "{damaged:?}");
    assert_eq!(damaged["JSON of another shape"], 2, "{damaged:?}");
    assert_eq!(damaged["invalid UTF-8"], 1, "{damaged:?}");
    for nothing in [&b""[..], b"hello", b"{}\n"] {
        assert!(converted(SourceTool::Codex, nothing).is_err());
    }
}
