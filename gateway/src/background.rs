//! Tasks that run beside all requests.
//!
//! | file | contents |
//! |---|---|
//! | `no_worker` | answers commands for which no worker is alive |
//! | `queue_metrics` | counts the sessions that wait for each agent |

pub mod no_worker;
pub mod queue_metrics;
