//! The terminal's settings: changed for the time of a conversation, and put back however it ends.

use std::io::{Write as _, stdin, stdout};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

/// The line editor has pasted text marked, and does not come to take that back if it is left in the
/// middle.
const UNMARKED: &[u8] = b"\x1b[?2004l";

pub struct Tty(Termios);

impl Tty {
    /// Typed text during the agent's output is not shown in the middle of it, but on the next line.
    pub fn silenced() -> anyhow::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(stdin(), SetArg::TCSADRAIN, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let mut out = stdout();
        let _ = out.write_all(UNMARKED).and_then(|()| out.flush());
        let _ = tcsetattr(stdin(), SetArg::TCSADRAIN, &self.0);
    }
}
