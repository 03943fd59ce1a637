//! The door for clients that speak Open Responses: `/v1/responses` and `/v1/models`. It translates
//! and keeps nothing: a request becomes ACP messages of a connection of its own, and a response is
//! read from the session's log, by whichever gateway is asked.
//!
//! | file | contents |
//! |---|---|
//! | `request` | the body of a request, checked field by field |
//! | `input` | its input as content of a prompt |
//! | `terms` | what it asked for, as it is reported back: it travels in the prompt |
//! | `name` | the id of a response: where it is in which log |
//! | `start` | begins a response: a new session, one that goes on, or a fork |
//! | `place` | where a response is in its session, and what came after it |
//! | `retrieve` | a response that was begun before: read, followed, cancelled, deleted |
//! | `fold` | a session's events become a response: its object, or the events of its stream |
//! | `item` | its output items |
//! | `open_question` | the question of a turn that waits for its answer |
//! | `question` | a question of the agent as items, and its answer |
//! | `object` | the object with all its fields |
//! | `feed` | a response as a stream that follows the log |
//! | `models` | agents as models |
//! | `fault` | errors in the form of this protocol |

pub mod fault;
pub mod feed;
pub mod fold;
mod input;
mod item;
pub mod models;
pub mod name;
mod object;
mod open_question;
mod place;
mod question;
pub mod request;
pub mod retrieve;
pub mod start;
mod terms;

pub use self::terms::REPORTED;

use std::sync::Arc;

use baton_session::store::Store;

use crate::agents::AgentCatalog;
use crate::methods::MethodServices;
use crate::stream::StreamServices;

/// All that this door needs of its gateway.
#[derive(Clone, Copy)]
pub struct ResponseServices<'a> {
    pub store: &'a Arc<dyn Store>,
    pub agents: &'a AgentCatalog,
    pub methods: &'a MethodServices,
    pub streams: &'a Arc<StreamServices>,
    /// Where sessions live whose client names no directory.
    pub default_cwd: &'a str,
}
