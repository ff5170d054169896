//! Merge operands: counters that are raised without being read, and a fold of your own.
//!
//! `cargo run --example counter [DIRECTORY]`

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::fold::Fold;
use flagstone::{Database, Error, KeyspaceOptions, Result, Space};
use std::path::PathBuf;

/// Keeps the largest of numbers that are 8 bytes long, big-endian. Other operands change nothing.
struct Highest;

impl Fold for Highest {
    /// The name is stored with the keyspace. When the meaning changes, the version must change.
    fn name(&self) -> &'static str {
        "example.highest/1"
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        // Big-endian numbers compare as their bytes do.
        let numbers = operands.iter().copied().filter(|operand| operand.len() == 8);
        base.into_iter().chain(numbers).max().map(<[u8]>::to_vec)
    }

    /// One operand for two. It keeps reads fast of a key that was merged millions of times.
    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        (older.len() == 8 && newer.len() == 8).then(|| older.max(newer).to_vec())
    }
}

/// Options of a keyspace that combines merge operands by `fold`.
fn folded_by(fold: &str) -> KeyspaceOptions {
    KeyspaceOptions::new().fold(fold)
}

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()
        .map_err(|error| Error::io("create a directory in", &std::env::temp_dir(), error))?;
    let path = std::env::args_os().nth(1);
    let path = path.map_or_else(|| scratch.path().join("counters"), PathBuf::from);

    // A fold is registered at each open. `add-i64/1` and `append/1` are there already.
    let db = Database::builder(&path).fold(Highest).open()?;
    let views = db.space("views").options(folded_by("add-i64/1")).keyspace()?;
    let slowest = db.space("slowest").options(folded_by("example.highest/1")).keyspace()?;

    let count = |thread: u64| -> Result<()> {
        for n in 0..20_000 {
            let page = ["index", "search", "help"][n as usize % 3];
            let micros = (n * 7919 + thread * 104_729) % 50_000;
            let mut batch = db.batch();
            batch.merge(&views, page, 1_i64.to_le_bytes())?;
            batch.merge(&slowest, page, micros.to_be_bytes())?;
            db.commit(batch)?;
        }
        Ok(())
    };
    // Four threads count the same pages. A merge reads nothing, and no count is lost.
    std::thread::scope(|scope| -> Result<()> {
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || count(thread)));
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;

    for entry in views.scan(..) {
        let (page, count) = entry?;
        let count = <[u8; 8]>::try_from(&count[..]).map_or(0, i64::from_le_bytes);
        let slowest = slowest.get(&page)?.unwrap_or_default();
        let slowest = <[u8; 8]>::try_from(&slowest[..]).map_or(0, u64::from_be_bytes);
        println!("{}: {count} views, the slowest took {slowest} us", page.escape_ascii());
    }
    db.close()
}
