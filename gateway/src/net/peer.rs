//! Where a request came from, as far as that can be believed.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPeer {
    /// The client's own address, not that of a proxy in between.
    pub address: IpAddr,
    /// The client's end of the way is encrypted.
    pub secure: bool,
}

impl ClientPeer {
    /// Nobody in between could read what the request brings along.
    pub fn is_private(&self) -> bool {
        self.secure || self.address.is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_or_from_this_machine_is_private() {
        let private = |address: &str, secure: bool| {
            let address = address.parse().unwrap();
            ClientPeer { address, secure }.is_private()
        };
        assert!(private("203.0.113.1", true) && private("127.0.0.1", false));
        assert!(private("::1", false) && private("::1", true));
        assert!(!private("203.0.113.1", false) && !private("10.0.0.1", false));
    }
}
