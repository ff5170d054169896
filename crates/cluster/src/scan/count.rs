//! How many rows there are.

use super::pages::{Bucket, First, Pages, Request};
use super::rows::Scan;
use crate::ground::Ground;
use flagstone::remote::{Area, RemoteScan, ScanOrder};
use flagstone_base::{KeyRange, Result};
use std::sync::Arc;

/// The rows of each bucket that an estimate reads at first.
const SAMPLE: usize = 100;
/// The rows of each bucket whose bytes an estimate looks at, at most.
const MEASURED: usize = 20;
/// What Cassandra stores beside the key and the value of a row, about.
const ROW_BYTES: usize = 40;
/// The rows of one bucket that an estimate counts if there are more.
const COUNTED_MAX: usize = 20_000;

/// Returns the number of rows of a range.
pub(crate) fn count(ground: &Arc<Ground>, area: Area, range: &KeyRange) -> Result<u64> {
    // The values of entries are short, and may be needed to know their documents.
    let keys_only = area == Area::Documents;
    let mut scan = Scan::new(ground, area, range, ScanOrder::Any, None, keys_only)?;
    let mut rows = 0;
    while scan.advance()? {
        rows += 1;
    }
    Ok(rows)
}

/// Returns about how many rows there are: exactly if they are few, else by those of one bucket that
/// has many. Of ranges of keys, the last one may have many more than the others.
pub(crate) fn about(ground: &Arc<Ground>, area: Area) -> Result<u64> {
    let first = First::Rows(SAMPLE);
    let (range, is_reversed, keys_only) = (KeyRange::ALL, false, true);
    let is_ordered = false;
    let request = Request { area, range, is_ordered, is_reversed, keys_only, first };
    let mut pages = Pages::new(ground, request)?;
    pages.read_all(|_bucket| true)?;
    let (last, are_ranges) = (pages.buckets.len() - 1, pages.are_in_order());
    let found: usize = pages.buckets.iter().map(|bucket| bucket.rows.len()).sum();
    let is_large = |at: &usize| pages.buckets.get(*at).is_some_and(|bucket| !bucket.is_done);
    let mut large: Vec<usize> = (0..=last).filter(is_large).collect();
    let few = pages.buckets.iter().filter(|bucket| bucket.is_done);
    let mut rows: usize = few.map(|bucket| bucket.rows.len()).sum();
    let mut count = |bucket: usize| -> Result<usize> {
        // Others may take their place.
        let has_more = |it: &Bucket| !it.is_done && it.rows.len() < COUNTED_MAX;
        while pages.buckets.get(bucket).is_some_and(has_more) {
            pages.read(&[bucket])?;
        }
        Ok(pages.buckets.get(bucket).map_or(0, |bucket| bucket.rows.len()))
    };
    if are_ranges && large.last() == Some(&last) {
        large.pop();
        rows += count(last)?;
    }
    if let Some(middle) = large.get(large.len() / 2) {
        rows += count(*middle)? * large.len();
    }
    Ok(rows.max(found) as u64)
}

/// Returns about how many bytes a row has, by the first of each bucket.
pub(crate) fn mean_bytes(ground: &Arc<Ground>, area: Area) -> Result<u64> {
    let (range, is_reversed, keys_only) = (KeyRange::ALL, false, false);
    let (is_ordered, first) = (false, First::Rows(MEASURED));
    let request = Request { area, range, is_ordered, is_reversed, keys_only, first };
    let mut pages = Pages::new(ground, request)?;
    pages.read_some(0..pages.buckets.len(), |_bucket| true)?;
    let rows = || pages.buckets.iter().flat_map(|bucket| &bucket.rows);
    let bytes: usize = rows().map(|row| row.key.len() + row.value.len() + ROW_BYTES).sum();
    Ok((bytes / rows().count().max(1)) as u64)
}
