//! Sessions and the stores that keep them: no HTTP, no agent.
//!
//! | word | where |
//! |---|---|
//! | session, connection, partition | [`id`] |
//! | event, frame: what a log consists of | [`event`] |
//! | command: what waits in an inbox | [`command`] |
//! | route: on which stream a connection reads | [`route`] |
//! | cursor: where a client stands | [`cursor`] |
//! | where a page of a list of sessions ends | [`list_position`] |
//! | connection and session tokens, the keys that sign them | [`token`] |
//! | the formats of what is kept, by number | [`format`] |
//! | what must not be printed | [`secret`] |
//! | revoked tokens | [`revocation`] |
//! | a session as lines, to be moved elsewhere | [`archive`] |
//! | a data directory as one file | [`backup`] |
//! | where in a trace a command or an answer belongs | [`trace`] |
//! | what metrics are made of | [`metrics`] |
//! | where in a log modes and options have changed | [`settings_history`] |
//! | the store, what each of its steps promises | [`store`] |
//! | locking a mutex for a short section | [`sync`] |
//!
//! The data model, whichever store keeps it:
//!
//! | of | what | written by |
//! |---|---|---|
//! | a session | **log** of frames, numbered without holes | the holder, [`WorkerStore::append`] |
//! | | **inbox** of commands, acknowledged by appends | gateways, [`GatewayStore::enqueue`] |
//! | | **lease**: who may append, until when | workers |
//! | | **parties**: connections, their routes, their open streams | gateways and the log itself |
//! | | **state, view, pending**: for the next worker or reader | the append that changes it |
//! | a connection | **outbox**: a log beside those of sessions | gateways, [`GatewayStore::post`] |
//! | all of them | **revocations**, while they matter | gateways, [`CredentialStore::revoke`] |
//! | | **single-use names**, once used | gateways, [`CredentialStore::spend`] |
//!
//! [`WorkerStore::append`]: store::WorkerStore::append
//! [`GatewayStore::enqueue`]: store::GatewayStore::enqueue
//! [`GatewayStore::post`]: store::GatewayStore::post
//! [`CredentialStore::revoke`]: store::CredentialStore::revoke
//! [`CredentialStore::spend`]: store::CredentialStore::spend

pub mod archive;
pub mod audit;
pub mod backup;
mod block;
pub mod clock;
pub mod command;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod cursor;
pub mod event;
pub mod field;
pub mod file_watch;
pub mod format;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
pub mod guard;
pub mod id;
pub mod list_position;
pub mod metrics;
pub mod report;
pub mod revocation;
pub mod route;
pub mod secret;
pub mod settings_history;
pub mod store;
pub mod sync;
pub mod token;
pub mod trace;
