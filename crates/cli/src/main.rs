//! The command-line tool of flagstone.

fn main() {}
