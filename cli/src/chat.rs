//! `baton chat`: a conversation in a terminal; with plain lines where there is none.
//!
//! | room | what |
//! |---|---|
//! | `conversation` | does what was typed, shows what comes meanwhile; `ending`: how a turn ended |
//! | `command`, `commands` | lines that begin with a slash, and what they do |
//! | `peer` | JSON-RPC with the other side |
//! | `session`, `show` | what is known of the session, and how its updates look |
//! | `question` | what the agent asks |
//! | `input`, `screen`, `text` | the terminal |

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use self::conversation::ChatConversation;
pub use self::ending::ChatEnding;
use self::input::ChatInput;
use self::peer::ChatPeer;
use self::screen::ChatScreen;
use crate::exit::ConfigurationError;
use crate::remote::RemoteOptions;

mod command;
mod commands;
mod conversation;
mod ending;
mod input;
mod peer;
mod question;
mod screen;
mod session;
mod show;
mod text;

#[derive(Args)]
pub struct ChatArguments {
    #[command(flatten)]
    remote: RemoteOptions,
    /// Session to continue; without it a new one begins
    ///
    /// The conversation so far is printed first.
    #[arg(long, env = "BATON_SESSION", value_name = "ID")]
    session: Option<String>,
    /// Working directory of the agent, on the agent's machine
    #[arg(long, env = "BATON_CWD", default_value = ".", value_name = "DIR")]
    cwd: PathBuf,
    /// Run one turn with this text and exit
    ///
    /// The agent's answer goes to standard output, everything else to standard error.
    #[arg(long, env = "BATON_PROMPT", value_name = "TEXT")]
    prompt: Option<String>,
}

pub async fn run(arguments: ChatArguments) -> anyhow::Result<()> {
    let options = arguments.remote.client()?;
    let cwd = std::path::absolute(&arguments.cwd);
    let cwd = cwd.context("--cwd: there is no current directory")?;
    let connection = baton_client::connect(options);
    let connection = connection.map_err(|fault| ConfigurationError(vec![fault.to_string()]))?;
    let input = ChatInput::open()?;
    let screen = ChatScreen::new(arguments.prompt.is_some(), input.above.clone());
    let cwd = cwd.to_string_lossy().into_owned();
    let mut conversation = ChatConversation::new(ChatPeer::new(connection), input, screen, cwd)?;
    let outcome = conversation.hold(arguments.session, arguments.prompt).await;
    conversation.leave().await;
    outcome
}
