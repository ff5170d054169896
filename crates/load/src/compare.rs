//! Compares the documents of two collections, wherever they are: keys, values with their kinds,
//! expiries.
//!
//! ```text
//! both at once, in any order: count and sum of checksums of each of 4,096 ranges of key hashes
//!     -> all equal: done
//!     -> else both in the order of keys, step by step: the keys that differ in these ranges
//! ```
//! A bucket of a cluster is one range or several. A document that expires while the two are read
//! may be in one sum and not in the other: the second step leaves out what has expired by then.

use crate::error::LoadError;
use flagstone::internal::{Carried, Carrier};
use flagstone::remote::shown_key;
use flagstone::{Collection, Moment, Snapshot};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::atomic::{self, AtomicBool, AtomicU64};

/// The ranges: a power of two, as the number of buckets is.
const RANGES: usize = 4_096;
/// The differences that are told.
const TOLD_MAX: usize = 10;

/// One of the two collections, and the moment as of which it is read, if it is in a directory.
#[derive(Clone, Copy)]
pub struct Side<'s> {
    /// The collection. `None`: there is none, which is as good as an empty one.
    pub collection: Option<&'s Collection>,
    /// Else the time of the comparison.
    pub at: Option<&'s Snapshot>,
}

/// What is the same, and what differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Comparison {
    /// The documents of both collections.
    pub documents: (u64, u64),
    /// The sum of the checksums of all documents of the first.
    pub sum: u64,
    /// The number of ranges in which they differ.
    pub ranges: u64,
    /// The number of documents that differ.
    pub differing: u64,
    /// The first of them, in the order of their keys.
    pub first: Vec<Difference>,
}

/// A document that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its key.
    pub key: String,
    /// How it differs.
    pub what: What,
}

/// How a document differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Only the first collection has it.
    OnlyFirst,
    /// Only the second collection has it.
    OnlySecond,
    /// Its fields, their order or kinds of values differ.
    Document,
    /// It is the same, and expires at another moment.
    Expiry,
}

/// Of each range the number of documents and the sum of their checksums, which has no order.
struct Sums(Vec<(u64, u64)>);

/// Compares two collections. `watch` is called now and then with the number of documents that were
/// read, and ends the comparison with an error.
///
/// # Errors
/// Those of the databases and of `watch`.
pub fn compare<E: From<LoadError>>(
    first: Side<'_>,
    second: Side<'_>,
    now: &dyn Fn() -> Moment,
    watch: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<Comparison, E> {
    let (read, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (first_sums, second_sums) = std::thread::scope(|scope| {
        let sum = |side| sums(side, &read, &stop);
        let threads = [scope.spawn(move || sum(first)), scope.spawn(move || sum(second))];
        let mut watched = Ok(());
        while watched.is_ok() && !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(crate::pipeline::TICK);
            watched = watch(read.load(atomic::Ordering::Relaxed));
        }
        stop.store(true, atomic::Ordering::Relaxed);
        let [first, second] = threads.map(|thread| {
            let panicked = |_| Err(LoadError::Io("a thread ended by a panic".to_owned()));
            thread.join().unwrap_or_else(panicked)
        });
        watched?;
        Ok::<_, E>((first?, second?))
    })?;
    let mut found = Comparison {
        documents: (first_sums.documents(), second_sums.documents()),
        sum: first_sums.0.iter().fold(0, |sum, (_, range)| sum.wrapping_add(*range)),
        ..Comparison::default()
    };
    let differs = |range: &usize| first_sums.0[*range] != second_sums.0[*range];
    let ranges: BTreeSet<usize> = (0..RANGES).filter(differs).collect();
    if !ranges.is_empty() {
        walk(first, second, &ranges, now, watch, &mut found)?;
    }
    Ok(found)
}

impl Sums {
    fn documents(&self) -> u64 {
        self.0.iter().map(|(documents, _)| documents).sum()
    }
}

fn range_of(carried: &Carried<'_>) -> usize {
    (carried.key_hash() % RANGES as u64) as usize
}

fn sums(side: Side<'_>, read: &AtomicU64, stop: &AtomicBool) -> Result<Sums, LoadError> {
    let mut sums = Sums(vec![(0, 0); RANGES]);
    let Some(collection) = side.collection else { return Ok(sums) };
    let mut carrier = Carrier::new(collection, side.at, None)?.unordered();
    while !stop.load(atomic::Ordering::Relaxed) && carrier.advance()? {
        let carried = carrier.current();
        let (documents, sum) = &mut sums.0[range_of(&carried)];
        *documents += 1;
        *sum = sum.wrapping_add(carried.checksum());
        read.fetch_add(1, atomic::Ordering::Relaxed);
    }
    Ok(sums)
}

/// The documents of some ranges, in the order of their keys.
struct Walk<'r> {
    carrier: Option<Carrier>,
    ranges: &'r BTreeSet<usize>,
    read: u64,
}

impl<'r> Walk<'r> {
    fn new(side: Side<'_>, ranges: &'r BTreeSet<usize>) -> Result<Self, LoadError> {
        let carrier = side.collection.map(|one| Carrier::new(one, side.at, None));
        Ok(Self { carrier: carrier.transpose()?, ranges, read: 0 })
    }

    /// Moves to the next document. Has none at the end.
    fn advance(&mut self) -> Result<(), LoadError> {
        while let Some(carrier) = &mut self.carrier {
            self.read += 1;
            if !carrier.advance()? {
                self.carrier = None;
            } else if self.ranges.contains(&range_of(&carrier.current())) {
                break;
            }
        }
        Ok(())
    }

    fn current(&self) -> Option<Carried<'_>> {
        self.carrier.as_ref().map(Carrier::current)
    }
}

/// Finds the documents that differ in some ranges.
fn walk<E: From<LoadError>>(
    first: Side<'_>,
    second: Side<'_>,
    ranges: &BTreeSet<usize>,
    now: &dyn Fn() -> Moment,
    watch: &mut dyn FnMut(u64) -> Result<(), E>,
    found: &mut Comparison,
) -> Result<(), E> {
    let (mut ours, mut theirs) = (Walk::new(first, ranges)?, Walk::new(second, ranges)?);
    let mut differing = BTreeSet::new();
    ours.advance()?;
    theirs.advance()?;
    loop {
        watch(ours.read + theirs.read)?;
        let (mine, other) = (ours.current(), theirs.current());
        let order = match (&mine, &other) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(mine), Some(other)) => mine.key.cmp(other.key),
        };
        let one = if order == Ordering::Greater { &other } else { &mine };
        let what = match (order, &mine, &other) {
            (Ordering::Less, ..) => Some(What::OnlyFirst),
            (Ordering::Greater, ..) => Some(What::OnlySecond),
            (_, Some(mine), Some(other)) if mine.document != other.document => Some(What::Document),
            (_, Some(mine), Some(other)) if mine.expiry != other.expiry => Some(What::Expiry),
            _ => None,
        };
        if let (Some(what), Some(one)) = (what, one) {
            // What expires meanwhile is there for the reader that came first.
            let is_lone = matches!(what, What::OnlyFirst | What::OnlySecond);
            if !(is_lone && one.gone_at.is_some_and(|at| at <= now())) {
                differing.insert(range_of(one));
                found.differing += 1;
                if found.first.len() < TOLD_MAX {
                    found.first.push(Difference { key: shown_key(one.key), what });
                }
            }
        }
        if order != Ordering::Greater {
            ours.advance()?;
        }
        if order != Ordering::Less {
            theirs.advance()?;
        }
    }
    found.ranges = differing.len() as u64;
    Ok(())
}
