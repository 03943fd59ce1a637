//! `baton sessions`: what an operator does with sessions, over HTTP as any client would.

use baton_client::Endpoint;
use clap::{Args, Subcommand};

use self::connection::SessionsConnection;
use self::terminal::{TerminalClosed, TerminalOutput};
use crate::exit::ConfigurationError;
use crate::remote::AccessOptions;

mod connection;
mod delete;
mod export;
mod fork;
mod import;
mod list;
mod portions;
mod show;
mod tail;
mod terminal;
mod transcript;

#[derive(Args)]
pub struct SessionsArguments {
    /// URL of Baton, such as https://baton.example.com
    ///
    /// Without a path it is /acp.
    #[arg(
        long,
        env = "BATON_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL",
        global = true
    )]
    url: String,
    #[command(flatten)]
    access: AccessOptions,
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Subcommand)]
enum SessionsCommand {
    /// List sessions, the most recently used first
    List(list::ListOptions),
    /// Print a conversation
    Show(show::ShowOptions),
    /// Follow a conversation until Ctrl-C
    Tail(tail::TailOptions),
    /// Create a session with the same history, and print its id
    Fork(fork::ForkOptions),
    /// Delete a session; succeeds if it does not exist
    Delete(delete::DeleteOptions),
    /// Write a session to standard output, one JSON object per line, or in another form
    Export(export::ExportOptions),
    /// Read a session from standard input, or conversations of other tools from their files
    ///
    /// Prints the ids of the sessions, and what was left out to standard error.
    Import(import::ImportOptions),
}

pub async fn run(arguments: SessionsArguments) -> anyhow::Result<()> {
    let options = arguments.access.client(&arguments.url, Vec::new())?;
    let server = Endpoint::new(options);
    let server = server.map_err(|fault| ConfigurationError(vec![fault.to_string()]))?;
    let mut out = TerminalOutput::default();
    let outcome = match arguments.command {
        SessionsCommand::Export(options) => export::run(&server, &options, &mut out).await,
        SessionsCommand::Import(options) => import::run(&server, &options, &mut out).await,
        SessionsCommand::Tail(options) => tail::run(&server, &options, &mut out).await,
        on_a_connection => {
            let connection = SessionsConnection::open(&server).await?;
            let outcome = ask(&connection, on_a_connection, &mut out).await;
            connection.close().await;
            outcome
        }
    };
    match outcome.and_then(|()| out.flush()) {
        // As `head` does when it has seen enough.
        Err(error) if error.is::<TerminalClosed>() => Ok(()),
        outcome => outcome,
    }
}

async fn ask(
    connection: &SessionsConnection<'_>,
    command: SessionsCommand,
    out: &mut TerminalOutput,
) -> anyhow::Result<()> {
    match command {
        SessionsCommand::List(options) => list::run(connection, &options, out).await,
        SessionsCommand::Show(options) => show::run(connection, &options, out).await,
        SessionsCommand::Fork(options) => fork::run(connection, &options, out).await,
        SessionsCommand::Delete(options) => delete::run(connection, &options).await,
        SessionsCommand::Tail(_) | SessionsCommand::Export(_) | SessionsCommand::Import(_) => {
            Ok(())
        }
    }
}
