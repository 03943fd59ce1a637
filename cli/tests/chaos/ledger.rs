//! What every client asked and saw, and whether it may be so. Knows nothing of processes or
//! faults: it is told what arrived, in the order of arrival, and writes down each violation.
//!
//! | invariant | here |
//! |---|---|
//! | I1 | ids rise; the chunks of a prompt are 1…N, each once, in order; a question comes once |
//! | I2 | an event is the same bytes for everyone |
//! | I3 | nothing of a turn after its answer |
//! | I4 | every accepted request has exactly one answer, and the right one |
//! | I5 | one worker writes a session at a time: once another claim has written, the one before it writes no more |
//! | I9 | a stream goes on where it was asked to, or says `reset` |
//! | I11 | a turn of a program ends in an error only if something was done to its worker |

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use self::book::{Book, Request, digest};

mod book;
mod position;
#[cfg(test)]
mod tests;
mod view;
mod writers;

pub struct Ledger {
    /// What to give to `make chaos` to have the same once more.
    pub run: String,
    pub rules: Rules,
    /// Everything in the order of arrival, for whoever has to find out what happened.
    trace: Option<Mutex<BufWriter<File>>>,
    book: Mutex<Book>,
}

/// What a failover may cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Words, if clients are told so. What comes after that may have come before.
    pub resets: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub prompts: u64,
    pub events: u64,
    pub cuts: u64,
    pub retries: u64,
    pub resets: u64,
    pub loads: u64,
    pub cancelled: u64,
    pub questions: u64,
    /// Turns of programs that ended with their worker.
    pub interrupted: u64,
    /// Requests that were made again although they had been answered, or had been accepted.
    pub repeated: u64,
    /// Sessions that were left alone until the store made them small.
    pub rests: u64,
    pub forks: u64,
    pub closed: u64,
    pub deleted: u64,
    /// Messages of a mebibyte or more.
    pub large: u64,
}

/// `/count` with a number of chunks that no other prompt of the session has: it names the turn.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub session: String,
    pub chunks: u64,
    pub size: usize,
    pub may_be_cancelled: bool,
    pub permission: bool,
    /// Its agent is a program: what it was about to say ends with its worker.
    pub program: bool,
    /// A hash of what the user said, which others get to see.
    pub words: u64,
}

impl Prompt {
    pub fn digest(text: &str) -> u64 {
        digest(text)
    }
}

impl Ledger {
    pub fn new(run: &str, rules: Rules) -> Self {
        Self {
            run: run.to_owned(),
            rules,
            trace: None,
            book: Mutex::default(),
        }
    }

    /// Writes down what happens in a file of this directory.
    pub fn traced(mut self, dir: &Path) -> Self {
        let file = File::create(dir.join("seen.txt")).expect("the directory is writable");
        self.trace = Some(Mutex::new(BufWriter::new(file)));
        self
    }

    pub fn trace(&self, client: &str, what: &str) {
        if let Some(trace) = &self.trace {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let (seconds, millis) = (now.as_secs() % 3600, now.subsec_millis());
            let mut trace = trace.lock().expect("held for moments only");
            let (minute, second) = (seconds / 60, seconds % 60);
            let _ = writeln!(
                trace,
                "{minute:02}:{second:02}.{millis:03} {client} {what:.300}"
            );
            let _ = trace.flush();
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("held for moments only")
    }

    pub fn violation(&self, invariant: &str, client: &str, session: &str, text: &str) {
        let line = format!(
            "VIOLATION {} {invariant} client={client} session={session}: {text}",
            self.run
        );
        println!("{line}");
        self.trace(client, &line);
        self.book().violations.push(line);
    }

    pub fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    pub fn counts(&self) -> Counts {
        self.book().counts
    }

    pub fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.book().counts);
    }

    /// From now on the store has no room, or has it again.
    pub fn store_is_full(&self, full: bool) {
        let until = if full { NOT_SOON } else { REMEMBERED };
        self.book().full_until = Some(Instant::now() + until);
    }

    /// Before the first attempt to send it.
    pub fn asked(&self, client: &str, id: &str, prompt: Option<Prompt>) {
        self.trace(client, &format!("asks {id}"));
        let mut book = self.book();
        book.counts.prompts += u64::from(prompt.is_some());
        if let Some(prompt) = &prompt {
            let name = (prompt.session.clone(), prompt.chunks);
            book.prompts.insert(name, prompt.clone());
        }
        let request = Request::new(prompt);
        book.requests.insert((client.into(), id.into()), request);
    }

    /// The same request once more, read by somebody else.
    pub fn repeated(&self, client: &str, reader: &str, id: &str) {
        let mut book = self.book();
        if let Some(request) = book.requests.get(&(client.into(), id.into())) {
            let request = request.again();
            book.requests.insert((reader.into(), id.into()), request);
        }
    }

    pub fn accepted(&self, client: &str, id: &str) {
        let mut book = self.book();
        if let Some(request) = book.requests.get_mut(&(client.into(), id.into())) {
            request.accepted = true;
        }
    }

    /// A stream was opened after `asked` and says that it starts at `start`.
    pub fn started(&self, client: &str, stream: &str, asked: &str, start: &str) {
        self.trace(client, &format!("{stream} opened after {asked} at {start}"));
        if asked != "0" && asked != start {
            let text =
                format!("the stream {stream} was to go on after {asked}, and starts at {start}");
            self.violation("I9", client, stream, &text);
        }
    }

    pub fn reset(&self, client: &str, stream: &str, asked: &str) {
        {
            let mut book = self.book();
            book.counts.resets += 1;
            book.positions.remove(&(client.into(), stream.into()));
            book.shaken(client, stream);
            book.answers_may_repeat(client);
        }
        self.trace(client, &format!("{stream} is reset, after {asked}"));
        if !self.rules.resets {
            let text = format!("reset of the stream {stream} after {asked}");
            self.violation("I9", client, stream, &text);
        }
    }

    /// A message arrived. Returns it if it can be read.
    pub fn saw(&self, client: &str, stream: &str, id: &str, data: &str) -> Option<Value> {
        let Ok(message) = serde_json::from_str::<Value>(data) else {
            let text = format!("{stream} {id}: not JSON: {data:.200}");
            self.violation("I1", client, stream, &text);
            return None;
        };
        self.trace(client, &format!("{stream} {id} {data}"));
        let mut wrong = Vec::new();
        let session = {
            let mut book = self.book();
            book.counts.events += 1;
            let session = book.session_of(client, &message);
            if self.rules.resets {
                book.replays_on(client, &session, stream, id);
            }
            wrong.extend(book.check_position(client, stream, &session, id, data));
            wrong.extend(book.check_message(client, stream, &session, &message));
            session
        };
        for (invariant, text) in wrong {
            self.violation(
                invariant,
                client,
                &session,
                &format!("{stream} {id}: {text}"),
            );
        }
        Some(message)
    }

    /// Something was done to this worker, or to its way to the store.
    pub fn harmed(&self, worker: &str) {
        self.book().harmed.push((worker.into(), Instant::now()));
    }

    pub fn stopping(&self, worker: &str) {
        self.book().stopping.push((worker.into(), Instant::now()));
    }

    pub fn store_struck(&self) {
        self.book().store_struck.push(Instant::now());
    }

    /// The child has the parent's past: all turns that were asked for, which have ended.
    pub fn forked(&self, client: &str, parent: &str, child: &str) {
        self.trace(client, &format!("forked {parent}: {child}"));
        self.book().forked(client, parent, child);
    }

    /// From now on there is no such session.
    pub fn deleted(&self, session: &str) {
        let mut book = self.book();
        book.counts.deleted += 1;
        book.deleted.insert(session.into());
    }

    pub fn deleted_sessions(&self) -> Vec<String> {
        self.book().deleted.iter().cloned().collect()
    }

    /// Everybody is done or was given up: what was accepted must have been answered.
    pub fn close(&self) {
        let mut stuck = Vec::new();
        for ((client, id), request) in &self.book().requests {
            if request.answers == 0 {
                let session = request.prompt.as_ref().map(|prompt| prompt.session.clone());
                let how = if request.accepted { "accepted" } else { "sent" };
                let text = format!("request {id} was {how} and never answered");
                stuck.push((client.clone(), session.unwrap_or(UNKNOWN.into()), text));
            }
        }
        for (client, session, text) in stuck {
            self.violation("I4", &client, &session, &text);
        }
        let wrong = self.book().writers.wrong();
        // What a failover took back may have been written again by somebody else.
        for (session, text) in wrong.into_iter().filter(|_| !self.rules.resets) {
            self.violation("I5", UNKNOWN, &session, &text);
        }
    }

    /// The sessions with prompts, and the numbers of chunks that name them.
    pub fn sessions(&self) -> BTreeMap<String, Vec<u64>> {
        let mut sessions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let book = self.book();
        for (session, chunks) in book.prompts.keys() {
            if !book.deleted.contains(session) {
                sessions.entry(session.clone()).or_default().push(*chunks);
            }
        }
        sessions
    }

    /// How much of each turn the clients saw by its end must be how much `reader`, who loaded the
    /// whole session, has seen.
    pub fn compare(&self, reader: &str, session: &str) {
        let mut wrong = Vec::new();
        {
            let book = self.book();
            let whole = book.views.get(&(reader.into(), session.into()));
            let past = book.inherited.get(session).into_iter().flatten();
            let past = past.map(|(chunks, seen)| ("who forked it", *chunks, *seen));
            let views = book.views.iter().filter(|((_, of), _)| of == session);
            let own = views.flat_map(|((client, _), view)| {
                let ended = view.ended();
                ended.map(|(chunks, seen)| (client.as_str(), chunks, seen))
            });
            wrong.extend(past.chain(own).filter_map(|(client, chunks, seen)| {
                let kept = whole.map_or(0, |whole| whole.seen(chunks));
                let text = format!("of {chunks} chunks {client} saw {seen}, the log has {kept}");
                (kept != seen).then_some(text)
            }));
        }
        for text in wrong {
            self.violation("I1", reader, session, &text);
        }
    }
}

/// Gateways look once a second how full the store is.
const REMEMBERED: Duration = Duration::from_secs(10);
const NOT_SOON: Duration = Duration::from_secs(3600);

/// An answer need not say which session it is about.
const UNKNOWN: &str = "-";

/// As text, whatever its type.
pub fn id_of(message: &Value) -> String {
    match &message["id"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
