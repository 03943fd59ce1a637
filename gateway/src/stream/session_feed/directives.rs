//! Loads and resumes, which the holder of a stream carries out by itself: history if asked for,
//! the answer, and the agent's open questions once more.

use baton_protocol::compose;
use baton_session::cursor::{Cursor, CursorPhase};
use baton_session::event::Event;
use baton_session::store::{self, AttachRequest};
use bytes::Bytes;

use super::{SessionFeed, is_enough};

impl SessionFeed {
    /// The directive that this stream has to carry out next.
    pub(super) fn directive(&self) -> Option<&AttachRequest> {
        let ours = |directive: &&AttachRequest| match self.only {
            Some(number) => directive.number == number,
            None => directive.via == self.via,
        };
        let mut directives = self.attachment.directives.iter().filter(ours);
        directives.find(|directive| directive.number > self.answered)
    }

    /// Carries out what is due. A directive comes after everything that was written before it, so
    /// that no answer of an earlier request is passed over.
    pub(super) async fn follow_directives(
        &mut self,
        out: &mut Vec<(Cursor, Bytes)>,
    ) -> store::Result<()> {
        while let Some(directive) = self.directive().cloned() {
            if self.replayed.is_none() && self.tail.next() <= directive.upto {
                return Ok(());
            }
            self.take_back_what_was_passed_over(&directive);
            let from = self.replayed.unwrap_or(0) + 1;
            if directive.replay && from <= directive.upto {
                if is_enough(out) {
                    return Ok(());
                }
                self.replay(&directive, from, out).await?;
            } else {
                self.answer(&directive, out).await?;
            }
        }
        self.ask_again(out).await
    }

    /// A reader that is not attached skips the session's events. If a failover took some of them
    /// back before the connection was attached, those that have their numbers now are for it.
    fn take_back_what_was_passed_over(&mut self, directive: &AttachRequest) {
        if self.tail.next() > directive.upto + 1 && self.last_delivered <= directive.upto {
            self.tail.skip_to(directive.upto + 1);
        }
    }

    async fn replay(
        &mut self,
        directive: &AttachRequest,
        from: u64,
        out: &mut Vec<(Cursor, Bytes)>,
    ) -> store::Result<()> {
        let frames = self.tail.read(from).await?;
        if frames.is_empty() {
            self.replayed = Some(directive.upto);
        }
        let phase = CursorPhase::Replaying(directive.number);
        for frame in &frames {
            for (seq, event) in frame
                .numbered()
                .filter(|(seq, _)| (from..=directive.upto).contains(seq))
            {
                self.replayed = Some(seq);
                self.position = Cursor {
                    seq,
                    nonce: frame.nonce,
                    phase,
                };
                let told = match event {
                    Event::Update { message, .. } | Event::Echo { message, .. } => {
                        Some(message.clone())
                    }
                    other => self.turn_notice(other),
                };
                out.extend(told.map(|message| (self.position, message)));
            }
        }
        // Past the end, though nothing of the last frames was before it.
        if frames
            .last()
            .is_some_and(|frame| frame.last() > directive.upto)
        {
            self.replayed = Some(directive.upto);
        }
        Ok(())
    }

    async fn answer(
        &mut self,
        directive: &AttachRequest,
        out: &mut Vec<(Cursor, Bytes)>,
    ) -> store::Result<()> {
        let nonce = match directive.upto {
            0 => None,
            upto => self.tail.nonce_of(upto).await?,
        };
        let mut before = self.position;
        if before.seq > directive.upto {
            // Beyond it the answer would be taken for given.
            before.seq = directive.upto;
            before.nonce = nonce.unwrap_or_default();
        }
        self.notice_state(before, out).await?;
        let phase = CursorPhase::Answered(directive.number);
        self.position = Cursor {
            seq: directive.upto,
            nonce: nonce.unwrap_or_default(),
            phase,
        };
        let meta = self.issuer.meta(&self.session, &self.principal, self.scope);
        let view = &self.attachment.view;
        let result = meta.map_or_else(
            || view.clone(),
            |meta| super::answer_token::with_meta(view, &meta),
        );
        out.push((self.position, compose::result(&directive.request, &result)));
        self.answered = directive.number;
        self.replayed = None;
        self.ask_after = Some(0);
        self.ended = self.only.is_some();
        Ok(())
    }

    /// A client that has just taken control is asked the agent's open questions again.
    async fn ask_again(&mut self, out: &mut Vec<(Cursor, Bytes)>) -> store::Result<()> {
        let Some(after) = self.ask_after else {
            return Ok(());
        };
        // Later ones come live.
        let upto = self.position.seq;
        let controls = self.attachment.controller.as_ref() == Some(&self.connection);
        let open = self.attachment.pending.iter().copied();
        let open: Vec<u64> = open
            .filter(|seq| controls && *seq > after && *seq <= upto)
            .collect();
        for seq in open {
            // The others are asked when this was taken, unless nothing follows it.
            if is_enough(out) && !self.ended {
                return Ok(());
            }
            if let Some((id, message)) = self.question(seq).await? {
                self.open_requests.note(&id);
                self.position.phase = CursorPhase::Asked(self.answered, seq);
                out.push((self.position, message));
            }
            self.ask_after = Some(seq);
        }
        self.ask_after = None;
        Ok(())
    }
}
