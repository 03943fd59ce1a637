//! Sessions are taken as far as there is memory for their agents' processes.

use super::{Staged, Visit, actor, is_gone, served};
use crate::support::metrics::{page, value};
use crate::support::process::baton;
use crate::support::until;

const MIB: f64 = (1 << 20) as f64;

/// An agent that takes far more than others of its kind when they start.
async fn large(url: &str) -> (Visit, String) {
    let mut visit = Visit::begin(url).await;
    let pid = visit.says("pid").await;
    assert_eq!(visit.says("keep 120").await, "kept");
    (visit, pid)
}

/// Until it is measured, there would be room for another.
async fn measured(url: &str, least: f64) {
    until("the processes are measured", async || {
        let memory = value(&page(url).await, "baton_worker_agent_memory_bytes");
        (memory > least).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_session_at_rest_makes_room_for_another() {
    let baton = served("", &["--agent-memory-total", "200"]).await;
    let (mut first, pid) = large(&baton.url()).await;
    measured(&baton.url(), 120.0 * MIB).await;
    let mut second = Visit::begin(&baton.url()).await;
    is_gone(&pid).await;
    assert_eq!(second.says("say second").await, "second");
    // It goes on with another process, which is small.
    assert_ne!(first.says("pid").await, pid);
    let page = page(&baton.url()).await;
    assert!(value(&page, "baton_worker_agent_memory_bytes") < 200.0 * MIB);
}

#[tokio::test]
async fn a_session_waits_for_the_turn_of_one_that_takes_all_memory() {
    let baton = served("", &["--agent-memory-total", "200"]).await;
    let (mut first, _) = large(&baton.url()).await;
    measured(&baton.url(), 120.0 * MIB).await;
    let turn = first.ask("ask").await;
    let question = first.question().await;
    let url = baton.url();
    let mut second = tokio::spawn(async move { Visit::begin(&url).await });
    until("it is refused for now", async || {
        let page = page(&baton.url()).await;
        (value(&page, "baton_worker_agent_memory_refusals_total") > 0.0).then_some(())
    })
    .await;
    assert!(!second.is_finished());
    first.choose(&question, "yes").await;
    let (said, _) = first.end_of(&turn).await;
    assert!(said.contains("selected"), "{said}");
    let mut second = (&mut second).await.expect("it is taken now");
    assert_eq!(second.says("say second").await, "second");
}

#[tokio::test]
async fn another_worker_takes_what_one_has_no_memory_for() {
    let staged = Staged::start("", &[("BATON_AGENT_MEMORY_TOTAL", "200")]).await;
    let (mut first, _) = large(&staged.url()).await;
    let holder = staged.holder(&first.session);
    measured(&staged.probes[holder], 120.0 * MIB).await;
    let turn = first.ask("ask").await;
    let question = first.question().await;
    assert_eq!(staged.holder(&first.session), holder, "it has not moved");
    for word in ["one", "two"] {
        let mut other = Visit::begin(&staged.url()).await;
        assert_eq!(other.says(&format!("say {word}")).await, word);
        assert_ne!(staged.holder(&other.session), holder);
    }
    first.choose(&question, "yes").await;
    first.end_of(&turn).await;
}

#[tokio::test]
async fn a_burst_is_expected_again_and_no_more_than_that() {
    let arguments = ["--agent-warm", "3", "--agent-memory-total", "2000"];
    let baton = served("--start slow", &arguments).await;
    let metrics = async || page(&baton.url()).await;
    let ready = async |least: f64| {
        until("so many are ready, and no other is left over", async || {
            let page = metrics().await;
            let [ready, all] = ["ready", "processes"]
                .map(|name| value(&page, &format!("baton_worker_agent_{name}")));
            let held = value(&page, "baton_worker_sessions");
            (ready >= least && all == ready + held).then_some(ready)
        })
        .await
    };
    assert_eq!(ready(1.0).await, 1.0);
    let _one = Visit::begin(&baton.url()).await;
    assert_eq!(ready(1.0).await, 1.0);
    let url = baton.url();
    let begin = || Visit::begin(&url);
    let _burst = tokio::join!(begin(), begin());
    // Where a start takes long, the first one belongs to the burst.
    let ready = ready(2.0).await;
    assert!(ready <= 3.0, "{ready}");
    let page = metrics().await;
    let takes = |process: &str| {
        let metric = format!("baton_worker_agent_takes_total{{process=\"{process}\"}}");
        value(&page, &metric)
    };
    assert_eq!(takes("ready") + takes("started"), 3.0);
    assert!(takes("ready") >= 2.0, "{page}");
    let starts = "baton_worker_agent_starts_total{outcome=\"ok\"}";
    assert_eq!(value(&page, starts), 3.0 + ready);
}

#[tokio::test]
async fn warm_processes_make_way_for_sessions() {
    // There is room for the warm one beside the first session, and then no more.
    let baton = served("", &["--agent-warm", "1", "--agent-memory-total", "200"]).await;
    let (_first, pid) = large(&baton.url()).await;
    measured(&baton.url(), 120.0 * MIB).await;
    until("the warm one has gone", async || {
        let page = page(&baton.url()).await;
        (value(&page, "baton_worker_agent_processes") == 1.0).then_some(())
    })
    .await;
    assert!(super::is_alive(&pid), "the session's process is not");
}

#[test]
fn limits_that_cannot_work_are_refused() {
    let faults = |arguments: &[&str]| {
        let mut command = baton();
        command.args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"]);
        let output = command
            .args(["--agent", &actor("")])
            .args(arguments)
            .output();
        let output = output.expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = faults(&["--agent-memory-total", "0"]);
    assert!(said.contains("--agent-memory-total 0"), "{said}");
    let said = faults(&["--agent-memory-total", "500", "--agent-scope", "shared"]);
    assert!(said.contains("use --slots"), "{said}");
    let said = faults(&["--agent-memory-total", "1"]);
    assert!(said.contains("one process of this agent takes"), "{said}");
    assert!(said.contains("set it to several times that"), "{said}");
}
