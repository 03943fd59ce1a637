//! `baton agents`: the agents that `--agent` knows by name, and which of them are installed here.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;

use clap::Args;
use serde_json::{Value, json};

use crate::agent::installed;
use crate::agent::known::{KNOWN, KnownAgent};

#[derive(Args)]
pub struct AgentsArguments {
    /// Print one JSON document instead of a table
    #[arg(long, env = "BATON_AGENTS_JSON", value_parser = clap::builder::BoolishValueParser::new())]
    json: bool,
}

pub fn run(arguments: &AgentsArguments) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let text = if arguments.json {
        let agents: Vec<Value> = KNOWN.iter().map(|agent| document(agent, &path)).collect();
        format!("{}\n", json!({ "agents": agents }))
    } else {
        table(&path)
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn command(agent: &KnownAgent) -> Vec<String> {
    let words = agent.command.iter();
    words.map(|word| (*word).to_owned()).collect()
}

fn document(agent: &KnownAgent, path: &OsStr) -> Value {
    let fault = installed::fault(&command(agent), path);
    json!({
        "name": agent.name,
        "title": agent.title,
        "command": agent.command,
        "install": agent.install,
        "also": agent.also,
        "node": agent.node.map(|least| least.to_string()),
        "credentials": agent.credentials,
        "settings": agent.settings,
        "login": agent.login,
        "installed": fault.is_none(),
        "fault": fault,
    })
}

fn table(path: &OsString) -> String {
    let mut text = format!("{:<11} {:<17} {:<5} INSTALL\n", "NAME", "COMMAND", "HERE");
    for agent in KNOWN {
        let fault = installed::fault(&command(agent), path);
        let here = if fault.is_none() { "yes" } else { "no" };
        let words = agent.command.join(" ");
        text += &format!(
            "{:<11} {words:<17} {here:<5} {}\n",
            agent.name, agent.install
        );
    }
    text += "\nStart one with --agent NAME. `baton agents --json` shows the variables that each \
        gets, how to log in, and what\nis missing here; `baton doctor serve --agent NAME` starts \
        it once.\n";
    text
}
