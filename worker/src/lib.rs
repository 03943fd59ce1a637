//! Workers: claim a session, run its agent, write what it says. No HTTP.
//!
//! Read in this order, which is the way of a prompt:
//!
//! | file | what |
//! |---|---|
//! | [`runner`] | takes sessions while it has room; wake-ups are hints, sweeping is the truth |
//! | [`leases`] | which sessions are held, and the renewal of their leases |
//! | [`outages`] | when the store was away, and leases that ran out say nothing |
//! | [`hold`] | one held session: its inbox in order, until nothing waits |
//! | [`admission`] | what a session may work with: its MCP servers ([`mcp`]) and its directories ([`workspace`], [`per_principal`]) |
//! | [`agent_policy`] | what an agent is told of what clients say |
//! | [`turn`] | one prompt from begin to answer |
//! | [`journal`] | what a turn has already said, so that a taken-over turn says it only once |
//! | [`asides`] | what an agent asks beside its turns |
//! | [`content`] | what a prompt may consist of |
//! | [`notes`] | what updates say about the session itself: title, usage, bindings |
//! | [`release`] | tells the outside that what was bound to a session is free again |
//! | [`outlet`] | collects events and appends them in frames |
//! | [`written`] | what was written lately, in case the store loses it |
//! | [`metrics`] | what is counted and timed |
//! | [`trace`] | spans, if somebody wants them |
//! | [`housekeeping`] | what rests becomes smaller, what nobody uses goes |
//! | [`agent`] | the seam behind which agents live |

mod admission;
pub mod agent;
mod agent_policy;
mod out_of_turn_requests;
mod prompt_content;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod session_task;
mod housekeeping;
mod turn_replay;
mod leases;
pub mod mcp;
mod metrics;
mod session_metadata;
mod store_outages;
mod event_writer;
mod per_principal;
mod permission_audit;
mod release_hook;
mod rpc;
pub mod runner;
mod trace;
mod turn;
mod workspace;
mod rewrite_buffer;

pub use agent_policy::{AgentPolicy, NamePattern};
pub use metrics::WorkerMetrics;
pub use per_principal::PerPrincipal;
pub use release_hook::ReleaseHook;
pub use runner::{RunnerConfig, run};
pub use workspace::WorkspaceRoot;
