//! Tokens from anybody: whatever is taken was signed by us, and there is one way to write it.

use std::sync::LazyLock;
use std::time::Duration;

use baton_session::token::{KeyRing, unverified};

/// The time at which the seeds are good.
const NOW: u64 = 1_794_852_300;

/// Those that write a token in one way only. The keys are for nothing else.
static RINGS: LazyLock<[KeyRing; 2]> = LazyLock::new(|| {
    let keys = [
        include_str!("../../../fuzz/seeds/hs256.json"),
        include_str!("../../../fuzz/seeds/eddsa.json"),
    ];
    keys.map(|keys| KeyRing::parse(keys).expect("a good key set"))
});

pub fn token(data: &[u8]) {
    let Ok(token) = std::str::from_utf8(data) else {
        return;
    };
    let _ = unverified(token);
    for ring in &*RINGS {
        let _ = ring.verify_any(token);
        if let Ok(grant) = ring.verify_session_at(token, NOW) {
            assert_eq!(ring.sign_session(&grant).expose(), token);
        }
        if let Ok(connection) = ring.verify_connection_at(token, NOW) {
            let lifetime = Duration::from_secs(connection.expires - connection.issued);
            let again = ring.sign_connection(&connection, lifetime);
            assert_eq!(again.expose(), token);
        }
    }
}
