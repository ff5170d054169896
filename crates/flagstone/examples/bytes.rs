//! A keyspace of bytes: put, get, scan, snapshot, delete.
//!
//! `cargo run --example bytes [DIRECTORY]`. With a directory the database stays: run it twice, and
//! the second run finds what the first one wrote.

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::{Database, Error, Prefix, Result, Space};
use std::path::PathBuf;

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()
        .map_err(|error| Error::io("create a directory in", &std::env::temp_dir(), error))?;
    let path = std::env::args_os().nth(1);
    let path = path.map_or_else(|| scratch.path().join("visits"), PathBuf::from);

    let db = Database::open(&path)?;
    let visits = db.keyspace("visits")?;
    println!("{}: {} visits of earlier runs", path.display(), visits.count()?);

    // Keys and values are bytes: everything that is `AsRef<[u8]>`.
    visits.put("ada/2026-03-01", "index")?;
    visits.put("ada/2026-03-02", "search")?;
    visits.put("grace/2026-03-01", "index")?;
    visits.put("grace/2026-03-04", "help")?;

    // A missing key is no error.
    match visits.get("ada/2026-03-02")? {
        Some(page) => println!("on 2 March Ada read {}", page.escape_ascii()),
        None => println!("Ada did not come on 2 March"),
    }

    // Keys are in the order of their bytes, so the keys of one prefix are neighbours.
    for entry in visits.scan(Prefix("grace/")) {
        let (key, page) = entry?;
        println!("{} {}", key.escape_ascii(), page.escape_ascii());
    }

    // The last key of a range: scan it backwards, and take one entry.
    if let Some(entry) = visits.scan("ada/".."ada0").rev().next() {
        println!("Ada's last visit: {}", entry?.0.escape_ascii());
    }

    // A snapshot sees the database as it was, whatever is written afterwards.
    let before = db.snapshot();
    visits.delete_range("ada/".."ada0")?;
    println!("visits of Ada now: {}", visits.scan(Prefix("ada/")).count());
    let then = before.get(&visits, "ada/2026-03-01")?;
    println!("in the snapshot she is still there: {}", then.is_some());

    // `delete` does not look whether the key is there; `remove` looks, and tells.
    println!("removed: {}", visits.remove("grace/2026-03-01")?);
    println!("removed again: {}", visits.remove("grace/2026-03-01")?);

    // Closing writes what is only in memory to disk, and returns errors.
    db.close()
}
