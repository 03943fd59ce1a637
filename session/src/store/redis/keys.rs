//! Every key and channel, one function each. `{tag}` is the partition that the id carries, so all
//! keys of a session share a slot, and so do the queues of its partition.
//!
//! Keys, each with its type and what it holds:
//!
//! - `ns:{tag}:s:<session>` (hash): `prn` principal, `ag` agent, `cwd`, `params`, `mcp` and `dirs`
//!   what has replaced theirs, `state`, `view` the hash of its view, `bstate` and `bview` the same
//!   before the running turn, if that has changed them, `shown` where modes and options have
//!   changed, `title`, `usage`, `bound`, `pend` open requests, `ctl` controller, `shut` which
//!   connection has closed it; `seq` last event, `unc` the first and the last that replicas may
//!   lack, as far as others act on them, `cseq` last command, `cb` bytes of those that wait, `done`
//!   names of those that the last append was through with, `known` the last idempotency keys as
//!   `known.lua` has them, `heard` names of the last commands without a key; `own` claim token or
//!   empty, `exp` its end (ms), `wk` its worker, `rel` the claim that released last; `run`, `began`
//!   the running turn, `ren` 1 once the lease was renewed, c as long as replicas have not confirmed
//!   the claim, `vanished` how many holders vanished at which event; `snap` last event that is in
//!   blocks; `eb`, `hb`, `vb` bytes of its own log that are in frames, in blocks, and of its view,
//!   `ae` what `eb` was when its account was set, empty if that has to be set again; without `prn`
//!   it was deleted (`was` whose it was, `by` which call, `hides` while that is under way), or is
//!   being taken in for `heir`, last updated `upd`; with nothing but `seq`, `snap`, these bytes and
//!   `acc`, on whose account they are, it is only kept for its forks
//! - `ns:{tag}:e:<session>` (stream): the log: entry `<last number>-0`, field `d` a frame
//! - `ns:{tag}:h:<session>` (list): the log's beginning, once the session has rested: blocks, each
//!   with its last number before it
//! - `ns:{tag}:l:<session>` (string): of a fork: how many ancestors it has, the last event it
//!   inherits, its parent, the hash of its first view; then a line for each ancestor that it reads
//!   from, oldest first: its id, up to which event
//! - `ns:{tag}:f:<session>` (set): its forks: as long as there are any, its log is kept
//! - `ns:{tag}:z:<session>` (string): instead of `s` and `p`, once the session has rested: its last
//!   event, a space, both hashes packed
//! - `ns:{tag}:v:<hash>` (string): modes and options, shared by all sessions that have the same
//! - `ns:{tag}:c:<session>` (hash): the inbox: name of a command → its way, with a `k` before it if
//!   it takes control, its head, its message. One with a number above `cseq` does not count yet,
//!   one that `done` names not any more
//! - `ns:{tag}:p:<session>` (hash): parties: `s:` open stream, `t:` written, `b:` the holder
//!   before, until it has said how far it has written, `w:` watched, `l:` the watch that has ended,
//!   `r:` route, `d:` directive, each by connection
//! - `ns:{tag}:due:<agent>` (zset): sessions with work, by when they may be claimed (ms): since
//!   when they wait, or when their lease ends
//! - `ns:{tag}:due:room:<agent>` (zset): its workers, by how many more sessions each has room for
//! - `ns:{tag}:due:asked:<agent>` (zset): the same, by when they have last looked for work (ms)
//! - `ns:{tag}:rest` (zset): sessions that were used and have to be made smaller, by when (ms)
//! - `ns:{tag}:idle` (zset): sessions that rest, by when they were last used (ms)
//! - `ns:{tag}:gone` (zset): sessions that were deleted or are being taken in, by when they were
//!   (ms)
//! - `ns:{tag}:ls:<principal>` (zset): the sessions of a principal (the start of its hash), by when
//!   they were created or their last turn ended (ms); those of the version before come in when
//!   their next turn ends
//! - `ns:{tag}:ls:<principal>:<cwd>` (zset): those in one directory (the start of its hash)
//! - `ns:{tag}:b:<principal>` (hash): its account: session → bytes that are kept of it, as of the
//!   end of its last turn or later; `sum` all of them
//! - `ns:{tag}:k:<connection>` (hash): `seq`, `holder`, `before` the one before, until it has said
//!   how far it has written, `written`, `dlv` the last entry of the outbox that was delivered,
//!   `trim` the last that has left it, `ob` what it weighs, `pb` what of that are positions, `w:`
//!   by session, which entry that has left it told to watch this, `wn` how many of these, `v:` the
//!   last one that told so again, `x:` the last one that told so and is still in the outbox
//!   although the stream has left the session, `i:` idempotency: fingerprint, entry, which session
//!   it told to watch
//! - `ns:{tag}:d:<connection>` (string): the client's description of itself, as JSON, for as long
//!   as the connection's token is good
//! - `ns:{tag}:x:<connection>` (stream): the outbox, as a log: from `trim` + 1 on
//! - `ns:{tag}:q:<connection>` (hash): its requests that can be cancelled: idempotency key →
//!   session, when it was noted (ms). Those that are done go when there are many
//! - `ns:{tag}:u:<name>` (string): what may be used once and was (the start of its hash, which also
//!   says the tag): by which call. Ends by itself
//! - `ns:{agents}:cards` (hash): agent → card, empty if only sessions of it have come from
//!   elsewhere
//! - `ns:{agents}:alive:<agent>` (zset): workers, by when they count as dead (ms)
//! - `ns:{agents}:came:<agent>` (zset): the same, by the order in which they came
//! - `ns:{revoked}:all` (hash): revocations by subject, a line each: version, what was issued at or
//!   before is refused, when it takes effect, when it ends (s), the subject
//! - `ns:{revoked}:until` (zset): their subjects, by when they end (s)
//! - `ns:{revoked}:by:<letter>:<principal>` (zset): the subjects of those that a caller has asked
//!   for itself, by when they end (s); l logouts, r renewals, e connections given up
//! - `ns:{reports}:all` (hash): process → when it ends (ms), a space, what it says of itself
//! - `ns:{reports}:orders` (hash): the same, with what it is asked to do
//! - `ns:{format}:restored` (string): what was drawn when all of this was last restored from a
//!   backup, see `restored.rs`
//! - `ns:{format}:store` (string): the number of the format that all of this has, see `format.rs`,
//!   and the first version that reads it; without it the first format
//!
//! Channels, and what is said there:
//!
//! - `ns:{tag}:n:<session>`: `F` a frame, `G` grown to, `A` attached, `T` stream taken
//! - `ns:{tag}:y:<connection>`: the same, of an outbox
//! - `ns:{tag}:o:<worker>`: `I` something arrived for a session this worker holds
//! - `ns:{tag}:o:<worker>+`: `C` a command, with its name, for a session this worker holds; `H` a
//!   session for this worker to take
//! - `ns:{tag}:w:<agent>`: `R` a session wants a worker
//! - `ns:{revoked}:n`: `V` a revocation

use sha1_smol::Sha1;
use sha2::{Digest as _, Sha256};

use crate::id::{ConnectionId, LogId, Partition, SessionId};
use crate::store::Topic;

/// Of a hash: names of any length become one of the same.
fn start(text: &str) -> String {
    Sha1::from(text).digest().to_string()[..16].to_owned()
}

#[derive(Clone, Debug)]
pub(super) struct RedisKeys {
    namespace: String,
}

impl RedisKeys {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
        }
    }

    fn of(&self, partition: Partition, kind: &str, name: &str) -> String {
        let parts = [
            &self.namespace,
            ":{",
            &partition.tag(),
            "}:",
            kind,
            ":",
            name,
        ];
        parts.concat()
    }

    pub fn session(&self, id: &SessionId) -> String {
        self.of(id.partition(), "s", id.as_str())
    }

    pub fn events(&self, id: &SessionId) -> String {
        self.of(id.partition(), "e", id.as_str())
    }

    pub fn history(&self, id: &SessionId) -> String {
        self.of(id.partition(), "h", id.as_str())
    }

    pub fn frozen(&self, id: &SessionId) -> String {
        self.of(id.partition(), "z", id.as_str())
    }

    pub fn lineage(&self, id: &SessionId) -> String {
        self.of(id.partition(), "l", id.as_str())
    }

    pub fn forks(&self, id: &SessionId) -> String {
        self.of(id.partition(), "f", id.as_str())
    }

    /// As in `stored.lua`.
    pub fn account(&self, partition: Partition, principal: &str) -> String {
        self.of(partition, "b", &start(principal))
    }

    /// As in `lists.lua`.
    pub fn list(&self, partition: Partition, principal: &str, cwd: Option<&str>) -> String {
        let all = self.of(partition, "ls", &start(principal));
        match cwd {
            Some(cwd) => format!("{all}:{}", start(cwd)),
            None => all,
        }
    }

    pub fn gone(&self, partition: Partition) -> String {
        format!("{}:{{{}}}:gone", self.namespace, partition.tag())
    }

    pub fn rest(&self, partition: Partition) -> String {
        format!("{}:{{{}}}:rest", self.namespace, partition.tag())
    }

    pub fn idle(&self, partition: Partition) -> String {
        format!("{}:{{{}}}:idle", self.namespace, partition.tag())
    }

    pub fn inbox(&self, id: &SessionId) -> String {
        self.of(id.partition(), "c", id.as_str())
    }

    pub fn parties(&self, id: &SessionId) -> String {
        self.of(id.partition(), "p", id.as_str())
    }

    pub fn due(&self, partition: Partition, agent: &str) -> String {
        self.of(partition, "due", agent)
    }

    /// No agent has a colon in its name. As in `hand_over.lua`.
    pub fn room(&self, partition: Partition, agent: &str) -> String {
        self.of(partition, "due", &format!("room:{agent}"))
    }

    pub fn asked(&self, partition: Partition, agent: &str) -> String {
        self.of(partition, "due", &format!("asked:{agent}"))
    }

    pub fn connection(&self, id: &ConnectionId) -> String {
        self.of(id.partition(), "k", id.as_str())
    }

    pub fn outbox(&self, id: &ConnectionId) -> String {
        self.of(id.partition(), "x", id.as_str())
    }

    pub fn client(&self, id: &ConnectionId) -> String {
        self.of(id.partition(), "d", id.as_str())
    }

    pub fn requests(&self, id: &ConnectionId) -> String {
        self.of(id.partition(), "q", id.as_str())
    }

    pub fn log(&self, log: &LogId) -> String {
        match log {
            LogId::Session(id) => self.events(id),
            LogId::Outbox(id) => self.outbox(id),
        }
    }

    /// The tag follows from the name, so that all replicas agree and no node has all of them.
    pub fn spent(&self, name: &str, partitions: u16) -> String {
        let hash = Sha256::digest(name);
        let partition = u16::from_be_bytes([hash[0], hash[1]]) % partitions.max(1);
        let start: String = hash[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.of(Partition(partition), "u", &start)
    }

    pub fn agents(&self) -> String {
        format!("{}:{{agents}}:cards", self.namespace)
    }

    pub fn alive(&self, agent: &str) -> String {
        format!("{}:{{agents}}:alive:{agent}", self.namespace)
    }

    pub fn came(&self, agent: &str) -> String {
        format!("{}:{{agents}}:came:{agent}", self.namespace)
    }

    pub fn revoked(&self) -> String {
        format!("{}:{{revoked}}:all", self.namespace)
    }

    pub fn revoked_by(&self, asked: &str, principal: &str) -> String {
        format!("{}:{{revoked}}:by:{asked}:{principal}", self.namespace)
    }

    pub fn revoked_until(&self) -> String {
        format!("{}:{{revoked}}:until", self.namespace)
    }

    pub fn reports(&self) -> String {
        format!("{}:{{reports}}:all", self.namespace)
    }

    pub fn orders(&self) -> String {
        format!("{}:{{reports}}:orders", self.namespace)
    }

    pub fn format(&self) -> String {
        format!("{}:{{format}}:store", self.namespace)
    }

    pub fn restored(&self) -> String {
        format!("{}:{{format}}:restored", self.namespace)
    }

    pub fn channel(&self, topic: &Topic) -> String {
        match topic {
            Topic::Log(LogId::Session(id)) => self.of(id.partition(), "n", id.as_str()),
            Topic::Log(LogId::Outbox(id)) => self.of(id.partition(), "y", id.as_str()),
            Topic::Inbox(partition, worker) => self.of(*partition, "o", &worker.0),
            Topic::Handed(partition, worker) => self.of(*partition, "o", &format!("{}+", worker.0)),
            Topic::Ready(partition, agent) => self.of(*partition, "w", agent),
            Topic::Revocations => format!("{}:{{revoked}}:n", self.namespace),
        }
    }

    /// The log that a channel of kind `n` or `y` is about.
    pub fn log_of(channel: &str) -> Option<LogId> {
        let (head, name) = channel.rsplit_once(':')?;
        match head.rsplit_once(':')?.1 {
            "n" => SessionId::parse(name).map(LogId::Session),
            "y" => ConnectionId::parse(name).map(LogId::Outbox),
            _ => None,
        }
    }
}
