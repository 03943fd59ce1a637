//! The HTTP edge: takes what clients send to the store, and brings what the store holds to them.
//! Keeps nothing that another replica would miss.
//!
//! Read in this order, which is the way of a request:
//!
//! | file | what |
//! |---|---|
//! | [`server`] | the stop signal |
//! | `doors`, [`tls`], `socket` | lets connections in, shakes hands, gives up who does not read |
//! | `connection`, `heads` | what is spoken on one, and how long the head of a request may take |
//! | [`transport`] | how bytes get here, as far as it can be chosen |
//! | [`router`] | all routes on one page |
//! | `entrance` | what every request passes on its way in and out |
//! | `trace` | spans, if somebody wants them |
//! | [`auth`] | who calls |
//! | `revoked` | what is refused although its signature is good |
//! | `standing` | on whose behalf a stream is open, and for how long |
//! | `mint` | makes session tokens |
//! | `pass` | what lets a request in: its connection, a session token, or both |
//! | `connections` | how many connections there may be, and which makes room |
//! | `body` | its body, read within the budgets |
//! | `edge` | what a request must look like, and whose it is |
//! | [`limits`] | what one caller may take |
//! | `client_description` | what a client says of itself, for agents |
//! | `agents` | which agent a request is about, and what there is to choose from |
//! | `handlers` | one verb per file |
//! | `dispatch` | one JSON-RPC message becomes one step on the store |
//! | `stream` | back again: hub, feeds, and the three ways to write them out |
//! | [`drain`] | stopping without cutting anybody off |
//! | `withdraw` | what becomes of commands when no worker is alive |
//! | `census` | how many sessions wait for which agent |
//! | [`metrics`] | what is counted and timed |
//! | [`admin`] | what operators ask for, on a port of its own |
//! | [`error`] | the only place with status codes |

pub mod admin;
mod agents;
pub mod app;
mod audit;
pub mod auth;
mod body;
mod census;
mod client_description;
mod connection;
mod connections;
mod dispatch;
mod doors;
pub mod drain;
pub mod edge;
mod entrance;
pub mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod handlers;
mod heads;
pub mod limits;
mod metered;
pub mod metrics;
mod mint;
mod pass;
mod revoked;
pub mod router;
pub mod server;
mod socket;
mod standing;
mod stream;
pub mod tls;
mod trace;
pub mod transport;
mod withdraw;

pub use app::{App, Config, Stop};
pub use connections::ConnectionLimits;
pub use metrics::Metrics;
pub use server::serve;
pub use socket::listen;
pub use trace::Traces;
