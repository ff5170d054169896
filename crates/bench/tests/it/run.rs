//! The binary, run in a directory of its own.

use flagstone_testkit::program::{self, Binary};

/// The benchmarks.
pub(crate) enum Bench {}

impl Binary for Bench {
    const PATH: &'static str = env!("CARGO_BIN_EXE_flagstone-bench");
}

/// A directory in which the benchmarks run.
pub(crate) type Place = program::Place<Bench>;
