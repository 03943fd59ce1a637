//! From the socket to the HTTP connection, and the address of the client at its other end.
//!
//! | file | contents |
//! |---|---|
//! | `listener` | accepts connections, each TLS handshake in a task of its own |
//! | `socket` | sockets that end when their client does not read |
//! | `tls` | the certificate, read again when its files change |
//! | `connection_limits` | how many connections there may be, and which one makes room |
//! | `connection` | HTTP/1.1 and HTTP/2 on one connection |
//! | `header_timeout` | how long the head of a request may take |
//! | `byte_meter` | counts received bytes, for the header timeout and for WebSocket messages |
//! | `transport` | the options of all this |
//! | `peer`, `proxies`, `forwarded` | the client's address, as trusted proxies tell it |

pub mod byte_meter;
pub mod connection;
pub mod connection_limits;
pub mod forwarded;
pub mod header_timeout;
pub mod listener;
pub mod peer;
pub mod proxies;
pub mod socket;
pub mod tls;
pub mod transport;
