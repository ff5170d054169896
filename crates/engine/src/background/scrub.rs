//! The scrub reads all tables over and over in the background, at a bounded rate, so that damage is
//! found while there still is a copy to restore.
//!
//! The scrub takes one tree after another, and the tables of a tree in the order of their numbers.
//! So a round needs no list: the next table is the one of the tree with the smallest number above
//! the last. Each table is compared with the checksum of its file in the manifest.

use crate::core::Core;
use crate::damage::report_damages;
use crate::rate::Rate;
use crate::setup::job_of;
use flagstone_base::{FileNumber, KeyspaceId};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::{Lane, Progress, is_out_of_descriptors};
use flagstone_tree::{Scrub, TableHandle, Tree};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two rounds, and when there is nothing to read.
const ROUND_PAUSE: Duration = Duration::from_secs(60);

/// The pause after a failure that says nothing about the table.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Counts of what the scrub has done since the database was opened.
#[derive(Default)]
pub(crate) struct ScrubCounters {
    pub(crate) rounds: AtomicU64,
    pub(crate) tables: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

/// The scrub of an open database.
pub(crate) struct Scrubber {
    core: Arc<Core>,
    pub(crate) counters: ScrubCounters,
}

/// The progress of the running round: the last table, and the read of it if that is not complete.
#[derive(Default)]
struct ScrubRound {
    last: Option<TablePosition>,
    scrub: Option<Scrub>,
}

/// The position of a table in a round.
#[derive(Clone, Copy)]
struct TablePosition {
    keyspace: KeyspaceId,
    partition: usize,
    table: FileNumber,
}

impl Scrubber {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core: Arc::clone(core), counters: ScrubCounters::default() })
    }

    /// Starts the scrub if the options ask for it. It ends when the database is closed.
    pub(crate) fn start(self: &Arc<Self>) {
        if self.core.setup().options.scrub_bytes_per_second == 0 {
            return;
        }
        let round = Mutex::new(ScrubRound::default());
        let job = job_of(self, move |scrubber| {
            if scrubber.core.health.check_open().is_err() {
                return Progress::Done;
            }
            let rate = Rate(scrubber.core.setup().options.scrub_bytes_per_second);
            scrubber.step(&mut round.lock(), rate)
        });
        self.core.setup().executor.submit(Lane::Compaction, job);
    }

    /// Begins the next table, or reads a part of the one that was begun.
    fn step(&self, round: &mut ScrubRound, rate: Rate) -> Progress {
        let Some(scrub) = &mut round.scrub else { return self.begin_table(round) };
        let counters = &self.counters;
        let began = self.core.setup().now();
        match scrub.step() {
            Ok(0) => {
                counters.tables.fetch_add(1, Ordering::Relaxed);
                round.scrub = None;
                Progress::Again
            }
            Ok(bytes) => {
                counters.bytes.fetch_add(bytes, Ordering::Relaxed);
                let took = self.core.setup().now().saturating_sub(began);
                Progress::Rest(rate.rest(bytes, took))
            }
            Err(error) => {
                round.scrub = None;
                if is_out_of_descriptors(&error) {
                    return Progress::Rest(RETRY_AFTER);
                }
                self.note_scrubbed_damage();
                Progress::Again
            }
        }
    }

    fn begin_table(&self, round: &mut ScrubRound) -> Progress {
        let Some((position, table)) = self.next_table(round.last) else {
            let is_round = round.last.take().is_some();
            self.counters.rounds.fetch_add(u64::from(is_round), Ordering::Relaxed);
            return Progress::Rest(ROUND_PAUSE);
        };
        match Scrub::start(&table) {
            Ok(scrub) => round.scrub = Some(scrub),
            // It says nothing about the table, which is begun again later.
            Err(error) if is_out_of_descriptors(&error) => return Progress::Rest(RETRY_AFTER),
            Err(_damaged) => self.note_scrubbed_damage(),
        }
        round.last = Some(position);
        Progress::Again
    }

    fn note_scrubbed_damage(&self) {
        self.counters.damaged.fetch_add(1, Ordering::Relaxed);
        let Core { health, keyspaces, trees, .. } = &*self.core;
        report_damages(health, keyspaces, trees, None);
    }

    /// Returns the next table after `last`, and its position.
    fn next_table(&self, last: Option<TablePosition>) -> Option<(TablePosition, Arc<TableHandle>)> {
        let mut from = last.map_or(KeyspaceId(0), |last| last.keyspace);
        loop {
            let keyspace = self.core.keyspaces.first_from(from)?;
            for (partition, tree) in keyspace.trees().iter().enumerate() {
                let here = (keyspace.id, partition);
                let is_done = |last: &TablePosition| here < (last.keyspace, last.partition);
                if last.as_ref().is_some_and(is_done) {
                    continue;
                }
                let above = last.filter(|last| here == (last.keyspace, last.partition));
                if let Some(table) = first_above(tree, above.map(|above| above.table)) {
                    let number = table.meta().number;
                    return Some((
                        TablePosition { keyspace: keyspace.id, partition, table: number },
                        table,
                    ));
                }
            }
            from = KeyspaceId(keyspace.id.0.checked_add(1)?);
        }
    }
}

/// The table of `tree` with the smallest number above `last`.
fn first_above(tree: &Tree, last: Option<FileNumber>) -> Option<Arc<TableHandle>> {
    let view = tree.view();
    let tables = view.version().tables().map(|(_, table)| table);
    let later = tables.filter(|table| Some(table.meta().number) > last);
    later.min_by_key(|table| table.meta().number).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Builder;

    #[test]
    fn a_round_takes_as_long_as_the_rate_says() {
        let dir = tempfile::tempdir().unwrap();
        let builder = Builder::at(dir.path()).scrub_bytes_per_second(0);
        let db = builder.open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        for n in 0..3000_u32 {
            kv.put(n.to_be_bytes(), n.wrapping_mul(0x9E37_79B9).to_be_bytes().repeat(100)).unwrap();
        }
        db.flush().unwrap();
        let scrubber = &kv.handle().parts().scrubber;
        let (mut round, mut rests) = (ScrubRound::default(), Duration::ZERO);
        let bytes = db.stats().table_bytes();
        while scrubber.counters.rounds.load(Ordering::Relaxed) == 0 {
            if let Progress::Rest(rest) = scrubber.step(&mut round, Rate(1000)) {
                rests += rest;
            }
        }
        assert_eq!(scrubber.counters.bytes.load(Ordering::Relaxed), bytes);
        let due = Duration::from_secs_f64(bytes as f64 / 1000.0) + ROUND_PAUSE;
        assert!(rests <= due && rests + Duration::from_secs(1) > due, "{rests:?}, {due:?}");
    }
}
