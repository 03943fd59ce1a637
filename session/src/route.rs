//! On which of a connection's streams an event is delivered. The answer is a function of the log
//! position alone, so every replica that holds one of the streams comes to the same one, and no
//! event travels on two of them.

use serde::{Deserialize, Serialize};

/// The stream that carries a session's events to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeliveryPath {
    /// The session's own stream.
    Session,
    /// The connection's stream (or WebSocket), which carries whatever has no stream of its own.
    Connection,
    /// The body of the POST that asked.
    OneShot,
}

impl DeliveryPath {
    pub fn letter(self) -> &'static str {
        match self {
            Self::Session => "s",
            Self::Connection => "c",
            Self::OneShot => "o",
        }
    }

    pub fn from_letter(letter: &str) -> Option<Self> {
        match letter {
            "s" => Some(Self::Session),
            "c" => Some(Self::Connection),
            "o" => Some(Self::OneShot),
            _ => None,
        }
    }
}

/// The positions at which a connection's way of delivery changed, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    points: Vec<(u64, DeliveryPath)>,
}

/// Enough for every cursor a client plausibly comes back with.
const MAX_POINTS: usize = 64;

impl Route {
    /// How event `seq` reaches the connection; `None` before it joined.
    pub fn at(&self, seq: u64) -> Option<DeliveryPath> {
        let point = self.points.iter().rev().find(|(from, _)| *from <= seq);
        point.map(|(_, via)| *via)
    }

    /// The first event this connection gets, as far back as is remembered.
    pub fn joined(&self) -> Option<u64> {
        self.points.first().map(|(from, _)| *from)
    }

    /// For a connection that takes control with a prompt: it is asked where the answer to that will
    /// come. A body is no way to be asked.
    pub fn control(&mut self, seq: u64, via: DeliveryPath) {
        if via != DeliveryPath::OneShot {
            self.attach(seq, via);
        }
    }

    /// From event `seq` on, delivery is by `via`.
    pub fn switch(&mut self, seq: u64, via: DeliveryPath) {
        if self
            .points
            .last()
            .is_some_and(|(from, last)| *last == via && *from <= seq)
        {
            return;
        }
        // A one-shot turn only covers the point it begins at: that says what comes after the turn.
        let covers =
            |from, way| via == DeliveryPath::OneShot && from == seq && way != DeliveryPath::OneShot;
        self.points
            .retain(|(from, way)| *from < seq || covers(*from, *way));
        self.points.push((seq, via));
        if self.points.len() > MAX_POINTS {
            // Events before the oldest point are not delivered again: a cursor from then gets a
            // reset.
            self.points.remove(0);
        }
    }

    /// Attached while event `seq` was still to come. A one-shot turn that runs keeps its events;
    /// what comes after it is by `via`.
    pub fn attach(&mut self, seq: u64, via: DeliveryPath) {
        match self.points.pop() {
            Some((began, DeliveryPath::OneShot)) => {
                self.switch(began, via);
                self.points.push((began, DeliveryPath::OneShot));
            }
            last => {
                self.points.extend(last);
                self.switch(seq, via);
            }
        }
    }

    /// The turn that was delivered in a POST body ended with event `seq`: back to what was before.
    pub fn one_shot_ended(&mut self, seq: u64) {
        match self.points[..] {
            [.., (_, before), (_, DeliveryPath::OneShot)] => self.switch(seq + 1, before),
            // It never read in any other way, and there may be one such for every request.
            [(_, DeliveryPath::OneShot)] => self.points.clear(),
            _ => {}
        }
    }

    /// As stored: `12s,40c`.
    pub fn to_text(&self) -> String {
        let points = self
            .points
            .iter()
            .map(|(from, via)| format!("{from}{}", via.letter()));
        points.collect::<Vec<_>>().join(",")
    }

    pub fn from_text(text: &str) -> Option<Self> {
        let mut points = Vec::new();
        for point in text.split(',').filter(|point| !point.is_empty()) {
            let (from, via) = point.split_at_checked(point.len() - 1)?;
            points.push((from.parse().ok()?, DeliveryPath::from_letter(via)?));
        }
        Some(Self { points })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_exactly_one_way() {
        let mut route = Route::default();
        assert_eq!((route.at(1), route.joined()), (None, None));
        route.switch(1, DeliveryPath::Connection);
        route.switch(5, DeliveryPath::Session);
        route.switch(9, DeliveryPath::Session);
        assert_eq!(route.to_text(), "1c,5s");
        assert_eq!(
            (route.at(4), route.at(5), route.at(100)),
            (
                Some(DeliveryPath::Connection),
                Some(DeliveryPath::Session),
                Some(DeliveryPath::Session)
            )
        );
        assert_eq!(Route::from_text("1c,5s"), Some(route));
    }

    #[test]
    fn a_one_shot_turn_gives_the_stream_back() {
        let mut route = Route::from_text("1s").unwrap();
        route.switch(10, DeliveryPath::OneShot);
        route.one_shot_ended(14);
        assert_eq!(
            (route.at(9), route.at(10), route.at(14), route.at(15)),
            (
                Some(DeliveryPath::Session),
                Some(DeliveryPath::OneShot),
                Some(DeliveryPath::OneShot),
                Some(DeliveryPath::Session)
            )
        );
    }

    #[test]
    fn a_one_shot_turn_covers_the_point_it_begins_at() {
        let mut route = Route::from_text("4s").unwrap();
        for begin in [4, 6, 8] {
            route.switch(begin, DeliveryPath::OneShot);
            assert_eq!(route.at(begin), Some(DeliveryPath::OneShot));
            route.one_shot_ended(begin + 1);
            assert_eq!(route.at(begin + 2), Some(DeliveryPath::Session));
        }
        assert_eq!((route.joined(), route.at(1)), (Some(4), None));
        // Followed again from an earlier event on, as a reader of the log does.
        route.switch(6, DeliveryPath::OneShot);
        route.one_shot_ended(7);
        assert_eq!(
            (route.at(6), route.at(8)),
            (Some(DeliveryPath::OneShot), Some(DeliveryPath::Session))
        );
    }

    #[test]
    fn a_route_is_bounded() {
        let mut route = Route::default();
        for turn in 0..200 {
            let via = if turn % 2 == 0 {
                DeliveryPath::Connection
            } else {
                DeliveryPath::Session
            };
            route.switch(1 + turn, via);
        }
        assert_eq!(
            (route.points.len(), route.joined()),
            (MAX_POINTS, Some(137))
        );
        assert_eq!(
            (route.at(136), route.at(200)),
            (None, Some(DeliveryPath::Session))
        );
    }

    #[test]
    fn attaching_during_a_one_shot_turn_leaves_it_its_events() {
        let mut route = Route::from_text("1c,5o").unwrap();
        route.attach(9, DeliveryPath::Session);
        assert_eq!(
            (route.at(4), route.at(9)),
            (Some(DeliveryPath::Connection), Some(DeliveryPath::OneShot))
        );
        route.one_shot_ended(12);
        assert_eq!(
            (route.at(12), route.at(13)),
            (Some(DeliveryPath::OneShot), Some(DeliveryPath::Session))
        );
    }
}
