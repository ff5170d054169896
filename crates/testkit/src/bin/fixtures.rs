//! Writes small databases of today's format: `cargo xtask fixtures` builds and starts it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers: what it prints is its result"
)]

use flagstone_testkit::fixtures::{EXPECTED, FORMAT, make};
use std::path::PathBuf;

fn main() {
    let root = std::env::args().nth(1).expect("the folder of the fixtures");
    let dir = PathBuf::from(root).join(FORMAT);
    let _absent = std::fs::remove_dir_all(&dir);
    for fixture in make().expect("the databases are made") {
        let dir = dir.join(&fixture.name);
        fixture.image.store(&dir).expect("the files are written");
        std::fs::write(dir.join(EXPECTED), &fixture.expected).expect("the text is written");
        println!("{}: {} lines", dir.display(), fixture.expected.lines().count());
    }
}
