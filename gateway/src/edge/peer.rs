//! Where a request came from, as far as that can be believed.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The client's own address, not that of a proxy in between.
    pub address: IpAddr,
    /// The client's end of the way is encrypted.
    pub secure: bool,
}

impl Peer {
    /// Nobody in between could read what the request brings along.
    pub fn is_private(&self) -> bool {
        self.secure || self.address.is_loopback()
    }
}
