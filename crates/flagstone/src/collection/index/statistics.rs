//! What is known of the values of an index, for users.

use super::scan::{IndexRange, Reader, usable};
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
    /// About how many distinct values the first field has, the first two fields together, and so
    /// on. Empty if the sample is too small.
    pub distinct: Vec<u64>,
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
    let snapshot = stored.bytes().snapshot();
    let end = |is_reverse| -> Result<Vec<Option<Value>>> {
        let reader = Reader::Snapshot(&snapshot);
        let mut scan = index.scan(reader, &IndexRange::all(), is_reverse)?;
        if scan.advance()? { scan.decode() } else { Ok(Vec::new()) }
    };
    let entries = index.core().approximate_count();
    let (sampled, distinct) = index.distinct(entries);
    Ok(IndexStatistics { entries, sampled, distinct, first: end(false)?, last: end(true)? })
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
        let distinct: Vec<String> = self.distinct.iter().map(u64::to_string).collect();
        write!(
            f,
            "about {} distinct values by {} sampled entries",
            distinct.join(", with the next field "),
            self.sampled
        )
    }
}
