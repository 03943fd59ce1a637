//! The finding of a check, as a line for people.

use std::io::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Ok,
    Warn,
    Fail,
}

/// One line: the outcome, its subject, and what to do if it is not well.
#[derive(Debug)]
pub struct Finding {
    subject: &'static str,
    outcome: Outcome,
    text: String,
}

impl Finding {
    pub fn ok(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(subject, Outcome::Ok, text)
    }

    /// It works, but something could be lost or be slow.
    pub fn warn(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(subject, Outcome::Warn, text)
    }

    /// It does not work.
    pub fn fail(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(subject, Outcome::Fail, text)
    }

    fn new(subject: &'static str, outcome: Outcome, text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            subject,
            outcome,
            text,
        }
    }

    pub fn is_failure(&self) -> bool {
        self.outcome == Outcome::Fail
    }

    fn line(&self) -> String {
        let outcome = match self.outcome {
            Outcome::Ok => "ok",
            Outcome::Warn => "warn",
            Outcome::Fail => "fail",
        };
        // Lines that follow begin below the text.
        let text = self.text.replace('\n', "\n                      ");
        format!("{outcome:<5} {:<15} {text}", self.subject)
    }
}

pub fn print(findings: &[Finding]) {
    let mut output = std::io::stdout().lock();
    for finding in findings {
        // A reader that has left has read enough.
        let _ = writeln!(output, "{}", finding.line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned() {
        let fine = Finding::ok("store", "answers");
        assert_eq!(fine.line(), "ok    store           answers");
        let failed = Finding::fail("agent", "failed\nIt said: no");
        let lines = ["fail  agent           failed", "It said: no"];
        assert_eq!(failed.line(), lines.join(&format!("\n{:22}", "")));
        assert!(failed.is_failure() && !Finding::warn("store", "").is_failure());
    }
}
