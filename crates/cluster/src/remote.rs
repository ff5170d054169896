//! What flagstone's handles call.

use crate::build;
use crate::commit::{Item, Op, Writer};
use crate::form::{is_nothing, unpacked};
use crate::ground::{self, Ground, View, no_answer, pass_fence, place};
use crate::layout::Layout;
use crate::premise::Premise;
use crate::scan::{self, Scan};
use crate::scratch::ScratchDir;
use crate::side_by_side::side_by_side;
use crate::store::{Freshness, Kind, PageRequest, Partition, RowKey, RowsRequest, StoredRow};
use flagstone::remote::{
    self, Area, Catalog, Decide, NewIndex, Remote, RemoteScan, Row, Sample, ScanOrder, Shard,
};
use flagstone_base::{KeyRange, Moment, Result, Slice};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most bytes of a document.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
/// The keys of one request.
const KEYS_MAX: usize = 100;
/// The bytes of the documents that are read by their keys at once, about.
const BYTES: usize = 8 << 20;
/// The documents that a removal of a range removes at once.
const REMOVED_AT_ONCE: usize = 2_000;
/// An estimate that is older is made again.
const ESTIMATE_AGE: Duration = Duration::from_secs(60);
/// The load marks of a bucket that are removed at once.
const MARKS: usize = 100;

/// A collection of a cluster.
pub(crate) struct RemoteCollection {
    ground: Arc<Ground>,
    writer: Arc<Writer>,
    /// Scans read the buckets of this shard alone.
    shard: Option<Shard>,
    /// What the plan of the query rests on, if this is a collection for one.
    premise: Option<Arc<Premise>>,
    /// When estimates were made, by the monotonic clock, and what they are.
    estimates: Arc<Mutex<HashMap<Area, (Duration, u64)>>>,
    /// Where queries of handles spill, as long as there are some.
    _scratch_dir: Arc<ScratchDir>,
}

impl RemoteCollection {
    pub(crate) fn new(ground: Ground, scratch_dir: &Arc<ScratchDir>) -> Self {
        let ground = Arc::new(ground);
        let writer = Arc::new(Writer::new(Arc::clone(&ground)));
        let _scratch_dir = Arc::clone(scratch_dir);
        let (shard, premise, estimates) = (None, None, Arc::default());
        Self { ground, writer, shard, premise, estimates, _scratch_dir }
    }

    /// Returns the same collection for what reads a part of it.
    fn reading(&self, shard: Option<Shard>, premise: Option<Arc<Premise>>) -> Self {
        let (ground, writer) = (Arc::clone(&self.ground), Arc::clone(&self.writer));
        let (estimates, _scratch_dir) =
            (Arc::clone(&self.estimates), Arc::clone(&self._scratch_dir));
        Self { ground, writer, shard, premise, estimates, _scratch_dir }
    }

    /// Gives the collection another layout.
    pub(crate) fn rebalance(
        &self,
        wanted: Layout,
        watch: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        Writer::check_outside()?;
        ground::rebalance(&self.ground, wanted, watch)
    }

    fn row(&self, view: &View, bucket: u32, row: StoredRow) -> Result<Option<Row>> {
        if row.expiry.is_some_and(|at| at <= self.ground.now()) || is_nothing(&row.value) {
            return Ok(None);
        }
        let document = unpacked(&row.value).map_err(|error| {
            let (place, key) =
                (place(&self.ground.name, view.partition(bucket)), remote::shown_key(&row.key));
            error.context(format!("{place}, document of key {key}"))
        })?;
        Ok(Some(Row { document, expiry: row.expiry }))
    }

    /// Reads rows of a kind by their keys.
    fn get_rows(&self, kind: Kind, keys: &[&[u8]]) -> Result<Vec<Option<Row>>> {
        let mut view = self.ground.view();
        loop {
            if let Some(found) = self.read(&view, kind, keys)? {
                return Ok(found);
            }
            view = pass_fence(&self.ground, view.note.rows.number)?;
        }
    }

    /// As [`RemoteCollection::get_rows`]. Returns `None` if a bucket has a fence.
    fn read(&self, view: &View, kind: Kind, keys: &[&[u8]]) -> Result<Option<Vec<Option<Row>>>> {
        let mut buckets: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            buckets.entry(view.bucket_of(key)).or_default().push(at);
        }
        let parts: Vec<(u32, &[usize])> = buckets
            .iter()
            .flat_map(|(bucket, places)| places.chunks(KEYS_MAX).map(|part| (*bucket, part)))
            .collect();
        let row_key = |at: &usize| RowKey { kind, key: Slice::copy_of(keys[*at]) };
        let request = |(bucket, part): &(u32, &[usize])| RowsRequest {
            partition: view.partition(*bucket),
            keys: part.iter().map(row_key).collect(),
            freshness: Freshness::Settled,
        };
        let requests: Vec<_> = parts.iter().map(request).collect();
        let answers = match &self.premise {
            Some(premise) => premise.rows(&requests)?,
            None => self.ground.store.rows(&requests),
        };
        if answers.len() != parts.len() {
            return Err(no_answer());
        }
        if kind == Kind::DOCUMENTS {
            let rows = answers.iter().flatten().flat_map(|answer| answer.rows.iter().flatten());
            self.ground.sizes.note(rows);
        }
        let mut found = vec![None; keys.len()];
        for ((bucket, part), answer) in parts.into_iter().zip(answers) {
            let answer = answer?;
            if answer.epoch.is_some_and(|epoch| epoch < 0) {
                return Ok(None);
            }
            for (at, row) in part.iter().zip(answer.rows) {
                found[*at] = row.map(|row| self.row(view, bucket, row)).transpose()?.flatten();
            }
        }
        Ok(Some(found))
    }

    /// Returns the layout, and about how many bytes of documents and entries each bucket has.
    pub(crate) fn layout(&self) -> Result<(Layout, u64)> {
        let view = self.ground.reload(Freshness::Settled)?;
        let buckets = &view.note.rows.buckets;
        let indexes = view.note.indexes.iter().map(|index| Area::Index(index.id));
        let mut bytes = 0;
        for area in std::iter::once(Area::Documents).chain(indexes) {
            bytes += self.about(area) * scan::mean_bytes(&self.ground, area)?;
        }
        Ok((buckets.layout(), bytes / u64::from(buckets.count())))
    }

    fn forget_estimates(&self) {
        self.estimates.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Asks for load marks of a bucket.
fn marks_of(partition: Partition) -> PageRequest {
    PageRequest {
        partition,
        kind: Kind::LOADS,
        range: KeyRange::ALL,
        is_reversed: false,
        limit: MARKS,
        keys_only: true,
    }
}

impl Remote for RemoteCollection {
    fn name(&self) -> String {
        self.ground.name.clone()
    }

    fn id(&self) -> u32 {
        self.ground.id as u32
    }

    fn history(&self) -> u64 {
        self.ground.view().note.history
    }

    fn document_bytes_max(&self) -> usize {
        DOCUMENT_BYTES_MAX
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.ground.view().catalog)
    }

    fn refresh(&self) -> Result<Arc<Catalog>> {
        Ok(Arc::clone(&self.ground.reload(Freshness::Settled)?.catalog))
    }

    fn for_query(&self) -> Result<Arc<dyn Remote>> {
        let mut view = self.ground.view();
        if view.is_being_cleared() {
            view = self.ground.reload(Freshness::Settled)?;
        }
        let premise = Some(Arc::new(Premise::new(&self.ground, &view)));
        Ok(Arc::new(self.reading(self.shard, premise)))
    }

    fn settle(&self) -> Result<()> {
        self.premise.as_ref().map_or(Ok(()), |premise| premise.settle())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Row>> {
        Ok(self.get_first(&[key])?.pop().flatten())
    }

    fn get_first(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>> {
        let fitting = self.ground.sizes.fitting(BYTES);
        let found = self.get_rows(Kind::DOCUMENTS, &keys[..keys.len().min(fitting)])?;
        if found.len() == fitting && found.iter().all(Option::is_none) {
            // As of an ordered insert into a new collection.
            self.ground.sizes.note_none(BYTES);
        }
        Ok(found)
    }

    fn scan(
        &self,
        area: Area,
        range: &KeyRange,
        order: ScanOrder,
        most: Option<u64>,
    ) -> Result<Box<dyn RemoteScan>> {
        let keys_only = false;
        let scan = Scan::new(&self.ground, area, range, order, most, keys_only)?;
        Ok(Box::new(scan.of_shard(self.shard).resting_on(self.premise.clone())))
    }

    fn part(&self, shard: Shard) -> Arc<dyn Remote> {
        Arc::new(self.reading(Some(shard), self.premise.clone()))
    }

    fn count(&self, area: Area, range: &KeyRange) -> Result<u64> {
        scan::count(&self.ground, area, range)
    }

    fn about(&self, area: Area) -> u64 {
        let now = self.ground.clock.monotonic();
        let estimates = || self.estimates.lock().unwrap_or_else(PoisonError::into_inner);
        let known = estimates().get(&area).copied();
        match known {
            Some((at, rows)) if now < at + ESTIMATE_AGE => rows,
            // An estimate is no reason to fail.
            _ => scan::about(&self.ground, area).map_or_else(
                |_unread| known.map_or(0, |(_, rows)| rows),
                |rows| {
                    estimates().insert(area, (now, rows));
                    rows
                },
            ),
        }
    }

    fn sample(&self, asked: &[(u32, Vec<KeyRange>)]) -> Vec<Option<Sample>> {
        // It is no reason to fail.
        scan::sample(&self.ground, asked).unwrap_or_default()
    }

    fn check_may_write(&self) -> Result<()> {
        Writer::check_outside()
    }

    fn put(&self, key: &[u8], document: &[u8], expiry: Option<Moment>) -> Result<()> {
        let row = Row { document: Slice::copy_of(document), expiry };
        self.writer.write(vec![Item::of_document(Slice::copy_of(key), Op::Put(row))])
    }

    fn put_many(&self, rows: Vec<(Vec<u8>, Row)>) -> Result<()> {
        let item = |(key, row): (Vec<u8>, Row)| Item::of_document(key.into(), Op::Put(row));
        self.writer.write(rows.into_iter().map(item).collect())
    }

    fn insert_many(&self, rows: Vec<(Vec<u8>, Row)>) -> Vec<Result<bool>> {
        self.writer.insert(rows.into_iter().map(|(key, row)| (key.into(), row)).collect())
    }

    fn rewrite(&self, key: &[u8], decide: Decide<'_>) -> Result<bool> {
        self.writer.rewrite(&Item::of_document(Slice::copy_of(key), Op::Decide), decide)
    }

    fn side_by_side(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let _all = side_by_side((0..count).collect(), |number| {
            work(number);
            Ok(())
        });
    }

    fn delete_range(&self, range: &KeyRange) -> Result<()> {
        Writer::check_outside()?;
        let (ground, order, keys_only) = (&self.ground, ScanOrder::Any, true);
        let mut scan = Scan::new(ground, Area::Documents, range, order, None, keys_only)?;
        let mut has_ended_loads = false;
        let mut remove = || {
            let mut items = Vec::new();
            loop {
                let is_more = scan.advance()?;
                if is_more {
                    items.push(Item::of_document(Slice::copy_of(scan.key()), Op::Delete));
                }
                if items.len() >= REMOVED_AT_ONCE || !is_more && !items.is_empty() {
                    // Before the first removal, in case that it is cut short.
                    if !has_ended_loads {
                        self.end_loads()?;
                        has_ended_loads = true;
                    }
                    self.writer.write(std::mem::take(&mut items))?;
                }
                if !is_more {
                    return Ok(());
                }
            }
        };
        let removed = remove();
        // And after it, in case that a load has begun meanwhile.
        if has_ended_loads {
            self.end_loads()?;
        }
        removed
    }

    fn end_loads(&self) -> Result<()> {
        Writer::check_outside()?;
        loop {
            let view = self.ground.reload(Freshness::Settled)?;
            let marks = view.note.rows.partitions().map(marks_of);
            let mut items = Vec::new();
            for page in self.ground.store.pages(&marks.collect::<Vec<_>>()) {
                items.extend(page?.rows.into_iter().map(|row| Item::of_mark(row.key, Op::Delete)));
            }
            if items.is_empty() {
                return Ok(());
            }
            self.writer.write(items)?;
        }
    }

    fn mark(&self, key: &[u8]) -> Result<Option<Slice>> {
        let found = self.get_rows(Kind::LOADS, &[key])?.pop().flatten();
        Ok(found.map(|row| row.document))
    }

    fn put_marks(&self, marks: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<()> {
        let op = |value: Option<Vec<u8>>| match value {
            Some(value) => Op::Put(Row { document: value.into(), expiry: None }),
            None => Op::Delete,
        };
        let item = |(key, value): (Vec<u8>, _)| Item::of_mark(key.into(), op(value));
        self.writer.write(marks.into_iter().map(item).collect())
    }

    fn rewrite_mark(&self, key: &[u8], decide: Decide<'_>) -> Result<bool> {
        self.writer.rewrite(&Item::of_mark(Slice::copy_of(key), Op::Decide), decide)
    }

    fn clear(&self) -> Result<()> {
        Writer::check_outside()?;
        ground::clear(&self.ground)?;
        self.forget_estimates();
        Ok(())
    }

    fn create_index(
        &self,
        index: &NewIndex,
        watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        Writer::check_outside()?;
        build::create(&self.ground, index, watch)
    }

    fn drop_index(&self, name: &str) -> Result<bool> {
        Writer::check_outside()?;
        build::drop_named(&self.ground, name)
    }
}
