use baton_histories::SourceTool;

use crate::told::{converted, seed};

#[test]
fn an_export_of_goose_is_told_in_turns() {
    let file = converted(SourceTool::Goose, &seed("goose_file", "export.json")).unwrap();
    let [session] = file.sessions.as_slice() else {
        panic!("one session");
    };
    assert_eq!(
        (&*session.title, &*session.cwd),
        ("About a.txt", "/home/me/project")
    );
    let expected = [
        "begin",
        "user: What is in a.txt?",
        "user: (\"image/png\" \"AAAA\")",
        "thought: Hm",
        "agent: I look.",
        "call c1 [execute] developer__shell: cat a.txt",
        "call c2 [other] tool",
        "result c2 failed: no such tool",
        "result c1 completed: hello",
        "call c3 [edit] developer__text_editor: str_replace",
        "result c3 completed: ",
        "compaction m7 ",
        "notice info: A notice",
        "agent: Done.",
        "end end_turn",
        "begin",
        "user: Thanks",
        "end end_turn",
    ];
    assert_eq!(session.events, expected);
    let edit = session
        .updates
        .iter()
        .find(|update| update["toolCallId"] == "c3")
        .unwrap();
    assert_eq!(edit["content"][0]["newText"], "bye");
    assert_eq!(edit["_meta"]["baton/history"]["at"], "2026-05-01T10:00:03Z");
    let report = &file.report;
    assert_eq!(report.left_out["message (not shown)"], 1);
    assert_eq!(report.left_out["toolResponse/content for the user"], 1);
    for kind in ["hologram", "role robot"] {
        assert_eq!(
            report.unknown.get(kind),
            Some(&1),
            "{kind}: {:?}",
            report.unknown
        );
    }
    assert_eq!(report.damaged["a message without content"], 1);
}

#[test]
fn an_export_of_opencode_is_told_in_turns() {
    let file = converted(SourceTool::Opencode, &seed("opencode_file", "export.json")).unwrap();
    let [session] = file.sessions.as_slice() else {
        panic!("one session");
    };
    assert_eq!(
        (&*session.title, &*session.cwd),
        ("About a.txt", "/home/me/project")
    );
    let expected = [
        "begin",
        "user: What is in a.txt?",
        "user: (\"image/png\" \"AAAA\")",
        "thought: Hm",
        "agent: I look.",
        "call c1 [read] read: /a.txt",
        "result c1 completed: hello",
        "call c2 [edit] edit: /a.txt",
        "result c2 completed: ",
        "call c3 [execute] bash: false",
        "result c3 failed: exit 1",
        "call c4 [think] todowrite",
        r#"plan [{"content":"rest","priority":"high","status":"pending"}]"#,
        "result c4 completed: []",
        "call c5 [execute] bash: sleep 9",
        "result c5 failed: ",
        "end end_turn 21 tokens",
        "begin",
        "user: More",
        "compaction msg_4 A summary",
        "agent: I was",
        "end cancelled",
        "begin",
        "user: Again",
        "notice warning: Try again",
        "notice error: Overloaded",
        "end end_turn",
    ];
    assert_eq!(session.events, expected);
    let report = &file.report;
    for kind in ["hologram", "role robot"] {
        assert_eq!(
            report.unknown.get(kind),
            Some(&1),
            "{kind}: {:?}",
            report.unknown
        );
    }
    assert_eq!(report.left_out["text (not shown)"], 1);
    assert_eq!(report.damaged["a message without parts"], 1);
    let turned = seed("opencode_file", "turned.json");
    let turned = converted(SourceTool::Opencode, &turned).unwrap();
    assert_eq!(turned.sessions[0].title, "About a.txt");
}

#[test]
fn of_a_document_that_breaks_off_the_beginning_is_kept() {
    for (tool, folder, turns) in [
        (SourceTool::Goose, "goose_file", 1),
        (SourceTool::Opencode, "opencode_file", 2),
    ] {
        let file = converted(tool, &seed(folder, "cut.json")).unwrap();
        assert_eq!(file.report.damaged["the document breaks off"], 1);
        assert_eq!(file.report.turns, turns, "{folder}");
        for nothing in [
            &b""[..],
            b"{}",
            b"[]",
            b"5",
            b"{\"messages\":{}}",
            b"\xff\x00",
        ] {
            assert!(converted(tool, nothing).is_err(), "{nothing:?}");
        }
    }
}
