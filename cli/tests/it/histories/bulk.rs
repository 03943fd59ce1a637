//! A large file.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::Served;
use crate::support::process::{Process, baton};

const SIZE: u64 = 50 << 20;
/// What either process may have more than before, in kilobytes.
const MOST: u64 = 64 << 10;

fn write_file(path: &std::path::Path) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let (mut parent, mut written, mut at) = (None::<String>, 0, 0_u64);
    while written < SIZE {
        // Not to be compressed away.
        let text: String = (0..400_u64)
            .map(|word| format!("{:x} ", (at * 7919 + word * 104_729) % 1_000_003))
            .collect();
        for kind in ["user", "assistant"] {
            let uuid = format!("{kind}-{at}");
            let line = json!({
                "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "large",
                "cwd": "/tmp", "timestamp": "2026-05-01T10:00:00Z",
                "message": { "id": uuid, "content": text },
            });
            let line = format!("{line}\n");
            file.write_all(line.as_bytes()).unwrap();
            written += line.len() as u64;
            parent = Some(uuid);
        }
        at += 1;
    }
    file.flush().unwrap();
}

#[tokio::test]
async fn a_large_file_takes_little_memory_on_both_sides() {
    let baton_serves = Served::start().await;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("large.jsonl");
    write_file(&path);
    baton_serves.process.forget_peak();
    let before = baton_serves.process.memory();
    let mut command = baton();
    command
        .args([
            "sessions",
            "--url",
            baton_serves.url().trim_end_matches("/acp"),
            "import",
        ])
        .args(["--from", "claude", "--json"])
        .arg(&path)
        .stdin(Stdio::null());
    let mut client = Process::start(dir.path(), "import", &mut command);
    let mut peak = 0;
    while client.ended().is_none() {
        peak = peak.max(client.peak());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let said = client.output();
    assert!(said.contains("\"created\":1"), "{said}");
    let grown = baton_serves.process.peak().saturating_sub(before);
    println!("the client had {peak} kB at most, the server {grown} kB more than before");
    assert!(peak < MOST + (32 << 10), "{peak} kB");
    assert!(grown < MOST, "{grown} kB");
}
