//! Fixtures of the cases: a session of their own, and a probe for signals.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::command::{ClientCapabilities, Command, CommandId, CommandKind, IdempotencyKey};
use crate::event::{Event, ResponseRecipient, TurnBegin};
use crate::id::{ConnectionId, LogId, Nonce, Partition, SessionId, random_text};
use crate::route::DeliveryPath;
use crate::store::{
    AppendOutcome, AppendRequest, AttachParams, Attachment, Claim, ClaimToken, Claimant,
    EnqueueOutcome, EnqueueRequest, INBOX_LIMIT, NewSession, SessionSetup, Signal, SignalListener,
    Store, StreamId, StreamTouch, Topic, WorkerId,
};
use crate::trace::TraceContext;

mod wholes;

pub use wholes::{EVERYTHING_THAT_RESTS, EVERYTHING_UNUSED, said};

pub const CWD: &str = "/home/someone/project";
/// A lease that outlives every test.
pub const LONG: Duration = Duration::from_secs(3600);
/// A lease that is over before anyone can look.
pub const OVER: Duration = Duration::ZERO;
/// How long a signal may take; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A session with its own agent, principal and creator.
pub struct Scene {
    pub store: Arc<dyn Store>,
    pub id: SessionId,
    pub creator: ConnectionId,
    pub principal: String,
    pub agent: String,
}

impl Scene {
    /// Names for a session that doesn't exist yet.
    pub fn planned(store: &Arc<dyn Store>) -> Self {
        Self::planned_in(store, Partition::random(store.partitions()))
    }

    fn planned_in(store: &Arc<dyn Store>, partition: Partition) -> Self {
        Self {
            store: store.clone(),
            id: SessionId::mint(partition),
            creator: ConnectionId::mint(partition),
            principal: format!("principal-{}", random_text(8)),
            agent: format!("agent-{}", random_text(8)),
        }
    }

    /// A session as `session/new` leaves it: command 1 waits, the log is empty.
    pub async fn created(store: &Arc<dyn Store>) -> Self {
        let scene = Self::planned(store);
        scene.create().await;
        scene
    }

    /// Another session of the same agent and partition.
    pub async fn sibling(&self) -> Self {
        let planned = Self::planned_in(&self.store, self.id.partition());
        let sibling = Self {
            agent: self.agent.clone(),
            ..planned
        };
        sibling.create().await;
        sibling
    }

    /// Another session of the same principal and agent, anywhere.
    pub async fn another(&self) -> Self {
        let another = Self {
            principal: self.principal.clone(),
            agent: self.agent.clone(),
            ..Self::planned(&self.store)
        };
        another.create().await;
        another
    }

    pub async fn create(&self) {
        let first = self.first();
        let key = IdempotencyKey::of(&self.creator, Some("0"), &first.message);
        let created = self.store.create(&self.new_session(), &first, &key).await;
        created.expect("the session is created");
    }

    pub fn new_session(&self) -> NewSession {
        NewSession {
            id: self.id.clone(),
            principal: self.principal.clone(),
            agent: self.agent.clone(),
            cwd: CWD.to_owned(),
            params: Bytes::from_static(b"{\"mcpServers\":[]}"),
            directories: Bytes::new(),
            one_shot: false,
        }
    }

    pub fn first(&self) -> Command {
        self.command(CommandKind::New, Some("0"))
    }

    // ---- as a client ----

    pub fn another_connection(&self) -> ConnectionId {
        ConnectionId::mint(Partition::random(self.store.partitions()))
    }

    pub fn command(&self, kind: CommandKind, request: Option<&str>) -> Command {
        let message = format!("{{\"kind\":\"{}\",\"id\":{request:?}}}", kind.as_str());
        Command {
            kind,
            connection: self.creator.clone(),
            request: request.map(Arc::from),
            client: ClientCapabilities {
                read_file: true,
                ..Default::default()
            },
            taken_at: 1_700_000_000_000,
            trace: Some(trace()),
            message: message.into(),
        }
    }

    pub fn request(&self, command: Command) -> EnqueueRequest {
        EnqueueRequest {
            session: self.id.clone(),
            principal: self.principal.clone(),
            key: IdempotencyKey::of(
                &command.connection,
                command.request.as_deref(),
                &command.message,
            ),
            command,
            one_shot: false,
            watched: false,
            limit: INBOX_LIMIT,
            about: None,
            takes: Default::default(),
            findable: false,
        }
    }

    /// A prompt of the creator, whose connection stream is known to watch the session.
    pub fn prompt(&self, request: &str) -> EnqueueRequest {
        EnqueueRequest {
            watched: true,
            ..self.request(self.command(CommandKind::Prompt, Some(request)))
        }
    }

    /// The same, to be cancelled by its id.
    pub fn findable(&self, request: &str) -> EnqueueRequest {
        EnqueueRequest {
            findable: true,
            ..self.prompt(request)
        }
    }

    pub fn prompt_by(&self, connection: &ConnectionId, request: &str) -> EnqueueRequest {
        let connection = connection.clone();
        self.request(Command {
            connection,
            ..self.command(CommandKind::Prompt, Some(request))
        })
    }

    pub fn attach(&self, connection: &ConnectionId, request: &str) -> AttachParams {
        AttachParams {
            session: self.id.clone(),
            principal: self.principal.clone(),
            connection: connection.clone(),
            request: request.into(),
            cwd: CWD.to_owned(),
            replay: true,
            one_shot: false,
            watched: true,
            setup: SessionSetup::default(),
            observe: false,
            only_open: false,
        }
    }

    pub async fn attachment(&self, connection: &ConnectionId) -> Attachment {
        let found = self
            .store
            .attachment(&self.id, connection, &self.principal)
            .await;
        found.unwrap().expect("the session is there")
    }

    pub fn stream(&self, connection: &ConnectionId) -> StreamId {
        StreamId {
            connection: connection.clone(),
            session: Some(self.id.clone()),
        }
    }

    pub fn touch(
        &self,
        connection: &ConnectionId,
        holder: &str,
        written: Option<&str>,
    ) -> StreamTouch {
        StreamTouch {
            stream: self.stream(connection),
            holder: holder.to_owned(),
            written: written.map(str::to_owned),
            delivered: None,
        }
    }

    pub async fn open_stream(&self, connection: &ConnectionId, holder: &str) {
        let opened = self
            .store
            .open_stream(&self.stream(connection), &self.principal, holder)
            .await;
        opened.unwrap().expect("the session is there");
    }

    // ---- as a worker ----

    pub fn claimant(&self, lease: Duration) -> Claimant {
        Claimant {
            worker: WorkerId(format!("worker-{}", random_text(8)).into()),
            agent: self.agent.clone(),
            token: ClaimToken::random(),
            lease,
            takes_over: Some(u64::MAX),
        }
    }

    pub async fn try_claim(&self, claimant: &Claimant) -> Option<Claim> {
        self.store
            .claim(&self.id, claimant)
            .await
            .expect("the store answers")
    }

    pub async fn try_claim_any(&self, claimant: &Claimant) -> Option<SessionId> {
        let due = self.store.due(self.id.partition(), &claimant.agent, 100);
        for session in due.await.expect("the store answers").sessions {
            let claim = self.store.claim(&session, claimant).await;
            if claim.expect("the store answers").is_some() {
                return Some(session);
            }
        }
        None
    }

    /// The names of commands with these numbers, whether they wait or not.
    pub async fn named(&self, numbers: &[u64]) -> Vec<CommandId> {
        let waiting = self.store.waiting_commands(&self.id).await;
        let waiting = waiting.expect("the store answers");
        let name = |number: &u64| {
            let found = waiting.iter().find(|id| id.number == *number);
            found.copied().unwrap_or(CommandId::from(*number))
        };
        numbers.iter().map(name).collect()
    }

    /// Takes the session for good.
    pub async fn claim(&self) -> Claim {
        self.try_claim(&self.claimant(LONG))
            .await
            .expect("the session waits for a worker")
    }

    pub fn append(&self, token: &ClaimToken, first: u64, events: Vec<Event>) -> AppendRequest {
        AppendRequest::new(self.id.clone(), token.clone(), Nonce(7), first, events)
    }

    pub async fn write(&self, append: &AppendRequest) -> AppendOutcome {
        self.store.append(append).await.expect("the store answers")
    }

    pub async fn head(&self) -> u64 {
        self.store.heads(&[self.log()]).await.unwrap()[0]
    }

    /// Acknowledges everything that waits and gives the session up.
    pub async fn finish(&self, token: &ClaimToken) {
        let waiting = self.store.inbox(&self.id, &[]).await.unwrap();
        let done = AppendRequest {
            acks: waiting.iter().map(|queued| queued.id).collect(),
            release: true,
            ..self.append(token, self.head().await + 1, Vec::new())
        };
        let outcome = self.write(&done).await;
        assert!(
            matches!(outcome, AppendOutcome::Done { released: true, .. }),
            "{outcome:?}"
        );
    }

    /// A whole turn of the creator's: `words` are what the agent says, knows and shows then.
    pub async fn talk(&self, words: &str) {
        let request = format!("\"{}\"", random_text(8));
        let accepted = self.store.enqueue(&self.prompt(&request)).await.unwrap();
        let EnqueueOutcome::Accepted { command, via, .. } = accepted else {
            panic!("{accepted:?}");
        };
        let claim = self.claim().await;
        let begun = vec![begin(command, &self.creator, via)];
        let first = claim.head + 1;
        self.write(&self.append(&claim.token, first, begun)).await;
        let events = vec![said(&self.id, words), end(&self.creator, via)];
        let over = AppendRequest {
            acks: claim.inbox.iter().map(|queued| queued.id).collect(),
            state: Some(words.to_owned().into()),
            view: Some(words.to_owned().into()),
            release: true,
            ..self.append(&claim.token, first + 1, events)
        };
        let head = first + 2;
        let done = AppendOutcome::Done {
            head,
            released: true,
        };
        assert_eq!(self.write(&over).await, done);
    }

    // ---- as a listener ----

    pub fn log(&self) -> LogId {
        LogId::Session(self.id.clone())
    }

    pub fn ready(&self) -> Topic {
        Topic::Ready(self.id.partition(), self.agent.clone())
    }
}

/// The outcome of an accepted command, with its id.
pub fn enqueued(of: EnqueueOutcome) -> (&'static str, u64, u64, DeliveryPath) {
    match of {
        EnqueueOutcome::Accepted { command, head, via } => ("accepted", command.number, head, via),
        EnqueueOutcome::Joined { command, head, via } => ("joined", command.number, head, via),
        other => panic!("{other:?}"),
    }
}

pub fn update(text: &str) -> Event {
    Event::Update {
        turn: true,
        message: Bytes::from(text.to_owned()),
    }
}

pub fn updates(count: usize) -> Vec<Event> {
    (1..=count)
        .map(|number| update(&format!("update {number}")))
        .collect()
}

pub fn begin(command: impl Into<CommandId>, connection: &ConnectionId, via: DeliveryPath) -> Event {
    Event::Begin(TurnBegin {
        command: command.into(),
        connection: connection.clone(),
        via,
    })
}

/// One that some client has begun.
fn trace() -> TraceContext {
    TraceContext::from_text(
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=some value",
    )
}

pub fn end(connection: &ConnectionId, via: DeliveryPath) -> Event {
    let to = ResponseRecipient {
        connection: connection.clone(),
        request: "1".into(),
        via,
        trace: Some(trace()),
        at: None,
    };
    Event::Response {
        to,
        turn: true,
        message: Bytes::from_static(b"{\"result\":{}}"),
    }
}

/// Hears what a store signals, and gives up on silence.
pub struct SignalProbe {
    pub listener: Arc<dyn SignalListener>,
    pub signals: mpsc::Receiver<Signal>,
}

impl SignalProbe {
    pub async fn on(store: &Arc<dyn Store>, topics: &[Topic]) -> Self {
        Self::with_room(store, topics, 64).await
    }

    pub async fn with_room(store: &Arc<dyn Store>, topics: &[Topic], room: usize) -> Self {
        let (sink, signals) = mpsc::channel(room);
        let listener = store
            .listen(sink)
            .await
            .expect("the store can be listened to");
        for topic in topics {
            listener.subscribe(topic).await.expect("the store confirms");
        }
        Self { listener, signals }
    }

    pub async fn next(&mut self) -> Signal {
        let heard = timeout(PATIENCE, self.signals.recv()).await;
        heard
            .expect("a signal comes in time")
            .expect("the store keeps the sink")
    }

    /// Skips until a signal is what the caller waits for.
    pub async fn until(&mut self, wanted: impl Fn(&Signal) -> bool) -> Signal {
        loop {
            let signal = self.next().await;
            if wanted(&signal) {
                return signal;
            }
        }
    }
}
