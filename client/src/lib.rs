//! A client of Baton for programs that speak ACP and do not want to handle the network: messages go
//! in, messages come out, each once and in order, however often the network breaks in between.
//!
//! | module | what |
//! |---|---|
//! | [`options`] | options: URL, credential, transport |
//! | [`connection`] | the handle |
//! | `driver` | the one task behind it, which owns its state; `job` is its current request |
//! | `in_flight`, `agent_requests` | pending requests, requests of the agent, and open sessions |
//! | `transport` | HTTP to the gateway: sockets, TLS, proxies |
//! | `endpoint` | requests to a gateway, and what their answers mean |
//! | [`credential`] | the caller's credential, and how it is renewed |
//! | `delivery` | delivers a message, with retries; `reachability`: whether the server answers |
//! | `stream` | messages from the server, over SSE or WebSocket, resumed where it broke off |
//! | `resume` | another connection in place of one that is over, with the same sessions |
//! | [`bridge`] | all of it on stdin and stdout |
//!
//! A tool that makes a few requests uses [`Endpoint`] and [`SseStream`] without the task: it
//! repeats and resumes by itself.
//!
//! Messages are always sent by POST: a 202 response means that the message is stored, so nothing
//! has to be guessed after a broken connection. Messages from the server arrive on one stream, the
//! connection's. It has the same cursor over SSE and WebSocket, so a client can switch between the
//! two.
//!
//! Depends on none of the server's crates: what it knows of Baton is what docs/reference says.

mod agent_requests;
mod backoff;
pub mod bridge;
pub mod connection;
pub mod credential;
mod delivery;
mod driver;
mod endpoint;
pub mod error;
mod in_flight;
mod job;
pub mod options;
mod reachability;
mod resume;
mod stream;
mod transport;

pub use connection::{Connection, MessageReceiver, MessageSender, connect};
pub use credential::Credential;
pub use endpoint::{Download, Endpoint, OpenedConnection};
pub use error::RequestFailure;
pub use options::{ClientOptions, StreamTransport};
pub use stream::{SseStream, StreamEvent, StreamItem};
