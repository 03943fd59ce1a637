//! Error codes. Those of Baton itself are positive: 4xxx can be avoided by the client, 5xxx cannot.
//! docs/reference/errors.md has them as a table, which a test compares with this file.

macro_rules! error_codes {
    ($(
        $(#[$doc:meta])*
        $code:ident = $value:literal, $name:literal, $meaning:literal, $advice:literal;
    )*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i64)]
        pub enum ErrorCode {
            $($(#[$doc])* $code = $value,)*
        }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// For people, in tables.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            /// When it is sent.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$code => $meaning,)* }
            }

            /// How its receiver should react.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$code => $advice,)* }
            }
        }
    };
}

error_codes! {
    ParseError = -32700, "parse error",
        "not JSON, or not JSON that every parser reads alike: a number out of range, half a \
         character, nested more than 127 deep",
        "fix the client";
    InvalidRequest = -32600, "invalid request",
        "not a JSON-RPC message, a batch, or `initialize` on an open socket",
        "fix the client";
    MethodNotFound = -32601, "method not found",
        "neither Baton nor the agent has this method",
        "do without";
    InvalidParams = -32602, "invalid params",
        "the message names the field and the expected value",
        "correct and send with a new `id`";
    InternalError = -32603, "internal error",
        "a fault of the agent or of Baton",
        "try again with a new `id`; if it persists, see the logs";
    /// ACP's own.
    ResourceNotFound = -32002, "resource not found (ACP)",
        "no such session, or it was revoked for this connection",
        "`session/new`";
    UnknownConnection = 4001, "unknown connection",
        "the connection token is not valid (with 404)",
        "`initialize`, then load the session";
    IdReused = 4002, "id reused",
        "this `id` was used on this connection for another request, or is answered in the body of \
         a one-shot POST",
        "use a new `id`; to join a one-shot request send the same POST again";
    QueueFull = 4003, "queue full",
        "`--queue-limit` commands or 32 MiB wait in this session; twice that for cancel, close and \
         answers",
        "wait for answers, then send again with a new `id`";
    LimitReached = 4004, "limit reached",
        "the caller is over one of its limits, which `data` names; 16 streams on this gateway are \
         for sessions that this connection has not opened (with 404); or a fork has 64 ancestors",
        "wait `retryAfterMs` and send it again with a new `id`, or the same request after a 429; \
         load the sessions first, or close streams; fork an ancestor";
    StoreFull = 4005, "store full",
        "Redis is nearly full: new sessions are refused, existing ones continue",
        "try again later; for the operator: raise `maxmemory`, or remove sessions";
    SessionClosed = 4006, "session closed",
        "the session was closed and not opened again",
        "`session/load` or `session/resume`, then send it again";
    Unauthenticated = 4007, "not authenticated",
        "the credential, or the proof it needs, is missing or not valid (with 401)",
        "send a valid one; a proof is made for each request";
    ObserveOnly = 4008, "observe only",
        "the session token or API key lets its holder only watch",
        "load, resume, or GET; with a key also list";
    Forbidden = 4009, "forbidden",
        "the token is valid, but lacks what `--auth-require` requires",
        "ask the operator";
    NoAgent = 5001, "no agent",
        "no worker has registered the agent that the path names, or the default; the message lists \
         the known ones",
        "use another path, or start a worker, then `initialize` again";
    StoreUnavailable = 5002, "store unavailable",
        "Redis was away, failing over or full for about 5 seconds (with 503)",
        "send the same request again";
    NoWorker = 5003, "no worker",
        "no worker was alive for `--withdraw-after-ms`; the request was withdrawn before anything \
         was done",
        "send it again with a new `id`";
    GivenUp = 5004, "given up",
        "three workers in a row stopped soon after they took this request, or ten later on, and \
         wrote nothing new",
        "see the workers' logs; change the request before trying again";
    Interrupted = 5005, "interrupted",
        "the worker of this turn stopped, and the agent's process with it (`--on-crash fail`); \
         updates so far remain",
        "send the prompt again with a new `id`; the agent knows the earlier conversation, though \
         perhaps not its own last updates";
    AgentFailed = 5006, "agent failed",
        "the agent's process ended, was stopped, or could not be started; with `--agent-stderr \
         client`, `data.stderr` has its last output; `data.retryAfterMs` tells when the next start \
         is tried",
        "send it again with a new `id`; if it persists, see the worker's log";
    ChoiceLost = 5007, "choice lost",
        "the agent was started anew and refuses the mode or option that was chosen for the \
         session; it might do more than that allowed, so the prompt was not sent",
        "choose again (`session/set_mode`, `session/set_config_option`), then send it again with a \
         new `id`";
    ModelFailed = 5008, "model failed",
        "the model that `--agent llm` asks did not answer; the message says why and what to do, \
         `data.retryable` whether the same may succeed later, `data.kind` names the reason",
        "as the message says; with `data.retryable` send the prompt again with a new `id`, after \
         `data.retryAfterMs` if that is there";
    /// Of the client library, never of a gateway.
    Unreachable = 5010, "unreachable",
        "from Baton's own client: Baton was away for `--give-up`",
        "it may have arrived, or may still be carried out: look, then send it again with a new \
         `id`";
    /// Of the client library, never of a gateway.
    ConnectionReplaced = 5011, "interrupted",
        "from Baton's own client: the connection of the request has ended",
        "the same; load the session to see what was done";
}

impl ErrorCode {
    pub const fn value(self) -> i64 {
        self as i64
    }

    /// `None` for codes of agents.
    pub fn of(value: i64) -> Option<Self> {
        let mut codes = Self::ALL.iter().copied();
        codes.find(|code| code.value() == value)
    }
}

impl From<ErrorCode> for i64 {
    fn from(code: ErrorCode) -> Self {
        code.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_stands_for_one_thing() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::of(code.value()), Some(*code));
        }
        assert_eq!(ErrorCode::of(-32000), None);
    }
}
