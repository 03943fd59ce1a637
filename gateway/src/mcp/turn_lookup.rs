//! How far a turn is, from the store and without a stream.

use baton_protocol::limits::MAX_NAME;
use baton_session::event::Event;
use baton_session::id::{LogId, SessionId};
use baton_session::store::{self, SessionRecord};

use super::call::McpClientCall;
use super::results::TurnStatus;
use super::turn_reader::{AgentQuestion, TurnReader, WantedTurn};
use super::turn_reference::TurnReference;

/// Frames per read.
const PAGE: usize = 64;
/// Of a turn that works so many events are read: the last.
const RECENT: u64 = 2048;
/// So far back the begin of the last turn is looked for.
const LOOKED_BACK: u64 = 64 << 10;
const STEP: u64 = 1024;

pub struct TurnLookup {
    pub reader: TurnReader,
    pub status: TurnStatus,
}

/// The turn of this name. The inbox first: what it no longer holds is in the log by then.
pub async fn of_turn(
    call: &McpClientCall,
    turn: &TurnReference,
    record: &SessionRecord,
) -> store::Result<TurnLookup> {
    let store = &call.services.methods.store;
    let waiting = store.waiting_commands(&turn.session).await?;
    if waiting.contains(&turn.command) {
        let runs = match record.began {
            Some(began) => begins(call, &turn.session, began, turn).await?,
            None => false,
        };
        return working(call, &turn.session, record, runs).await;
    }
    let mut reader = TurnReader::new(turn.into());
    read(call, &turn.session, turn.head + 1, &mut reader).await?;
    let status = TurnStatus::of(&reader, false);
    Ok(TurnLookup { reader, status })
}

/// The turn that works, or else the last.
pub async fn of_session(
    call: &McpClientCall,
    session: &SessionId,
    record: &SessionRecord,
) -> store::Result<TurnLookup> {
    let store = &call.services.methods.store;
    if !store.waiting_commands(session).await?.is_empty() {
        return working(call, session, record, record.began.is_some()).await;
    }
    let mut reader = TurnReader::new(WantedTurn::Next);
    if let Some(begun) = last_begin(call, session).await? {
        read(call, session, begun, &mut reader).await?;
    }
    let status = TurnStatus::of(&reader, false);
    Ok(TurnLookup { reader, status })
}

/// What was said last, and what is asked.
async fn working(
    call: &McpClientCall,
    session: &SessionId,
    record: &SessionRecord,
    runs: bool,
) -> store::Result<TurnLookup> {
    let mut reader = TurnReader::new(WantedTurn::Next);
    if let Some(began) = record.began.filter(|_| runs) {
        let log = LogId::Session(session.clone());
        let head = call.services.methods.store.heads(&[log]).await?[0];
        let from = head.saturating_sub(RECENT);
        if from > began {
            reader = TurnReader::within(WantedTurn::Next);
        }
        read(call, session, from.max(began), &mut reader).await?;
        if reader.outcome.is_none() {
            reader.open = questions(call, session).await?;
        }
    }
    let status = TurnStatus::of(&reader, true);
    Ok(TurnLookup { reader, status })
}

/// The agent's questions that nobody has answered.
pub async fn questions(
    call: &McpClientCall,
    session: &SessionId,
) -> store::Result<Vec<AgentQuestion>> {
    let (store, connection) = (&call.services.methods.store, &call.access.connection);
    let known = store.attachment(session, &connection.id, &connection.principal);
    let Some(attachment) = known.await? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for seq in attachment.pending {
        if let Some(Event::Request { id, message }) = event(call, session, seq).await? {
            found.push(AgentQuestion { seq, id, message });
        }
    }
    Ok(found)
}

/// The question of this id.
pub async fn question(
    call: &McpClientCall,
    session: &SessionId,
    id: &str,
) -> store::Result<Option<AgentQuestion>> {
    if id.len() > MAX_NAME {
        return Ok(None);
    }
    let open = questions(call, session).await?;
    Ok(open.into_iter().find(|question| *question.id == *id))
}

async fn begins(
    call: &McpClientCall,
    session: &SessionId,
    began: u64,
    turn: &TurnReference,
) -> store::Result<bool> {
    let event = event(call, session, began).await?;
    Ok(matches!(event, Some(Event::Begin(begin)) if begin.command == turn.command))
}

async fn event(
    call: &McpClientCall,
    session: &SessionId,
    seq: u64,
) -> store::Result<Option<Event>> {
    let log = LogId::Session(session.clone());
    let frames = call.services.methods.store.read(&log, seq, 1).await?;
    let mut events = frames.iter().flat_map(|frame| frame.numbered());
    let found = events.find(|(number, _)| *number == seq);
    Ok(found.map(|(_, event)| event.clone()))
}

/// Up to the turn's end.
async fn read(
    call: &McpClientCall,
    session: &SessionId,
    from: u64,
    reader: &mut TurnReader,
) -> store::Result<()> {
    let (log, mut next) = (LogId::Session(session.clone()), from);
    loop {
        let store = &call.services.methods.store;
        let frames = store.read_confirmed(&log, next, PAGE).await?;
        let Some(last) = frames.last().map(|frame| frame.last()) else {
            return Ok(());
        };
        for (seq, event) in frames.iter().flat_map(|frame| frame.numbered()) {
            if seq >= next && reader.outcome.is_none() {
                reader.take(seq, event);
            }
        }
        if reader.outcome.is_some() {
            return Ok(());
        }
        next = last + 1;
    }
}

async fn last_begin(call: &McpClientCall, session: &SessionId) -> store::Result<Option<u64>> {
    let log = LogId::Session(session.clone());
    let store = &call.services.methods.store;
    let head = store.heads(std::slice::from_ref(&log)).await?[0];
    let mut end = head;
    while end > 0 && head - end < LOOKED_BACK {
        let (from, mut found) = (end.saturating_sub(STEP) + 1, None);
        let mut next = from;
        while next <= end {
            let frames = store.read(&log, next, PAGE).await?;
            let Some(last) = frames.last().map(|frame| frame.last()) else {
                break;
            };
            let events = frames.iter().flat_map(|frame| frame.numbered());
            let begins = events.filter(|(seq, _)| (next..=end).contains(seq));
            let begins = begins.filter(|(_, event)| matches!(event, Event::Begin(_)));
            found = begins.last().map(|(seq, _)| seq).or(found);
            next = last + 1;
        }
        if found.is_some() {
            return Ok(found);
        }
        end = from - 1;
    }
    Ok(None)
}
