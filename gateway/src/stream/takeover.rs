//! A stream that its client opens again is taken from its holder here.

use baton_session::id::ConnectionId;

use super::tailed_log::LogNotice;

/// Recognises among the notices of a log that another holder has a stream now.
pub struct TakeoverWatch {
    connection: ConnectionId,
    /// The name under which the stream is held here; `None` for one that nobody can take.
    holder: Option<String>,
    /// Our own registration was announced; from then on another one means that we lost the stream.
    announced: bool,
}

impl TakeoverWatch {
    pub fn new(connection: ConnectionId, holder: Option<String>) -> Self {
        Self {
            connection,
            holder,
            announced: false,
        }
    }

    /// True if this notice says that the stream is lost.
    pub fn is_taken(&mut self, notice: &LogNotice) -> bool {
        let LogNotice::Taken { connection, holder } = notice else {
            return false;
        };
        let Some(own) = self
            .holder
            .as_ref()
            .filter(|_| *connection == self.connection)
        else {
            return false;
        };
        let is_own = own == holder;
        self.announced |= is_own;
        self.announced && !is_own
    }
}

#[cfg(test)]
mod tests {
    use baton_session::id::Partition;

    use super::*;

    #[test]
    fn only_another_holder_after_our_own_takes_the_stream() {
        let connection = ConnectionId::mint(Partition(0));
        let taken = |holder: &str| LogNotice::Taken {
            connection: connection.clone(),
            holder: holder.to_owned(),
        };
        let mut watch = TakeoverWatch::new(connection.clone(), Some("ours".into()));
        assert!(!watch.is_taken(&taken("earlier")));
        assert!(!watch.is_taken(&taken("ours")));
        assert!(!watch.is_taken(&LogNotice::Resync));
        let elsewhere = LogNotice::Taken {
            connection: ConnectionId::mint(Partition(0)),
            holder: "later".into(),
        };
        assert!(!watch.is_taken(&elsewhere));
        assert!(watch.is_taken(&taken("later")));
        let mut watch = TakeoverWatch::new(connection.clone(), None);
        assert!(!watch.is_taken(&taken("ours")) && !watch.is_taken(&taken("later")));
    }
}
