//! Properties that hold for any content of a store or an archive: a file for each kind of input.
//! The targets in `fuzz/` check them for as long as they run, and every test run checks them
//! briefly (`tests`).

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
