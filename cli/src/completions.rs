//! `baton completions SHELL`

use clap::Args;
use clap_complete::{Shell, generate};

use crate::command_line;

#[derive(Args)]
pub struct CompletionArguments {
    /// Shell to write the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn run(arguments: &CompletionArguments) -> anyhow::Result<()> {
    let mut script = Vec::new();
    generate(
        arguments.shell,
        &mut command_line::command(),
        "baton",
        &mut script,
    );
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(())
}
