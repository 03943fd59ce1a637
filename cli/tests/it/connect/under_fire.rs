//! Gateways are killed, connections cut and stalled, and the editor notices nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::editor::Editor;
use crate::support::Cluster;
use crate::support::cluster::url;
use crate::support::proxy::{Mood, Proxy};
use crate::support::sse::counted;

const CHUNKS: u64 = 40;

#[derive(Debug, Default)]
struct Faults {
    kills: u64,
    cuts: u64,
    stalls: u64,
}

/// `CONNECT_SECONDS=60` for more of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_editor_sees_every_chunk_once_and_in_order() {
    let seconds = std::env::var("CONNECT_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(12);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut cluster = Cluster::start().await;
    let front = url(cluster.balancer().port);
    let proxy = Proxy::start(cluster.balancer().port).await;
    let way = url(proxy.port);
    let (faults, websocket, sse, auto) = tokio::join!(
        break_things(&mut cluster, &proxy, end),
        work(&way, "websocket", end),
        work(&way, "sse", end),
        work(&way, "auto", end),
    );
    for worked in [&websocket, &sse, &auto] {
        assert!(worked.turns > 0);
        // And so it was written down.
        let mut reader = Editor::open(&front, &[]).await;
        assert_eq!(reader.load(&worked.session).await, worked.said);
    }
    let all = [websocket, sse, auto];
    let turns: u64 = all.iter().map(|worked| worked.turns).sum();
    let chunks: usize = all.iter().map(|worked| worked.said.len()).sum();
    println!("{seconds} s: {faults:?}; {turns} turns, {chunks} chunks, each once and in order");
}

/// Every two seconds a gateway is killed and started again, after everybody was led to it; in between the
/// network has its moods.
async fn break_things(cluster: &mut Cluster, proxy: &Proxy, end: Instant) -> Faults {
    let mut faults = Faults::default();
    for gateway in (0..2).cycle() {
        if Instant::now() >= end {
            break;
        }
        proxy.aim(port(&cluster.gateway_url(gateway)));
        sleep(Duration::from_millis(400)).await;
        cluster.gateways[gateway].kill();
        proxy.aim(cluster.balancer().port);
        cluster.revive_gateway(gateway).await;
        sleep(Duration::from_millis(300)).await;
        proxy.set(Mood::Stalled);
        sleep(Duration::from_millis(400)).await;
        proxy.set(Mood::CutsReplies);
        sleep(Duration::from_millis(200)).await;
        proxy.set(Mood::Clear);
        sleep(Duration::from_millis(500)).await;
        faults.kills += 1;
        faults.cuts += 3;
        faults.stalls += 1;
    }
    faults
}

fn port(url: &str) -> u16 {
    let url: reqwest::Url = url.parse().expect("a URL");
    url.port().expect("a port")
}

struct Worked {
    session: String,
    turns: u64,
    said: Vec<String>,
}

/// Turns without end, some of them with a question. Any error fails the test.
async fn work(url: &str, transport: &str, end: Instant) -> Worked {
    let mut editor = Editor::open(url, &["--transport", transport]).await;
    let session = editor.new_session().await;
    let (mut turns, mut all) = (0, Vec::new());
    while Instant::now() < end {
        turns += 1;
        let asks = turns % 3 == 0;
        let count = format!("/count {CHUNKS} delay=15");
        let text = if asks {
            format!("/permission\n{count}")
        } else {
            count
        };
        let turn = editor.turn(&session, &text).await;
        assert_eq!(turn.answer["result"]["stopReason"], "end_turn", "{turn:?}");
        assert_eq!(turn.asked, u64::from(asks), "{turn:?}");
        let mut expected = counted(CHUNKS, turns);
        if asks {
            expected.insert(0, "permission allow_once ".into());
        }
        assert_eq!(turn.said, expected);
        all.extend(turn.said);
    }
    let (code, log) = editor.close().await;
    assert_eq!(code, Some(0), "{log}");
    Worked {
        session,
        turns,
        said: all,
    }
}
