//! Verifies the indexes of a collection in a cluster.
//!
//! The documents and the entries are not read as of one moment. So what differs is looked at again:
//! a document and its entries are changed together, and only a difference that stays is one.

use super::verify::IndexVerifyReport;
use crate::collection::stored::Stored;
use crate::remote::{Area, Catalog, Remote, RemoteRows};
use crate::spill::{ExternalSorter, SortOptions};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The memory for the expected entries; the rest goes to spill files.
const MEMORY: usize = 16 << 20;
/// How often a document is looked at again before a difference counts.
const LOOKS: usize = 3;

/// Compares each complete index with all documents, in both directions.
///
/// # Errors
/// Corruption that names index and key for the first difference; errors of reading.
pub(super) fn verify(stored: &Stored, remote: &Arc<dyn Remote>) -> Result<IndexVerifyReport> {
    let catalog = remote.refresh()?;
    let complete = || catalog.indexes().iter().filter(|index| index.is_complete());
    let mut report = IndexVerifyReport { indexes: complete().count() as u64, ..Default::default() };
    let options = SortOptions { memory: MEMORY, limit: None, distinct: false, share: 1 };
    let mut sorter = ExternalSorter::new(stored.scratch(), options);
    let mut scan = RemoteRows::new(remote, Area::Documents, KeyRange::ALL).unordered();
    while scan.advance()? {
        report.documents += 1;
        for (index, entry) in expected(&catalog, scan.key(), scan.value())? {
            sorter.push(&[&index.to_be_bytes()[..], &entry].concat(), scan.key())?;
        }
    }
    let mut sorted = sorter.finish()?;
    let mut has_expected = sorted.advance()?;
    let mut doubtful: BTreeMap<Vec<u8>, BTreeSet<(u32, Vec<u8>)>> = BTreeMap::new();
    for index in complete() {
        let mut scan = RemoteRows::new(remote, Area::Index(index.id), KeyRange::ALL);
        let mut has_entry = scan.advance()?;
        // That of the document before.
        let mut before: Option<Vec<u8>> = None;
        loop {
            let wanted = has_expected.then(|| sorted.key()).and_then(|key| {
                let (number, entry) = key.split_first_chunk::<4>()?;
                (u32::from_be_bytes(*number) == index.id).then_some(entry)
            });
            let order = match (wanted, has_entry) {
                (None, false) => break,
                (Some(_), false) => Ordering::Less,
                (None, true) => Ordering::Greater,
                (Some(wanted), true) => wanted.cmp(scan.key()),
            };
            let (key, entry) = match (order, wanted) {
                (Ordering::Less, Some(wanted)) => (sorted.value().to_vec(), wanted.to_vec()),
                _ => (index.primary_key((scan.key(), scan.value()))?, scan.key().to_vec()),
            };
            if order.is_le() && index.is_unique() {
                // Its entry is there once, and its value says whose it is.
                if key != sorted.value() || before.as_ref() == Some(&entry) {
                    let of = doubtful.entry(sorted.value().to_vec()).or_default();
                    of.insert((index.id, entry.clone()));
                }
                before = Some(entry.clone());
            }
            if order != Ordering::Equal {
                doubtful.entry(key).or_default().insert((index.id, entry));
            }
            if order.is_le() {
                has_expected = sorted.advance()?;
            }
            if order.is_ge() {
                report.entries += 1;
                has_entry = scan.advance()?;
            }
        }
    }
    doubtful.iter().try_for_each(|(key, entries)| look_again(stored, remote, key, entries))?;
    Ok(report)
}

/// The entries that a document must have in the complete indexes.
fn expected(
    catalog: &Catalog,
    key: &[u8],
    document: &flagstone_base::Slice,
) -> Result<BTreeSet<(u32, Vec<u8>)>> {
    let row = crate::remote::Row { document: document.clone(), expiry: None };
    let complete =
        |id: u32| catalog.indexes().iter().any(|index| index.id == id && index.is_complete());
    let changes = catalog.changes(key, None, Some(&row))?.entries;
    let entries = changes.into_iter().map(|change| (change.index, change.key));
    Ok(entries.filter(|(index, _)| complete(*index)).collect())
}

/// Refuses entries of a document that are there and must not be, or the reverse, whenever they are
/// looked at.
fn look_again(
    stored: &Stored,
    remote: &Arc<dyn Remote>,
    key: &[u8],
    entries: &BTreeSet<(u32, Vec<u8>)>,
) -> Result<()> {
    let mut difference = None;
    for _ in 0..LOOKS {
        let (catalog, row) = (remote.refresh()?, remote.get(key)?);
        let wanted = match &row {
            Some(row) => expected(&catalog, key, &row.document)?,
            None => BTreeSet::new(),
        };
        difference = None;
        for index in catalog.indexes().iter().filter(|index| index.is_complete()) {
            for (_, entry) in entries.iter().filter(|(id, _)| *id == index.id) {
                let range = KeyRange {
                    start: Bound::Included(entry.clone()),
                    end: Bound::Included(entry.clone()),
                };
                let mut rows = RemoteRows::new(remote, Area::Index(index.id), range);
                let (mut own, mut others) = (0, 0);
                while rows.advance()? {
                    let is_own =
                        !index.is_unique() || index.primary_key((rows.key(), rows.value()))? == key;
                    *(if is_own { &mut own } else { &mut others }) += 1;
                }
                let what = match (own, wanted.contains(&(index.id, entry.clone()))) {
                    (0, true) => "lacks an entry",
                    (1.., false) => "has an entry too many",
                    (_, true) if others > 0 => "has another entry with a value",
                    _ => continue,
                };
                difference = Some((index.name().to_owned(), what));
            }
        }
        if difference.is_none() {
            return Ok(());
        }
    }
    let Some((index, what)) = difference else { return Ok(()) };
    let (name, key) = (stored.name(), super::show::shown_key(key));
    let text = format!("index {index:?} of {name:?} {what} of the document of {key}");
    Err(Error::new(ErrorKind::Corruption, text))
}
