//! What is said, by lines from a pipe.

use super::typist::chat;
use crate::support::Served;

#[tokio::test]
async fn each_line_is_a_turn_and_each_kind_of_update_is_shown() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let lines = [
        "hello",
        "",
        "/think",
        "/tool",
        "/plan",
        "/usage",
        "/commands",
        "two \\",
        "lines",
        "//title A title",
        "//mode ask",
    ];
    let ended = chat(&[&baton.url()], &lines).await;
    let expected = "\
hello 
thinking it over 
[in progress] A tool that does nothing
[completed] A tool that does nothing
Plan
  [x] look
  [ ] act
· context: 5000 of 200000 tokens
· the agent's commands: /count /permission /tool /plan /think
two lines 
· title: A title
· mode: ask
";
    assert_eq!(ended.after_opening(), expected, "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn what_the_agent_asks_takes_the_next_line() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let lines = [
        "/permission",
        "maybe",
        "2",
        "/elicit",
        "Ada",
        "/permission",
        "r",
    ];
    let ended = chat(&[&baton.url()], &lines).await;
    let said = ended.after_opening();
    for part in [
        "Permission: Something that needs permission\n  1 or a  Allow\n  2 or l  Always allow\n  \
         3 or r  Reject\n",
        "number from 1 to 3",
        "permission allow_always \n",
        "What is your name?",
        "elicitation accept Ada \n",
        "[failed] Something that needs permission\npermission reject_once \n",
    ] {
        assert!(said.contains(part), "{part}: {ended:?}");
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn the_first_thing_that_goes_wrong_ends_a_script() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let ended = chat(&[&baton.url()], &["one", "/refuse", "two"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(ended.after_opening(), "one \n", "{ended:?}");
    let ended = chat(&[&baton.url()], &["/load nobody", "two"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ended.said.contains("two"), "{ended:?}");
}

#[tokio::test]
async fn what_a_terminal_would_obey_is_only_shown() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let chunk = r#"/update {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\u001b[31mb\u0007"}}"#;
    let tool = r#"/update {"sessionUpdate":"tool_call","toolCallId":"t","title":"x\u001b]0;y\nz","status":"pending"}"#;
    let ended = chat(&[&baton.url()], &[chunk, tool]).await;
    let expected = "a\\u{1b}[31mb\\u{7}\n[pending] x\\u{1b}]0;y z\n";
    assert_eq!(ended.after_opening(), expected, "{ended:?}");
}
