//! The door for clients that speak MCP: `/mcp`, and `/mcp/NAME` for an agent.
//!
//! It translates and keeps nothing. A call of a tool becomes messages of ACP that take the way of
//! all others through [`methods`](crate::methods), so access, limits and the audit log are those of
//! every door; what is told of a turn is read from the session's log, on whichever gateway.
//!
//! | file | contents |
//! |---|---|
//! | `revision` | the revisions of MCP, and how they differ |
//! | `fault` | answers that are errors: for the client, or for the model |
//! | `call` | one request with all that decides how it is carried out; sends messages of ACP |
//! | `tools`, `arguments` | the tools as clients see them, and what they take |
//! | `invoke` | a tool is called |
//! | `named_session` | the session that a call is about |
//! | `turn_reference` | names of turns that any gateway can go on from |
//! | `turn_reader` | what the events of a log say about a turn |
//! | `turn_lookup` | how far a turn is |
//! | `turn_feed` | a turn as a stream: progress, questions, the result |
//! | `questions` | the agent's questions as elicitations, and back |
//! | `results` | what a tool answers |
//! | `transcript`, `resources` | a session to be read |
//! | `tasks`, `task_watch` | turns as tasks, for clients that take them |
//! | `sessionless` | requests of the revision that knows no sessions |
//! | `exchange` | one request, and its reply |

mod arguments;
mod call;
mod exchange;
mod fault;
mod invoke;
mod named_session;
mod questions;
mod resources;
mod results;
mod revision;
mod sessionless;
mod task_watch;
mod tasks;
mod tools;
mod transcript;
mod turn_feed;
mod turn_lookup;
mod turn_reader;
mod turn_reference;

pub use self::call::{
    ConversationScope, MAX_ID, McpClient, McpClientCall, McpDoorOptions, McpServices,
};
pub use self::exchange::{McpReply, answer_question, cancel, handle, initialize};
pub use self::fault::{CallError, RpcFault};
pub use self::revision::McpRevision;
pub use self::sessionless::{SessionlessRequest, is_sessionless};
pub use self::turn_feed::TurnFeed;
pub use self::turn_reference::FollowedCall;
