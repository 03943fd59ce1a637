//! How far a scenario has come.

use std::sync::Mutex;

/// Prints each step that passed and remembers the one that is running.
#[derive(Default)]
pub struct Steps(Mutex<&'static str>);

impl Steps {
    pub fn begin(&self, name: &'static str) {
        *self.0.lock().unwrap() = name;
    }

    pub fn pass(&self) {
        println!("ok {}", self.current());
    }

    pub fn current(&self) -> &'static str {
        *self.0.lock().unwrap()
    }
}
