//! `baton doctor`: looks at everything that a role needs before it is started, and says what to do
//! about what is wrong. Takes the options of the role, so that a command line can be tried by
//! putting `doctor` into it.
//!
//! | file | checks |
//! |---|---|
//! | `machine` | open files, ports |
//! | `redis` | the store of gateways and workers, and its clock |
//! | `directory` | the data directory of `baton serve` |
//! | `keys` | the keys that sign tokens |
//! | `agent` | the agent: it is started once |

use std::ffi::OsString;

use anyhow::bail;
use clap::Args;

use self::finding::{Finding, print};
use crate::agent_policy::ClientTrust;
use crate::exit::ConfigurationError;
use crate::{BatonCommand, command_line, descriptors, gateway, serve, worker};

mod agent;
mod directory;
mod finding;
mod keys;
mod machine;
mod redis;

#[derive(Args)]
pub struct Arguments {
    /// Role, followed by the options it would be started with; `serve` if there is none
    #[arg(
        value_name = "ROLE [OPTIONS]",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    descriptors::raise();
    let findings = match command_line::read(&arguments.role())? {
        BatonCommand::Serve(arguments) => for_serve(&arguments).await,
        BatonCommand::Gateway(arguments) => for_gateway(&arguments).await,
        BatonCommand::Worker(arguments) => for_worker(&arguments).await,
        _ => {
            let fault = "baton doctor checks serve, gateway or worker".to_owned();
            return Err(ConfigurationError(vec![fault]).into());
        }
    };
    print(&findings);
    let failures = findings.iter().filter(|finding| finding.is_failure());
    match failures.count() {
        0 => Ok(()),
        1 => bail!("one check failed"),
        failed => bail!("{failed} checks failed"),
    }
}

impl Arguments {
    /// The command line of the role.
    fn role(&self) -> Vec<OsString> {
        let mut words = vec![OsString::from("baton")];
        if self.words.is_empty() {
            words.push("serve".into())
        } else {
            words.extend(self.words.iter().cloned())
        }
        words
    }
}

async fn for_serve(arguments: &serve::ServeArguments) -> Vec<Finding> {
    let mut findings = options(arguments.faults());
    findings.push(machine::open_files());
    findings.push(machine::port("--listen", arguments.listen));
    if !arguments.ephemeral {
        findings.extend(directory::check(&arguments.data_dir));
    }
    let clients = arguments.edge.clients(arguments.listen);
    let kept = arguments.kept_from_agents(clients, None);
    findings.extend(agent::check(&arguments.worker, &kept, clients).await);
    findings
}

async fn for_gateway(arguments: &gateway::GatewayArguments) -> Vec<Finding> {
    // Those of the keys have a line of their own.
    let mut faults = arguments.faults();
    faults.retain(|fault| !fault.starts_with("--keys "));
    let mut findings = options(faults);
    findings.push(machine::open_files());
    findings.push(machine::port("--listen", arguments.listen));
    findings.push(keys::check(&arguments.keys));
    findings.extend(redis::check(&arguments.store).await);
    findings
}

async fn for_worker(arguments: &worker::WorkerArguments) -> Vec<Finding> {
    let mut findings = options(arguments.faults());
    findings.push(machine::open_files());
    let probes = arguments.probe_listen;
    findings.extend(probes.map(|address| machine::port("--probe-listen", address)));
    findings.extend(redis::check(&arguments.store).await);
    let kept = arguments.kept_from_agents();
    findings.extend(agent::check(&arguments.worker, &kept, ClientTrust::Anybody).await);
    findings
}

/// Everything that would keep the role from starting, whatever is around it.
fn options(faults: Vec<String>) -> Vec<Finding> {
    const SUBJECT: &str = "options";
    if faults.is_empty() {
        vec![Finding::ok(SUBJECT, "all can be used")]
    } else {
        let failures = faults.into_iter();
        let failures = failures.map(|fault| Finding::fail(SUBJECT, fault));
        failures.collect()
    }
}
