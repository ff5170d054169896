//! Gets of documents by sampled keys: whole, one path of them, or decoded.

use super::source::Opened;
use super::trial::{DocumentTrial, TrialOptions, missing};
use crate::engine::Outcome;
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Tally, Worker, crew};
use crate::workload::Random;
use flagstone::{Collection, Value, View};
use std::hint::black_box;
use std::sync::Arc;

/// What is done with a document that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetHow {
    /// Nothing: the document is checked and readable in place.
    Whole,
    /// The value at a dotted path is read; nothing else is decoded, checked or copied.
    Path(String),
    /// The whole document is decoded to a value in memory.
    Decode,
}

impl GetHow {
    /// `whole`, `path score`, `decode`.
    pub fn name(&self) -> String {
        match self {
            Self::Whole => "whole".into(),
            Self::Path(path) => format!("path {path}"),
            Self::Decode => "decode".into(),
        }
    }
}

/// Gets documents by random keys of the sample, workload `get`.
pub fn run_document_get(
    trial: &DocumentTrial<'_>,
    options: &TrialOptions,
    how: &GetHow,
) -> Outcome<Summary> {
    let workers = |opened: &Opened, threads| {
        crew(threads, |thread| Getter {
            collection: opened.collection.clone(),
            keys: Arc::clone(&trial.store.keys),
            how: how.clone(),
            random: Random::new(2, thread),
        })
    };
    trial.run(("get", &how.name()), options, &|_| Ok(()), &workers, &|_, _| Ok(()))
}

struct Getter {
    collection: Collection,
    keys: Arc<[Value]>,
    how: GetHow,
    random: Random,
}

impl Worker for Getter {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let key = &self.keys[self.random.below(self.keys.len() as u64) as usize];
        let wanted = key.clone();
        meter.begin();
        let found = match &self.how {
            GetHow::Whole => self.collection.get(wanted)?.map(black_box).is_some(),
            GetHow::Decode => {
                let found = self.collection.get(wanted)?;
                found.map(|document| black_box(document.to_value())).is_some()
            }
            GetHow::Path(path) => {
                let part = |root: &View<'_>| {
                    let found = root.path(path)?;
                    found.map(|view| view.to_value()).transpose()
                };
                self.collection.look(wanted, part)?.map(black_box).is_some()
            }
        };
        meter.end(OpKind::Get, Tally::found(found));
        if found { Ok(true) } else { Err(missing(key)) }
    }
}
