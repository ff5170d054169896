//! Reads: rows by their keys, pages of ranges, notes of the catalog.

use super::Inner;
use super::cell::{Cell, Columns};
use super::errors;
use super::schema::unreadable;
use super::statements::ANCHOR;
use crate::store::{
    Freshness, Page, PageRequest, Partition, Record, RowKey, Rows, RowsRequest, StoredRow,
};
use flagstone_base::key::{next_key, successor};
use flagstone_base::{Result, Slice};
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most bytes of a key in Cassandra.
const KEY_BYTES: usize = 65_535;

/// Reads rows by their keys, and the epoch, which each row and the anchor tell. If the last read
/// found rows, this one reads the anchor only where it finds none. If the last one found none, as
/// in a load of new documents, this one reads the anchor at once.
pub(super) async fn rows(inner: Arc<Inner>, request: RowsRequest) -> Result<Rows> {
    let is_settled = request.freshness == Freshness::Settled;
    if is_settled && inner.finds_rows.load(Ordering::Relaxed) {
        match &request.keys[..] {
            [] => {}
            [key] => {
                if let Some((epoch, row)) = row(&inner, request.partition, key).await? {
                    return Ok(Rows { epoch, rows: vec![Some(row)] });
                }
            }
            _ => {
                let found = several(&inner, &request, None).await?;
                if found.rows.iter().any(Option::is_some) {
                    return Ok(found);
                }
            }
        }
    }
    let found = several(&inner, &request, Some(ANCHOR)).await?;
    if is_settled && !request.keys.is_empty() {
        inner.finds_rows.store(found.rows.iter().any(Option::is_some), Ordering::Relaxed);
    }
    Ok(found)
}

/// Reads several rows, and the epoch if one of them or the anchor is there.
async fn several(inner: &Inner, request: &RowsRequest, anchor: Option<i32>) -> Result<Rows> {
    let Partition { generation, bucket } = request.partition;
    let place = || inner.place(request.partition);
    let statement = match request.freshness {
        Freshness::Settled => &inner.statements.rows,
        Freshness::Serial => &inner.statements.rows_serial,
    };
    let anchor = anchor.map(|kind| (kind, &[][..]));
    let keys = request.keys.iter().map(|row| (row.kind.0, &row.key[..]));
    let wanted: Vec<(i32, &[u8])> = anchor.into_iter().chain(keys).collect();
    let answer = execute(inner, place, statement, (generation, bucket, wanted)).await?;
    let places: HashMap<(i32, &[u8]), usize> =
        request.keys.iter().enumerate().map(of_row).collect();
    let mut rows = vec![None; request.keys.len()];
    let mut found = None;
    type Columned<'f> =
        (i32, &'f [u8], Option<&'f [u8]>, Option<&'f [u8]>, Option<i64>, Option<i32>);
    let read = answer.rows::<Columned<'_>>().map_err(|error| unreadable(&place(), error))?;
    for row in read {
        let (kind, key, value, token, expiry, epoch) =
            row.map_err(|error| unreadable(&place(), error))?;
        found = found.or(epoch);
        if let Some(&at) = places.get(&(kind, key)) {
            let columns = Columns { key, value: Some(value), token, expiry };
            rows[at] = Some(columns.row(|| format!("{}, kind = {kind}", place()))?);
        }
    }
    // Of two equal keys, only the last has a place.
    for (at, row) in request.keys.iter().enumerate() {
        if let Some(&other) = places.get(&(row.kind.0, &row.key[..]))
            && other != at
        {
            rows[at] = rows[other].clone();
        }
    }
    Ok(Rows { epoch: found, rows })
}

/// Reads a row and the epoch, which is not known if the row is not there: then returns `None`.
async fn row(
    inner: &Inner,
    partition: Partition,
    RowKey { kind, key }: &RowKey,
) -> Result<Option<(Option<i32>, StoredRow)>> {
    let place = || format!("{}, kind = {}", inner.place(partition), kind.0);
    let Partition { generation, bucket } = partition;
    let values = (generation, bucket, kind.0, &key[..]);
    let answer = execute(inner, place, &inner.statements.row, values).await?;
    type Columned<'f> = (Option<&'f [u8]>, Option<&'f [u8]>, Option<i64>, Option<i32>);
    let found = answer.maybe_first_row::<Columned<'_>>();
    let found = found.map_err(|error| unreadable(&place(), error))?;
    found
        .map(|(value, token, expiry, epoch)| {
            Ok((epoch, Columns { key, value: Some(value), token, expiry }.row(place)?))
        })
        .transpose()
}

fn of_row((at, row): (usize, &RowKey)) -> ((i32, &[u8]), usize) {
    ((row.kind.0, &row.key), at)
}

/// Reads the next rows of a range.
pub(super) async fn page(inner: Arc<Inner>, request: PageRequest) -> Result<Page> {
    let none = Page { epoch: None, rows: Vec::new(), is_last: true };
    let (Some(start), end) = (start(&request.range.start), end(&request.range.end)) else {
        return Ok(none);
    };
    if end.as_ref().is_some_and(|end| *end <= start) {
        return Ok(none);
    }
    let Partition { generation, bucket } = request.partition;
    let (kind, keys_only) = (request.kind.0, request.keys_only);
    let place = || format!("{}, kind = {kind}", inner.place(request.partition));
    let statement = inner.statements.page(request.is_reversed, end.is_some(), keys_only);
    let limit = i32::try_from(request.limit.max(1)).unwrap_or(i32::MAX);
    let mut cells = vec![Cell::Int(generation), Cell::Int(bucket), Cell::Int(kind)];
    cells.extend(
        [Some(start), end].into_iter().flatten().map(|key| Cell::Blob(Slice::from_owner(key))),
    );
    cells.push(Cell::Int(limit));
    let answer = execute(&inner, place, statement, cells).await?;
    let mut page = none;
    if keys_only {
        type Columned<'f> = (&'f [u8], Option<i64>, Option<i32>);
        let read = answer.rows::<Columned<'_>>().map_err(|error| unreadable(&place(), error))?;
        for row in read {
            let (key, expiry, epoch) = row.map_err(|error| unreadable(&place(), error))?;
            page.epoch = epoch;
            page.rows.push(Columns { key, value: None, token: None, expiry }.row(place)?);
        }
    } else {
        type Columned<'f> =
            (&'f [u8], Option<&'f [u8]>, Option<&'f [u8]>, Option<i64>, Option<i32>);
        let read = answer.rows::<Columned<'_>>().map_err(|error| unreadable(&place(), error))?;
        for row in read {
            let (key, value, token, expiry, epoch) =
                row.map_err(|error| unreadable(&place(), error))?;
            page.epoch = epoch;
            page.rows.push(Columns { key, value: Some(value), token, expiry }.row(place)?);
        }
    }
    page.is_last = page.rows.len() < limit as usize;
    Ok(page)
}

/// Returns the first key that can be in a range, or `None` if there is none.
fn start(bound: &Bound<Vec<u8>>) -> Option<Vec<u8>> {
    match bound {
        Bound::Unbounded => Some(Vec::new()),
        Bound::Included(key) => bounded(key.clone()),
        Bound::Excluded(key) => bounded(successor(key)),
    }
}

/// Returns the first key behind a range, or `None` if there is none.
fn end(bound: &Bound<Vec<u8>>) -> Option<Vec<u8>> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => bounded(successor(key)),
        Bound::Excluded(key) => bounded(key.clone()),
    }
}

/// Returns the first key that is not below `key` and not too long.
fn bounded(key: Vec<u8>) -> Option<Vec<u8>> {
    if key.len() <= KEY_BYTES { Some(key) } else { next_key(key.get(..KEY_BYTES)?) }
}

/// Reads a note of the catalog.
pub(super) async fn note(
    inner: Arc<Inner>,
    name: String,
    freshness: Freshness,
) -> Result<Option<Record>> {
    let place = || place_of_note(&inner, &name);
    let statement = match freshness {
        Freshness::Settled => &inner.statements.note,
        Freshness::Serial => &inner.statements.note_serial,
    };
    let answer = execute(&inner, place, statement, (name.as_str(),)).await?;
    type Columned<'f> = (&'f [u8], i64);
    let row = answer.maybe_first_row::<Columned<'_>>();
    let row = row.map_err(|error| unreadable(&place(), error))?;
    Ok(row.map(|(note, version)| Record { version, note: Slice::copy_of(note) }))
}

/// Reads the version of a note.
pub(super) async fn version(
    inner: Arc<Inner>,
    name: String,
    freshness: Freshness,
) -> Result<Option<i64>> {
    let place = || place_of_note(&inner, &name);
    let statement = match freshness {
        Freshness::Settled => &inner.statements.version,
        Freshness::Serial => &inner.statements.version_serial,
    };
    let answer = execute(&inner, place, statement, (name.as_str(),)).await?;
    let row = answer.maybe_first_row::<(i64,)>();
    Ok(row.map_err(|error| unreadable(&place(), error))?.map(|(version,)| version))
}

fn place_of_note(inner: &Inner, name: &str) -> String {
    format!("table {}.catalog, name {name:?}", inner.keyspace)
}

/// Reads all notes of the catalog.
pub(super) async fn notes(inner: Arc<Inner>) -> Result<Vec<(String, Record)>> {
    let place = || format!("table {}.catalog", inner.keyspace);
    let answer = execute(&inner, place, &inner.statements.notes, ()).await?;
    type Columned<'f> = (String, &'f [u8], i64);
    let rows = answer.rows::<Columned<'_>>().map_err(|error| unreadable(&place(), error))?;
    rows.map(|row| {
        let (name, note, version) = row.map_err(|error| unreadable(&place(), error))?;
        Ok((name, Record { version, note: Slice::copy_of(note) }))
    })
    .collect()
}

async fn execute(
    inner: &Inner,
    place: impl Fn() -> String,
    statement: &PreparedStatement,
    values: impl SerializeRow,
) -> Result<QueryRowsResult> {
    let answer = inner.session.execute_unpaged(statement, values).await;
    let answer = answer.map_err(|error| errors::of_read(&place(), &error))?;
    answer.into_rows_result().map_err(|error| unreadable(&place(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_keys_that_cassandra_takes() {
        let key = |bytes: &[u8]| bytes.to_vec();
        assert_eq!(start(&Bound::Unbounded), Some(key(b"")));
        assert_eq!(start(&Bound::Included(key(b"a"))), Some(key(b"a")));
        assert_eq!(start(&Bound::Excluded(key(b"a"))), Some(key(b"a\0")));
        assert_eq!(end(&Bound::Unbounded), None);
        assert_eq!(end(&Bound::Excluded(key(b"a"))), Some(key(b"a")));
        assert_eq!(end(&Bound::Included(key(b"a"))), Some(key(b"a\0")));
        let mut longest = vec![b'a'; KEY_BYTES];
        let next = start(&Bound::Excluded(longest.clone())).unwrap();
        assert!(next.len() <= KEY_BYTES && next > longest);
        longest.fill(0xff);
        assert_eq!(start(&Bound::Excluded(longest.clone())), None);
        assert_eq!(end(&Bound::Included(longest)), None);
    }
}
