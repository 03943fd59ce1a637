//! Ports for servers that tests start.

use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;

/// The holder of a number's UDP port owns its TCP port, too: tests run in many processes, and a
/// port that only looks free now may be taken by another before a server comes up. The system gives
/// them back.
static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// A port nobody listens on, below those that outgoing connections take: it must still be free when
/// the process that had it is started again.
pub fn free_port() -> u16 {
    loop {
        let port = rand::random_range(10_240..32_000);
        let Ok(taken) = UdpSocket::bind(("127.0.0.1", port)) else {
            continue;
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            TAKEN.lock().expect("held for moments only").push(taken);
            return port;
        }
    }
}
