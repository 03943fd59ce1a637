//! `baton sessions delete ID`

use clap::Args;
use serde_json::json;

use super::connection::Connection;

#[derive(Args)]
pub struct Options {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
}

pub async fn run(connection: &Connection, options: &Options) -> anyhow::Result<()> {
    let params = json!({ "sessionId": options.session });
    let deleted = connection.call("session/delete", &params, |_| Ok(()));
    deleted.await.map(drop)
}
