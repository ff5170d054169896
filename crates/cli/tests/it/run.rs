//! The binary, run in a directory of its own.

use flagstone_testkit::program::{self, Binary};

pub(crate) use flagstone_testkit::program::ran;

/// The command-line tool.
pub(crate) enum Tool {}

impl Binary for Tool {
    const PATH: &'static str = env!("CARGO_BIN_EXE_flagstone");
}

/// A directory in which the tool runs.
pub(crate) type Place = program::Place<Tool>;
