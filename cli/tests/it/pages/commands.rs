//! Commands on the pages do what the pages say. Those that need a container engine or a cluster have tests of their own
//! (`scripts/deploy-test`, `scripts/check-charts`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::markdown::code_blocks;
use super::{pages, project, read};

pub const BATON: &str = env!("CARGO_BIN_EXE_baton");

/// A shell, and everything that it has started; all of it ends with the test.
pub struct Shell(Child, PathBuf);

impl Shell {
    /// `baton` is in the PATH, and before it the programs of the folder.
    pub fn run(folder: PathBuf, script: &str) -> Self {
        let programs = Path::new(BATON).parent().expect("a folder");
        let path = std::env::var("PATH").expect("a PATH");
        let path = format!("{}:{}:{path}", folder.display(), programs.display());
        let shell = Command::new("sh")
            .args(["-c", script])
            .current_dir(&folder)
            .env("PATH", path)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        Self(shell.expect("sh runs"), folder)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

pub fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string()
}

pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("baton-pages-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

/// Tries until it succeeds: processes of the page start side by side.
pub fn until_it_succeeds(what: &str, attempt: impl Fn() -> Output) -> String {
    let mut last = String::new();
    for _ in 0..150 {
        let output = attempt();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return text(&output.stdout);
        }
        last = text(&output.stderr);
        sleep(Duration::from_millis(200));
    }
    panic!("{what}: {last}");
}

fn chat(port: &str, prompt: &str) -> String {
    let url = format!("http://127.0.0.1:{port}");
    until_it_succeeds("chat", || {
        let mut chat = Command::new(BATON);
        let chat = chat.args(["chat", &url, "--prompt", prompt]);
        chat.stdin(Stdio::null()).output().expect("baton runs")
    })
}

pub fn has_chunks(text: &str, most: usize) {
    let places: Vec<_> = (1..=most)
        .map(|k| text.find(&format!("chunk {k} of {most}, prompt 1")))
        .collect();
    let whole = places.iter().all(Option::is_some) && places.is_sorted();
    assert!(whole, "{text}");
}

/// The shell commands of a page, by a word in them.
fn shell_block(page: &str, word: &str) -> String {
    let blocks = code_blocks(&read(page));
    let block = blocks.into_iter().find(|block| block.contains(word));
    block.unwrap_or_else(|| panic!("{page} has no commands with {word}"))
}

#[test]
fn the_five_commands_of_the_front_page_make_a_cluster() {
    let block = shell_block("README.md", "redis-server");
    assert_eq!(block.lines().count(), 5, "{block}");
    assert_eq!(block, shell_block("docs/deploy/cluster.md", "redis-server"));
    let [redis, first, second] = [free_port(), free_port(), free_port()];
    let block = block
        .replace("6379", &redis)
        .replace("yes &", &format!("yes --port {redis} &"))
        .replace("8081", &first)
        .replace("8082", &second);
    let _shell = Shell::run(folder("cluster"), &format!("{block}\nwait"));
    for port in [first, second] {
        has_chunks(&chat(&port, "/count 5"), 5);
    }
}

/// `newcomer` sends the requests of the same page.
#[test]
fn the_first_turn_takes_one_line() {
    let (folder, port) = (folder("first-turn"), free_port());
    let serve = format!("exec baton serve --ephemeral --listen 127.0.0.1:{port}");
    let _serve = Shell::run(folder, &serve);
    let page = read("docs/guide/first-turn.md");
    let prompt = "/count 5 delay=200";
    let line = format!("baton chat http://127.0.0.1:8080 --prompt \"{prompt}\"");
    assert!(page.contains(&line), "{line}");
    has_chunks(&chat(&port, prompt), 5);
}

/// Commands with commands of their own.
const GROUPS: [&str; 5] = ["token", "store", "sessions", "audit", "config"];

/// The words after `baton`, if the line runs it. Other programs have arguments of that name.
fn command_in(line: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let programs = ["baton", "/baton", "target/quick/baton"];
    let at = words.iter().position(|word| programs.contains(word))?;
    let alone = at == 0
        || ["sudo", "--", "$", "grpc"]
            .iter()
            .any(|before| words[at - 1].ends_with(before));
    let arguments = words[at + 1..].iter();
    let arguments = arguments.take_while(|word| !["|", "&", "&&", ">", "…"].contains(word));
    let arguments: Vec<String> = arguments.map(|word| (*word).to_owned()).collect();
    let named = arguments.first()?.chars().all(|c| c.is_ascii_lowercase());
    (alone && named).then_some(arguments)
}

/// Every `baton` command in code blocks of the pages.
fn commands() -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    for page in pages() {
        for block in code_blocks(&read(&page.to_string_lossy())) {
            let block = block.replace("\\\n", " ");
            found.extend(block.lines().filter_map(command_in));
        }
    }
    found
}

#[test]
fn every_command_on_the_pages_has_options_that_exist() {
    let mut helps: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for mut words in commands {
        // The rest is the command line of a role.
        let role = |word: &String| ["serve", "gateway", "worker"].contains(&word.as_str());
        if words[0] == "doctor" && words.get(1).is_some_and(role) {
            words.remove(0);
        }
        let length = if GROUPS.contains(&words[0].as_str()) {
            2
        } else {
            1
        };
        let name: Vec<String> = words.iter().take(length).cloned().collect();
        let help = helps.entry(name.clone()).or_insert_with(|| {
            let output = Command::new(BATON).args(&name).arg("--help").output();
            let output = output.expect("baton runs");
            assert!(output.status.success(), "there is no command {name:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        for option in words.iter().filter(|word| word.starts_with("--")) {
            let option = option.split('=').next().unwrap_or_default();
            let known = help.split([' ', '\n', ',', '[']).any(|word| word == option);
            assert!(known, "{words:?}: there is no {option}");
        }
    }
}

#[test]
fn every_make_target_on_the_pages_exists() {
    let makefile = read("Makefile");
    for page in pages() {
        let text = read(&page.to_string_lossy());
        for rest in text.split("`make ").skip(1) {
            let target: String = rest
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            let known = makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:")));
            assert!(known, "{}: make {target}", page.display());
        }
    }
    assert!(project().join("scripts/record").exists());
}
