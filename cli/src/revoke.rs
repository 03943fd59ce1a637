//! `baton token revoke`: takes back what was issued, at the administrators' port of any gateway.

use clap::Args;
use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::admin::caller::CallerOptions;

#[derive(Args)]
pub struct RevokeArguments {
    #[command(flatten)]
    caller: CallerOptions,
    #[command(flatten)]
    subject: RevokeSubject,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct RevokeSubject {
    /// Session to revoke; open connections cannot use it any more
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Connection to revoke, by its id or its token
    #[arg(long, value_name = "ID")]
    connection: Option<String>,
    /// Principal whose connections to revoke
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
}

impl RevokeSubject {
    fn body(&self) -> Value {
        match (&self.session, &self.connection, &self.principal) {
            (Some(id), ..) => json!({ "session": id }),
            (_, Some(id), _) => json!({ "connection": id }),
            (.., name) => json!({ "principal": name }),
        }
    }
}

pub async fn run(arguments: RevokeArguments) -> anyhow::Result<()> {
    let admin = &arguments.caller.gateway()?;
    let request = Request::post("/revocations").header(CONTENT_TYPE, "application/json");
    let body = arguments.subject.body().to_string().into();
    let unreachable = "is a gateway started with --admin-listen?";
    let asked = arguments.caller.ask(admin, request, body, unreachable);
    asked.await.map(drop)
}
