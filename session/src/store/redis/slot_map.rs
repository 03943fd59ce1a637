//! The slots of a Cluster and the nodes that have them.

use std::collections::BTreeSet;
use std::fmt;

use redis::Value;

use super::servers::ServerAddress;

const SLOTS: u16 = 16384;
const NOBODY: u16 = u16::MAX;

/// Nothing is known of the default one.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// Replicas, too: they know as much as primaries.
    nodes: Vec<ServerAddress>,
    /// By slot: which of the nodes has it.
    owners: Vec<u16>,
}

impl SlotMap {
    /// Reads the answer of a node to `CLUSTER SLOTS`; none if it knows no slots.
    pub fn read(answer: &Value, from: &ServerAddress) -> Option<Self> {
        let Value::Array(ranges) = answer else {
            return None;
        };
        let mut map = Self::default();
        for range in ranges {
            let Value::Array(range) = range else {
                return None;
            };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = &range[..] else {
                return None;
            };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            // The primary comes first.
            for (place, node) in nodes.iter().enumerate() {
                let Some(node) = address(node, from) else {
                    continue;
                };
                let number = map.number(&node);
                for slot in (first..=last.min(SLOTS - 1)).filter(|_| place == 0) {
                    map.owners[usize::from(slot)] = number;
                }
            }
        }
        // Answers that mean the same are equal, whatever the order in which a node tells it.
        map.sort();
        map.is_known().then_some(map)
    }

    pub fn is_known(&self) -> bool {
        !self.nodes.is_empty()
    }

    pub fn owner(&self, slot: u16) -> Option<&ServerAddress> {
        let number = self.owners.get(usize::from(slot))?;
        self.nodes.get(usize::from(*number))
    }

    pub fn put(&mut self, slot: u16, owner: &ServerAddress) {
        let number = self.number(owner);
        if let Some(place) = self.owners.get_mut(usize::from(slot)) {
            *place = number;
        }
        self.sort();
    }

    pub fn nodes(&self) -> &[ServerAddress] {
        &self.nodes
    }

    pub fn primaries(&self) -> BTreeSet<&ServerAddress> {
        let owners: BTreeSet<u16> = self.owners.iter().copied().collect();
        let nodes = owners.into_iter();
        nodes
            .filter_map(|number| self.nodes.get(usize::from(number)))
            .collect()
    }

    pub fn has_same_primaries(&self, other: &Self) -> bool {
        self.primaries() == other.primaries()
    }

    fn number(&mut self, node: &ServerAddress) -> u16 {
        if self.owners.is_empty() {
            self.owners = vec![NOBODY; usize::from(SLOTS)];
        }
        let known = self.nodes.iter().position(|known| known == node);
        let number = known.unwrap_or_else(|| {
            self.nodes.push(node.clone());
            self.nodes.len() - 1
        });
        u16::try_from(number).expect("a Cluster has at most as many nodes as slots")
    }

    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by(|a, b| self.nodes[*a].cmp(&self.nodes[*b]));
        let mut places = vec![NOBODY; order.len()];
        for (new, old) in order.iter().enumerate() {
            places[*old] = new as u16;
        }
        for owner in &mut self.owners {
            *owner = places.get(usize::from(*owner)).copied().unwrap_or(NOBODY);
        }
        self.nodes.sort();
    }
}

/// For messages: the primaries.
impl fmt::Display for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (host, port)) in self.primaries().into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{host}:{port}")?;
        }
        Ok(())
    }
}

/// An entry of `CLUSTER SLOTS`. Without a host it is that of the node which answered.
fn address(node: &Value, from: &ServerAddress) -> Option<ServerAddress> {
    let Value::Array(node) = node else {
        return None;
    };
    let [host, Value::Int(port), ..] = &node[..] else {
        return None;
    };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => "",
    };
    let port = u16::try_from(*port).ok()?;
    // The node knows that there is another one, but not where.
    (host != "?").then(|| (or_own(host, from), port))
}

/// An address as `MOVED` and `ASK` have it.
pub(super) fn redirected(to: &str, from: &ServerAddress) -> Option<ServerAddress> {
    let (host, port) = to.rsplit_once(':')?;
    Some((or_own(host, from), port.parse().ok()?))
}

fn or_own(host: &str, from: &ServerAddress) -> String {
    let host = if host.is_empty() { &from.0 } else { host };
    host.to_owned()
}

/// The slot of a key: what is between the first braces decides, if there is something.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM, as the specification of Redis Cluster says.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum: u16, _| {
            let carry = sum >> 15;
            (sum << 1) ^ (carry * 0x1021)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        let host = Value::BulkString(host.as_bytes().to_vec());
        Value::Array(vec![host, Value::Int(port), Value::Nil])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    fn at(host: &str, port: u16) -> ServerAddress {
        (host.to_owned(), port)
    }

    #[test]
    fn keys_have_the_slots_that_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        // Nothing between the braces, or no second one: the whole key.
        assert_ne!(slot_of(b"a{}b"), slot_of(b""));
        assert_ne!(slot_of(b"a{b"), slot_of(b"b"));
    }

    #[test]
    fn the_first_of_a_range_has_it_and_order_does_not_matter() {
        let from = at("asked", 1);
        let low = range(0, 99, vec![node("b", 2), node("r", 4)]);
        let high = range(100, 16383, vec![node("", 3)]);
        let map = SlotMap::read(&Value::Array(vec![low.clone(), high.clone()]), &from).unwrap();
        assert_eq!(map.owner(0), Some(&at("b", 2)));
        assert_eq!(map.owner(16383), Some(&at("asked", 3)));
        assert_eq!(map.nodes().len(), 3);
        assert_eq!(map.to_string(), "asked:3,b:2");
        let turned = SlotMap::read(&Value::Array(vec![high, low]), &from).unwrap();
        assert!(map == turned);
    }

    #[test]
    fn a_slot_that_moved_has_another_owner_and_others_stay() {
        let from = at("asked", 1);
        let all = Value::Array(vec![range(0, 16383, vec![node("m", 2)])]);
        let mut map = SlotMap::read(&all, &from).unwrap();
        map.put(7, &at("a", 1));
        assert_eq!(map.owner(7), Some(&at("a", 1)));
        assert_eq!(map.owner(6), Some(&at("m", 2)));
        assert_eq!(map.owner(8), Some(&at("m", 2)));
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let from = at("asked", 1);
        assert!(SlotMap::read(&Value::Array(vec![]), &from).is_none());
        let hidden = Value::Array(vec![range(0, 9, vec![node("?", 2)])]);
        assert!(SlotMap::read(&hidden, &from).is_none());
        let part = Value::Array(vec![range(0, 9, vec![node("a", 2)])]);
        let map = SlotMap::read(&part, &from).unwrap();
        assert_eq!(map.owner(10), None);
        assert_eq!(SlotMap::default().owner(0), None);
        assert_eq!(redirected(":7", &from), Some(at("asked", 7)));
        assert_eq!(redirected("h:7", &from), Some(at("h", 7)));
        assert_eq!(redirected("h", &from), None);
    }
}
