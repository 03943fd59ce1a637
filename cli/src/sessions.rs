//! `baton sessions`: what an operator does with sessions, over HTTP as any client would.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reqwest::Url;

use self::connection::Connection;
use self::server::Server;
use self::terminal::{Closed, Out};

mod connection;
mod delete;
mod export;
mod fork;
mod import;
mod list;
mod server;
mod show;
mod sse;
mod tail;
mod terminal;
mod transcript;

#[derive(Args)]
pub struct Arguments {
    /// URL of Baton
    #[arg(
        long,
        env = "BATON_URL",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL",
        global = true
    )]
    url: Url,
    /// File with the credential
    #[arg(
        long,
        env = "BATON_CREDENTIAL_FILE",
        value_name = "FILE",
        global = true
    )]
    credential_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List sessions, the most recently used first
    List(list::Options),
    /// Print a conversation
    Show(show::Options),
    /// Follow a conversation until Ctrl-C
    Tail(tail::Options),
    /// Create a session with the same history, and print its id
    Fork(fork::Options),
    /// Delete a session; succeeds if it does not exist
    Delete(delete::Options),
    /// Write a session to standard output, one JSON object per line
    Export(export::Options),
    /// Read a session from standard input, and print its new id
    Import,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let server = Server::new(arguments.url, arguments.credential_file).await?;
    let mut out = Out::default();
    let outcome = match arguments.command {
        Command::Export(options) => export::run(&server, &options, &mut out).await,
        Command::Import => import::run(&server, &mut out).await,
        Command::Tail(options) => tail::run(&server, &options, &mut out).await,
        on_a_connection => {
            let connection = Connection::open(&server).await?;
            let outcome = ask(&connection, on_a_connection, &mut out).await;
            connection.close().await;
            outcome
        }
    };
    match outcome.and_then(|()| out.flush()) {
        // As `head` does when it has seen enough.
        Err(error) if error.is::<Closed>() => Ok(()),
        outcome => outcome,
    }
}

async fn ask(connection: &Connection, command: Command, out: &mut Out) -> anyhow::Result<()> {
    match command {
        Command::List(options) => list::run(connection, &options, out).await,
        Command::Show(options) => show::run(connection, &options, out).await,
        Command::Fork(options) => fork::run(connection, &options, out).await,
        Command::Delete(options) => delete::run(connection, &options).await,
        Command::Tail(_) | Command::Export(_) | Command::Import => Ok(()),
    }
}
