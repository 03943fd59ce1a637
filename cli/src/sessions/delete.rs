//! `baton sessions delete ID`

use baton_protocol::Method;
use clap::Args;
use serde_json::json;

use super::connection::SessionsConnection;

#[derive(Args)]
pub struct DeleteOptions {
    /// Session id, as `list` prints it
    #[arg(value_name = "ID")]
    session: String,
}

pub async fn run(
    connection: &SessionsConnection<'_>,
    options: &DeleteOptions,
) -> anyhow::Result<()> {
    let params = json!({ "sessionId": options.session });
    let deleted = connection.call(Method::DeleteSession, &params, |_| Ok(()));
    deleted.await.map(drop)
}
