//! The errors that clients get when an agent fails.

use std::time::Duration;

use baton_protocol::ErrorCode;
use serde_json::{Value, json};

use crate::rpc::Failure;

/// The worker of this turn is gone, and its agent with it.
pub fn interrupted() -> Failure {
    Failure {
        code: ErrorCode::Interrupted.value(),
        message:
            "the worker that ran this turn stopped, and the agent with it: what was said until \
            then stands; send the prompt again: the agent will know what was said before it, \
            though perhaps not its own last words"
                .into(),
        data: Some(json!({ "retryable": true })),
    }
}

/// The agent refuses what was chosen for the session, and might do more than that allowed.
pub fn withheld(refused: &[String]) -> Failure {
    let refused = refused.join(", ");
    Failure {
        code: ErrorCode::ChoiceLost.value(),
        message: format!(
            "the agent was started anew and does not take {refused} any more, which was chosen for \
             this session: the prompt was not sent, as the agent might do more than that allows; \
             choose again with session/set_mode or session/set_config_option, then send the prompt \
             again"
        ),
        data: Some(json!({ "retryable": false })),
    }
}

/// The agent is gone. `why` says how, `stderr` what it wrote there last, if clients are told.
pub fn gone(why: &str, stderr: Option<Vec<String>>) -> Failure {
    Failure {
        code: ErrorCode::AgentFailed.value(),
        message: format!(
            "the agent {why}: what was said until then stands; it is started anew for the next \
             request"
        ),
        data: Some(retryable(stderr)),
    }
}

/// It could not be started.
pub fn not_started(why: &str, stderr: Option<Vec<String>>) -> Failure {
    Failure {
        code: ErrorCode::AgentFailed.value(),
        message: format!("the agent could not be started: it {why}"),
        data: Some(retryable(stderr)),
    }
}

/// The operator's limit is less than what one process takes.
pub fn check_memory(expected: u64, total: u64) -> Result<(), Failure> {
    let (takes, total) = (expected.div_ceil(1 << 20), total >> 20);
    if takes <= total {
        return Ok(());
    }
    Err(Failure::internal(format!(
        "--agent-memory-total {total}: one process of this agent takes {takes} MiB when it has \
         started, and more later: set it to several times that"
    )))
}

fn retryable(stderr: Option<Vec<String>>) -> Value {
    match stderr {
        Some(stderr) => json!({ "retryable": true, "stderr": stderr }),
        None => json!({ "retryable": true }),
    }
}

pub fn crash_loop(in_a_row: u32, why: &str, pause: Duration) -> Failure {
    let pause = pause.as_millis() as u64;
    Failure {
        code: ErrorCode::AgentFailed.value(),
        message: format!(
            "the agent could not be started {in_a_row} times in a row: {why}; the next attempt is \
             made after {pause} ms"
        ),
        data: Some(json!({ "retryable": true, "retryAfterMs": pause })),
    }
}
