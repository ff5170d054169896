//! A writer: commits batches and counts what is acknowledged.

use super::control::Control;
use super::parse::Work;
use super::totals::Totals;
use crossbeam_channel::Receiver;
use flagstone::{Database, Durability};
use std::sync::Arc;

/// What a writer needs.
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) durability: Durability,
    pub(super) control: Arc<Control>,
    pub(super) totals: Arc<Totals>,
    pub(super) works: Receiver<Work>,
}

impl Writer {
    pub(super) fn run(&self) {
        let mut has_failed = false;
        for Work { batch, count, rank, permit } in &self.works {
            // What was parsed before a bad document is still committed; after an error of the
            // database nothing is.
            if has_failed {
                continue;
            }
            let committed = match batch.is_empty() {
                true => Ok(()),
                false => self.database.commit_with(batch, self.durability),
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
}
