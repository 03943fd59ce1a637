//! The model: little is kept but what happened, and every answer is looked up in that.

use baton_session::route::DeliveryPath;
use baton_session::store::{AppendOutcome, AttachOutcome, EnqueueOutcome, RunningTurn};

use super::steps::{CWD, Outcome, Step, View, Write, first};

#[derive(Default)]
pub struct Reference {
    events: Vec<Write>,
    frames: Vec<(u64, u64)>,
    commands: Vec<Accepted>,
    /// Token, and whether its lease lasts.
    held: Option<(u8, bool)>,
    gave_up: Option<u8>,
    parties: [Party; 2],
    controller: usize,
    pending: Vec<u64>,
}

struct Accepted {
    key: Option<(u8, u8)>,
    head: u64,
    via: DeliveryPath,
    waits: bool,
}

#[derive(Default)]
struct Party {
    /// From which event on which way; what was said last about an event holds.
    ways: Vec<(u64, DeliveryPath)>,
    holder: Option<u8>,
    before: Option<u8>,
    written: Option<u8>,
    watched: bool,
    loads: Vec<(u64, bool, DeliveryPath, u8)>,
}

impl Party {
    fn way(&self, seq: u64) -> Option<DeliveryPath> {
        let said = self.ways.iter().rev().find(|(from, _)| *from <= seq);
        said.map(|(_, via)| *via)
    }

    /// The way to answer, or `None` if the holder of the connection stream must be told first.
    fn settle(&mut self, watched: bool) -> Option<DeliveryPath> {
        self.watched |= watched;
        match (self.holder, self.watched) {
            (Some(_), _) => Some(DeliveryPath::Session),
            (None, true) => Some(DeliveryPath::Connection),
            (None, false) => None,
        }
    }
}

impl Reference {
    pub fn new() -> Self {
        let mut model = Self::default();
        model.parties[0] = Party {
            ways: vec![(1, DeliveryPath::Connection)],
            watched: true,
            ..Party::default()
        };
        model.commands.push(Accepted {
            key: None,
            head: 0,
            via: DeliveryPath::Connection,
            waits: true,
        });
        model
    }

    fn head(&self) -> u64 {
        self.events.len() as u64
    }

    fn waiting(&self) -> Vec<u64> {
        let numbered = (1..).zip(&self.commands);
        numbered
            .filter(|(_, command)| command.waits)
            .map(|(number, _)| number)
            .collect()
    }

    fn running(&self) -> Option<RunningTurn> {
        let ended = |write: &Write| matches!(write, Write::End { .. });
        let last_end = self.events.iter().rposition(ended).map_or(0, |at| at + 1);
        let turn = (1..).zip(&self.events).skip(last_end);
        let begins = turn.filter_map(|(began, write)| match write {
            Write::Begin { command, .. } => Some(RunningTurn {
                command: (*command).into(),
                began,
            }),
            _ => None,
        });
        begins.last()
    }

    pub fn take(&mut self, step: &Step) -> Outcome {
        match step.clone() {
            Step::Enqueue {
                by,
                key,
                fingerprint,
                urgent,
                one_shot,
                watched,
                foreign,
            } => {
                let outcome = self.enqueue(by, (key, fingerprint), one_shot, watched, foreign);
                // Commands that are not urgent are prompts, and a prompt takes control.
                if !urgent && matches!(outcome, EnqueueOutcome::Accepted { .. }) {
                    self.controller = by;
                }
                Outcome::Enqueued(outcome)
            }
            Step::Claim {
                token,
                lasting,
                any,
            } => Outcome::Claimed(self.claim(token, lasting, any)),
            Step::Renew { token } => {
                let ours = self.held.is_some_and(|(holder, _)| holder == token);
                if ours {
                    self.held = Some((token, true));
                }
                Outcome::Lost(!ours)
            }
            Step::Append {
                token,
                offset,
                events,
                acks,
                pending,
                release,
            } => {
                let outcome =
                    self.append(token, first(self.head(), offset), &events, &acks, release);
                if let (Some(number), Ok(_)) = (pending, &outcome) {
                    self.pending = vec![number];
                }
                Outcome::Appended(outcome.unwrap_or_else(|refused| refused))
            }
            Step::Release { token } => {
                if self.held.is_some_and(|(holder, _)| holder == token) {
                    (self.held, self.gave_up) = (None, Some(token));
                }
                Outcome::Nothing
            }
            Step::Attach {
                by,
                request,
                replay,
                one_shot,
                watched,
                elsewhere,
            } => {
                if elsewhere {
                    return Outcome::Refused(AttachOutcome::WrongCwd(CWD.into()));
                }
                self.attach(by, request, replay, one_shot, watched)
            }
            Step::Open { by, holder } => {
                let party = &mut self.parties[by];
                let held = party.holder.replace(holder);
                let earlier = held.filter(|held| *held != holder);
                party.before = party.before.or(earlier);
                Outcome::Opened(party.written.map(|number| number.to_string()))
            }
            Step::Touch {
                by,
                holder,
                written,
            } => {
                let party = &mut self.parties[by];
                if [party.holder, party.before].contains(&Some(holder)) {
                    party.written = Some(written);
                }
                if party.holder == Some(holder) {
                    party.before = None;
                }
                Outcome::Nothing
            }
            Step::Close { by, holder } => {
                let party = &mut self.parties[by];
                party.holder = party.holder.filter(|held| *held != holder);
                party.before = party.before.filter(|held| *held != holder);
                Outcome::Nothing
            }
        }
    }

    fn enqueue(
        &mut self,
        by: usize,
        key: (u8, u8),
        one_shot: bool,
        watched: bool,
        foreign: bool,
    ) -> EnqueueOutcome {
        if foreign {
            return EnqueueOutcome::NotFound;
        }
        let mut known = (1..)
            .zip(&self.commands)
            .filter(|(_, command)| command.key.is_some_and(|(name, _)| name == key.0));
        if let Some((number, command)) = known.next() {
            let Accepted { head, via, .. } = *command;
            return if command.key == Some(key) {
                EnqueueOutcome::Joined {
                    command: u64::into(number),
                    head,
                    via,
                }
            } else {
                EnqueueOutcome::Conflict
            };
        }
        let head = self.head();
        let via = if one_shot {
            Some(DeliveryPath::OneShot)
        } else {
            self.parties[by].settle(watched)
        };
        let Some(via) = via else {
            return EnqueueOutcome::Unwatched { head };
        };
        self.commands.push(Accepted {
            key: Some(key),
            head,
            via,
            waits: true,
        });
        EnqueueOutcome::Accepted {
            command: (self.commands.len() as u64).into(),
            head,
            via,
        }
    }

    fn claim(
        &mut self,
        token: u8,
        lasting: bool,
        any: bool,
    ) -> Option<(u64, Option<RunningTurn>, Vec<u64>)> {
        let waiting = self.waiting();
        let free = match self.held {
            None => !waiting.is_empty(),
            // Only by name can a holder take again what it has.
            Some((holder, lasts)) => !lasts || holder == token && !any,
        };
        free.then(|| {
            self.held = Some((token, lasting));
            (self.head(), self.running(), waiting)
        })
    }

    /// `Ok` if it was written now.
    fn append(
        &mut self,
        token: u8,
        first: u64,
        events: &[Write],
        acks: &[u64],
        release: bool,
    ) -> Result<AppendOutcome, AppendOutcome> {
        let head = self.head();
        let there = first + events.len() as u64 <= head + 1;
        if self.held.is_none_or(|(holder, _)| holder != token) {
            let repeated = self.gave_up == Some(token) && there;
            if repeated {
                self.acknowledge(acks);
            }
            return Err(if repeated {
                AppendOutcome::Done {
                    head,
                    released: true,
                }
            } else {
                AppendOutcome::Fenced
            });
        }
        if first != head + 1 {
            if there {
                self.acknowledge(acks);
            }
            return Err(if there {
                AppendOutcome::Done {
                    head,
                    released: false,
                }
            } else {
                AppendOutcome::Gap { head }
            });
        }
        for write in events {
            self.write(write);
        }
        if !events.is_empty() {
            self.frames.push((first, self.head()));
        }
        self.acknowledge(acks);
        let released = release && self.waiting().is_empty();
        if released {
            (self.held, self.gave_up) = (None, Some(token));
        }
        Ok(AppendOutcome::Done {
            head: self.head(),
            released,
        })
    }

    fn acknowledge(&mut self, acks: &[u64]) {
        for number in acks {
            if let Some(command) = self.commands.get_mut(*number as usize - 1) {
                command.waits = false;
            }
        }
    }

    fn write(&mut self, write: &Write) {
        self.events.push(write.clone());
        let seq = self.head();
        match write {
            Write::Update => {}
            Write::Begin { by, via, .. } => {
                self.controller = *by;
                self.parties[*by].ways.push((seq, *via));
            }
            Write::End { by } => {
                let party = &mut self.parties[*by];
                // Back to the last way that was no one-shot; if there was none, it was never here.
                let before = party
                    .ways
                    .iter()
                    .rev()
                    .find(|(_, via)| *via != DeliveryPath::OneShot);
                match (party.way(seq), before) {
                    (Some(DeliveryPath::OneShot), Some((_, before))) => {
                        party.ways.push((seq + 1, *before))
                    }
                    (Some(DeliveryPath::OneShot), None) => party.ways.clear(),
                    _ => {}
                }
            }
        }
    }

    fn attach(
        &mut self,
        by: usize,
        request: u8,
        replay: bool,
        one_shot: bool,
        watched: bool,
    ) -> Outcome {
        let head = self.head();
        let party = &mut self.parties[by];
        if party.loads.iter().all(|(.., known)| *known != request) {
            let Some(via) = party.settle(watched) else {
                return Outcome::Refused(AttachOutcome::Unwatched { head });
            };
            match party.ways.last() {
                // A one-shot turn keeps its events; this is for what comes after it.
                Some((began, DeliveryPath::OneShot)) => {
                    let (at, beneath) = (party.ways.len() - 1, (*began, via));
                    party.ways.insert(at, beneath);
                }
                _ => party.ways.push((head + 1, via)),
            }
            party.loads.push((
                head,
                replay,
                if one_shot { DeliveryPath::OneShot } else { via },
                request,
            ));
            self.controller = by;
        }
        Outcome::Attached(Box::new(self.view(by)))
    }

    fn view(&self, by: usize) -> View {
        let (head, party) = (self.head(), &self.parties[by]);
        let directive = |(upto, replay, via, request): &(u64, bool, DeliveryPath, u8)| {
            (
                party.loads.len() as u64,
                *upto,
                *replay,
                *via,
                request.to_string(),
            )
        };
        View {
            head,
            ways: (1..head + 3).map(|seq| party.way(seq)).collect(),
            controller: Some(self.controller),
            directive: party.loads.last().map(directive),
            pending: self.pending.clone(),
        }
    }

    pub fn look(&self) -> Outcome {
        let ways = self
            .waiting()
            .into_iter()
            .map(|number| (number, self.commands[number as usize - 1].via));
        Outcome::Looks {
            inbox: ways.collect(),
            views: vec![self.view(0), self.view(1)],
            frames: self.frames.clone(),
        }
    }
}
