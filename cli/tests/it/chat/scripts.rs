//! One prompt and its end, for scripts.

use super::typist::{chat, ended, seen, start};
use crate::support::Served;
use crate::support::cluster::url;
use crate::support::process::free_port;
use crate::support::sse::counted;

#[tokio::test]
async fn a_prompt_prints_the_agents_words_and_nothing_else() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let ended = chat(&[&baton.url(), "--prompt", "hello there"], &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.said, "hello there \n");
    let ended = chat(&[&baton.url(), "--prompt", "one\n/think\n/tool\ntwo"], &[]).await;
    assert_eq!(ended.said, "one \ntwo \n", "{ended:?}");
    assert!(ended.errors.contains("thinking it over"), "{ended:?}");
    assert!(ended.errors.contains("[completed] A tool"), "{ended:?}");
}

#[tokio::test]
async fn what_comes_between_two_words_does_not_break_them() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let prompt = "wor\n/title a title\n/usage\nds";
    let ended = chat(&[&baton.url(), "--prompt", prompt], &[]).await;
    assert_eq!(ended.said, "wor ds \n", "{ended:?}");
    assert!(ended.errors.contains("· title: a title\n"), "{ended:?}");
    assert!(ended.errors.contains("· context: "), "{ended:?}");
}

#[tokio::test]
async fn what_was_said_before_is_not_printed_again() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let began = chat(&[&baton.url()], &["the past"]).await;
    let session = began.session();
    let again = ["--session", &session, "--prompt", "now"];
    let ended = chat(&[&[baton.url().as_str()], &again[..]].concat(), &[]).await;
    assert_eq!(ended.said, "now \n", "{ended:?}");
    assert!(!ended.errors.contains("the past"), "{ended:?}");
}

#[tokio::test]
async fn the_exit_code_says_how_the_turn_ended() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    for (prompt, code, text) in [
        ("/refuse", 2, "refused"),
        ("/stop max_tokens", 3, "max_tokens"),
        ("/stop cancelled", 130, "cancelled"),
        ("/fail", 1, "the script said /fail"),
    ] {
        let ended = chat(&[&baton.url(), "--prompt", prompt], &[]).await;
        assert_eq!(ended.code, Some(code), "{prompt}: {ended:?}");
        assert!(ended.errors.contains(text), "{prompt}: {ended:?}");
    }
    let nowhere = url(free_port());
    let ended = chat(&[&nowhere, "--give-up", "1s", "--prompt", "hello"], &[]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.errors.contains("could not be reached"), "{ended:?}");
    let ended = chat(&["ftp://example.com", "--prompt", "hello"], &[]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let prompt = "/count 100000 delay=50";
    let mut child = start(&[&baton.url(), "--prompt", prompt]);
    seen(&mut child.stdout, "chunk 2 ").await;
    interrupt(child.id().expect("it runs"));
    let ended = ended(child).await;
    assert_eq!(ended.code, Some(130), "{ended:?}");
    // The turn is over on the other side as well, and not only here.
    let session = ended.session();
    let again = chat(
        &[&baton.url(), "--session", &session, "--prompt", "hello"],
        &[],
    )
    .await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.said.ends_with("hello \n"), "{again:?}");
}

fn interrupt(process: u32) {
    let sent = std::process::Command::new("kill")
        .args(["-INT", &process.to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_mentioned_and_no_word_is_lost() {
    let mut baton = Served::start().await;
    let mut child = start(&[&baton.url(), "--prompt", "/count 20 delay=100"]);
    let before = seen(&mut child.stdout, "chunk 2 ").await;
    baton.process.kill();
    seen(&mut child.stderr, "reconnecting").await;
    baton.kill_and_restart().await;
    let ended = ended(child).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(before + &ended.said, counted(20, 1).concat() + "\n");
}

#[tokio::test]
async fn where_nobody_can_answer_nothing_is_allowed() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let ended = chat(&[&baton.url(), "--prompt", "/permission"], &[]).await;
    assert_eq!(ended.said, "permission reject_once \n", "{ended:?}");
    let ended = chat(&[&baton.url(), "--prompt", "/permission"], &["a"]).await;
    assert_eq!(ended.said, "permission allow_once \n", "{ended:?}");
}
