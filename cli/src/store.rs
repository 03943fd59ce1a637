//! `baton store`: backups of what is kept, and the users of Redis.

use clap::Subcommand;

mod backup;
mod file;
mod mark_restored;
mod restore;
mod users;

#[derive(Subcommand)]
pub enum StoreCommand {
    /// Write a backup of a data directory to a file
    ///
    /// A process may use the directory at the same time.
    Backup(backup::BackupArguments),
    /// Restore a backup into an empty data directory
    Restore(restore::RestoreArguments),
    /// Mark Redis as restored from a backup
    ///
    /// Run it before gateways and workers start. Tokens and connections that were issued before
    /// become invalid.
    MarkRestored(mark_restored::MarkRestoredArguments),
    /// Create users of Redis for gateways, workers and administrators
    ///
    /// Writes an ACL file, and for each role a file with a URL and a password.
    Users(users::UsersArguments),
}

pub async fn run(command: StoreCommand) -> anyhow::Result<()> {
    match command {
        StoreCommand::Backup(arguments) => backup::run(arguments).await,
        StoreCommand::Restore(arguments) => restore::run(arguments).await,
        StoreCommand::MarkRestored(arguments) => mark_restored::run(arguments).await,
        StoreCommand::Users(arguments) => users::run(&arguments),
    }
}
