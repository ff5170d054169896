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

/// Waits until the process `pid` has the database `db` of the place open.
pub(crate) fn wait_until_locked(place: &Place, pid: u32) {
    let by = format!("pid {pid},");
    let is_locked = || {
        std::thread::sleep(std::time::Duration::from_millis(10));
        std::fs::read_to_string(place.path("db/LOCK")).is_ok_and(|text| text.contains(&by))
    };
    assert!((0..6000).any(|_| is_locked()), "a minute has passed");
}
