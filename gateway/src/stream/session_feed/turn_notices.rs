//! What turns do, for clients that asked for it in `initialize`: the answer of a turn goes only to
//! the client that prompted, and its questions to the one in control; the others see nothing but
//! updates that stop coming.

use baton_protocol::turn_notice::{TurnNotice, asks_a_person};
use baton_session::cursor::Cursor;
use baton_session::event::{Event, is_aside};
use baton_session::store;
use bytes::Bytes;

use super::SessionFeed;

impl SessionFeed {
    /// Under the cursor before the event, so that a client which comes back in between hears it
    /// twice rather than never.
    pub(super) fn notice_turn(
        &self,
        before: Cursor,
        seq: u64,
        event: &Event,
        out: &mut Vec<(Cursor, Bytes)>,
    ) {
        let here = self.attachment.route.at(seq) == Some(self.via);
        if here && let Some(notice) = self.turn_notice(event) {
            out.push((before, notice));
        }
    }

    /// `None` if the event changes nothing about a turn, or the client did not ask.
    pub(super) fn turn_notice(&self, event: &Event) -> Option<Bytes> {
        if !self.turn_notices {
            return None;
        }
        let turn;
        let notice = match event {
            Event::Begin(begin) => {
                turn = begin.command.to_string();
                TurnNotice::Began {
                    own: begin.connection == self.connection,
                    turn: &turn,
                }
            }
            Event::Request { id, message } if !is_aside(id) && asks_a_person(message) => {
                TurnNotice::Asked { id }
            }
            Event::Answer { id, .. } if !is_aside(id) => TurnNotice::Answered { id },
            Event::Response {
                turn: true,
                message,
                ..
            } => TurnNotice::Ended { answer: message },
            _ => return None,
        };
        Some(notice.message(self.session.as_str()))
    }

    /// For a client that joins: a command that waits is about to be a turn, unless the log says
    /// otherwise. The cursor is one from which the client is still owed its answer.
    pub(super) async fn notice_state(
        &self,
        at: Cursor,
        out: &mut Vec<(Cursor, Bytes)>,
    ) -> store::Result<()> {
        if !self.turn_notices {
            return Ok(());
        }
        let runs = match self.tail.turn_runs() {
            Some(runs) => runs,
            None => !self.work().await?.is_empty(),
        };
        let state = if runs {
            TurnNotice::Running
        } else {
            TurnNotice::Idle
        };
        let mut tell = |notice: TurnNotice| {
            out.push((at, notice.message(self.session.as_str())));
        };
        tell(state);
        for seq in self.attachment.pending.iter().filter(|_| runs) {
            let question = self.question(*seq).await?;
            let asked = question.filter(|(id, message)| !is_aside(id) && asks_a_person(message));
            if let Some((id, _)) = asked {
                tell(TurnNotice::Asked { id: &id });
            }
        }
        Ok(())
    }
}
