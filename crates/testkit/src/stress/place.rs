//! The names, options and bank that parent and child share.

use super::batch::StressHandles;
use crate::rng::Rng;
use flagstone::{Database, KeyspaceOptions, Options, Result, Routing, Slice, Space};

/// The way in which lives of the child end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The process gets SIGKILL.
    Kill,
    /// The file system is shut down. Sometimes it is full before.
    Power,
}

impl Mode {
    pub(super) fn of(word: &str) -> Self {
        if word == "power" { Self::Power } else { Self::Kill }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Power => "power",
        }
    }
}

/// The number of accounts of the bank, and their total.
pub(super) const ACCOUNTS: u64 = 16;
pub(super) const TOTAL: i64 = 1000 * ACCOUNTS as i64;

/// Returns the key of an account.
pub(super) fn account(at: u64) -> String {
    format!("account{at:02}")
}

/// Returns the number of 8 bytes, or 0 if they are absent.
pub(super) fn number(found: Option<Slice>) -> i64 {
    found.map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap()))
}

/// Draws the options of an open.
pub(super) fn draw_options(rng: &mut Rng, mode: Mode) -> Options {
    let largest = if mode == Mode::Power { 4 << 20 } else { 64 << 20 };
    Options::new()
        .memory_budget(if rng.percent(60) { 1 << 20 } else { rng.between(1 << 20, largest) })
        .memtable_bytes(rng.percent(40).then_some(64 << 10))
        .direct_reads(rng.percent(20))
        .compaction_workers(rng.between(1, 3) as usize)
}

/// Opens or creates all keyspaces. An empty bank gets its money.
pub(super) fn handles(db: &Database) -> Result<StressHandles> {
    let hashed = |partitions| KeyspaceOptions::new().routing(Routing::Hash(partitions));
    let bounds = ["t00/0030", "t01/", "t02/0010", "t03/"].map(|bound| bound.as_bytes().to_vec());
    let ranged = hashed(1).routing(Routing::Range(bounds.to_vec()));
    let sums = hashed(2).fold("add-i64/1");
    let handles = StressHandles {
        hashed: db.space("hashed").options(hashed(4)).keyspace()?,
        ranged: db.space("ranged").options(ranged).keyspace()?,
        sums: db.space("sums").options(sums).keyspace()?,
        documents: db.space("documents").options(hashed(3)).collection()?,
        bank: db.space("bank").options(hashed(4)).keyspace()?,
    };
    if handles.bank.get(account(0))?.is_none() {
        let mut batch = db.batch();
        for at in 0..ACCOUNTS {
            batch.put(&handles.bank, account(at), (TOTAL / ACCOUNTS as i64).to_le_bytes())?;
        }
        db.commit(batch.durability(flagstone::Durability::Group))?;
    }
    Ok(handles)
}
