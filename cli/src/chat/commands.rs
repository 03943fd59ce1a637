//! Runs the commands.

use baton_protocol::{ErrorCode, Method};
use serde_json::{Value, json};

use super::command::COMMANDS;
use super::conversation::{ChatConversation, ChatProblem};
use super::ending::ChatEnding;
use super::screen::TextColour;
use super::session::{AgentOption, ChatSession, list, text};
use super::show;

/// Pages of the list that are looked through for one session.
const PAGES: usize = 20;

impl ChatConversation {
    pub(super) async fn command(&mut self, name: &str, rest: &str) -> Result<(), ChatProblem> {
        match name {
            "help" => self.help(),
            "mode" if rest.is_empty() => self.list_modes(),
            "mode" => self.set_mode(rest).await?,
            "model" => self.model(rest).await?,
            "config" => match rest.split_once(char::is_whitespace) {
                Some((id, value)) => self.set_option(id, value.trim()).await?,
                None => self.list_options(rest),
            },
            "sessions" => self.sessions().await?,
            "load" if rest.is_empty() => self.hint("/load ID, or a number of /sessions"),
            "load" => self.change(rest).await?,
            "new" => self.begin().await?,
            "fork" => self.fork().await?,
            "title" => {
                let title = self.session.title.as_deref().unwrap_or("no title");
                let title = format!("{title}; session {}", self.session.id);
                self.screen.note(&title);
            }
            "cancel" => self.cancel_turn().await?,
            _ => {}
        }
        Ok(())
    }

    fn hint(&mut self, text: &str) {
        self.screen.note(text);
    }

    fn help(&mut self) {
        for command in &COMMANDS {
            let usage = format!("/{} {}", command.name, command.arguments);
            self.entry(&usage, command.does);
        }
        let commands = self.session.commands.clone();
        for (name, does) in &commands {
            self.entry(&format!("/{name}"), &format!("{does} (the agent's)"));
        }
        self.screen.note(
            "Anything else goes to the agent; // at the beginning sends one slash. A backslash at \
             the end of a line breaks it.",
        );
    }

    fn entry(&mut self, what: &str, does: &str) {
        self.screen.line(&[
            (TextColour::Bold, &format!("  {what:<20}")),
            (TextColour::None, does),
        ]);
    }

    /// One of several, of which one is in force.
    fn option(&mut self, id: &str, name: &str, is_current: bool) {
        let mark = if is_current { "  * " } else { "    " };
        self.screen.line(&[
            (TextColour::Green, mark),
            (TextColour::None, id),
            (TextColour::Dim, name),
        ]);
    }

    fn list_modes(&mut self) {
        let modes = self.session.modes.clone();
        if modes.is_empty() {
            self.hint("the agent has no modes");
        }
        for (id, name) in &modes {
            self.option(id, &format!("  {name}"), *id == self.session.mode);
        }
    }

    async fn set_mode(&mut self, mode: &str) -> Result<(), ChatProblem> {
        let params = json!({ "sessionId": self.session.id, "modeId": mode });
        self.call(Method::SetMode, params).await?;
        show::mode(&mut self.screen, &mut self.session, mode);
        Ok(())
    }

    fn list_options(&mut self, id: &str) {
        let options = self.session.options.clone();
        let mut options = options
            .iter()
            .filter(|option| id.is_empty() || option.id == id)
            .peekable();
        if options.peek().is_none() {
            self.hint("the agent has no such option");
        }
        for option in options {
            self.screen.line(&[(TextColour::Bold, &option.id)]);
            for value in &option.values {
                self.option(value, "", *value == option.value);
            }
        }
    }

    async fn model(&mut self, rest: &str) -> Result<(), ChatProblem> {
        let model = self.session.model().map(|option| option.id.clone());
        match model {
            None => self.hint("the agent has no choice of models"),
            Some(id) if rest.is_empty() => self.list_options(&id),
            Some(id) => self.set_option(&id, rest).await?,
        }
        Ok(())
    }

    async fn set_option(&mut self, id: &str, value: &str) -> Result<(), ChatProblem> {
        let is_boolean = |option: &AgentOption| option.id == id && option.is_boolean;
        let mut params = json!({ "sessionId": self.session.id, "configId": id, "value": value });
        if let (true, Ok(value)) = (
            self.session.options.iter().any(is_boolean),
            value.parse::<bool>(),
        ) {
            params["type"] = "boolean".into();
            params["value"] = value.into();
        }
        let answer = self.call(Method::SetConfigOption, params).await?;
        show::options(
            &mut self.screen,
            &mut self.session,
            &answer["configOptions"],
        );
        Ok(())
    }

    async fn sessions(&mut self) -> Result<(), ChatProblem> {
        let answer = self.call(Method::ListSessions, json!({})).await?;
        self.listed.clear();
        for (number, session) in (1..).zip(list(&answer["sessions"])) {
            let id = text(&session["sessionId"]);
            let mark = if id == self.session.id { "*" } else { " " };
            let title = match text(&session["title"]) {
                title if title.is_empty() => "no title".into(),
                title => title,
            };
            self.screen.line(&[
                (TextColour::Green, mark),
                (TextColour::Bold, &format!("{number:>3}  ")),
                (TextColour::None, &title),
                (
                    TextColour::Dim,
                    &format!(
                        "  {}  {id}  {}",
                        text(&session["updatedAt"]),
                        text(&session["cwd"])
                    ),
                ),
            ]);
            self.listed.push(id);
        }
        let hint = if answer["nextCursor"].is_string() {
            "/load NUMBER changes to one; there are older ones, which need /load ID"
        } else {
            "/load NUMBER changes to one"
        };
        self.hint(hint);
        Ok(())
    }

    async fn change(&mut self, wanted: &str) -> Result<(), ChatProblem> {
        let number = wanted.parse::<usize>().ok();
        let listed = number.and_then(|number| self.listed.get(number.checked_sub(1)?));
        let id = listed.cloned().unwrap_or_else(|| wanted.to_owned());
        self.load(&id).await
    }

    pub(super) async fn begin(&mut self) -> Result<(), ChatProblem> {
        let params = json!({ "cwd": self.cwd, "mcpServers": [] });
        let answer = self.call(Method::NewSession, params).await?;
        let cwd = self.cwd.clone();
        self.enter("new session", text(&answer["sessionId"]), cwd, &answer);
        Ok(())
    }

    async fn fork(&mut self) -> Result<(), ChatProblem> {
        let (id, cwd) = (self.session.id.clone(), self.session.cwd.clone());
        let params = json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
        let answer = self.call(Method::ForkSession, params).await?;
        let past = std::mem::take(&mut self.session);
        self.enter("now in the fork", text(&answer["sessionId"]), cwd, &answer);
        self.session.remember(past);
        Ok(())
    }

    fn enter(&mut self, what: &str, id: String, cwd: String, opened: &Value) {
        self.session = ChatSession::new(id, cwd, opened);
        self.screen.note(&format!("{what}: {}", self.session.id));
    }

    /// Its history comes before the answer, and is shown as it comes.
    pub(super) async fn load(&mut self, id: &str) -> Result<(), ChatProblem> {
        let before = std::mem::take(&mut self.session);
        let cwd = self.cwd.clone();
        let loaded = match self.try_load(id, cwd).await {
            // A session is loaded with the directory that it has.
            Err(ChatProblem::Ending(ChatEnding::Failed(fault)))
                if fault.code == ErrorCode::InvalidParams.value() =>
            {
                match self.directory_of(id).await {
                    Ok(Some(cwd)) => self.try_load(id, cwd).await,
                    _ => Err(ChatEnding::Failed(fault).into()),
                }
            }
            other => other,
        };
        if loaded.is_err() {
            self.session = before;
        }
        loaded
    }

    async fn try_load(&mut self, id: &str, cwd: String) -> Result<(), ChatProblem> {
        self.session = ChatSession::new(id.to_owned(), cwd.clone(), &Value::Null);
        let params = json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
        // A script asked for an answer, not for all answers before it.
        let method = if self.screen.is_for_words_alone() {
            Method::ResumeSession
        } else {
            Method::LoadSession
        };
        let answer = self.call(method, params).await?;
        let past = std::mem::take(&mut self.session);
        self.enter("session", past.id.clone(), cwd, &answer);
        self.session.remember(past);
        Ok(())
    }

    async fn directory_of(&mut self, id: &str) -> Result<Option<String>, ChatProblem> {
        let mut params = json!({});
        for _ in 0..PAGES {
            let answer = self.call(Method::ListSessions, params).await?;
            let found = list(&answer["sessions"]).find(|session| session["sessionId"] == id);
            if let Some(session) = found {
                return Ok(session["cwd"].as_str().map(str::to_owned));
            }
            match answer["nextCursor"].as_str() {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        Ok(None)
    }
}
