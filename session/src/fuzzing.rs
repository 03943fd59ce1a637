//! What must hold whatever is in the store or in an archive: a file for each kind of input. The targets in
//! `fuzz/` try it for as long as they are let, and every test run does for a moment (`tests`).

pub use self::archives::archive;
pub use self::blocks::block;
pub use self::frames::frame;

mod archives;
mod blocks;
mod frames;
#[cfg(test)]
mod tests;

/// Numbers that a log may end with: the least, some, and the most.
const LAST: [u64; 3] = [1, 40, u64::MAX];
