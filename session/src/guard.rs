//! The process above every agent, which ends what the agent has started. Its name is on this page
//! since two sides need it: the guard takes it on, and a gateway on the same machine knows by it
//! that an agent calls.

use std::ffi::CStr;

/// As the kernel tells it, which takes 15 bytes.
pub const NAME: &CStr = c"baton-guard";
