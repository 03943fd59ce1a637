//! How one request is answered.

use std::time::Duration;

use serde_json::Value;

#[derive(Clone, Debug)]
pub struct ModelScript {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// In place of a stream.
    pub body: Option<String>,
    pub steps: Vec<ScriptStep>,
    /// So many bytes of the stream are sent, then the connection breaks.
    pub breaks_at: Option<usize>,
    /// Tokens read and written.
    pub usage: (u64, u64),
    /// A request that begins with a part of the text gets the rest.
    pub resumes: bool,
    /// In place of the usual reason to stop, in the words of Chat Completions.
    pub stop: Option<String>,
}

#[derive(Clone, Debug)]
pub enum ScriptStep {
    Text(String),
    Think(String),
    /// Arguments are text, so that they may be malformed.
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// Sent as it is, in between.
    Raw(String),
    Pause(Duration),
    /// Waits for `ModelServer::release`.
    Hold,
    /// Nothing more comes, and the connection stays.
    Stall,
    /// The connection breaks.
    BreakOff,
    /// The end, as the protocol has it. Last, if it is not left out.
    End,
}

impl ModelScript {
    /// These steps, and a good end.
    pub fn of(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        let mut steps: Vec<ScriptStep> = steps.into_iter().collect();
        steps.push(ScriptStep::End);
        Self::unfinished(steps)
    }

    /// These steps, and the connection's good end without the protocol's.
    pub fn unfinished(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: None,
            steps: steps.into_iter().collect(),
            breaks_at: None,
            usage: (10, 5),
            resumes: true,
            stop: None,
        }
    }

    /// A text, word by word.
    pub fn text(text: &str) -> Self {
        let words = text.split_inclusive(' ');
        Self::of(words.map(|word| ScriptStep::Text(word.to_owned())))
    }

    /// A call of a tool.
    pub fn call(name: &str, arguments: &Value) -> Self {
        Self::of([]).and_call(name, &arguments.to_string())
    }

    /// One more call of a tool, before the end. Ids are `call_1` and so on.
    pub fn and_call(mut self, name: &str, arguments: &str) -> Self {
        let is_call = |step: &&ScriptStep| matches!(step, ScriptStep::Call { .. });
        let number = self.steps.iter().filter(is_call).count() + 1;
        let call = ScriptStep::Call {
            id: format!("call_{number}"),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let end = self.steps.len().saturating_sub(1);
        self.steps.insert(end, call);
        self
    }

    /// No stream, but this.
    pub fn error(status: u16, body: impl ToString) -> Self {
        Self {
            status,
            body: Some(body.to_string()),
            ..Self::of([])
        }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A pause before each step.
    pub fn slowly(mut self, pause: Duration) -> Self {
        let steps = self.steps.into_iter();
        self.steps = steps
            .flat_map(|step| [ScriptStep::Pause(pause), step])
            .collect();
        self
    }

    /// After so many steps something else happens, and then nothing more.
    pub fn until(mut self, steps: usize, last: ScriptStep) -> Self {
        self.steps.truncate(steps);
        self.steps.push(last);
        self
    }

    pub fn breaks_at(mut self, byte: usize) -> Self {
        self.breaks_at = Some(byte);
        self
    }

    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = (input, output);
        self
    }

    pub fn stops_for(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Begins anew, whatever the request says.
    pub fn deaf(mut self) -> Self {
        self.resumes = false;
        self
    }

    pub fn calls_tools(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, ScriptStep::Call { .. }))
    }

    /// Without the text that the request begins with, and the pauses before it.
    pub fn steps_after(&self, beginning: Option<&str>) -> Vec<ScriptStep> {
        let mut said = beginning.filter(|_| self.resumes).unwrap_or_default();
        let mut steps = Vec::new();
        for step in &self.steps {
            match step {
                _ if said.is_empty() => steps.push(step.clone()),
                ScriptStep::Text(text) if said.starts_with(text.as_str()) => {
                    said = &said[text.len()..];
                }
                ScriptStep::Text(text) if text.starts_with(said) => {
                    steps.push(ScriptStep::Text(text[said.len()..].to_owned()));
                    said = "";
                }
                ScriptStep::Text(_) => {
                    // Space at the end may be kept back.
                    said = "";
                    steps.push(step.clone());
                }
                ScriptStep::Pause(_) | ScriptStep::Hold | ScriptStep::Think(_) => {}
                _ => steps.push(step.clone()),
            }
        }
        steps
    }
}
