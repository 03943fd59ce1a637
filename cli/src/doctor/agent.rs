//! The agent: it is started once, and has to introduce itself.

use std::path::PathBuf;

use baton_worker::WorkerMetrics;

use super::Finding;
use crate::agent::installed;
use crate::agent_policy::ClientTrust;
use crate::options::WorkerOptions;

const SUBJECT: &str = "agent";
const LOGIN_SUBJECT: &str = "agent's login";
/// Of ACP, as spoken here.
const PROTOCOL_VERSION: u64 = 1;

pub async fn check(
    options: &WorkerOptions,
    kept: &[PathBuf],
    clients: ClientTrust,
) -> Vec<Finding> {
    let command = match options.agent.command() {
        Ok(Some(command)) => command,
        Ok(None) => {
            let name = options.agent.built_in().unwrap_or_default();
            return vec![Finding::ok(SUBJECT, format!("{name}, which is built in"))];
        }
        Err(fault) => return vec![Finding::fail(SUBJECT, fault)],
    };
    if let Some(fault) = installed::fault(&command, &options.agent.search_path()) {
        return vec![Finding::fail(SUBJECT, fault)];
    }
    let started = introduction(options, &command, kept, clients).await;
    [Some(started), login(options)]
        .into_iter()
        .flatten()
        .collect()
}

/// Its answer to `initialize`.
async fn introduction(
    options: &WorkerOptions,
    command: &[String],
    kept: &[PathBuf],
    clients: ClientTrust,
) -> Finding {
    let agent = match options
        .agent(kept, clients, &WorkerMetrics::default())
        .await
    {
        Ok(agent) => agent,
        Err(error) => {
            return Finding::fail(
                SUBJECT,
                format!(
                    "{error:#}\nRun `{}` in a shell to see what it needs; --agent-env passes \
                     variables to it, --agent-start-timeout gives it longer",
                    command.join(" ")
                ),
            );
        }
    };
    let card = agent.card();
    let introduced = format!("{} {}", card.name, card.version);
    match card.initialize["protocolVersion"].as_u64() {
        Some(PROTOCOL_VERSION) => Finding::ok(SUBJECT, format!("{introduced} starts and answers")),
        version => Finding::fail(
            SUBJECT,
            format!(
                "{introduced} speaks version {} of ACP, and this Baton version \
                 {PROTOCOL_VERSION}. Install a version of the agent that speaks it",
                version.map_or("unknown".to_owned(), |version| version.to_string())
            ),
        ),
    }
}

/// Whether a product has a key. It may also have a login in its HOME, which only the product can
/// tell.
fn login(options: &WorkerOptions) -> Option<Finding> {
    let known = options.agent.missing_credentials()?;
    Some(Finding::warn(
        LOGIN_SUBJECT,
        format!(
            "none of {} is set: unless it has logged in before, prompts fail. To change that: {}",
            known.credentials.join(", "),
            known.login.replace('`', "")
        ),
    ))
}
