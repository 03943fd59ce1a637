//! The file: killed processes, rotation, tampering, full disks.

use super::*;

#[tokio::test]
async fn audit_goes_on_after_a_kill_and_notices_a_torn_line() {
    let guarded = audited(&[]).await;
    let path = log_of(&guarded);
    for _ in 0..5 {
        guarded.open(A).await;
    }
    // Killed in the middle of it all.
    let guarded = guarded.again(&ARGUMENTS).await;
    line(&path, "log_resumed", |line| line["torn"] == 0).await;
    let before = lines(&path).len();
    assert!(before >= 3, "{before}");
    let Guarded {
        mut process, dir, ..
    } = guarded;
    process.kill();
    assert_whole(&[&path]);
    // As if it had been killed in the middle of a line.
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 30]).unwrap();
    let torn = verify(&[], &[&path]);
    assert_eq!(torn.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&torn.stderr).contains("torn"));
    let guarded = Guarded::start_in(dir, &ARGUMENTS, |_| ()).await;
    line(&path, "log_resumed", |line| line["torn"].as_u64() > Some(0)).await;
    guarded.open(A).await;
    until("it is said", async || {
        guarded.process.output().contains("torn").then_some(())
    })
    .await;
    let Guarded { mut process, .. } = guarded;
    process.signal("TERM");
    process.exit_status().await;
    assert_whole(&[&path]);
}

#[tokio::test]
async fn audit_notices_what_was_changed_removed_swapped_or_added() {
    let mut guarded = audited(&[]).await;
    let path = log_of(&guarded);
    for key in [A, B] {
        guarded.open(key).await.new_session().await;
    }
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;
    assert_whole(&[&path]);
    let text = fs::read_to_string(&path).unwrap();
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    assert!(all.len() >= 5, "{text}");
    let changed = all[2].replacen("key:", "kez:", 1);
    assert_ne!(changed, all[2]);
    let tampered: [(&str, Vec<&str>, usize); 5] = [
        ("changed", [&all[..2], &[&changed], &all[3..]].concat(), 4),
        ("removed", [&all[..2], &all[3..]].concat(), 3),
        ("beheaded", all[1..].to_vec(), 1),
        (
            "swapped",
            [&all[..2], &[all[3], all[2]], &all[4..]].concat(),
            3,
        ),
        ("added", [&all[..3], &[all[2]], &all[3..]].concat(), 4),
    ];
    for (what, lines, at) in tampered {
        fs::write(&path, lines.concat()).unwrap();
        let output = verify(&[], &[&path]);
        assert_eq!(output.status.code(), Some(1), "{what}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("line {at}:")), "{what}: {said}");
    }
    // A tail that was cut off is known by what the process's log has said.
    let output = guarded.process.output();
    let (_, head) = output.rsplit_once("head=").expect("it was told");
    let head: String = head.chars().filter(|c| *c != '"').take(64).collect();
    fs::write(&path, all.concat()).unwrap();
    assert!(verify(&["--head", &head], &[&path]).status.success());
    fs::write(&path, all[..all.len() - 1].concat()).unwrap();
    assert_whole(&[&path]);
    let cut = verify(&["--head", &head], &[&path]);
    assert_eq!(cut.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&cut.stderr).contains("cut off"));
}

#[tokio::test]
async fn audit_goes_on_in_the_next_file_when_one_is_moved_away() {
    let mut guarded = audited(&[]).await;
    let path = log_of(&guarded);
    guarded.open(A).await;
    line(&path, "connection_opened", |_| true).await;
    let old = guarded.dir.path().join("audit.log.1");
    fs::rename(&path, &old).unwrap();
    guarded.open(B).await;
    let first = line(&path, "log_continued", |_| true).await;
    line(&path, "connection_opened", |line| {
        line["principal"] == "key:bob"
    })
    .await;
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;
    assert_whole(&[&old, &path]);
    assert_whole(&[&path]);
    let said = verify(&[], &[&path]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(first["prev"].as_str().unwrap()), "{said}");
    assert_eq!(verify(&[], &[&path, &old]).status.code(), Some(1));
}

#[tokio::test]
async fn audit_on_a_full_disk_stops_nobody_and_is_counted() {
    let arguments = [&ARGUMENTS[..4], &["--audit-log", "/dev/full"]].concat();
    let keys = [("alice", A), ("bob", B)];
    let guarded = Guarded::start(&arguments, |dir| write_keys(dir, &keys)).await;
    guarded.open(A).await.new_session().await;
    let lost = until("lines are lost", async || {
        let page = metrics::page(&guarded.url).await;
        let lost = metrics::value(&page, "baton_audit_lost_total");
        (lost > 0.0).then_some(lost)
    })
    .await;
    assert!(lost >= 1.0);
    guarded.open(B).await.new_session().await;
    assert!(guarded.process.output().contains("lines were dropped"));
}

#[tokio::test]
async fn audit_refusals_of_strangers_are_rationed() {
    let mut guarded = audited(&[]).await;
    let path = log_of(&guarded);
    let http = reqwest::Client::new();
    for _ in 0..400 {
        let answer = http.get(&guarded.url).bearer_auth("nobody").send().await;
        assert_eq!(answer.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    guarded.open(A).await.new_session().await;
    guarded.process.signal("TERM");
    guarded.process.exit_status().await;
    let all = lines(&path);
    let refused = all
        .iter()
        .filter(|line| line["decision"] == "refused")
        .count();
    assert!((100..300).contains(&refused), "{refused}");
    assert!(all.iter().any(|line| line["decision"] == "session_created"));
}
