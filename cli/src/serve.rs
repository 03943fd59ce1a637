//! `baton serve`: everything in one process.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use baton_gateway::App;
use baton_session::store::Store;
use baton_session::store::memory::MemoryStore;
use baton_session::token::{KeyRing, generate};
use clap::Args;
use jsonwebtoken::Algorithm;
use tokio::net::TcpListener;

use crate::options::{WorkerOptions, check};
use crate::signals;

#[derive(Args)]
pub struct Arguments {
    /// Where to listen
    #[arg(
        long,
        env = "BATON_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR"
    )]
    listen: SocketAddr,
    /// Keep sessions in memory: they end with the process (for now they always do)
    #[arg(long, env = "BATON_EPHEMERAL", value_parser = clap::builder::BoolishValueParser::new())]
    ephemeral: bool,
    #[command(flatten)]
    worker: WorkerOptions,
}

const GRACE: Duration = Duration::from_secs(5);

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    check([arguments.worker.faults()])?;
    let stop = signals::stop()?;
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
        format!(
            "cannot listen on {}: is another baton running? Choose with --listen",
            arguments.listen
        )
    })?;
    let address = listener.local_addr()?;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let agent = arguments.worker.agent();
    let config = baton_gateway::Config {
        agent: agent.card().name,
        ..Default::default()
    };
    // Known before the first client asks.
    let worker_config = arguments.worker.config();
    store.register(&agent.card(), &worker_config.id).await?;
    let worker = tokio::spawn(baton_worker::run(
        store.clone(),
        agent,
        worker_config,
        stop.clone(),
    ));
    let keys = KeyRing::parse(&generate(Algorithm::HS256))?;
    let app = App::new(config, store, keys, stop).await?;
    if !arguments.ephemeral {
        tracing::info!("sessions live in memory and end with this process");
    }
    // Nobody reading is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{}", greeting(address));
    baton_gateway::serve(listener, app, GRACE).await?;
    worker.await??;
    Ok(())
}

/// What a newcomer sees: the URL, and something to paste into another shell.
fn greeting(address: SocketAddr) -> String {
    format!(
        r#"Baton listens on http://{address}/acp

Paste this into another shell:

URL=http://{address}/acp
JSON='Content-Type: application/json'
STREAM='Accept: text/event-stream'
CONNECTION=$(curl -si $URL -H "$JSON" \
  -d '{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":1}}}}' \
  | tr -d '\r' | sed -n 's/^acp-connection-id: //p')
SESSION=$(curl -sN $URL -H "$JSON" -H "$STREAM" -H "Acp-Connection-Id: $CONNECTION" \
  -d '{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"cwd":"/tmp","mcpServers":[]}}}}' \
  | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
curl -sN $URL -H "$JSON" -H "$STREAM" -H "Acp-Connection-Id: $CONNECTION" \
  -d '{{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{{"sessionId":"'$SESSION'","prompt":[{{"type":"text","text":"/count 5 delay=200\nthat was fast"}}]}}}}'

Ctrl-C stops."#
    )
}
