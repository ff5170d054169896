//! The expected state, kept outside of the database: an append-only file for each thread. Its plain
//! writes survive the process.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The ledger of a thread, for writing.
pub(super) struct Ledger {
    file: File,
}

/// The content of a ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// The last acknowledged batch.
    pub(super) done: u64,
    /// The last batch of each thread that must survive.
    pub(super) safe: Vec<u64>,
    /// Whether commits of this life are not logged.
    pub(super) is_unlogged: bool,
    /// The number of commits that found no room.
    pub(super) full: u64,
    /// The number of transfers.
    pub(super) transfers: u64,
    /// The mistake that the child found.
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

    /// Notes that batch `n` was acknowledged.
    pub(super) fn done(&mut self, n: u64) {
        self.line(&format!("done {n}"));
    }

    /// Notes that the batches up to these, one number for each thread, must survive.
    pub(super) fn safe(&mut self, batches: &[u64]) {
        let words: Vec<_> = batches.iter().map(u64::to_string).collect();
        self.line(&format!("safe {}", words.join(" ")));
    }

    /// Notes that commits of this life are not logged.
    pub(super) fn unlogged(&mut self) {
        self.line("unlogged");
    }

    /// Notes that a commit found no room.
    pub(super) fn full(&mut self) {
        self.line("full");
    }

    /// Notes a transfer.
    pub(super) fn transfer(&mut self) {
        self.line("transfer");
    }

    /// Notes a mistake.
    pub(super) fn wrong(&mut self, what: &str) {
        self.line(&format!("wrong {}", what.replace('\n', " ")));
    }
}

/// Returns the lengths of the ledgers, so that later lines can be told apart.
pub(super) fn marks(dir: &Path, threads: usize) -> Vec<u64> {
    let len = |thread| std::fs::metadata(path(dir, thread)).map_or(0, |meta| meta.len());
    (0..threads).map(len).collect()
}

/// Reads the ledger of a thread. Ignores a last line that is incomplete, and promises after `mark`.
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

/// Empties all ledgers.
pub(super) fn clear(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}
