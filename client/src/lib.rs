//! A client of Baton for programs that speak ACP and do not want to handle the network: messages go
//! in, messages come out, each once and in order, however often the network breaks in between.
//!
//! | room | what |
//! |---|---|
//! | [`options`] | what it needs to know: where, with which credential, over which transport |
//! | [`connection`] | the handle |
//! | `driver` | the one task behind it, which owns what is known; `job` is what it has under way |
//! | `book`, `questions` | what the client waits for, what it was asked, and which sessions it has open |
//! | `line` | bytes to the gateway: sockets, TLS, proxies |
//! | `endpoint` | requests to a gateway, and what their answers mean |
//! | [`credential`] | what says who calls, and how it is renewed |
//! | `delivery` | a message is handed over, as often as it takes; `contact` says whether anybody is there |
//! | `stream` | what comes back, over SSE or WebSocket, from where it broke off |
//! | `resume` | another connection in place of one that is over, with the same sessions |
//! | [`bridge`] | all of it on stdin and stdout |
//!
//! Messages are always sent by POST: a 202 response means that the message is stored, so nothing
//! has to be guessed after a broken connection. Messages from the server arrive on one stream, the
//! connection's. It has the same cursor over SSE and WebSocket, so a client can switch between the
//! two.
//!
//! Depends on none of the server's crates: what it knows of Baton is what docs/reference says.

mod backoff;
mod in_flight;
pub mod bridge;
pub mod connection;
mod reachability;
pub mod credential;
mod delivery;
mod driver;
mod endpoint;
pub mod error;
mod job;
mod transport;
pub mod options;
mod agent_requests;
mod resume;
mod stream;

pub use connection::{Connection, MessageReceiver, MessageSender, connect};
pub use credential::Credential;
pub use options::{ClientOptions, StreamTransport};
