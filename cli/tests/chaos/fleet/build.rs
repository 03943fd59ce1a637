//! Which build of Baton a process runs.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::support::process::{baton, baton_at};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Today,
    /// What `make upgrade-test` holds today's against.
    Base,
}

impl Build {
    pub fn command(self) -> Command {
        match self {
            Self::Today => baton(),
            Self::Base => {
                let program = env::var_os("BATON_BASE");
                let program = program.expect("`make upgrade-test` says where the other build is");
                baton_at(Path::new(&program))
            }
        }
    }
}
