//! What must hold whatever strangers send: a file for each kind of input. The targets in `fuzz/` try it
//! for as long as they are let, and every test run does for a moment (`tests`).

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
