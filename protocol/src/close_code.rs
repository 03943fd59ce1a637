//! Close codes of WebSockets.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum CloseCode {
    /// Detached by DELETE, or another socket took over.
    Normal = 1000,
    /// The gateway stops: between turns, or when its grace is over.
    GoingAway = 1001,
    /// The first message was not `initialize`.
    ProtocolError = 1002,
    /// The store lost events that this socket had sent.
    ServiceRestart = 1012,
    /// The store cannot be reached, or a log cannot be read.
    TryAgainLater = 1013,
    /// The token in `resume` is not valid.
    UnknownConnection = 4001,
    /// The credential of the socket has expired, or its connection or principal was revoked.
    CredentialLapsed = 4003,
}

impl CloseCode {
    pub const ALL: [Self; 7] = [
        Self::Normal,
        Self::GoingAway,
        Self::ProtocolError,
        Self::ServiceRestart,
        Self::TryAgainLater,
        Self::UnknownConnection,
        Self::CredentialLapsed,
    ];

    pub const fn value(self) -> u16 {
        self as u16
    }
}
