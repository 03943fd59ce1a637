//! The HTTP edge: takes what clients send to the store, and brings what the store holds to them.
//! Keeps nothing that another replica would miss.
//!
//! The folders are the stages of a request, and this is its way:
//!
//! | stage | contents |
//! |---|---|
//! | [`net`] | from the socket to the HTTP connection: accepting, TLS, the client's address |
//! | [`router`] | all routes on one page |
//! | `middleware` | the layers around every request, on one page |
//! | [`http`] | headers, origins, the body |
//! | [`auth`] | the caller: API keys, bearer tokens, logins, tickets; revocations |
//! | [`access`] | what lets a request in: its connection token, a session token, or both |
//! | [`limits`] | how much one caller may take |
//! | `handlers` | one verb per file; the routes lead here |
//! | `methods` | one JSON-RPC message becomes one step on the store |
//! | `responses` | the door for clients that speak Open Responses, beside ACP's |
//! | `openapi` | what is under `/v1`, described for programs |
//! | `door` | what the doors beside ACP's share |
//! | `turns` | the turns of a session, read from its log |
//! | `mcp` | what MCP clients ask becomes such messages, and what is told of turns theirs |
//! | `stream` | back again: hub, feeds, and the ways to write them out |
//!
//! Beside them:
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | serves until the stop signal |
//! | [`app`] | assembles everything that requests share |
//! | `agents` | the agent of a request, and those to choose from |
//! | `background` | tasks beside all requests: no worker is alive, queue metrics |
//! | [`drain`] | stopping without cutting anybody off |
//! | [`error`] | the only place with status codes |
//! | [`metrics`], `trace`, `audit` | what is counted, traced and recorded |
//! | [`top_use`] | which sessions and callers send most |
//! | [`admin`] | the administration interface, on a port of its own |

pub mod access;
pub mod admin;
mod agents;
pub mod app;
mod audit;
pub mod auth;
mod background;
mod door;
pub mod drain;
pub mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod handlers;
pub mod http;
pub mod limits;
mod mcp;
mod methods;
pub mod metrics;
mod middleware;
pub mod net;
mod openapi;
mod responses;
pub mod router;
pub mod server;
mod stream;
pub mod top_use;
mod trace;
mod turns;

pub use app::{App, GatewayConfig, StopSignals, WorkerKiller};
pub use mcp::{ConversationScope, McpDoorOptions};
pub use metrics::GatewayMetrics;
pub use net::connection_limits::ConnectionLimits;
pub use net::socket::listen;
pub use server::serve;
pub use trace::TraceSampling;
