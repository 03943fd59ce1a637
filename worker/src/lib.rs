//! Workers: claim a session, run its agent, write what it says. No HTTP.
//!
//! Read in this order, which is the way of a prompt:
//!
//! | file | what |
//! |---|---|
//! | [`runner`] | takes sessions while it has room; wake-ups are hints, sweeping is the truth |
//! | [`leases`] | which sessions are held, and the renewal of their leases |
//! | [`store_outages`] | when the store was unavailable, so that expired leases prove nothing |
//! | [`session_task`] | one held session: runs its inbox in order, until nothing waits |
//! | [`admission`] | what a session may work with |
//! | [`mcp`] | its MCP servers |
//! | [`workspace`], [`per_principal`] | its directories |
//! | [`agent_policy`] | which parts of client messages reach an agent |
//! | [`turn`] | one prompt from begin to answer |
//! | [`turn_replay`] | the events that an interrupted turn has written, to be written once |
//! | [`out_of_turn_requests`] | requests of an agent outside of turns |
//! | [`prompt_content`] | the content types of a prompt |
//! | [`session_metadata`] | title, usage and bindings in updates |
//! | [`release_hook`] | runs the operator's command when bindings are released |
//! | [`event_writer`] | collects events and appends them in frames |
//! | [`rewrite_buffer`] | the last appends, in case the store loses them |
//! | [`conversation_changes`] | what an agent keeps for the next worker |
//! | [`store_retry`] | steps that wait for a store that is unavailable |
//! | [`stop_reason`] | why a turn ended |
//! | [`metrics`] | what is counted and timed |
//! | [`trace`] | spans, if somebody wants them |
//! | [`housekeeping`] | compacts idle sessions, removes expired ones |
//! | [`http_client`] | requests to model endpoints and MCP servers, bounded in time and bytes |
//! | [`agent`] | the seam behind which agents live |

mod admission;
pub mod agent;
mod agent_policy;
mod conversation_changes;
mod event_writer;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod housekeeping;
pub mod http_client;
mod inbox_hints;
mod leases;
pub mod mcp;
mod metrics;
mod out_of_turn_requests;
mod per_principal;
mod permission_audit;
mod prompt_content;
mod release_hook;
mod rewrite_buffer;
mod rpc;
pub mod runner;
mod session_metadata;
mod session_task;
mod stop_reason;
mod store_outages;
mod store_retry;
mod trace;
mod turn;
mod turn_replay;
mod workspace;

pub use agent_policy::{AgentPolicy, NamePattern};
pub use metrics::{AgentProcessMetrics, ModelMetrics, WorkerMetrics};
pub use per_principal::PerPrincipal;
pub use release_hook::ReleaseHook;
pub use runner::{RunnerConfig, run};
pub use workspace::WorkspaceRoot;
