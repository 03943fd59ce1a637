//! Expectations that say what was found instead.

use anyhow::{Result, bail};

/// Like `ensure_equal` for lists, but names only the first difference.
pub fn ensure_same_items<T: PartialEq + std::fmt::Debug>(
    actual: &[T],
    expected: &[T],
    what: &str,
) -> Result<()> {
    for k in 0..actual.len().max(expected.len()) {
        let what = format!(
            "{what}, item {k} ({} expected, {} received)",
            expected.len(),
            actual.len()
        );
        ensure_equal(&actual.get(k), &expected.get(k), &what)?;
    }
    Ok(())
}

pub fn ensure_equal<T: PartialEq + std::fmt::Debug>(
    actual: &T,
    expected: &T,
    what: &str,
) -> Result<()> {
    if actual != expected {
        bail!("{what}: expected {expected:?}, got {actual:?}");
    }
    Ok(())
}
