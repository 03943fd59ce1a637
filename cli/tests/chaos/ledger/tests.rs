//! A check that cannot fail proves nothing: each kind of damage, done on purpose, must show.

use serde_json::json;

use super::{Ledger, Prompt, Rules};

const SESSION: &str = "000-A";

struct Seen {
    ledger: Ledger,
    seq: u64,
}

impl Seen {
    fn new() -> Self {
        let ledger = Ledger::new("SEED=1", Rules::default());
        let seen = Self { ledger, seq: 0 };
        seen.prompts("1", 3);
        seen
    }

    fn prompts(&self, id: &str, chunks: u64) {
        self.asks(id, chunks, false);
    }

    fn asks(&self, id: &str, chunks: u64, program: bool) {
        let prompt = Prompt {
            session: SESSION.into(),
            chunks,
            size: 0,
            may_be_cancelled: false,
            permission: false,
            program,
            words: Prompt::digest("/count 3\n"),
        };
        self.ledger.asked("c", id, Some(prompt));
        self.ledger.accepted("c", id);
    }

    fn text(&mut self, text: &str) {
        self.seq += 1;
        self.at("c", self.seq, text);
    }

    fn at(&self, client: &str, seq: u64, text: &str) {
        self.by("aa", client, seq, text);
    }

    fn by(&self, claim: &str, client: &str, seq: u64, text: &str) {
        let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "text": text } });
        let params = json!({ "sessionId": SESSION, "update": update });
        let data = json!({ "method": "session/update", "params": params }).to_string();
        let id = format!("{seq}.{claim}");
        self.ledger.saw(client, SESSION, &id, &data);
    }

    fn chunk(&mut self, number: u64) {
        self.text(&format!("chunk {number} of 3, prompt 1 "));
    }

    fn answer(&mut self, id: &str, result: serde_json::Value) {
        self.seq += 1;
        let data = json!({ "id": id, "result": result }).to_string();
        let at = format!("{}.aa", self.seq);
        self.ledger.saw("c", SESSION, &at, &data);
    }

    fn ends(&mut self) {
        self.answer("1", json!({ "stopReason": "end_turn" }));
    }

    /// The one violation, by its invariant and a word that says what is wrong.
    #[track_caller]
    fn shows(&self, invariant: &str, word: &str) {
        let lines = self.ledger.violations();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let right = lines[0].contains(&format!(" {invariant} ")) && lines[0].contains(word);
        assert!(right && lines[0].contains("SEED=1"), "{lines:?}");
    }
}

#[test]
fn a_perfect_turn_shows_nothing() {
    let mut seen = Seen::new();
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ends();
    seen.ledger.close();
    assert_eq!(seen.ledger.violations(), Vec::<String>::new());
}

#[test]
fn a_lost_chunk_shows() {
    let mut seen = Seen::new();
    seen.chunk(1);
    seen.chunk(3);
    seen.ends();
    seen.shows("I1", "lost: chunks 2…2");
}

#[test]
fn a_lost_tail_shows() {
    let mut seen = Seen::new();
    seen.chunk(1);
    seen.ends();
    seen.shows("I1", "lost: 1 ended after 1 of 3");
}

#[test]
fn a_duplicated_chunk_shows() {
    let mut seen = Seen::new();
    [1, 2, 2, 3].iter().for_each(|number| seen.chunk(*number));
    seen.ends();
    seen.shows("I1", "duplicated");
}

#[test]
fn reordered_chunks_show() {
    let mut seen = Seen::new();
    [2, 1, 3].iter().for_each(|number| seen.chunk(*number));
    let lines = seen.ledger.violations();
    assert!(
        lines[0].contains("lost") && lines[1].contains("reordered"),
        "{lines:?}"
    );
}

#[test]
fn a_chunk_after_the_answer_shows() {
    let mut seen = Seen::new();
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ends();
    seen.chunk(4);
    seen.shows("I3", "after the answer");
}

#[test]
fn turns_that_mix_show() {
    let mut seen = Seen::new();
    seen.prompts("2", 2);
    seen.chunk(1);
    seen.text("chunk 1 of 2, prompt 2 ");
    seen.chunk(2);
    seen.shows("I1", "during prompt 2");
}

#[test]
fn an_event_that_differs_between_clients_shows() {
    let mut seen = Seen::new();
    seen.chunk(1);
    seen.at("other", 1, "chunk 1 of 3, prompt 9 ");
    seen.shows("I2", "c saw something else");
}

#[test]
fn ids_that_do_not_rise_show() {
    let mut seen = Seen::new();
    seen.chunk(1);
    seen.seq = 0;
    // The same number with other content also differs from what was seen before.
    seen.chunk(2);
    let lines = seen.ledger.violations();
    assert!(lines[0].contains("do not rise"), "{lines:?}");
}

#[test]
fn a_second_answer_shows() {
    let mut seen = Seen::new();
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ends();
    seen.ends();
    seen.shows("I4", "answered 2 times");
}

#[test]
fn an_answer_that_nobody_asked_for_shows() {
    let mut seen = Seen::new();
    seen.answer("9", json!({}));
    seen.shows("I4", "nobody asked");
}

#[test]
fn a_turn_that_never_ends_shows() {
    let mut seen = Seen::new();
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ledger.close();
    seen.shows("I4", "never answered");
}

#[test]
fn a_cancellation_that_nobody_asked_for_shows() {
    let mut seen = Seen::new();
    seen.answer("1", json!({ "stopReason": "cancelled" }));
    seen.shows("I4", "cancelled");
}

#[test]
fn a_reset_and_a_silent_jump_show() {
    let seen = Seen::new();
    seen.ledger.reset("c", SESSION, "5.aa");
    seen.shows("I9", "reset");
    let seen = Seen::new();
    seen.ledger.started("c", SESSION, "5.aa", "9.bb");
    seen.shows("I9", "starts at 9.bb");
}

#[test]
fn a_log_that_differs_from_what_was_seen_shows() {
    let mut seen = Seen::new();
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ends();
    for number in 1..=2 {
        seen.at("reader", number, &format!("chunk {number} of 3, prompt 1 "));
    }
    seen.ledger.compare("reader", SESSION);
    seen.shows("I1", "c saw 3, the log has 2");
}

#[test]
fn two_workers_that_write_the_same_session_show() {
    let written = |claims: [&str; 3]| {
        let mut seen = Seen::new();
        for (seq, claim) in (1..).zip(claims) {
            seen.by(claim, "c", seq, &format!("chunk {seq} of 3, prompt 1 "));
        }
        seen.seq = 3;
        seen.ends();
        seen.ledger.close();
        seen
    };
    let taken_over = written(["cc", "bb", "aa"]);
    assert_eq!(taken_over.ledger.violations(), Vec::<String>::new());
    written(["aa", "bb", "aa"]).shows("I5", "event 3 is by aa again");
}

#[test]
fn a_question_asked_twice_shows() {
    let seen = Seen::new();
    for seq in 1..=2 {
        let params = json!({ "sessionId": SESSION });
        let method = "session/request_permission";
        let data = json!({ "id": "q", "method": method, "params": params, "seq": seq });
        let id = format!("{seq}.aa");
        seen.ledger.saw("c", SESSION, &id, &data.to_string());
    }
    seen.shows("I1", "asked twice");
}

/// A turn of a program that has said something, and ends with its worker.
fn interrupted(harmed: &[&str]) -> Seen {
    let mut seen = Seen::new();
    seen.asks("2", 4, true);
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ends();
    harmed.iter().for_each(|worker| seen.ledger.harmed(worker));
    seen.text("chunk 1 of 4, prompt 4 by worker-3 ");
    seen.seq += 1;
    let error = json!({ "code": 5005, "message": "interrupted" });
    let data = json!({ "id": "2", "error": error }).to_string();
    seen.ledger
        .saw("c", SESSION, &format!("{}.aa", seen.seq), &data);
    seen
}

#[test]
fn a_program_may_end_with_its_worker_and_what_it_said_must_stay() {
    let mut seen = interrupted(&["worker-3"]);
    assert_eq!(seen.ledger.violations(), Vec::<String>::new());
    seen.text("chunk 2 of 4, prompt 4 by worker-3 ");
    seen.shows("I3", "after the answer");
}

#[test]
fn a_program_that_ends_while_its_worker_lives_shows() {
    interrupted(&[]).shows("I11", "nothing was done to its worker");
    interrupted(&["worker-4"]).shows("I11", "worker-3");
}

#[test]
fn a_worker_that_stops_ends_its_turns_unless_the_store_is_away() {
    let interrupted = |store_struck: bool| {
        let mut seen = Seen::new();
        seen.asks("2", 4, true);
        (1..=3).for_each(|number| seen.chunk(number));
        seen.ends();
        seen.ledger.stopping("worker-3");
        if store_struck {
            seen.ledger.store_struck();
        }
        seen.text("chunk 1 of 4, prompt 4 by worker-3 ");
        seen.seq += 1;
        let data = json!({ "id": "2", "error": { "code": 5005 } }).to_string();
        let at = format!("{}.aa", seen.seq);
        seen.ledger.saw("c", SESSION, &at, &data);
        seen
    };
    interrupted(false).shows("I11", "worker-3");
    assert_eq!(interrupted(true).ledger.violations(), Vec::<String>::new());
}

#[test]
fn an_interrupted_turn_of_another_agent_shows() {
    let mut seen = Seen::new();
    seen.ledger.harmed("worker-3");
    seen.seq += 1;
    let data = json!({ "id": "1", "error": { "code": 5005 } }).to_string();
    seen.ledger.saw("c", SESSION, "1.aa", &data);
    seen.shows("I4", "5005");
}

#[test]
fn words_that_are_not_the_users_show() {
    let seen = Seen::new();
    for (seq, text) in [(1, "/count 3\n"), (2, "/count 3 \n")] {
        let content = json!({ "text": text });
        let update = json!({ "sessionUpdate": "user_message_chunk", "content": content });
        let params = json!({ "sessionId": SESSION, "update": update });
        let data = json!({ "method": "session/update", "params": params }).to_string();
        seen.ledger
            .saw("other", SESSION, &format!("{seq}.aa"), &data);
    }
    seen.shows("I1", "not what the user said");
}

#[test]
fn a_fork_without_its_past_shows() {
    let mut seen = Seen::new();
    (1..=3).for_each(|number| seen.chunk(number));
    seen.ends();
    seen.ledger.forked("c", SESSION, "001-B");
    seen.ledger.compare("reader", "001-B");
    seen.shows("I1", "who forked it saw 3, the log has 0");
}

#[test]
fn what_is_missing_after_a_reset_was_said_so() {
    let mut seen = Seen::new();
    seen.ledger.rules.resets = true;
    seen.chunk(1);
    seen.ledger.reset("c", SESSION, "1.aa");
    seen.chunk(3);
    seen.ends();
    assert_eq!(seen.ledger.violations(), Vec::<String>::new());
    seen.prompts("2", 5);
    seen.text("chunk 2 of 5, prompt 2 ");
    seen.shows("I1", "lost: chunks 1…1 of 5");
}

#[test]
fn an_answer_comes_again_only_after_a_reset() {
    for reset in [false, true] {
        let mut seen = Seen::new();
        seen.ledger.rules.resets = true;
        (1..=3).for_each(|number| seen.chunk(number));
        seen.ends();
        if reset {
            seen.ledger.reset("c", SESSION, "4.aa");
        }
        seen.ends();
        match reset {
            true => assert_eq!(seen.ledger.violations(), Vec::<String>::new()),
            false => seen.shows("I4", "was answered 2 times"),
        }
    }
}
