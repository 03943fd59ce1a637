//! Callbacks of the line editor: whether a line is complete, and how a command may go on.

use std::cell::Cell;

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Result};

use crate::chat::command::COMMANDS;

#[derive(Default)]
pub struct CompletionHelper {
    /// Something is on the line. Hints are asked for whenever that changes.
    pub has_text: Cell<bool>,
}

impl Validator for CompletionHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Completer for CompletionHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> Result<(usize, Vec<String>)> {
        let begun = line.get(..at).and_then(|begun| begun.strip_prefix('/'));
        let begun = begun.filter(|begun| !begun.contains(' '));
        let candidates = COMMANDS
            .iter()
            .filter(|command| begun.is_some_and(|begun| command.name.starts_with(begun)));
        let candidates = candidates.map(|command| format!("/{} ", command.name));
        Ok((0, candidates.collect()))
    }
}

impl Hinter for CompletionHelper {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.has_text.set(!line.is_empty());
        None
    }
}

impl Highlighter for CompletionHelper {}

impl rustyline::Helper for CompletionHelper {}
