//! Slots that were left half moved: their moves are ended, key by key.
//!
//! `redis-cli --cluster fix` would first mark them as stable, and bring their keys back after that. Meanwhile their node says of
//! each key that is still elsewhere that it does not exist, and whoever asks may create it anew. While both ends know of the
//! move, a key that is not at its source is asked for at the target, as in any other move.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Servers;
use super::node::Node;

/// Longer than any schedule has left when slots break.
const ENDED_WITHIN: Duration = Duration::from_secs(900);

/// A slot that is on its way.
struct SlotMove<'a> {
    slot: u16,
    from: &'a Node,
    to: &'a Node,
}

/// A node's line about itself in `CLUSTER NODES`.
struct OwnSlots<'a> {
    node: &'a Node,
    id: String,
    has: Vec<(u16, u16)>,
    /// Slots that it gives or gets, and the id of the node at the other end.
    open: Vec<(u16, String)>,
}

impl<'a> OwnSlots<'a> {
    fn of(node: &'a Node) -> Option<Self> {
        let known = node.ask(&["cluster", "nodes"]);
        let line = known.lines().find(|line| line.contains("myself"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mut has, mut open) = (Vec::new(), Vec::new());
        for word in words.iter().skip(8) {
            match word.strip_prefix('[') {
                None => {
                    let (first, last) = word.split_once('-').unwrap_or((word, word));
                    has.push((first.parse().ok()?, last.parse().ok()?));
                }
                // 93->-ID if it gives it, 93-<-ID if it gets it.
                Some(way) => {
                    let (slot, other) = way.trim_end_matches(']').split_once('-')?;
                    open.push((slot.parse().ok()?, other[2..].to_owned()));
                }
            }
        }
        Some(Self {
            node,
            id: words.first()?.to_string(),
            has,
            open,
        })
    }

    fn owns(&self, slot: u16) -> bool {
        self.has
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

impl Servers {
    /// Other faults go on meanwhile, so what fails is tried again.
    pub(super) async fn end_moves(&self) {
        let deadline = Instant::now() + ENDED_WITHIN;
        loop {
            let primaries = self.primaries();
            let all: Vec<OwnSlots<'_>> = primaries.into_iter().filter_map(OwnSlots::of).collect();
            let open: Vec<(&OwnSlots<'_>, u16, &str)> = all
                .iter()
                .flat_map(|own| own.open.iter().map(move |(slot, id)| (own, *slot, &id[..])))
                .collect();
            let Some((own, slot, other)) = open.first().copied() else {
                return;
            };
            let other = all
                .iter()
                .find(|known| known.id == self.successor(own, other));
            match other {
                Some(other) if own.owns(slot) && !other.owns(slot) => {
                    let (from, to) = (own.node, other.node);
                    self.end_move(SlotMove { slot, from, to }).await;
                }
                Some(other) if other.owns(slot) && !own.owns(slot) => {
                    let (from, to) = (other.node, own.node);
                    self.end_move(SlotMove { slot, from, to }).await;
                }
                // They do not agree yet.
                _ => {}
            }
            assert!(Instant::now() < deadline, "slot {slot} is still half moved");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The primary that this node is, or follows by now.
    fn successor(&self, asked: &OwnSlots<'_>, id: &str) -> String {
        let known = asked.node.ask(&["cluster", "nodes"]);
        let line = known.lines().find(|line| line.starts_with(id));
        let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        match words.get(3) {
            Some(primary) if *primary != "-" => primary.to_string(),
            _ => id.to_owned(),
        }
    }

    async fn end_move(&self, step: SlotMove<'_>) {
        let (slot, from, to) = (step.slot.to_string(), step.from, step.to);
        let id = |node: &Node| node.ask(&["cluster", "myid"]).trim().to_owned();
        let (giver, getter) = (id(from), id(to));
        // One of them may have forgotten it: the target has to know first.
        to.ask(&["cluster", "setslot", &slot, "importing", &giver]);
        from.ask(&["cluster", "setslot", &slot, "migrating", &getter]);
        let port = self.way_of(&to.port.to_string());
        loop {
            let keys = from.ask(&["cluster", "getkeysinslot", &slot, "50"]);
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                // One that lost its place may be empty only because it gets everything anew.
                let left = from.ask(&["cluster", "countkeysinslot", &slot]);
                let is_owner = OwnSlots::of(from).is_some_and(|own| own.owns(step.slot));
                if left.trim() == "0" && is_owner {
                    break;
                }
                return;
            }
            // The keys that the source still has decide.
            let mut words = vec![
                "migrate",
                "127.0.0.1",
                &port,
                "",
                "0",
                "5000",
                "replace",
                "keys",
            ];
            words.extend(keys);
            if !from.ask(&words).contains("OK") {
                return;
            }
        }
        if !to
            .ask(&["cluster", "setslot", &slot, "node", &getter])
            .contains("OK")
        {
            return;
        }
        from.ask(&["cluster", "setslot", &slot, "node", &getter]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_was_broken_off_is_ended() {
    let dir = tempfile::TempDir::new().expect("a temporary directory");
    let setup = crate::setup::Setup::new(crate::setup::Store::Cluster, 0);
    let servers = Servers::start(setup, dir.path()).await;
    let servers = servers.expect("a Cluster has servers");
    let primaries = servers.primaries().into_iter();
    let all: Vec<OwnSlots<'_>> = primaries.filter_map(OwnSlots::of).collect();
    let key = |number: usize| format!("{{tag}}{number}");
    let slot: u16 = all[0]
        .node
        .ask(&["cluster", "keyslot", &key(0)])
        .trim()
        .parse()
        .expect("a slot");
    let (from, others): (Vec<_>, Vec<_>) = all.iter().partition(|own| own.owns(slot));
    let (from, to) = (from[0], others[0]);
    for number in 0..120 {
        from.node.ask(&["set", &key(number), "here"]);
    }
    // As `redis-cli --cluster reshard` does, up to where it ends; one of the keys arrived twice.
    let slot_text = slot.to_string();
    to.node
        .ask(&["cluster", "setslot", &slot_text, "importing", &from.id]);
    from.node
        .ask(&["cluster", "setslot", &slot_text, "migrating", &to.id]);
    let port = servers.way_of(&to.node.port.to_string());
    from.node
        .ask(&["migrate", "127.0.0.1", &port, &key(0), "0", "5000"]);
    from.node
        .ask(&["migrate", "127.0.0.1", &port, &key(1), "0", "5000", "copy"]);
    from.node.ask(&["set", &key(1), "still here"]);

    servers.end_moves().await;
    servers.whole().await;
    assert!(OwnSlots::of(to.node).is_some_and(|own| own.owns(slot) && own.open.is_empty()));
    let said = |number| to.node.ask(&["get", &key(number)]).trim().to_owned();
    assert_eq!(
        (said(0), said(1)),
        ("here".to_owned(), "still here".to_owned())
    );
    assert_eq!(
        to.node
            .ask(&["cluster", "countkeysinslot", &slot_text])
            .trim(),
        "120"
    );
}
