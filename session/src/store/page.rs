//! The result of one read of a log: bounded by bytes, and never empty where there is something.

use std::sync::Arc;

use super::{PAGE_BYTES, Result};
use crate::event::Frame;

/// As many of these frames as a page may hold. The rest is not even looked at: frames that are
/// decoded on the way may be many times larger than what they are made of.
pub(super) fn fill(frames: impl Iterator<Item = Result<Arc<Frame>>>) -> Result<Vec<Arc<Frame>>> {
    let (mut page, mut weight) = (Vec::new(), 0);
    for frame in frames {
        let frame = frame?;
        weight += frame.weight();
        if weight > PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(frame);
    }
    Ok(page)
}
