//! The page at `/`, in a real Chromium with real processes. What it is held to is in
//! `cli/tests/console`; here the processes are started, and killed when the page asks for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::auth::{A, Guarded};
use crate::support::balancer::Kind;
use crate::support::process::Process;
use crate::support::{Cluster, Served, until};

mod assets;
mod logins;
mod notices;
mod operators;
mod shares;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console")
}

/// Its pictures are here afterwards, also those of a failure.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("console")
}

/// A script with a browser, and the process's half of it.
struct Visit {
    process: Process,
    dir: TempDir,
}

impl Visit {
    fn start(script: &str, url: &str, key: &str) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let mut command = Command::new("node");
        command.arg(folder().join(script));
        command.arg(url.replace("/acp", "/")).arg(pictures());
        command.arg(dir.path()).env("KEY", key);
        let process = Process::start(dir.path(), "browser", &mut command);
        Self { process, dir }
    }

    /// Waits until the page wants something to happen.
    async fn asks(&mut self, what: &str) {
        let line = format!("> {what}\n");
        for _ in 0..8 {
            // Longer than a wait may take: it does so while a turn streams.
            if self.process.output().contains(&line) || self.process.ended().is_some() {
                break;
            }
            let asked = async || {
                let output = self.process.output();
                (output.contains(&line) || output.contains("FAILED")).then_some(())
            };
            until(what, asked).await;
        }
        let output = self.process.output();
        assert!(output.contains(&line), "{output}");
    }

    fn did(&self, what: &str) {
        let file = self.dir.path().join(what.replace(' ', "-"));
        std::fs::write(file, "").expect("the directory is writable");
    }

    async fn passes(mut self) {
        // Each wait of the script is bounded, and so is their number.
        let status = tokio::task::spawn_blocking(move || {
            let started = std::time::Instant::now();
            loop {
                if let Some(status) = self.process.ended() {
                    return (status, self.process.output());
                }
                let patient = started.elapsed() < 6 * crate::support::PATIENCE;
                assert!(patient, "{}", self.process.output());
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
        let (status, output) = status.await.expect("the script is waited for");
        println!("{output}");
        assert!(
            status.success() && output.ends_with("all passed\n"),
            "{output}"
        );
    }
}

#[tokio::test]
async fn a_newcomer_talks_to_an_agent_that_means_no_good() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    Visit::start("talk.mjs", &baton.url(), "").passes().await;
}

#[tokio::test]
async fn files_go_along_and_prompts_are_said_again() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    Visit::start("attach.mjs", &baton.url(), "").passes().await;
}

#[tokio::test]
async fn several_pages_share_sessions_and_questions() {
    let baton = Served::start().await;
    Visit::start("sharing.mjs", &baton.url(), "").passes().await;
}

#[tokio::test]
async fn it_looks_as_it_should_and_everybody_can_use_it() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    Visit::start("looks.mjs", &baton.url(), "").passes().await;
}

#[tokio::test]
async fn many_sessions_and_long_histories_are_shown() {
    let baton = Served::start_with(&["--ephemeral"]).await;
    Visit::start("scale.mjs", &baton.url(), "").passes().await;
}

#[tokio::test]
async fn a_page_logs_in_with_a_key_and_out() {
    let guarded = Guarded::with_keys().await;
    Visit::start("login.mjs", &guarded.url, A).passes().await;
}

/// Which of the gateways holds the page's socket.
async fn holder(cluster: &Cluster) -> usize {
    until("a gateway holds the socket", async || {
        for number in 0..2 {
            let url = cluster.gateway_url(number).replace("/acp", "/metrics");
            let text = reqwest::get(url).await.ok()?.text().await.ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("baton_gateway_streams "));
            if line.is_some_and(|count| count.trim() != "0") {
                return Some(number);
            }
        }
        None
    })
    .await
}

#[tokio::test]
async fn a_page_shows_each_chunk_once_whoever_is_killed() {
    let mut cluster = Cluster::start_behind(Kind::RoundRobin).await;
    let mut visit = Visit::start("faults.mjs", &cluster.url(), "");
    visit.asks("kill the gateway").await;
    let killed = holder(&cluster).await;
    cluster.gateways[killed].kill();
    visit.did("kill the gateway");

    visit.asks("kill the workers").await;
    cluster.workers.iter_mut().for_each(|worker| worker.kill());
    cluster.workers.push(cluster.worker(2));
    cluster.revive_gateway(killed).await;
    visit.did("kill the workers");

    visit.asks("stop the gateway").await;
    let stopped = holder(&cluster).await;
    cluster.restart_gateway(stopped).await;
    visit.did("stop the gateway");

    visit.passes().await;
}

#[test]
fn vendored_modules_are_those_that_their_list_names() {
    let vendor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../console/vendor");
    let list = std::fs::read_to_string(vendor.join("README.md")).expect("the list");
    let files = std::fs::read_dir(&vendor).expect("the folder");
    let names = files.map(|file| file.expect("a file").file_name().into_string().unwrap());
    for name in names.filter(|name| name.ends_with(".js")) {
        let output = Command::new("sha256sum").arg(vendor.join(&name)).output();
        let output = String::from_utf8(output.expect("sha256sum runs").stdout).unwrap();
        let hash = output.split(' ').next().expect("a hash");
        let row = list
            .lines()
            .find(|line| line.starts_with(&format!("| {name} ")));
        let row = row.unwrap_or_else(|| panic!("{name} is not listed"));
        assert!(row.ends_with(&format!(" {hash} |")), "{name} is {hash}");
        let licence = name.replace(".js", ".LICENSE");
        assert!(row.contains(&licence) && vendor.join(licence).is_file());
    }
}

#[test]
fn the_libraries_of_the_tests_are_pinned() {
    let text = std::fs::read_to_string(folder().join("package.json")).expect("it is there");
    let package: Value = serde_json::from_str(&text).expect("JSON");
    let versions = package["dependencies"].as_object().expect("dependencies");
    for (name, version) in versions {
        let version = version.as_str().expect("a version");
        assert!(
            version.starts_with(|first: char| first.is_ascii_digit()),
            "{name} {version}"
        );
    }
}
