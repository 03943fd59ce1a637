//! Lines that begin with a slash.

use super::typist::chat;
use crate::support::Served;

#[tokio::test]
async fn modes_models_and_options_are_listed_and_changed() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let lines = [
        "/mode",
        "/mode ask",
        "/model large",
        "/model",
        "/config verbose true",
        "/config verbose",
    ];
    let ended = chat(&[&baton.url()], &lines).await;
    let expected = "    ask  Ask
  * code  Code
    architect  Architect
· mode: ask
· model: large
model
    small
    medium
  * large
· verbose: true
verbose
  * true
    false
";
    assert_eq!(ended.after_opening(), expected, "{ended:?}");
    let ended = chat(&[&baton.url()], &["/mode nothing"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("architect"), "{ended:?}");
}

#[tokio::test]
async fn help_lists_our_commands_and_the_agents() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let ended = chat(&[&baton.url()], &["/commands", "/help"]).await;
    for part in ["/sessions ", "/fork ", "the /plan directive", "one slash"] {
        assert!(ended.said.contains(part), "{part}: {ended:?}");
    }
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let began = chat(&[&baton.url()], &["//title the first", "hello"]).await;
    let first = began.session();
    let url = baton.url();
    let forked = chat(
        &[&url, "--session", &first],
        &["/fork", "goodbye", "/title"],
    )
    .await;
    let second = forked.session();
    assert_ne!(first, second);
    let title = format!("· the first; session {second}\n");
    assert!(forked.said.ends_with(&title), "{forked:?}");

    // Both are in the list, after the one that has just begun, and can be gone back to by number.
    let listed = chat(&[&url], &["/sessions", "/load 2", "/load 3"]).await;
    let listed = listed.after_opening();
    let (list, shown) = listed.split_once("· /load NUMBER").expect("a list");
    let place = |id: &str| {
        list.lines()
            .position(|line| line.contains(id))
            .expect("listed")
    };
    assert_eq!(place(&second) + 1, place(&first), "{list}");
    let (_, shown) = shown.split_once('\n').expect("more");
    let of_second = format!("> hello\nhello \n> goodbye\ngoodbye \n· session: {second}\n");
    assert!(shown.contains(&of_second), "{shown}");
    let of_first = format!("· title: the first\n> hello\nhello \n· session: {first}\n");
    assert!(shown.ends_with(&of_first), "{shown}");
}

#[tokio::test]
async fn a_session_goes_on_wherever_it_is_loaded_from() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    let began = chat(&[&url, "--cwd", "/somewhere"], &["hello\\", "you"]).await;
    let session = began.session();
    let again = chat(
        &[&url, "--cwd", "/elsewhere", "--session", &session],
        &["/count 1"],
    )
    .await;
    let expected =
        format!("> hello\n> you\nhello you \n· session: {session}\nchunk 1 of 1, prompt 2 \n");
    assert_eq!(again.said, expected, "{again:?}");
    let other = chat(&[&url, "--session", &session], &["/new", "/count 1"]).await;
    assert_ne!(other.session(), session);
    assert!(
        other.said.ends_with("chunk 1 of 1, prompt 1 \n"),
        "{other:?}"
    );
}
