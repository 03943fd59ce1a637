//! Properties that hold for any input: a file for each kind of input. The targets in `fuzz/` check
//! them for as long as they run, and every test run checks them briefly (`tests`).

pub use self::cursor::cursor;
pub use self::envelope::envelope;
pub use self::headers::headers;
pub use self::token::token;

mod cursor;
mod envelope;
mod headers;
#[cfg(test)]
mod tests;
mod token;
