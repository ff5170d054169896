//! Updates of documents by sampled keys: the score of each counts up.

use super::source::Opened;
use super::trial::{DocumentTrial, TrialOptions, missing};
use crate::engine::Outcome;
use crate::options::name_of;
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Recorder, Tally, Worker, crew};
use crate::workload::Random;
use clap::ValueEnum;
use flagstone::{Collection, Document, Patch, Value};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// How a document is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpdateHow {
    /// A get, then a put, as the origin did: of two at the same time one is lost
    GetPut,
    /// An atomic read-modify-write
    Update,
    /// An atomic read-modify-write by a patch on the document's bytes
    ApplyPatch,
    /// A patch as a merge operand, without reading
    Merge,
    /// A put of one of 4,096 documents of the sample that were read before the clock started, under
    /// any key of it: what the others are compared with
    Put,
}

impl UpdateHow {
    const fn kind(self) -> OpKind {
        match self {
            Self::GetPut | Self::Update | Self::ApplyPatch => OpKind::Update,
            Self::Merge => OpKind::Merge,
            Self::Put => OpKind::Put,
        }
    }

    /// Returns whether every increment must be there at the end.
    const fn is_atomic(self) -> bool {
        matches!(self, Self::Update | Self::ApplyPatch | Self::Merge)
    }
}

/// The path that counts up.
const PATH: &str = "score";
/// The number of documents that are put, each under many keys.
const PUTS: usize = 4096;

/// Changes documents by random keys of the sample, workload `update`. At the end the scores of the
/// sample are summed: after atomic updates, each must have counted. Figure: `lost_updates`, where
/// each operation increments.
pub fn run_document_update(
    trial: &DocumentTrial<'_>,
    options: &TrialOptions,
    how: UpdateHow,
) -> Outcome<Summary> {
    let keys = &trial.store.keys;
    let before = AtomicI64::new(0);
    let documents = OnceCell::new();
    let prepare = |opened: &Opened| {
        before.store(scores(opened, keys)?, Ordering::Relaxed);
        let _first = documents.set(documents_to_put(opened, keys, how)?);
        Ok(())
    };
    let workers = |opened: &Opened, threads| {
        let documents = documents.get().cloned().unwrap_or_default();
        crew(threads, |thread| Updater {
            collection: opened.collection.clone(),
            keys: Arc::clone(keys),
            documents: Arc::clone(&documents),
            patch: Patch::new().inc(PATH, 1),
            how,
            random: Random::new(3, thread),
        })
    };
    let check = |opened: &Opened, recorder: &mut Recorder<'_>| {
        if how == UpdateHow::Put {
            return Ok(());
        }
        let grown = scores(opened, keys)? - before.load(Ordering::Relaxed);
        let lost = recorder.totals().ops as i64 - grown;
        recorder.figure("lost_updates", lost as f64);
        if how.is_atomic() && lost != 0 {
            return Err(format!("wrong scores: {lost} of the atomic updates are lost").into());
        }
        Ok(())
    };
    trial.run(("update", &name_of(&how)), options, &prepare, &workers, &check)
}

/// The sum of the scores of all different keys.
fn scores(opened: &Opened, keys: &[Value]) -> Outcome<i64> {
    let mut sum = 0;
    for key in keys.iter().collect::<BTreeSet<_>>() {
        let found = opened.collection.get(key.clone())?.ok_or_else(|| missing(key))?;
        sum += found.int(PATH);
    }
    Ok(sum)
}

fn documents_to_put(opened: &Opened, keys: &[Value], how: UpdateHow) -> Outcome<Arc<[Document]>> {
    let mut documents = Vec::new();
    if how == UpdateHow::Put {
        for key in keys.iter().take(PUTS) {
            let found = opened.collection.get(key.clone())?.ok_or_else(|| missing(key))?;
            documents.push(found.self_contained()?);
        }
    }
    Ok(documents.into())
}

struct Updater {
    collection: Collection,
    keys: Arc<[Value]>,
    documents: Arc<[Document]>,
    patch: Patch,
    how: UpdateHow,
    random: Random,
}

impl Worker for Updater {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let at = self.random.below(self.keys.len() as u64) as usize;
        let key = self.keys[at].clone();
        meter.begin();
        let bytes = match self.how {
            UpdateHow::GetPut => {
                let Some(found) = self.collection.get(key.clone())? else {
                    return Err(missing(&key));
                };
                let mut changed = found.edit();
                changed.set(PATH, found.int(PATH) + 1)?;
                let changed = changed.finish()?;
                self.collection.put(key, &changed)?;
                changed.as_bytes().len()
            }
            UpdateHow::Update => {
                let counted = |d: &mut flagstone::DocumentMut| d.set(PATH, d.int(PATH) + 1);
                self.collection.update(key, counted)?;
                0
            }
            UpdateHow::ApplyPatch => {
                self.collection.apply_patch(key, &self.patch)?;
                0
            }
            UpdateHow::Merge => {
                self.collection.patch(key, &self.patch)?;
                0
            }
            UpdateHow::Put => {
                let document = &self.documents[at % self.documents.len()];
                self.collection.put(key, document)?;
                document.as_bytes().len()
            }
        };
        meter.end(self.how.kind(), Tally::put(bytes));
        Ok(true)
    }
}
