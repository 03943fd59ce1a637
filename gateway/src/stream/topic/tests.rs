use baton_session::conformance::scene::{begin, end, update};
use baton_session::id::{Partition, SessionId};

use super::*;

fn frame(first: u64, events: Vec<Event>) -> Arc<Frame> {
    let nonce = Nonce(7);
    Arc::new(Frame {
        first,
        nonce,
        events,
    })
}

fn topic() -> (Topic, ConnectionId) {
    let log = LogId::Session(SessionId::mint(Partition(0)));
    (Topic::new(log), ConnectionId::mint(Partition(0)))
}

fn is_kept(topic: &Topic, seq: u64) -> bool {
    matches!(topic.look(seq), Look::Frames(_))
}

#[test]
fn what_is_kept_goes_when_the_conversation_rests() {
    let (topic, connection) = topic();
    topic.insert(frame(1, vec![begin(1, &connection, DeliveryPath::Session)]));
    topic.insert(frame(
        2,
        vec![update("hello"), end(&connection, DeliveryPath::Session)],
    ));
    topic.rest();
    assert!(is_kept(&topic, 1), "something came since the last look");
    topic.rest();
    assert!(matches!(topic.look(1), Look::InStore));
    assert!(matches!(topic.look(4), Look::UpToDate));
    topic.insert(frame(4, vec![begin(2, &connection, DeliveryPath::Session)]));
    assert!(is_kept(&topic, 4));
}

#[test]
fn a_turn_that_is_silent_does_not_rest() {
    let (topic, connection) = topic();
    topic.insert(frame(1, vec![begin(1, &connection, DeliveryPath::Session)]));
    topic.rest();
    topic.rest();
    assert!(is_kept(&topic, 1));
    assert_eq!(topic.turn_runs(), Some(true));
}

#[test]
fn a_muted_reader_still_learns_how_far_it_may_go() {
    let (topic, connection) = topic();
    let reader = topic.add_reader(Arc::<tokio::sync::Notify>::default().into());
    assert!(topic.mute(reader, &connection, 1));
    topic.insert(frame(1, vec![end(&connection, DeliveryPath::Session)]));
    topic.rest();
    topic.rest();
    assert!(matches!(
        topic.muted(reader),
        Muted::Still(Some((1, Nonce(7))))
    ));
}
