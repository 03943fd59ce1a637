//! The revisions of MCP that are spoken here, and how they differ.

/// Older ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum McpRevision {
    March2025,
    June2025,
    November2025,
    July2026,
}

impl McpRevision {
    pub const ALL: [Self; 4] = [
        Self::March2025,
        Self::June2025,
        Self::November2025,
        Self::July2026,
    ];
    /// Of those that begin with `initialize`.
    pub const LAST_WITH_SESSIONS: Self = Self::November2025;

    pub const fn name(self) -> &'static str {
        match self {
            Self::March2025 => "2025-03-26",
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
            Self::July2026 => "2026-07-28",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// As it stands in the token of a session, where ACP has its protocol version.
    pub const fn mark(self) -> u16 {
        match self {
            Self::March2025 => 2503,
            Self::June2025 => 2506,
            Self::November2025 => 2511,
            Self::July2026 => 2607,
        }
    }

    pub fn of_mark(mark: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.mark() == mark)
    }

    /// Every request says all that there is to know about its client, and none opens anything.
    pub fn is_sessionless(self) -> bool {
        self >= Self::July2026
    }

    /// The agent's questions are asked on the stream of the call, and a stream that was cut goes on
    /// from `Last-Event-ID`.
    pub fn asks_on_streams(self) -> bool {
        !self.is_sessionless()
    }

    /// A choice has `oneOf` with titles, and a question says its mode.
    pub fn titles_choices(self) -> bool {
        self >= Self::November2025
    }

    pub fn has_resource_links(self) -> bool {
        self >= Self::June2025
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_known_by_its_name_and_its_mark() {
        for revision in McpRevision::ALL {
            assert_eq!(McpRevision::parse(revision.name()), Some(revision));
            assert_eq!(McpRevision::of_mark(revision.mark()), Some(revision));
        }
        assert_eq!(McpRevision::parse("2024-11-05"), None);
        assert_eq!(McpRevision::of_mark(1), None);
    }
}
