//! When replicas have to confirm what is written. A failover may lose everything since then, and the
//! writer has to have it still.

use baton_session::conformance::scene::Scene;
use baton_session::store::MemoryStore;
use bytes::Bytes;

use super::*;

async fn writer() -> EventWriter {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let scene = Scene::created(&store).await;
    let claim = scene.claim().await;
    EventWriter::new(store, &claim, Default::default(), Default::default())
}

fn filled(bytes: usize) -> Bytes {
    vec![b'x'; bytes].into()
}

/// Each append has one update of so many bytes, and a state of so many. Returns how many appends
/// replicas had to confirm.
async fn confirmed(appends: usize, said: usize, state: Option<usize>) -> usize {
    let writer = writer().await;
    let (mut confirmed, mut safe) = (0, writer.state().next - 1);
    for number in 0..appends {
        writer.push(Event::Update {
            turn: true,
            message: filled(said),
        });
        let changes = ConversationChanges {
            state: state.map(filled),
            ..Default::default()
        };
        let append = writer.take(changes, false).expect("something was said");
        if append.confirmed {
            let kept = append.first == safe + 1 || writer.written().after(safe).is_some();
            let what = format!("append {number} of {said} bytes, and {state:?} of state");
            assert!(kept, "{what}: what comes after {safe} is forgotten");
            (confirmed, safe) = (confirmed + 1, append.first);
        }
        writer.written().keep(append);
    }
    confirmed
}

#[tokio::test]
async fn an_append_is_confirmed_every_512_kib() {
    // 128 with what comes beside the text make half a mebibyte.
    let said = (512 << 10) / 128 - 128;
    assert_eq!(confirmed(127, said, None).await, 0);
    assert_eq!(confirmed(128, said, None).await, 1);
    assert_eq!(confirmed(128 * 4, said, None).await, 4);
    // One that is larger is confirmed itself.
    assert_eq!(confirmed(3, 8 << 20, None).await, 3);
}

#[tokio::test]
async fn small_words_are_confirmed_before_they_are_forgotten() {
    assert!(confirmed(20_000, 10, None).await >= 2);
}

#[tokio::test]
async fn an_agents_state_is_confirmed_before_it_is_forgotten() {
    assert!(confirmed(200, 10, Some(60 << 10)).await >= 20);
}
