use baton_histories::{MAX_BRANCHES, SourceTool};
use serde_json::json;

use crate::told::{ToldFile, converted, seed};

fn told(name: &str) -> ToldFile {
    converted(SourceTool::Claude, &seed("claude_file", name)).expect("it is converted")
}

#[test]
fn every_kind_of_line_becomes_what_it_is() {
    let file = told("plain.jsonl");
    let [session] = file.sessions.as_slice() else {
        panic!("one session");
    };
    assert_eq!(
        (&*session.title, &*session.cwd),
        ("About a.txt", "/home/me/project")
    );
    assert!(session.live && session.branch.is_empty());
    let expected = [
        "begin",
        "user: What is in a.txt?",
        "thought: Let me look.",
        "agent: I will read it.",
        "call toolu_1 [read] Read: /home/me/project/a.txt",
        "result toolu_1 completed:      1\thello",
        "agent: It says hello.",
        "call toolu_2 [edit] Edit: /home/me/project/a.txt",
        "result toolu_2 completed: diff \"hello\" > \"bye\"",
        "call toolu_3 [think] TodoWrite",
        r#"plan [{"content":"rest","priority":"medium","status":"in_progress"}]"#,
        "result toolu_3 completed: Todos have been modified",
        "call toolu_4 [execute] Bash: false",
        "result toolu_4 failed: Exit code 1",
        "notice error: Overloaded",
        "agent: Done.",
        // Five messages: 180 tokens for the first, whose last line counts, and 135 for each other.
        "end end_turn 720 tokens",
        "begin",
        "user: And this picture?",
        "user: (\"image/png\" \"iVBORw0KGgo=\")",
        "agent: A dot.",
        "end max_tokens 135 tokens",
        "begin",
        "user: /cost now",
        "agent: Total: $1",
        "end end_turn",
        "begin",
        "user: Run it",
        "call toolu_5 [execute] Bash: sleep 100",
        "result toolu_5 failed: The user doesn't want to proceed",
        "end cancelled 135 tokens",
    ];
    assert_eq!(session.events, expected);
    let thought = &session.updates[1]["_meta"]["baton/history"];
    let origin = json!({
        "id": "a1", "at": "2026-05-01T10:00:04.000Z", "model": "claude-x", "signature": "c2ln",
    });
    assert_eq!(*thought, origin);
    let ids = session
        .updates
        .iter()
        .filter_map(|update| update["messageId"].as_str());
    let ids: Vec<&str> = ids.collect();
    assert_eq!(ids[..4], ["user-1", "msg_1", "msg_1", "msg_2"]);
    let report = &file.report;
    assert_eq!((report.turns, report.sessions, report.forks), (4, 1, 0));
    assert!(
        report.unknown.is_empty() && report.damaged.is_empty(),
        "{report:?}"
    );
    for kind in [
        "mode",
        "progress",
        "attachment",
        "user (not shown)",
        "system/turn_duration",
    ] {
        assert_eq!(report.left_out[kind], 1, "{kind}");
    }
    assert_eq!(report.left_out["assistant/redacted_thinking"], 1);
}

#[test]
fn a_rewind_is_a_fork_that_shares_what_came_before() {
    let file = told("rewinds.jsonl");
    let keys: Vec<_> = file
        .sessions
        .iter()
        .map(|it| (&*it.branch, it.fork.clone()))
        .collect();
    let shares = |with: &str, after| Some((with.to_owned(), after));
    let expected = [
        ("", None),
        ("u1b", None),
        ("u2b", shares("", 4)),
        ("u3b", shares("", 8)),
        ("a2c", shares("u2b", 4)),
    ];
    let mut sorted = expected.clone();
    sorted.sort();
    let mut found = keys.clone();
    found.sort();
    assert_eq!(found, sorted);
    let words = file.all_words("");
    assert_eq!(
        words,
        [
            "user: one",
            "agent: first",
            "user: two",
            "agent: second",
            "user: three",
            "agent: third"
        ]
    );
    let words = file.all_words("u3b");
    let last = [
        "user: three, again",
        "agent: third, again",
        "user: four",
        "agent: fourth",
    ];
    assert_eq!(words[2..4], ["user: two", "agent: second"]);
    assert_eq!(words[4..], last);
    assert_eq!(
        file.all_words("a2c"),
        [
            "user: one",
            "agent: first",
            "user: two, again",
            "agent: second, another try"
        ]
    );
    assert_eq!(
        file.all_words("u1b"),
        ["user: one, again", "agent: first, again"]
    );
    let live: Vec<&str> = file
        .sessions
        .iter()
        .filter(|session| session.live)
        .map(|session| &*session.branch)
        .collect();
    assert_eq!(live, ["u3b"]);
    assert_eq!(file.of("u3b").title, "three, again");
    assert_eq!(file.report.forks, 4);
}

#[test]
fn calls_in_parallel_are_no_branches() {
    let file = told("parallel.jsonl");
    let [session] = file.sessions.as_slice() else {
        panic!("one session");
    };
    let mut events = session.events.clone();
    events.sort();
    let mut expected = [
        "begin",
        "user: both",
        "call t1 [execute] Bash: one",
        "call t2 [execute] Bash: two",
        "result t1 completed: 1",
        "result t2 completed: 2",
        "agent: both done",
        "end end_turn 270 tokens",
    ];
    expected.sort();
    assert_eq!(events, expected);
}

#[test]
fn what_was_before_a_compaction_stays() {
    let file = told("compact.jsonl");
    let [session] = file.sessions.as_slice() else {
        panic!(
            "one session: {:?}",
            file.sessions
                .iter()
                .map(|it| &it.branch)
                .collect::<Vec<_>>()
        );
    };
    let told: Vec<&String> = session
        .events
        .iter()
        .filter(|event| !event.starts_with("begin") && !event.starts_with("end"))
        .collect();
    let expected = [
        "user: long story",
        "agent: of long ago",
        "user: go on",
        "agent: I do",
        "compaction b1 ",
        "compaction b1 This session is being continued. Summary: a story",
        "user: and then?",
        "agent: the end",
        "compaction b2 ",
        "compaction b2 Summary: all of it",
        "user: once more",
        "agent: no",
    ];
    assert_eq!(told, expected);
    let preserved = session
        .updates
        .iter()
        .find(|update| update["compactionId"] == "b1");
    let preserved = &preserved.unwrap()["_meta"]["baton/history"]["preserved"];
    assert_eq!(*preserved, json!(["u2", "a2"]));
}

#[test]
fn subagents_are_sessions_of_their_own() {
    let file = told("sidechains.jsonl");
    let titles: Vec<_> = file
        .sessions
        .iter()
        .map(|it| (&*it.branch, &*it.title))
        .collect();
    assert_eq!(
        titles,
        [
            ("", "delegate"),
            ("s1", "Subagent: Look around"),
            ("s3", "Subagent: Another one")
        ]
    );
    assert!(file.sessions[0].live);
    let words = file.all_words("");
    assert_eq!(words, ["user: delegate", "agent: all seen"]);
    assert_eq!(
        file.all_words("s1"),
        ["user: Look around", "agent: I looked"]
    );
    assert_eq!(file.sessions[1].fork, None);
}

#[test]
fn damage_is_told_by_line_and_the_rest_comes_through() {
    let file = told("damage.jsonl");
    let damaged = &file.report.damaged;
    let once = [
        "NUL bytes",
        "invalid UTF-8",
        "no JSON",
        "half a line",
        "uuid twice",
        "no uuid",
        "parent is missing",
        "circle of parents",
        "outside of any conversation",
    ];
    for kind in once {
        assert_eq!(damaged.get(kind), Some(&1), "{kind}: {damaged:?}");
    }
    assert_eq!(damaged["JSON of another shape"], 2);
    let unknown = &file.report.unknown;
    for kind in ["from-tomorrow", "system/of_tomorrow", "assistant/hologram"] {
        assert_eq!(unknown.get(kind), Some(&1), "{kind}: {unknown:?}");
    }
    let told: Vec<String> = file
        .report
        .notes
        .iter()
        .map(|note| format!("{} {}", note.line, note.what))
        .collect();
    assert!(
        told.contains(&"13 unknown kind \"from-tomorrow\"".to_owned()),
        "{told:#?}"
    );
    assert!(
        told.iter().any(|note| note.starts_with("22 half a line: ")),
        "{told:#?}"
    );
    let words = file.all_words("");
    assert_eq!(
        words,
        [
            "user: start",
            "agent: yes",
            "user: after a gap",
            "agent: still here",
            "user: no id",
        ]
    );
    let words = file.all_words("ft");
    assert_eq!(
        words[4..],
        ["user: below something unknown", "user: an odd id"]
    );
    assert_eq!(
        file.all_words("k1"),
        ["user: circle", "agent: round", "user: and round"]
    );
    for update in file.sessions.iter().flat_map(|session| &session.updates) {
        for name in ["messageId", "toolCallId"] {
            let name = update[name].as_str().unwrap_or("none");
            assert!(name.chars().all(|c| c.is_ascii_graphic()), "{update}");
        }
    }
}

#[test]
fn a_file_without_a_conversation_brings_no_session() {
    let file = told("no-conversation.jsonl");
    assert!(file.sessions.is_empty());
    assert_eq!(file.report.left_out["summary"], 1);
    for nothing in [&b""[..], b"\n\n", b"hello", b"{}", b"{\"type\":\"odd\"}"] {
        assert!(
            converted(SourceTool::Claude, nothing).is_err(),
            "{nothing:?}"
        );
    }
}

#[test]
fn hostile_names_stay_names() {
    let file = told("hostile.jsonl");
    let session = &file.sessions[0];
    assert_eq!(session.title, "<script>alert(\"t\")</script>");
    assert_eq!(session.cwd, "C:\\Users\\me");
}

#[test]
fn what_is_added_later_leaves_earlier_branches_alone() {
    let whole = seed("claude_file", "rewinds.jsonl");
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let mut before: Vec<(String, Vec<String>)> = Vec::new();
    for end in 1..=lines.len() {
        let file = converted(SourceTool::Claude, &lines[..end].concat()).unwrap();
        for (branch, _) in &before {
            assert!(
                file.sessions.iter().any(|it| it.branch == *branch),
                "{branch} at {end}"
            );
        }
        before = file
            .sessions
            .iter()
            .map(|it| (it.branch.clone(), file.all_words(&it.branch)))
            .collect();
    }
}

#[test]
fn many_branches_are_bounded() {
    let line = |kind: &str, uuid: &str, parent: Option<&str>, text: &str| {
        json!({
            "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/",
            "message": { "content": text },
        })
    };
    let mut file = format!("{}\n", line("user", "u", None, "one"));
    file += &format!("{}\n", line("assistant", "a", Some("u"), "answer"));
    for at in 0..MAX_BRANCHES + 20 {
        file += &format!("{}\n", line("user", &format!("u{at}"), Some("a"), "again"));
    }
    let told = converted(SourceTool::Claude, file.as_bytes()).unwrap();
    assert_eq!(told.sessions.len(), MAX_BRANCHES);
    assert_eq!(told.report.damaged["branch left out"], 20);
    // A turn that all of them have in part is not copied without end.
    let mut file = format!("{}\n", line("user", "u", None, "one"));
    for at in 0..200 {
        let parent = if at == 0 {
            "u".into()
        } else {
            format!("a{}", at - 1)
        };
        file += &format!(
            "{}\n",
            line("assistant", &format!("a{at}"), Some(&parent), "more")
        );
    }
    for at in 0..400 {
        file += &format!(
            "{}\n",
            line("assistant", &format!("b{at}"), Some("a199"), "other")
        );
    }
    let told = converted(SourceTool::Claude, file.as_bytes()).unwrap();
    assert!(told.report.events < 600 * 6, "{}", told.report.events);
    assert!(told.report.damaged["branch left out"] > 300);
}

#[test]
fn a_long_chain_of_rewinds_is_one_fork_after_another() {
    let mut file = String::new();
    let mut parent: Option<String> = None;
    for at in 0..200 {
        for (kind, uuid, parent) in [
            ("user", format!("x{at}"), parent.clone()),
            ("user", format!("u{at}"), parent.clone()),
            ("assistant", format!("a{at}"), Some(format!("u{at}"))),
        ] {
            let line = json!({
                "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/",
                "message": { "content": uuid },
            });
            file += &format!("{line}\n");
        }
        parent = Some(format!("a{at}"));
    }
    let told = converted(SourceTool::Claude, file.as_bytes()).unwrap();
    let words = told.all_words("u199");
    assert_eq!(words.len(), 400);
    assert_eq!(words[..2], ["user: u0", "agent: a0"]);
    let depth = |mut branch: String| {
        let mut depth = 0;
        while let Some((with, _)) = told.of(&branch).fork.clone() {
            (branch, depth) = (with, depth + 1);
        }
        depth
    };
    let deepest = told
        .sessions
        .iter()
        .map(|it| depth(it.branch.clone()))
        .max();
    assert!(deepest <= Some(60), "{deepest:?}");
}
