//! A writer: commits batches and counts what is acknowledged.

use crate::control::Control;
use crate::parse::Work;
use crate::totals::{OnCommit, Totals};
use crossbeam_channel::Receiver;
use flagstone::{Batch, Database, Durability};
use std::sync::Arc;
use std::time::Instant;

/// A writer and what it needs.
pub(crate) struct Writer {
    pub(crate) database: Database,
    pub(crate) durability: Durability,
    pub(crate) on_commit: Option<OnCommit>,
    pub(crate) control: Arc<Control>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) works: Receiver<Work>,
}

impl Writer {
    pub(crate) fn run(&self) {
        let mut has_failed = false;
        for Work { batch, count, rank, permit } in &self.works {
            // Batches parsed before a bad document are still committed; after an error of the
            // database none is.
            if has_failed {
                continue;
            }
            let committed = match batch.is_empty() {
                true => Ok(()),
                false => self.commit(batch),
            };
            match committed {
                Ok(()) => self.totals.add(count),
                Err(error) => {
                    has_failed = true;
                    self.control.fail((0, 0).min(rank), error.into());
                }
            }
            drop(permit);
        }
    }
    fn commit(&self, batch: Batch) -> flagstone::Result<()> {
        let started = Instant::now();
        let committed = self.database.commit_with(batch, self.durability);
        if let Some(hear) = &self.on_commit {
            hear(started.elapsed());
        }
        committed
    }
}
