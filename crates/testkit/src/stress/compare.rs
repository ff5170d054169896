//! Opens the database that a child has left, and compares it with the ledgers.

use super::batch::{LATE, Left, Number, SLOTS, Source, StressHandles, Window, count_key, key};
use super::ledger;
use super::parent::Workplace;
use super::place::{ACCOUNTS, Mode, TOTAL, account, draw_options, handles, number};
use crate::rng::Rng;
use flagstone::{Database, Prefix, Space};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The expected result of the lives so far.
pub(super) struct Expected {
    pub(super) source: Source,
    pub(super) left: Vec<Left>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    /// The number of batches acknowledged in this life.
    pub(super) commits: u64,
    pub(super) transfers: u64,
    pub(super) full: u64,
    /// The time that opening took.
    pub(super) opened_in: Duration,
}

impl Expected {
    pub(super) fn new(source: Source, threads: usize) -> Self {
        Self { source, left: vec![Left::default(); threads] }
    }

    /// Compares, and takes what is there as the new state. Only promises before `marks` in the
    /// ledgers count.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn compare(
        &mut self,
        place: &Workplace,
        marks: &[u64],
        rng: &mut Rng,
    ) -> Result<Comparison, String> {
        let (threads, mode) = (self.left.len(), place.mode);
        let read = marks.iter().enumerate();
        let read = read.map(|(thread, mark)| ledger::read(&place.ledger, thread, *mark));
        let read: Vec<_> = read.collect();
        if let Some(wrong) = read.iter().find_map(|read| read.wrong.clone()) {
            return Err(format!("the child: {wrong}"));
        }
        let started = Instant::now();
        let db = Database::builder(&place.db).options(draw_options(rng, mode)).open();
        let db = db.map_err(|error| format!("cannot be opened: {error:?}"))?;
        let mut found = Comparison { opened_in: started.elapsed(), ..Comparison::default() };
        let failed = |error: flagstone::Error| format!("cannot be read: {error:?}");
        let handles = handles(&db).map_err(failed)?;
        for thread in 0..threads {
            let there = number(handles.sums.get(count_key(thread)).map_err(failed)?) as u64;
            let before = self.left[thread].batches;
            let done = read[thread].done.max(before);
            // The batches of this thread that any thread was told are durable.
            let safe = read.iter().filter_map(|read| read.safe.get(thread)).max();
            let safe = safe.copied().unwrap_or(0);
            // All logged batches of a life survive its process, and what was there once stays.
            let logged = if mode == Mode::Kill && !read[thread].is_unlogged { done } else { 0 };
            let promised = safe.max(before).max(logged);
            if there < promised || there > done + 1 {
                return Err(format!(
                    "thread {thread}: {there} batches are there; {before} were there before, \
                     {done} acknowledged, {promised} promised"
                ));
            }
            while self.left[thread].batches < there {
                self.left[thread].apply(self.source, thread);
            }
            self.check(thread, &db, &handles).map_err(failed)??;
            found.commits += done - before;
            found.transfers += read[thread].transfers;
            found.full += read[thread].full;
        }
        let accounts = (0..ACCOUNTS).map(|at| handles.bank.get(account(at)).map(number));
        let total = accounts.sum::<flagstone::Result<i64>>().map_err(failed)?;
        if total != TOTAL {
            return Err(format!("the bank holds {total}, expected {TOTAL}"));
        }
        if rng.percent(20) {
            db.verify().map_err(|error| format!("verify: {error:?}"))?;
        }
        if rng.percent(50) {
            drop(handles);
            db.close().map_err(|error| format!("close: {error:?}"))?;
        }
        ledger::clear(&place.ledger);
        Ok(found)
    }

    /// Asserts that the entries of a thread are the result of its batches.
    fn check(
        &self,
        thread: usize,
        db: &Database,
        handles: &StressHandles,
    ) -> flagstone::Result<Result<(), String>> {
        let left = &self.left[thread];
        for (keyspace, slots) in [(&handles.hashed, &left.hashed), (&handles.ranged, &left.ranged)]
        {
            let (found, window) = Window::of(db, || {
                let entries = keyspace.scan(Prefix(format!("t{thread:02}/")));
                let entries = entries.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())));
                entries.collect::<flagstone::Result<BTreeMap<_, _>>>()
            })?;
            let count = (found.len(), slots.len());
            if !window.allows_all(thread, slots.iter(), found) {
                return Ok(Err(format!(
                    "thread {thread} after {} batches: {} differs, {count:?} entries",
                    left.batches,
                    keyspace.name()
                )));
            }
        }
        let expected =
            |left: Option<&Number>| left.map(|left| (left.n, left.is_late.then_some(LATE)));
        for slot in 0..SLOTS {
            let key = key(thread, slot);
            let sum = handles.sums.get(&key)?.map(|sum| number(Some(sum)));
            let sum = sum.zip(Some(handles.sums.expiry(&key)?));
            let document = handles.documents.get(key.as_str())?;
            let document = document.map(|document| document.int("n").unwrap_or(i64::MIN));
            let document = document.zip(Some(handles.documents.expiry(key.as_str())?));
            let left = (expected(left.sums.get(&slot)), expected(left.documents.get(&slot)));
            if (sum, document) != left {
                return Ok(Err(format!(
                    "thread {thread} after {} batches, slot {slot}: sum {sum:?}, expected {:?}; \
                     document {document:?}, expected {:?}",
                    self.left[thread].batches, left.0, left.1
                )));
            }
        }
        Ok(Ok(()))
    }
}
