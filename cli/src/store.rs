//! `baton store`: backups of what is kept, and the users of Redis.

use clap::Subcommand;

mod backup;
mod file;
mod mark_restored;
mod restore;
mod users;

#[derive(Subcommand)]
pub enum Command {
    /// Write a backup of a data directory into a file, whether `baton serve` uses it or not
    Backup(backup::Arguments),
    /// Put a backup into an empty data directory
    Restore(restore::Arguments),
    /// Say that Redis was restored from a backup, before gateways and workers start: nothing that was issued until now
    /// counts any more
    MarkRestored(mark_restored::Arguments),
    /// Write Redis users for gateways and workers: an ACL file, and a URL with a password for each
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
