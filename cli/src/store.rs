//! `baton store`: backups of what is kept, and the users of Redis.

use clap::Subcommand;

mod backup;
mod file;
mod mark_restored;
mod restore;
mod users;

#[derive(Subcommand)]
pub enum Command {
    /// Write a backup of a data directory to a file
    ///
    /// A process may use the directory at the same time.
    Backup(backup::Arguments),
    /// Restore a backup into an empty data directory
    Restore(restore::Arguments),
    /// Mark Redis as restored from a backup
    ///
    /// Run it before gateways and workers start. Tokens and connections that were issued before become invalid.
    MarkRestored(mark_restored::Arguments),
    /// Create users of Redis for gateways, workers and administrators
    ///
    /// Writes an ACL file, and for each role a file with a URL and a password.
    Users(users::Arguments),
}

pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Backup(arguments) => backup::run(arguments).await,
        Command::Restore(arguments) => restore::run(arguments).await,
        Command::MarkRestored(arguments) => mark_restored::run(arguments).await,
        Command::Users(arguments) => users::run(&arguments),
    }
}
