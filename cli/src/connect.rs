//! `baton connect`: an ACP agent on standard input and output, as editors start them. The one that
//! does the work is behind a URL, and what happens to the network in between is not the editor's
//! business.

use anyhow::Context as _;
use baton_client::bridge;
use baton_gateway::StopSignals;
use clap::Args;
use tokio::io::{stdin, stdout};

use crate::exit::ConfigurationError;
use crate::remote::RemoteOptions;

#[derive(Args)]
pub struct ConnectArguments {
    #[command(flatten)]
    remote: RemoteOptions,
}

pub async fn run(arguments: ConnectArguments, stop: StopSignals) -> anyhow::Result<()> {
    let options = arguments.remote.client()?;
    let connection = baton_client::connect(options);
    let connection = connection.map_err(|fault| ConfigurationError(vec![fault.to_string()]))?;
    let ended = tokio::select! {
        ended = bridge::run(connection, stdin(), stdout(), &stop.drain) => ended,
        _ = stop.now.cancelled() => Ok(()),
    };
    ended.context("the editor's end of the pipe")
}
