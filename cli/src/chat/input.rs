//! The user's input. A thread of its own reads it, a line at a time and only when one is wanted:
//! between two lines the terminal is left alone, so that Ctrl-C is a signal and text flows freely.

use std::io::{IsTerminal as _, stdin, stdout};
use std::sync::mpsc as blocking;
use std::thread;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Config, Editor, ExternalPrinter as _};
use tokio::sync::mpsc;

use self::helper::CompletionHelper;
use self::tty::Tty;

mod helper;
mod tty;

pub struct ChatInput {
    wanted: blocking::Sender<String>,
    typed: mpsc::UnboundedReceiver<TypedInput>,
    is_wanted: bool,
    has_ended: bool,
    /// Prints above the line that is being typed. Only at a terminal.
    pub above: Option<blocking::Sender<String>>,
    _tty: Option<Tty>,
}

pub enum TypedInput {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-C on a line that had something on it: the line is gone, and nothing else.
    Discarded,
    /// Ctrl-D, or the end of a file.
    End,
}

type LineEditor = Editor<CompletionHelper, DefaultHistory>;

impl ChatInput {
    /// Edited lines if this is a conversation at a terminal, else lines as they come.
    pub fn open() -> anyhow::Result<Self> {
        let terminal = if stdin().is_terminal() && stdout().is_terminal() {
            Some(terminal()?)
        } else {
            None
        };
        let tty = terminal.as_ref().map(|_| Tty::silenced()).transpose()?;
        let (wanted, prompts) = blocking::channel::<String>();
        let (typing, typed) = mpsc::unbounded_channel();
        let above = match terminal {
            Some((mut editor, above)) => {
                thread::spawn(move || {
                    for prompt in prompts {
                        let _ = typing.send(edited(&mut editor, &prompt));
                    }
                });
                Some(above)
            }
            None => {
                thread::spawn(move || {
                    for _ in prompts {
                        let _ = typing.send(line());
                    }
                });
                None
            }
        };
        Ok(Self {
            wanted,
            typed,
            is_wanted: false,
            has_ended: false,
            above,
            _tty: tty,
        })
    }

    pub fn is_terminal(&self) -> bool {
        self.above.is_some()
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// A line is being typed.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// If one is being typed already, that is the one.
    pub fn want(&mut self, prompt: &str) {
        if !self.is_wanted && !self.has_ended {
            self.is_wanted = self.wanted.send(prompt.to_owned()).is_ok();
        }
    }

    /// Never comes unless it is wanted. May be dropped and called again.
    pub async fn typed(&mut self) -> TypedInput {
        let typed = self.typed.recv().await.unwrap_or(TypedInput::End);
        self.is_wanted = false;
        self.has_ended |= matches!(typed, TypedInput::End);
        typed
    }
}

fn terminal() -> anyhow::Result<(LineEditor, blocking::Sender<String>)> {
    let config = Config::builder().auto_add_history(true).build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(CompletionHelper::default()));
    let mut printer = editor.create_external_printer()?;
    let (above, lines) = blocking::channel::<String>();
    // Printing waits while the editor is busy, and nobody else should.
    thread::spawn(move || {
        for text in lines {
            let _ = printer.print(text);
        }
    });
    Ok((editor, above))
}

fn edited(editor: &mut LineEditor, prompt: &str) -> TypedInput {
    let typed = editor.readline(prompt);
    let had_text = editor.helper().is_some_and(|helper| helper.has_text.take());
    match typed {
        Ok(line) => TypedInput::Line(joined(&line)),
        Err(ReadlineError::Interrupted) if had_text => TypedInput::Discarded,
        Err(ReadlineError::Interrupted) => TypedInput::Interrupt,
        Err(_) => TypedInput::End,
    }
}

/// A backslash at the end of a line is a line break.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

fn line() -> TypedInput {
    let mut text = String::new();
    loop {
        match stdin().read_line(&mut text) {
            Ok(0) | Err(_) if text.is_empty() => return TypedInput::End,
            Ok(read) if read > 0 && text.ends_with("\\\n") => {}
            _ => return TypedInput::Line(joined(&text).trim_end_matches('\n').to_owned()),
        }
    }
}
