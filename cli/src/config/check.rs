//! `baton config check`

use std::ffi::OsString;

use super::CheckArguments;
use crate::command_line;
use crate::config_file::ConfigFile;

pub fn run(arguments: &CheckArguments) -> anyhow::Result<()> {
    let path = &arguments.file;
    let file = ConfigFile::read(path, &command_line::command())?;
    if let Some(role) = &arguments.role {
        let words: [OsString; 4] = ["baton".into(), role.into(), "--config".into(), path.into()];
        command_line::check(&words)?;
    }
    println!("{}: no faults; settings: {}", path.display(), file.len());
    Ok(())
}
