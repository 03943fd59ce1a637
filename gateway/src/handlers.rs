//! One verb per file.

pub mod agents;
pub mod archive;
pub mod caller;
mod client_description;
pub mod console;
pub mod delete;
pub mod initialize;
pub mod links;
pub mod login;
pub mod mcp;
mod message;
pub mod oidc;
pub mod operator;
pub mod post;
pub mod probe;
pub mod responses;
pub mod sessions;
pub mod stream;
pub mod tickets;
pub mod websocket;
