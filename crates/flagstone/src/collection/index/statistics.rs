//! What is known of the values of an index, for users.

use super::distinct::Counter;
use super::scan::{IndexRange, Order, Reader, usable};
use crate::collection::stored::Stored;
use flagstone_base::{Error, Result};
use flagstone_doc::Value;
use std::fmt;

/// What is known of the values of an index: from counters, from a sample that its tables carry, and
/// from its first and last entry. [`Collection::index_statistics`](crate::Collection) returns it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexStatistics {
    /// About how many entries it has.
    pub entries: u64,
    /// How many entries are in the sample, which has none of the memtables.
    pub sampled: u64,
    /// How many distinct values the first field has, the first two fields together, and so on: up
    /// to 4,000 are counted, more are estimated. A value that is missing counts as one. It ends
    /// where the sample is too small.
    pub distinct: Vec<u64>,
    /// The relative error of each of these numbers: 0 for those that were counted. An estimate is
    /// within it in about 95 cases of 100, if `entries` is right.
    pub distinct_error: Vec<f64>,
    /// The values of the first entry, of which `None` is missing; empty without entries.
    pub first: Vec<Option<Value>>,
    /// The values of the last entry.
    pub last: Vec<Option<Value>>,
}

/// Returns statistics of the complete index `name`.
pub(in crate::collection) fn statistics(stored: &Stored, name: &str) -> Result<IndexStatistics> {
    let is_it = |index: &super::UsableIndex| index.definition().is_some_and(|it| it.name == name);
    let Some(index) = usable(stored).into_iter().find(is_it) else {
        let collection = stored.name();
        return Err(Error::invalid(format!("{collection:?} has no complete index {name:?}")));
    };
    let snapshot = stored.keyspace().ok().map(|keyspace| keyspace.snapshot());
    let end = |order| -> Result<Vec<Option<Value>>> {
        let reader = snapshot.as_ref().map_or(Reader::Remote(None, Some(1)), Reader::Snapshot);
        let mut scan = index.scan(reader, &IndexRange::all(), order)?;
        if scan.advance()? { scan.decode() } else { Ok(Vec::new()) }
    };
    let entries = index.approximate_count();
    let fields = index.definition().map_or(0, |definition| definition.fields.len());
    let (mut distinct, mut distinct_error, mut sampled) = (Vec::new(), Vec::new(), 0);
    if let (Some(statistics), Some(snapshot)) = (index.statistics(), &snapshot) {
        sampled = statistics.sampled();
        let (index, statistics) = (&index, &statistics);
        let counter = Counter { index, snapshot, statistics, entries };
        for fields in 1..=fields {
            let Some(found) = counter.distinct(fields)? else { break };
            distinct.push(found.values);
            distinct_error.push(found.error);
        }
    }
    let (first, last) = (end(Order::Forward)?, end(Order::Reverse)?);
    Ok(IndexStatistics { entries, sampled, distinct, distinct_error, first, last })
}

impl fmt::Display for IndexStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[Option<Value>]| {
            let shown = |value: &Option<Value>| match value {
                Some(value) => value.to_string(),
                None => "missing".to_owned(),
            };
            values.iter().map(shown).collect::<Vec<_>>().join(", ")
        };
        if !self.first.is_empty() {
            write!(f, "from {} to {}; ", list(&self.first), list(&self.last))?;
        }
        if self.distinct.is_empty() {
            return f.write_str("too few entries in tables to estimate distinct values");
        }
        let number = |(values, error): (&u64, &f64)| match error {
            0.0 => values.to_string(),
            error => format!("about {values} (within {:.0} %)", (error * 100.0).ceil().max(1.0)),
        };
        let numbers = self.distinct.iter().zip(&self.distinct_error).map(number);
        let numbers = numbers.collect::<Vec<_>>().join(", with the next field ");
        write!(f, "{numbers} distinct values")?;
        if self.distinct_error.iter().all(|error| *error == 0.0) {
            f.write_str(", counted")
        } else {
            write!(f, ", by {} sampled entries", self.sampled)
        }
    }
}
