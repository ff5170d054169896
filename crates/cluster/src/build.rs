//! Indexes are created and dropped while others write.
//!
//! ```text
//! create: the catalog has the index, being built, and the epoch has risen
//!         -> the epoch of each bucket rises: from here on every write keeps the entries
//!         -> pages of documents: their entries, under the conditions that the epoch and the tokens
//!            of the documents are still those that were read
//!         -> the catalog has the index, complete
//! drop:   the catalog has it no more -> the epochs of the buckets rise -> the entries go
//! ```
//! A build that was interrupted stays in the catalog; the next `create_index` of the same
//! definition does it again, and writes the same entries. Two builds of one index may run side by
//! side.

use crate::backoff::Backoff;
use crate::catalog::{Buckets, Generation, Index, next_number};
use crate::commit::{Claimed, Claims, Wanted, has_expired};
use crate::form::{is_nothing, unpacked};
use crate::ground::{
    Ground, View, begun, no_answer, place, raise_all, refuse_while_moving, settle, sweep_replaced,
    unanswered,
};
use crate::side_by_side::side_by_side;
use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, Page, PageRequest, RowKey, STATEMENTS_FULL,
    StoredRow, Token,
};
use flagstone::internal::duplicate;
use flagstone::remote::{Catalog, NewIndex, RemoteIndex, Row};
use flagstone_base::{Error, ErrorKind, KeyRange, Result, Slice, interrupt};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The documents of a page, at most ..
const PAGE: usize = 50;
/// .. and their bytes, about.
const PAGE_BYTES: usize = 2 << 20;
/// A batch with this many bytes takes no more documents.
const BATCH_BYTES: usize = 1 << 20;
/// The buckets whose pages are indexed side by side.
const SIDE_BY_SIDE: usize = 8;
/// Of fewer indexes together, none can hold more entries of a document than a batch takes.
const ALL_INDEXES: usize = 4;
/// How often a page is tried.
const TRIES: u32 = 100;

/// Called with the numbers of documents and entries so far; ends the build by `Break`.
type BuildWatch<'w> = &'w mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Creates an index and fills it.
///
/// # Errors
/// InvalidInput for an index of the same name with another definition, or a document that the index
/// cannot hold; Duplicate for two with one value: then it is dropped again. Of the store: then the
/// next call goes on.
pub(crate) fn create(
    ground: &Ground,
    new: &NewIndex,
    watch: BuildWatch<'_>,
) -> Result<ControlFlow<()>> {
    // A clear that was cut short is completed: its documents have no entries.
    drop(ground.reload(Freshness::Serial)?);
    let view = ground.alter(&mut |note| {
        if let Some(index) = note.indexes.iter().find(|index| index.name == new.name) {
            RemoteIndex::new(index.id, &index.name, &index.note)?.check_same(new)?;
            return Ok(false);
        }
        refuse_while_moving(ground, note)?;
        let (name, bytes) = (new.name.clone(), new.note.clone());
        note.indexes.push(Index { id: note.next_index, name, note: bytes });
        note.next_index += 1;
        note.epoch += 1;
        if new.is_unique && note.claims.is_none() {
            // Another one each time: what an earlier attempt has created may be dropped since.
            let number = next_number(&*ground.store).map_err(unanswered)?;
            // Values are spread evenly whatever they are.
            let buckets = Buckets::Hash(note.rows.buckets.count().next_power_of_two());
            note.claims = Some(Generation { number, buckets });
        }
        Ok(true)
    })?;
    let known = view.catalog.indexes().iter().find(|index| index.name() == new.name);
    let index = known.ok_or_else(|| was_dropped(ground))?;
    if index.is_complete() {
        return Ok(ControlFlow::Continue(()));
    }
    let built = raise_all(ground).and_then(|()| fill(ground, index.id, watch));
    let built = match built {
        Ok(ControlFlow::Continue(())) => {
            complete(ground, index.id).map(|()| ControlFlow::Continue(()))
        }
        Err(error) if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Duplicate) => {
            Err(error)
        }
        // Another build of it may have completed it.
        ended => remove(ground, &|one| one.id == index.id && !is_complete(one)).and(ended),
    };
    built.map_err(|error| {
        let text = format!(
            "index {:?} of collection {:?} is not complete: the next creation goes on",
            new.name, ground.name
        );
        begun(&text, error)
    })
}

fn is_complete(index: &Index) -> bool {
    let known = RemoteIndex::new(index.id, &index.name, &index.note);
    known.is_ok_and(|index| index.is_complete())
}

/// Drops an index. Returns false if there is none of this name.
pub(crate) fn drop_named(ground: &Ground, name: &str) -> Result<bool> {
    remove(ground, &|index| index.name == name)
}

/// Drops the index that `is_it` finds.
fn remove(ground: &Ground, is_it: &dyn Fn(&Index) -> bool) -> Result<bool> {
    // If an answer is lost, another index may have the name before this call asks again.
    let mut dropped = None;
    ground.alter(&mut |note| {
        let is_mine = |index: &Index| is_it(index) && dropped.is_none_or(|id| id == index.id);
        let Some(at) = note.indexes.iter().position(is_mine) else { return Ok(false) };
        refuse_while_moving(ground, note)?;
        let index = note.indexes.remove(at);
        dropped = Some(index.id);
        note.dropped_indexes.push(index.id);
        note.epoch += 1;
        let mut is_needed = false;
        for Index { id, name, note } in &note.indexes {
            is_needed |= RemoteIndex::new(*id, name, note)?.is_unique();
        }
        if !is_needed {
            note.replaced.extend(note.claims.take().as_ref().map(Generation::replaced));
        }
        Ok(true)
    })?;
    // It is dropped. What cannot be removed now, the next drop of an index removes.
    let _rest = sweep(ground).and_then(|()| sweep_replaced(ground));
    Ok(dropped.is_some())
}

/// Removes the entries of indexes that were dropped.
fn sweep(ground: &Ground) -> Result<()> {
    let dropped = ground.view().note.dropped_indexes.clone();
    if dropped.is_empty() {
        return Ok(());
    }
    raise_all(ground)?;
    let view = ground.view();
    for id in dropped {
        side_by_side(view.note.rows.partitions().collect(), |partition| {
            ground.store.remove_kind(partition, Kind(id as i32))
        })?;
        // A writer that does not know it may leave some more, which are in nobody's way.
        let claims = view.note.claims.iter().flat_map(Generation::partitions);
        side_by_side(claims.collect(), |partition| {
            ground.store.remove_kind(partition, Kind(id as i32))
        })?;
        ground.alter(&mut |note| {
            let before = note.dropped_indexes.len();
            note.dropped_indexes.retain(|one| *one != id);
            Ok(note.dropped_indexes.len() < before)
        })?;
    }
    Ok(())
}

fn complete(ground: &Ground, id: u32) -> Result<()> {
    ground.alter(&mut |note| {
        let index = note.indexes.iter_mut().find(|index| index.id == id);
        let index = index.ok_or_else(|| was_dropped(ground))?;
        let complete = RemoteIndex::new(id, &index.name, &index.note)?.complete_note()?;
        let is_changed = complete != index.note;
        index.note = complete;
        Ok(is_changed)
    })?;
    Ok(())
}

/// A bucket whose documents are being indexed.
#[derive(Default)]
struct BucketProgress {
    number: u32,
    /// The last document that is indexed.
    last: Option<Slice>,
    is_done: bool,
    documents: u64,
    entries: u64,
}

/// Adds the entries of all documents.
fn fill(ground: &Ground, id: u32, watch: BuildWatch<'_>) -> Result<ControlFlow<()>> {
    let view = ground.view();
    let rows = &view.note.rows;
    let bucket = |number| BucketProgress { number, ..BucketProgress::default() };
    let mut buckets: Vec<BucketProgress> = (0..rows.buckets.count()).map(bucket).collect();
    loop {
        interrupt::check()?;
        let left = buckets.iter_mut().filter(|bucket| !bucket.is_done);
        let left: Vec<_> = left.take(SIDE_BY_SIDE).collect();
        if left.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        side_by_side(left, |bucket| index_page(ground, rows, id, bucket))?;
        let documents = buckets.iter().map(|bucket| bucket.documents).sum();
        let entries = buckets.iter().map(|bucket| bucket.entries).sum();
        if watch(documents, entries).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// Adds the entries of the next documents of a bucket.
fn index_page(
    ground: &Ground,
    rows: &Generation,
    id: u32,
    bucket: &mut BucketProgress,
) -> Result<()> {
    let mut backoff = Backoff::of(TRIES);
    let mut view = ground.view();
    loop {
        if view.note.rows != *rows {
            // The documents of the new generation have their entries from the first write on.
            bucket.is_done = true;
            return Ok(());
        }
        let page = read(ground, &view, bucket)?;
        let index = view.catalog.indexes().iter().find(|index| index.id == id);
        let index = index.ok_or_else(|| was_dropped(ground))?;
        let part = entries(ground, &view, index, bucket.number, &page)?;
        if !part.notes.is_empty() {
            view = ground.unite(&part.notes)?;
            continue;
        }
        if index.is_unique() && !claimed(ground, &view, index, &part)? {
            view = settle(ground, bucket.number, &rows.buckets)?;
            if !backoff.again() {
                return Err(not_indexed(ground, &view, bucket));
            }
            continue;
        }
        let entries = part.batch.changes.len() as u64;
        let written = match entries {
            0 => Ok(Outcome::Applied),
            // If it comes late, it writes what is there, or its conditions do not hold.
            _ => ground.store.batch(&part.batch),
        };
        match written {
            Ok(Outcome::Applied) => {
                bucket.is_done = page.is_last && part.documents == page.rows.len();
                bucket.last = part.last.or(bucket.last.take());
                bucket.documents += part.documents as u64;
                bucket.entries += entries;
                return Ok(());
            }
            Ok(Outcome::Refused) => {
                view = settle(ground, bucket.number, &rows.buckets)?;
            }
            Err(error) if error.kind() == ErrorKind::Unknown => {}
            Err(error) => return Err(error),
        }
        if !backoff.again() {
            return Err(not_indexed(ground, &view, bucket));
        }
    }
}

/// Claims the values of the documents of a page. Returns false if the collection, or one of those
/// that are in the way of each other, has changed since.
///
/// # Errors
/// Duplicate; Unavailable if others claim one of them all the time; those of the store.
fn claimed(
    ground: &Ground,
    view: &Arc<View>,
    index: &Arc<RemoteIndex>,
    part: &IndexedPart,
) -> Result<bool> {
    let mut wanted: Vec<Wanted> = Vec::with_capacity(part.batch.changes.len());
    let claims = Claims::of(ground, view)?;
    let mut known: HashMap<&Slice, (&Slice, Option<Token>)> = HashMap::new();
    for (change, (key, token)) in part.batch.changes.iter().zip(&part.documents_of) {
        let Change::Set { row, .. } = change else { continue };
        if let Some(holder) = known.insert(&row.key, (key, *token)) {
            // A page is not read at one moment.
            if claims.is_changed(&[holder, (key, *token)])? {
                return Ok(false);
            }
            return Err(duplicate(index, &row.key, holder.0, key));
        }
        let (index, value) = (Arc::clone(index), row.key.clone());
        wanted.push(Wanted { index, value, key: key.clone(), token: *token });
    }
    match claims.claim(&wanted)? {
        Claimed::All => Ok(true),
        Claimed::Stale | Claimed::Changed(_) => Ok(false),
        Claimed::Refused(_, error) => Err(error),
    }
}

#[cold]
fn not_indexed(ground: &Ground, view: &View, bucket: &BucketProgress) -> Error {
    let place = place(&ground.name, view.partition(bucket.number));
    let text = format!("documents of {place} could not be indexed in {TRIES} attempts");
    Error::new(ErrorKind::Unavailable, text)
}

fn read(ground: &Ground, view: &View, bucket: &BucketProgress) -> Result<Page> {
    let start = bucket.last.as_ref().map_or(Bound::Unbounded, |at| Bound::Excluded(at.to_vec()));
    let request = PageRequest {
        partition: view.partition(bucket.number),
        kind: Kind::DOCUMENTS,
        range: KeyRange { start, end: Bound::Unbounded },
        is_reversed: false,
        limit: ground.sizes.fitting(PAGE_BYTES).min(PAGE),
        keys_only: false,
    };
    let page = ground.store.pages(&[request]).pop().ok_or_else(no_answer)??;
    ground.sizes.note(page.rows.iter());
    Ok(page)
}

/// The entries of the first documents of a page.
struct IndexedPart {
    batch: Batch,
    /// The key and the token of the document of each entry of the batch.
    documents_of: Vec<(Slice, Option<Token>)>,
    notes: Vec<(u32, Vec<u8>)>,
    documents: usize,
    last: Option<Slice>,
}

fn entries(
    ground: &Ground,
    view: &View,
    index: &Arc<RemoteIndex>,
    bucket: u32,
    page: &Page,
) -> Result<IndexedPart> {
    let alone = Catalog::new(view.catalog.version, vec![Arc::clone(index)]);
    let (partition, epoch) = (view.partition(bucket), view.note.epoch);
    let (conditions, changes) = (Vec::new(), Vec::new());
    let batch = Batch { partition, epoch, conditions, changes };
    let (documents_of, notes) = (Vec::new(), Vec::new());
    let mut part = IndexedPart { batch, documents_of, notes, documents: 0, last: None };
    let mut bytes = 0;
    for row in &page.rows {
        let StoredRow { key, value, token, expiry } = row;
        // One that has expired has no unique value any more.
        let has_expired = index.is_unique() && has_expired(ground, *expiry);
        if has_expired || is_nothing(value) {
            part.documents += 1;
            part.last = Some(key.clone());
            continue;
        }
        let changes = unpacked(value).and_then(|document| {
            let row = Row { document, expiry: *expiry };
            if view.catalog.indexes().len() >= ALL_INDEXES {
                // Its entries in all of them may be too many.
                drop(view.catalog.changes(key, None, Some(&row))?);
            }
            alone.changes(key, None, Some(&row))
        });
        let changes = changes.map_err(|error| {
            let (name, key) = (&ground.name, flagstone::remote::shown_key(key));
            error.context(format!("collection {name:?}, document of key {key}"))
        })?;
        part.notes.extend(changes.notes);
        if !changes.entries.is_empty() {
            let row = RowKey { kind: Kind::DOCUMENTS, key: key.clone() };
            part.batch.conditions.push(Condition { row, token: *token });
        }
        for entry in changes.entries {
            part.documents_of.push((row.key.clone(), *token));
            let value = Slice::from(entry.value.unwrap_or_default());
            let key = Slice::from(entry.key);
            bytes += key.len() + value.len();
            let row = StoredRow { key, value, token: None, expiry: *expiry };
            part.batch.changes.push(Change::Set { kind: Kind(entry.index as i32), row });
        }
        part.documents += 1;
        part.last = Some(key.clone());
        if bytes >= BATCH_BYTES || part.batch.changes.len() >= STATEMENTS_FULL {
            break;
        }
    }
    Ok(part)
}

#[cold]
fn was_dropped(ground: &Ground) -> Error {
    let name = &ground.name;
    Error::invalid(format!("the index of collection {name:?} was dropped while it was built"))
}
