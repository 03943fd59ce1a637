//! A backup takes as much memory as its largest entry, however many there are.

use serde_json::json;

use super::Place;
use crate::support::Client;
use crate::support::http::prompt;
use crate::support::process::Process;

const LARGE: usize = 1 << 20;
/// So much may be added by entries on their way, in kilobytes: far less than there is in all.
const MOST: u64 = 32 << 10;

#[tokio::test]
async fn a_backup_of_ten_times_as_much_takes_no_more_memory() {
    let place = Place::new();
    let server = place.serve("data").await;
    let client = Client::initialize(&server.url()).await;
    let session = client.new_session().await;
    let mut stream = client.session_stream(&session, None).await;
    let mut number = 0;
    for (file, prompts) in [("small", 6), ("large", 54)] {
        for _ in 0..prompts {
            number += 1;
            let text = format!("/think {}", "x".repeat(LARGE));
            client.post(prompt(json!(number), &session, &text)).await;
            stream.response(&json!(number)).await;
        }
        server.process.forget_peak();
        let before = server.process.memory();
        let mut command = place.backup_command("data", file);
        let mut asking = Process::start(place.dir.path(), "asking", &mut command);
        let mut peak = 0;
        while asking.ended().is_none() {
            // Gone in between, perhaps.
            peak = peak.max(resident(&asking));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(asking.exit_status().await.success(), "{}", asking.output());
        let grown = server.process.peak().saturating_sub(before);
        println!("{file}: {grown} kB more in the server, {peak} kB in the command");
        assert!(grown < MOST, "{file}: the server took {grown} kB more");
        assert!(peak < 2 * MOST, "{file}: the command took {peak} kB");
    }
    let size = |file: &str| std::fs::metadata(place.at(file)).unwrap().len();
    assert!(size("large") > 9 * size("small"));
    assert!(size("large") / 1024 > MOST, "it would not be noticed");
}

fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
