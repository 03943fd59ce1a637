//! A real terminal, as far as `baton chat` can tell: `script` makes one, keys go in and what is shown comes out.

use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::typist::{self, chat, ended, seen};
use crate::support::{Served, within};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
/// The line editor says so to the terminal when it begins to read.
const READY: &str = "\x1b[?2004h";

struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    /// What was shown and not looked for yet.
    shown: String,
}

impl Terminal {
    /// With variables for it.
    fn start(url: &str, variables: &str) -> Self {
        let baton = env!("CARGO_BIN_EXE_baton");
        Self::run(&format!("{variables} exec {baton} chat {url}"))
    }

    fn run(command: &str) -> Self {
        let command = format!("stty rows 24 cols 80; {command}");
        let mut child = Command::new("script")
            .args(["-qfec", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("script runs: `make setup` installs what tests need");
        Self {
            keys: child.stdin.take().expect("a pipe"),
            screen: child.stdout.take().expect("a pipe"),
            child,
            shown: String::new(),
        }
    }

    async fn press(&mut self, keys: &str) {
        let pressed = self.keys.write_all(keys.as_bytes()).await;
        pressed.expect("it reads");
    }

    /// Waits for this, and returns what was shown before it.
    async fn see(&mut self, text: &str) -> String {
        let mut piece = [0; 4096];
        within(text, async {
            loop {
                if let Some(at) = self.shown.find(text) {
                    let rest = self.shown.split_off(at + text.len());
                    return std::mem::replace(&mut self.shown, rest);
                }
                let read = self.screen.read(&mut piece).await.expect("a pipe");
                assert!(read > 0, "ended before {text:?}: {:?}", self.shown);
                self.shown += &String::from_utf8_lossy(&piece[..read]);
            }
        })
        .await
    }

    async fn code(mut self) -> Option<i32> {
        within("the terminal is closed", self.child.wait())
            .await
            .expect("a status")
            .code()
    }
}

#[tokio::test]
async fn a_conversation_in_a_terminal() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let mut terminal = Terminal::start(&baton.url(), "");
    terminal.see("/help").await;
    terminal.see(READY).await;
    terminal.press("hello you\r").await;
    terminal.see("\nhello you ").await;

    // What is typed while the agent speaks is shown when it has finished.
    terminal.see(READY).await;
    terminal.press("/count 20 delay=50\r").await;
    terminal.see("chunk 2 of 20").await;
    terminal.press("ahead").await;
    let said = terminal.see("chunk 20 of 20, prompt 2 ").await;
    assert!(!said.contains("ahead"), "{said:?}");
    terminal.see(READY).await;
    terminal.press(" of time\r").await;
    terminal.see("\nahead of time ").await;

    terminal.see(READY).await;
    terminal.press("/permission\r").await;
    terminal.see("Always allow").await;
    terminal.see(READY).await;
    terminal.press("l\r").await;
    terminal.see("permission allow_always").await;

    // Ctrl-C ends the turn, and the conversation goes on.
    terminal.see(READY).await;
    terminal.press("/count 100000 delay=50\r").await;
    terminal.see("chunk 2 of 100000").await;
    terminal.press(CTRL_C).await;
    terminal.see("cancelled").await;

    // It cancels a question, too.
    terminal.see(READY).await;
    terminal.press("/permission\r").await;
    terminal.see("Always allow").await;
    terminal.see(READY).await;
    terminal.press(CTRL_C).await;
    terminal.see("cancelled").await;

    terminal.see(READY).await;
    terminal.press("/fail\r").await;
    terminal.see("the script said /fail").await;
    terminal.see(READY).await;
    terminal.press(CTRL_D).await;
    assert_eq!(terminal.code().await, Some(0));
}

#[tokio::test]
async fn what_others_do_is_shown_above_the_line_that_is_being_typed() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let mut terminal = Terminal::start(&baton.url(), "");
    terminal.see("new session: ").await;
    let session = terminal.see("\x1b").await;
    let session = session.trim_end_matches('\x1b');
    terminal.see(READY).await;
    terminal.press("half").await;
    terminal.see("f").await;
    let other = [&baton.url(), "--session", session, "--prompt", "/count 2"];
    assert_eq!(chat(&other, &[]).await.code, Some(0));
    terminal.see("/count 2").await;
    terminal
        .see("chunk 1 of 2, prompt 1 chunk 2 of 2, prompt 1")
        .await;
    terminal.press(" and half\r").await;
    terminal.see("\nhalf and half ").await;
    terminal.see(READY).await;
    // A line that is thrown away is no wish to leave.
    terminal.press("never mind").await;
    terminal.press(CTRL_C).await;
    terminal.see(READY).await;
    terminal.press(CTRL_C).await;
    terminal.see("again").await;
    terminal.see(READY).await;
    terminal.press(CTRL_C).await;
    assert_eq!(terminal.code().await, Some(0));
}

#[tokio::test]
async fn whoever_takes_a_session_over_is_asked_what_is_open() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    let url = baton.url();
    let mut first = typist::start(&[&url, "--prompt", "/permission"]);
    let asked = seen(&mut first.stderr, "Reject").await;
    let (_, session) = asked.split_once("session: ").expect("a session");
    let session = session.lines().next().expect("its id");
    let mut terminal = Terminal::start(&format!("{url} --session {session}"), "");
    terminal.see("Always allow").await;
    terminal.press("1\r").await;
    terminal.see("permission allow_once").await;
    let first = ended(first).await;
    assert_eq!(first.said, "permission allow_once \n", "{first:?}");
    assert!(first.errors.contains("settled"), "{first:?}");
}

#[tokio::test]
async fn sigterm_leaves_the_terminal_as_it_was() {
    let served = Served::start_with(&["--ephemeral"]).await;
    let url = served.url();
    let baton = env!("CARGO_BIN_EXE_baton");
    let chat = format!("sh -c 'echo chat is $$; exec {baton} chat {url}'");
    let dir = TempDir::new().expect("a temporary directory");
    let dir = dir.path().display();
    let mut terminal = Terminal::run(&format!(
        "cd {dir}; stty -a > before; {chat}; stty -a > after; cmp before after"
    ));
    terminal.see("chat is ").await;
    let process = terminal.see("\n").await;
    terminal.see(READY).await;
    let sent = std::process::Command::new("kill")
        .args(["-TERM", process.trim()])
        .status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(terminal.code().await, Some(0));
}

#[tokio::test]
async fn there_are_colours_unless_nobody_wants_them() {
    const DIM: &str = "\x1b[2m";
    let baton = Served::start_with(&["--ephemeral"]).await;
    for (variable, are_there) in [("", true), ("NO_COLOR=1", false)] {
        let mut terminal = Terminal::start(&baton.url(), variable);
        let shown = terminal.see("/help").await;
        assert_eq!(shown.contains(DIM), are_there, "{shown:?}");
        terminal.see(READY).await;
        terminal.press("/quit\r").await;
        assert_eq!(terminal.code().await, Some(0));
    }
}
