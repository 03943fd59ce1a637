//! The `baton` binary: reads the command line, wires the parts together, and nothing else.

use std::process::ExitCode;

use baton_gateway::StopSignals;
use clap::{Parser, Subcommand};

use crate::telemetry::TraceOptions;

mod admin;
mod agent;
mod agent_policy;
mod agents;
mod audit;
mod chat;
mod command_line;
mod completions;
mod config;
mod config_file;
mod connect;
mod descriptors;
mod doctor;
mod dumpable;
mod edge;
mod exit;
mod exposure;
mod failure_report;
mod gateway;
mod headings;
mod health;
mod key_file;
mod limits;
mod llm;
mod local_http;
mod man;
mod mcp;
mod memory;
mod meters;
mod options;
mod probes;
mod provider_login;
mod reference;
mod remote;
mod reports;
mod revoke;
mod roles;
mod secrets;
mod serve;
mod sessions;
mod signals;
mod store;
mod telemetry;
mod token;
mod transport;
mod worker;

/// Agent sessions over HTTP, on any replica.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: BatonCommand,
}

#[derive(Subcommand)]
enum BatonCommand {
    /// Run gateway, worker and store in one process; needs no configuration
    Serve(Box<serve::ServeArguments>),
    /// Run a gateway: takes requests of clients over HTTP
    Gateway(gateway::GatewayArguments),
    /// Run a worker: takes sessions and runs their agent
    Worker(worker::WorkerArguments),
    /// Connect an editor to a remote agent over standard input and output
    Connect(connect::ConnectArguments),
    /// Talk to a remote agent in the terminal or in a script
    Chat(chat::ChatArguments),
    /// List, show, follow, copy and delete sessions over HTTP
    Sessions(sessions::SessionsArguments),
    /// Check store, keys, clock, limits and agent before a start, and say what to do: exit code 0
    /// or 1
    ///
    /// Takes a role and its options as they would be started:
    /// `baton doctor gateway --store redis://127.0.0.1:6379 --keys keys.json`. Each check prints a
    /// line that begins with ok, warn or fail. The agent is started once. Nothing else is changed.
    /// Exit code 1 if a check fails.
    Doctor(doctor::Arguments),
    /// List the agents that --agent knows by name, and which are installed here
    Agents(agents::AgentsArguments),
    /// Check whether a process is ready: exit code 0 or 1
    Health(health::HealthArguments),
    /// Back up and restore data, create users of Redis
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Verify audit logs
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Create, inspect and revoke keys and tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Check a configuration file, or print the options in effect
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print a script that completes commands and options in a shell
    Completions(completions::CompletionArguments),
    #[command(hide = true)]
    Man(man::ManArguments),
    #[command(hide = true)]
    Reference,
    #[command(hide = true)]
    Guard(agent::GuardArguments),
    #[command(hide = true)]
    Confine(agent::GuardArguments),
}

fn main() -> ExitCode {
    let (arguments, file) = match command_line::parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    if arguments.command.holds_secrets() {
        dumpable::forbid();
    }
    match &arguments.command {
        BatonCommand::Guard(arguments) => return arguments.guard(),
        BatonCommand::Confine(arguments) => return arguments.confine(),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(memory::give_back)
        .build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let outcome = runtime.block_on(run(arguments.command));
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton: {}", failure_report::message(&error, &file));
            failure_report::code(&error).into()
        }
    }
}

async fn run(command: BatonCommand) -> anyhow::Result<()> {
    let telemetry = telemetry::start(command.traces(), command.logs())?;
    if command.traces().is_some() {
        descriptors::raise();
    }
    // Others end by a signal as programs do.
    let stop = if command.stops_in_order() {
        signals::stop()?
    } else {
        StopSignals::default()
    };
    // A gateway says so itself when its grace is over, and that is no hurry.
    let hurry = stop.now.clone();
    let stop = StopSignals {
        now: hurry.child_token(),
        ..stop
    };
    let outcome = match command {
        BatonCommand::Serve(arguments) => serve::run(*arguments, stop, &telemetry).await,
        BatonCommand::Gateway(arguments) => gateway::run(arguments, stop, &telemetry).await,
        BatonCommand::Worker(arguments) => worker::run(arguments, stop, &telemetry).await,
        BatonCommand::Connect(arguments) => connect::run(arguments, stop).await,
        BatonCommand::Chat(arguments) => chat::run(arguments).await,
        BatonCommand::Sessions(arguments) => sessions::run(arguments).await,
        BatonCommand::Doctor(arguments) => doctor::run(arguments).await,
        BatonCommand::Agents(arguments) => agents::run(&arguments),
        BatonCommand::Health(arguments) => health::run(arguments).await,
        BatonCommand::Store(command) => store::run(command).await,
        BatonCommand::Audit(command) => audit::run(command),
        BatonCommand::Token(command) => token::run(command).await,
        BatonCommand::Config(command) => config::run(command),
        BatonCommand::Completions(arguments) => completions::run(&arguments),
        BatonCommand::Man(arguments) => man::run(&arguments),
        BatonCommand::Reference => {
            reference::run();
            Ok(())
        }
        BatonCommand::Guard(_) | BatonCommand::Confine(_) => Ok(()),
    };
    telemetry.finish(&hurry).await;
    outcome
}

impl BatonCommand {
    /// Everything that keeps a process that serves from starting, as far as it can be known before
    /// it starts.
    fn faults(&self) -> Vec<String> {
        match self {
            Self::Serve(arguments) => arguments.faults(),
            Self::Gateway(arguments) => arguments.faults(),
            Self::Worker(arguments) => arguments.faults(),
            _ => Vec::new(),
        }
    }

    /// Processes that other programs of the same user, agents first of all, have no business to
    /// look into.
    fn holds_secrets(&self) -> bool {
        self.traces().is_some() || matches!(self, Self::Guard(_) | Self::Doctor(_))
    }

    fn stops_in_order(&self) -> bool {
        self.traces().is_some() || matches!(self, Self::Connect(_))
    }

    /// Which logs there are, unless somebody asks for others.
    fn logs(&self) -> &'static str {
        match self {
            // The client's network log lines would be mixed into the conversation.
            Self::Chat(_) => "warn,baton_client=off",
            // Its findings say the same.
            Self::Doctor(_) => "off",
            _ => telemetry::DEFAULT,
        }
    }

    /// The options of what serves, and its name in traces.
    fn traces(&self) -> Option<(&TraceOptions, &'static str)> {
        match self {
            Self::Serve(arguments) => Some((&arguments.traces, "baton")),
            Self::Gateway(arguments) => Some((&arguments.traces, "baton-gateway")),
            Self::Worker(arguments) => Some((&arguments.traces, "baton-worker")),
            Self::Connect(_)
            | Self::Chat(_)
            | Self::Sessions(_)
            | Self::Doctor(_)
            | Self::Agents(_)
            | Self::Health(_)
            | Self::Store(_)
            | Self::Audit(_)
            | Self::Token(_)
            | Self::Config(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Reference
            | Self::Guard(_)
            | Self::Confine(_) => None,
        }
    }
}
