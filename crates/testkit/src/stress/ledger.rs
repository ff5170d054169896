//! The expected state, kept outside the database: one append-only file a thread, written by plain writes, which
//! survive the process.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The writing end, of one thread.
pub(super) struct Ledger {
    file: File,
}

/// What a ledger says of its thread and of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// The last batch that was acknowledged.
    pub(super) done: u64,
    /// Of each thread, the last batch that was promised to survive.
    pub(super) safe: Vec<u64>,
    /// Commits of this life were not logged.
    pub(super) is_unlogged: bool,
    /// How often there was no room.
    pub(super) full: u64,
    /// Transfers that were done.
    pub(super) transfers: u64,
    /// What the child found wrong.
    pub(super) wrong: Option<String>,
}

fn path(dir: &Path, thread: usize) -> PathBuf {
    dir.join(format!("thread{thread}"))
}

impl Ledger {
    /// Opens the ledger of a thread.
    pub(super) fn open(dir: &Path, thread: usize) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path(dir, thread))?;
        Ok(Self { file })
    }

    fn line(&mut self, line: &str) {
        self.file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Batch `n` was acknowledged.
    pub(super) fn done(&mut self, n: u64) {
        self.line(&format!("done {n}"));
    }

    /// Batches up to these, of each thread, were promised to survive.
    pub(super) fn safe(&mut self, batches: &[u64]) {
        let words: Vec<_> = batches.iter().map(u64::to_string).collect();
        self.line(&format!("safe {}", words.join(" ")));
    }

    /// Commits of this life are not logged.
    pub(super) fn unlogged(&mut self) {
        self.line("unlogged");
    }

    /// There was no room.
    pub(super) fn full(&mut self) {
        self.line("full");
    }

    /// A transfer was done.
    pub(super) fn transfer(&mut self) {
        self.line("transfer");
    }

    /// Something is not as it must be.
    pub(super) fn wrong(&mut self, what: &str) {
        self.line(&format!("wrong {}", what.replace('\n', " ")));
    }
}

/// How long the ledgers are: what stands after that was written later.
pub(super) fn marks(dir: &Path, threads: usize) -> Vec<u64> {
    let len = |thread| std::fs::metadata(path(dir, thread)).map_or(0, |meta| meta.len());
    (0..threads).map(len).collect()
}

/// Reads the ledger of a thread. A last line that was cut short was not written in time. Promises after `mark` do not
/// count.
pub(super) fn read(dir: &Path, thread: usize, mark: u64) -> Read {
    let text = std::fs::read_to_string(path(dir, thread)).unwrap_or_default();
    let (mut read, mut end) = (Read::default(), 0);
    for line in text.split_inclusive('\n') {
        end += line.len() as u64;
        let Some(line) = line.strip_suffix('\n') else { break };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "done" => read.done = rest.parse().unwrap(),
            "safe" if end > mark => {}
            "safe" => read.safe = rest.split(' ').map(|n| n.parse().unwrap()).collect(),
            "unlogged" => read.is_unlogged = true,
            "full" => read.full += 1,
            "transfer" => read.transfers += 1,
            "wrong" => read.wrong = Some(rest.to_owned()),
            _ => panic!("a line of the ledger: {line:?}"),
        }
    }
    read
}

/// Begins all ledgers again.
pub(super) fn clear(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}
