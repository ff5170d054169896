//! Adds small databases of today's format to the fixtures: `cargo xtask fixtures` builds and starts
//! it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a tool for developers: what it prints is its result, and a panic is a report"
)]

use flagstone_testkit::fixtures::{FORMAT, add, load, make, newest};
use std::path::PathBuf;

fn main() {
    let mut words = std::env::args().skip(1);
    let format = PathBuf::from(words.next().expect("the folder of the fixtures")).join(FORMAT);
    let wanted: Vec<String> = words.collect();
    let made = make().expect("the databases are created");
    for name in &wanted {
        assert!(made.iter().any(|fixture| fixture.name == *name), "there is no fixture {name:?}");
    }
    for fixture in made {
        let kept = newest(&format, &fixture.name).expect("the folder can be read");
        let is_kept = kept.as_ref().is_some_and(|dir| {
            load(dir).expect("the fixture can be read").expected == fixture.expected
        });
        if let Some(dir) = kept.filter(|_| is_kept && !wanted.contains(&fixture.name)) {
            println!("{}: there already", dir.display());
            continue;
        }
        let dir = add(&format, &fixture).expect("the files are written");
        println!("{}: added, {} lines", dir.display(), fixture.expected.lines().count());
    }
}
