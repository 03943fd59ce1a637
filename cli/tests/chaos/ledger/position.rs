//! The ids on the wire, as far as an order can be told from outside: a session's cursor
//! `<seq>.<nonce>[.<phase>]`, and a connection's, `<outbox>-<nonce>~<watch>:<cursor>~…`.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub seq: u64,
    pub nonce: String,
    pub phase: Phase,
}

/// Where it stands towards the load with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Live,
    Replaying(u64),
    Answered(u64),
    Asked(u64, u64),
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let seq = parts.next()?.parse().ok()?;
        let nonce = parts.next()?.to_owned();
        let phase = match parts.next().map(|phase| phase.split_at(1)) {
            None => Phase::Live,
            Some(("l", number)) => Phase::Replaying(number.parse().ok()?),
            Some(("d", number)) => Phase::Answered(number.parse().ok()?),
            Some(("q", both)) => {
                let (number, question) = both.split_once('-')?;
                Phase::Asked(number.parse().ok()?, question.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Self { seq, nonce, phase })
    }

    /// Whether this may come after `before` on one stream.
    fn follows(&self, before: &Self) -> bool {
        use Phase::{Answered, Asked, Live, Replaying};
        match (before.phase, self.phase) {
            (Replaying(_), Live | Asked(..)) => false,
            (_, Live) => self.seq > before.seq,
            (Replaying(old), Replaying(new)) => old == new && self.seq > before.seq,
            (Replaying(old), Answered(new)) => old == new && self.seq >= before.seq,
            (Answered(old) | Asked(old, _), Replaying(new) | Answered(new)) => new > old,
            (Live, Replaying(_)) => true,
            (Live, Answered(_)) => self.seq >= before.seq,
            (Asked(old, one), Asked(new, other)) => old == new && other > one,
            (Answered(old), Asked(new, _)) => old == new,
            (Live, Asked(..)) => false,
        }
    }
}

/// A session stream has one place, a connection stream one for each session it watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    outbox: u64,
    places: BTreeMap<u64, Place>,
}

impl Position {
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(place) = Place::parse(text) {
            return Some(Self {
                outbox: 0,
                places: BTreeMap::from([(0, place)]),
            });
        }
        let mut parts = text.split('~');
        let outbox = parts.next()?.split('-').next()?.parse().ok()?;
        let places = parts.map(|part| {
            let (watch, place) = part.split_once(':')?;
            Some((watch.parse().ok()?, Place::parse(place)?))
        });
        Some(Self {
            outbox,
            places: places.collect::<Option<_>>()?,
        })
    }

    /// Whether this may come after `before`: nothing goes back, something goes on. Sessions that were closed or deleted
    /// leave, and come back under another number.
    pub fn follows(&self, before: &Self) -> bool {
        let mut each = self.places.iter();
        let forward = each.all(|(at, place)| match before.places.get(at) {
            Some(old) => place == old || place.follows(old),
            None => true,
        });
        forward && self.outbox >= before.outbox && self != before
    }

    pub fn is_replaying(&self) -> bool {
        let mut places = self.places.values();
        places.any(|place| matches!(place.phase, Phase::Replaying(_)))
    }

    /// The event that this position names, if it is the only one that it can name.
    pub fn event(&self) -> Option<&Place> {
        let mut places = self.places.values();
        match (places.next(), places.next()) {
            (Some(place), None) => Some(place),
            _ => None,
        }
    }
}

#[test]
fn positions_rise() {
    let rising = [
        ["4.aa", "5.aa"],
        ["5.aa", "9.bb"],
        ["9.bb", "1.aa.l1"],
        ["1.aa.l1", "2.aa.l1"],
        ["9.bb.l1", "9.bb.d1"],
        ["9.bb.d1", "9.bb.q1-4"],
        ["9.bb.q1-4", "10.bb"],
        ["3", "4"],
        ["3-aa", "4-bb~4:1.cc"],
        ["3~1:5.aa", "3~1:6.aa"],
        ["3~1:5.aa", "4~1:5.aa~4:1.cc"],
        ["4~1:5.aa~4:1.cc", "5~4:1.cc"],
    ];
    for [before, after] in rising {
        let (one, other) = (Position::parse(before), Position::parse(after));
        let (one, other) = (one.expect(before), other.expect(after));
        assert!(other.follows(&one), "{before} {after}");
        // A new load may replay from the start; nothing else may go back or stay.
        let back = after.contains(".l1") && !before.contains(".l1");
        assert!(!one.follows(&other) || back, "{after} {before}");
        assert!(!one.follows(&one), "{before} twice");
    }
    assert_eq!(Position::parse("rubbish"), None);
}
