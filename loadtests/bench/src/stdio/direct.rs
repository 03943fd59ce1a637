//! The agent on pipes, as an editor has it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::client::rpc;
use crate::count::Count;

pub struct Direct {
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    session: String,
    count: Count,
    prompts: u64,
    _agent: Child,
}

impl Direct {
    pub async fn open(count: Count) -> Result<Self> {
        let mut agent = Command::new(std::env::current_exe()?)
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = agent.stdout.take().context("no pipe")?;
        let mut direct = Self {
            input: agent.stdin.take().context("no pipe")?,
            lines: BufReader::new(output).lines(),
            session: String::new(),
            count,
            prompts: 0,
            _agent: agent,
        };
        direct.answer(rpc::initialize()).await?;
        let opened = direct.answer(rpc::new_session()).await?;
        direct.session = rpc::session_id(&opened)?;
        Ok(direct)
    }

    /// From the first byte sent to the answer received.
    pub async fn prompt(&mut self) -> Result<Duration> {
        self.prompts += 1;
        let id = self.prompts + rpc::NEW_SESSION;
        let message = rpc::prompt(id, &self.session, &self.count.directive());
        let started = Instant::now();
        rpc::result(&self.answer(message).await?)?;
        Ok(started.elapsed())
    }

    /// Sends a request. What comes before its answer are chunks of the turn.
    async fn answer(&mut self, mut message: String) -> Result<Value> {
        message.push('\n');
        self.input.write_all(message.as_bytes()).await?;
        let mut chunks = 0;
        loop {
            let line = self.lines.next_line().await?;
            let line = line.context("the agent has ended")?;
            match self.count.find(line.as_bytes()) {
                Some(found) => {
                    chunks += 1;
                    ensure!(found == (chunks, self.prompts), "the agent says {line}");
                }
                None => return Ok(serde_json::from_str(&line)?),
            }
        }
    }
}
