//! The methods of ACP that Baton knows by name, and the rules that apply to each.
//!
//! [`Method::rules`] is the one place that says what a method is: a method that is added gets its
//! rules there, and a gateway's `methods` decides how it is carried out. Both matches are
//! exhaustive.

use self::MessageForm::{Any, Notification, Request};
use self::SessionEffect::{Creates, Ends, Opens};

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[$doc])* $method,)*
            /// A name that begins with `_`: for the agent to judge.
            Extension,
            /// Any other name.
            Unknown,
        }

        impl Method {
            /// All that have a name of their own.
            pub const NAMED: &[Self] = &[$(Self::$method,)*];

            pub fn of(name: &str) -> Self {
                match name {
                    $($name => Self::$method,)*
                    name if name.starts_with('_') => Self::Extension,
                    _ => Self::Unknown,
                }
            }

            /// As messages have it; `_` and `_OTHER` stand for all that have no name of their own.
            /// Labels of metrics and traces are made of these alone, never of a name that a client
            /// sent.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$method => $name,)*
                    Self::Extension => "_",
                    Self::Unknown => "_OTHER",
                }
            }
        }
    };
}

methods! {
    Initialize = "initialize",
    Authenticate = "authenticate",
    Logout = "logout",
    NewSession = "session/new",
    LoadSession = "session/load",
    ResumeSession = "session/resume",
    ForkSession = "session/fork",
    ListSessions = "session/list",
    DeleteSession = "session/delete",
    CloseSession = "session/close",
    Prompt = "session/prompt",
    Cancel = "session/cancel",
    SetMode = "session/set_mode",
    SetConfigOption = "session/set_config_option",
    /// Sent by older clients instead of `session/set_config_option`.
    SetModel = "session/set_model",
    CancelRequest = "$/cancel_request",
    /// MCP over ACP: from agent to client as a request, back as a notification.
    McpMessage = "mcp/message",

    // From agents to clients.
    Update = "session/update",
    RequestPermission = "session/request_permission",
    ReadTextFile = "fs/read_text_file",
    WriteTextFile = "fs/write_text_file",
    CreateTerminal = "terminal/create",
    TerminalOutput = "terminal/output",
    WaitForTerminalExit = "terminal/wait_for_exit",
    ReleaseTerminal = "terminal/release",
    CreateElicitation = "elicitation/create",
}

/// The rules for a message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodRules {
    /// In which form a client may send it; in any other it is an unknown method. `None`: not a
    /// client's to send.
    pub form: Option<MessageForm>,
    /// It waits in the session's inbox for the worker. Its limits are checked there, so that a
    /// repetition of a request that was accepted is never refused.
    pub queued: bool,
    /// Whether a caller that only observes may send it.
    pub observer: ObserverMay,
    /// A session token alone, without a connection, is not enough for it.
    pub needs_connection: bool,
    /// It is never refused because of the caller's rate: it ends things.
    pub exempt_from_rate: bool,
    pub effect: SessionEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageForm {
    Request,
    Notification,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserverMay {
    Send,
    /// A session token is about one session.
    SendWithoutSessionToken,
    NotSend,
}

/// The session that a successful answer leaves open on the connection, or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEffect {
    /// The result names a new one.
    Creates,
    /// The params name it.
    Opens,
    /// The params name it.
    Ends,
    None,
}

impl Method {
    pub fn rules(self) -> MethodRules {
        let request = MethodRules {
            form: Some(Request),
            queued: false,
            observer: ObserverMay::NotSend,
            needs_connection: false,
            exempt_from_rate: false,
            effect: SessionEffect::None,
        };
        let queued = MethodRules {
            queued: true,
            ..request
        };
        match self {
            Self::Initialize => MethodRules {
                form: Some(Any),
                ..request
            },
            Self::NewSession => MethodRules {
                needs_connection: true,
                effect: Creates,
                ..request
            },
            Self::Authenticate | Self::Logout => MethodRules {
                needs_connection: true,
                ..request
            },
            Self::LoadSession | Self::ResumeSession => MethodRules {
                observer: ObserverMay::Send,
                effect: Opens,
                ..request
            },
            Self::ForkSession => MethodRules {
                effect: Creates,
                ..request
            },
            Self::ListSessions => MethodRules {
                observer: ObserverMay::SendWithoutSessionToken,
                needs_connection: true,
                ..request
            },
            Self::DeleteSession => MethodRules {
                effect: Ends,
                ..request
            },
            Self::CloseSession => MethodRules {
                effect: Ends,
                ..queued
            },
            Self::Prompt | Self::SetMode | Self::SetConfigOption | Self::SetModel => queued,
            Self::Cancel => MethodRules {
                form: Some(Any),
                exempt_from_rate: true,
                ..queued
            },
            Self::CancelRequest => MethodRules {
                form: Some(Any),
                ..request
            },
            Self::McpMessage => MethodRules {
                form: Some(Notification),
                ..request
            },
            Self::Extension => MethodRules {
                form: Some(Any),
                ..queued
            },
            Self::Update
            | Self::RequestPermission
            | Self::ReadTextFile
            | Self::WriteTextFile
            | Self::CreateTerminal
            | Self::TerminalOutput
            | Self::WaitForTerminalExit
            | Self::ReleaseTerminal
            | Self::CreateElicitation
            | Self::Unknown => MethodRules {
                form: None,
                ..request
            },
        }
    }

    /// Whether a client may send it so.
    pub fn takes(self, is_request: bool) -> bool {
        match self.rules().form {
            Some(Request) => is_request,
            Some(Notification) => !is_request,
            Some(Any) => true,
            None => false,
        }
    }

    /// The label of metrics and traces: a name of the protocol, never one that a client made up.
    pub fn label(self) -> &'static str {
        match self.rules().form {
            Some(Request | Any) => self.name(),
            Some(Notification) | None => Self::Unknown.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_method_and_back() {
        for method in Method::NAMED {
            assert_eq!(Method::of(method.name()), *method);
        }
        assert_eq!(Method::of("_x/y"), Method::Extension);
        for unknown in ["", "session/", "Session/New", "providers/list"] {
            assert_eq!(Method::of(unknown), Method::Unknown);
        }
    }

    #[test]
    fn methods_of_agents_are_unknown_when_a_client_sends_them() {
        for method in [
            Method::Update,
            Method::RequestPermission,
            Method::CreateTerminal,
        ] {
            assert!(!method.takes(true) && !method.takes(false));
            assert_eq!(method.label(), "_OTHER");
        }
        assert!(Method::Prompt.takes(true) && !Method::Prompt.takes(false));
        assert!(Method::McpMessage.takes(false) && !Method::McpMessage.takes(true));
        assert!(Method::Cancel.takes(true) && Method::Cancel.takes(false));
    }
}
