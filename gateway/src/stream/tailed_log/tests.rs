use baton_session::conformance::scene::{begin, end, update};
use baton_session::id::{Partition, SessionId};
use baton_session::route::DeliveryPath;

use super::*;

fn frame(first: u64, events: Vec<Event>) -> Arc<Frame> {
    let nonce = Nonce(7);
    Arc::new(Frame {
        first,
        nonce,
        events,
    })
}

fn tailed() -> (TailedLog, ConnectionId) {
    let log = LogId::Session(SessionId::mint(Partition(0)));
    (
        TailedLog::new(log, FrameBudget::default()),
        ConnectionId::mint(Partition(0)),
    )
}

fn is_kept(tailed: &TailedLog, seq: u64) -> bool {
    matches!(tailed.look(seq), LogLookup::Frames(_))
}

#[test]
fn what_is_kept_goes_when_the_conversation_rests() {
    let (tailed, connection) = tailed();
    tailed.insert(frame(1, vec![begin(1, &connection, DeliveryPath::Session)]));
    tailed.insert(frame(
        2,
        vec![update("hello"), end(&connection, DeliveryPath::Session)],
    ));
    tailed.rest();
    assert!(is_kept(&tailed, 1), "something came since the last look");
    tailed.rest();
    assert!(matches!(tailed.look(1), LogLookup::InStore));
    assert!(matches!(tailed.look(4), LogLookup::UpToDate));
    tailed.insert(frame(4, vec![begin(2, &connection, DeliveryPath::Session)]));
    assert!(is_kept(&tailed, 4));
}

#[test]
fn a_turn_that_is_silent_does_not_rest() {
    let (tailed, connection) = tailed();
    tailed.insert(frame(1, vec![begin(1, &connection, DeliveryPath::Session)]));
    tailed.rest();
    tailed.rest();
    assert!(is_kept(&tailed, 1));
    assert_eq!(tailed.turn_runs(), Some(true));
}

#[test]
fn a_muted_reader_still_learns_how_far_it_may_go() {
    let (tailed, connection) = tailed();
    let reader = tailed.add_reader(Arc::<tokio::sync::Notify>::default().into());
    assert!(tailed.mute(reader, &connection, 1));
    tailed.insert(frame(1, vec![end(&connection, DeliveryPath::Session)]));
    tailed.rest();
    tailed.rest();
    assert!(matches!(
        tailed.muted(reader),
        MuteState::Still(Some((1, Nonce(7))))
    ));
}
