//! Clients of every kind. Each does what a careful client does: repeats a request that was not
//! acknowledged, with the same id; comes back after the last complete event, at any gateway.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;

pub mod line;
mod lives;
pub mod roles;
mod socket;
mod talk;
mod wire;

/// Where the agents are, behind the address of a gateway: the scripted one, and one that is a program.
pub const SCRIPTED: &str = "";
pub const PROGRAM: &str = "/counter";

/// What all clients share.
pub struct World {
    pub fronts: Vec<String>,
    pub ledger: Arc<Ledger>,
    pub seed: u64,
    /// There are workers whose agent is a program.
    pub programs: bool,
    /// No new prompts: finish and leave.
    pub over: CancellationToken,
    /// Sessions that others may load.
    pub sessions: Mutex<Vec<String>>,
}

impl World {
    /// Half of the clients leave a stream now and then, or when it is silent. The others wait: only
    /// they notice if something is forgotten that the next connection would find.
    pub fn is_patient(rng: &mut StdRng) -> bool {
        rng.random_bool(0.5)
    }

    /// A source of randomness that depends on the seed and the client alone.
    pub fn rng(&self, name: &str) -> StdRng {
        let spread = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        StdRng::seed_from_u64(name.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, spread))
    }
}

/// Not in this test.
pub fn never() -> Instant {
    Instant::now() + Duration::from_secs(1 << 30)
}

pub fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } })
}

pub fn anywhere(world: &World, agent: &str, rng: &mut StdRng) -> String {
    let front = &world.fronts[rng.random_range(0..world.fronts.len())];
    format!("{front}{agent}")
}
