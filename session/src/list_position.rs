//! Where a page of a list of sessions ends. Gateways sign it into the cursor that clients get.

use serde::{Deserialize, Serialize};

use crate::id::SessionId;

/// A place in a list: later changes come first, then greater ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListPosition {
    /// When the session was created or its last turn ended, in milliseconds since 1970.
    pub updated: u64,
    pub session: SessionId,
}
