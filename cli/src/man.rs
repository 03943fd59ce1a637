//! `baton man DIR`: a manual page for every command. For packages, so the command is hidden.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;

use crate::command_line;

#[derive(Args)]
pub struct ManArguments {
    /// Directory to write the pages into; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(arguments: &ManArguments) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    let named = || directory.display().to_string();
    std::fs::create_dir_all(directory).with_context(named)?;
    let mut command = command_line::command().disable_help_subcommand(true);
    command.build();
    write(&command, directory).with_context(named)
}

fn write(command: &Command, directory: &Path) -> std::io::Result<()> {
    Man::new(command.clone())
        .source(concat!("baton ", env!("CARGO_PKG_VERSION")))
        .manual("Baton")
        .generate_to(directory)?;
    let mut visible = command.get_subcommands().filter(|one| !one.is_hide_set());
    visible.try_for_each(|one| write(one, directory))
}
