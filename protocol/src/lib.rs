//! The protocol between clients, gateways, workers and agents: no I/O, no async, no HTTP.
//!
//! Every other crate uses it. Each fact about the protocol has one home:
//!
//! | fact | where |
//! |---|---|
//! | the parts of a JSON-RPC message, borrowed from its bytes | [`envelope`] |
//! | a client's message as a gateway takes it: checked and read once | [`inbound`] |
//! | method names, and the rules that apply to each method | [`method`] |
//! | error codes: number, name, meaning, advice | [`error_code`] |
//! | close codes of WebSockets | [`close_code`] |
//! | header names | [`header`] |
//! | fields of `_meta` that belong to Baton | [`meta`] |
//! | the largest message, the longest fields | [`limits`] |
//! | kinds of `session/update` | [`update`] |
//! | notices of turns, for clients that ask for them | [`turn_notice`] |
//! | messages that Baton writes itself | [`compose`] |
//! | another session id in a message, every other byte as it was | [`address`] |
//!
//! Payloads pass as bytes: nothing here writes a payload anew.

pub mod address;
pub mod close_code;
pub mod compose;
pub mod envelope;
pub mod error_code;
pub mod header;
pub mod inbound;
pub mod limits;
pub mod meta;
pub mod method;
pub mod turn_notice;
pub mod update;

pub use close_code::CloseCode;
pub use envelope::Envelope;
pub use error_code::ErrorCode;
pub use inbound::Inbound;
pub use method::Method;
pub use update::UpdateKind;

/// The version of ACP that Baton speaks.
pub const PROTOCOL_VERSION: u16 = 1;
/// The directory of a session that only carries a login to the agent. No client can name it: it is
/// no path.
pub const LOGIN_DIRECTORY: &str = "baton:login";
