//! The documents that match a filter, in the order in which the plan finds them.

use super::cover::CoveredField;
use super::covered::Covered;
use super::key_list::KeyList;
use super::keys::Keys;
use super::source::{QuerySource, SourceScan};
use super::token::KeyPosition;
use super::values::{IndexedValue, ValueRow};
use crate::collection::index::IndexScan;
use crate::collection::{Stored, decode};
use crate::remote::{Remote, Row};
use crate::shard::Shard;
use flagstone_base::{Result, Slice, interrupt};
use flagstone_doc::{Matcher, View};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many keys are sorted at once, to read their documents in the order in which they are stored:
/// as many as a popular value has, so that each block is read and decompressed once for all of its
/// documents.
const BATCH: usize = 1 << 16;
/// The bytes of a batch.
const BATCH_BYTES: usize = 1 << 20;
/// How many documents are fetched from a cluster at once, at first and at most.
const AHEAD_MIN: usize = 32;
const AHEAD_MAX: usize = 256;

/// How much a query has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Entries of indexes.
    pub(super) entries: u64,
    /// Documents that were looked at.
    pub(super) documents: u64,
    /// Documents that matched.
    pub(super) matched: u64,
}

/// The documents that match.
pub(super) struct Rows<'t> {
    stored: Stored,
    found: RowSource<'t>,
    /// `None` matches all.
    matcher: Option<Matcher>,
    /// Only documents of this shard count.
    shard: Option<Shard>,
    work: Work,
}

/// Where documents come from, before they are matched.
enum RowSource<'t> {
    Nothing,
    Scan(Box<SourceScan<'t>>),
    Fetch(Box<Fetch<'t>>),
    /// Not the documents, but what an index says of them.
    Covered(Box<Covered<'t>>),
}

/// A document that was fetched ahead: its key, and the entry that gave it, if their order matters.
struct Ahead<'t> {
    key: Vec<u8>,
    document: Slice,
    entry: Option<IndexScan<'t>>,
}

/// Documents that are read by the keys that an index gives.
pub(super) struct Fetch<'t> {
    source: QuerySource<'t>,
    keys: Keys<'t>,
    /// Documents come in the order of `keys`. Otherwise those of a batch come one partition after
    /// another, each in the order of its stored keys, which reads each block once.
    keeps_order: bool,
    /// Documents are read. Otherwise their keys suffice.
    reads_documents: bool,
    /// Only keys after this position count.
    after: Option<KeyPosition>,
    batch: KeyList,
    batch_len: usize,
    key: Vec<u8>,
    document: Slice,
    /// Keys whose documents a cluster is still to return.
    asked: VecDeque<(Vec<u8>, Option<IndexScan<'t>>)>,
    /// Documents that a cluster has returned, the next one last.
    ahead: Vec<Ahead<'t>>,
    /// The entry that gave the current one of them.
    entry: Option<IndexScan<'t>>,
    /// How many are fetched from a cluster at once.
    ahead_len: usize,
}

impl<'t> Rows<'t> {
    fn new(stored: &Stored, found: RowSource<'t>, matcher: Option<Matcher>) -> Self {
        let work = Work::default();
        Self { stored: stored.clone(), found, matcher, shard: None, work }
    }

    /// Leaves out the documents of other shards.
    pub(super) fn of_shard(self, shard: Option<Shard>) -> Self {
        Self { shard, ..self }
    }

    /// No documents.
    pub(super) fn nothing(stored: &Stored) -> Self {
        Self::new(stored, RowSource::Nothing, None)
    }

    /// The documents of a scan that match.
    pub(super) fn scan(stored: &Stored, scan: SourceScan<'t>, matcher: Option<Matcher>) -> Self {
        Self::new(stored, RowSource::Scan(Box::new(scan)), matcher)
    }

    /// The documents of keys that match.
    pub(super) fn fetch(stored: &Stored, fetch: Fetch<'t>, matcher: Option<Matcher>) -> Self {
        Self::new(stored, RowSource::Fetch(Box::new(fetch)), matcher)
    }

    /// What entries of an index say of the documents that match.
    pub(super) fn covered(stored: &Stored, covered: Covered<'t>, matcher: Option<Matcher>) -> Self {
        Self::new(stored, RowSource::Covered(Box::new(covered)), matcher)
    }

    /// Moves to the next document that matches. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let advanced = self.try_advance();
        if !matches!(advanced, Ok(true)) {
            self.work = self.work();
            self.found = RowSource::Nothing;
        }
        advanced
    }

    fn try_advance(&mut self) -> Result<bool> {
        if let RowSource::Covered(covered) = &mut self.found {
            while covered.advance(&self.stored, self.matcher.as_ref())? {
                if self.shard.is_none_or(|shard| shard.has(covered.key())) {
                    self.work.matched += 1;
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        while self.step()? {
            if self.shard.is_some_and(|shard| !shard.has(self.key())) {
                continue;
            }
            let Some(matcher) = &self.matcher else {
                self.work.matched += 1;
                return Ok(true);
            };
            let (bytes, key) = (self.bytes(), self.key());
            if decode::look(&self.stored, bytes, |root| matcher.matches_with_key(root, key))? {
                self.work.matched += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to documents that follow and are quick to reach, as
    /// [`Scan::visit_near`](flagstone_engine::Scan::visit_near). Passes those that do not match the
    /// filter. Returns how many matched and were visited.
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        mut visit: impl FnMut(ValueRow<'_>) -> bool,
    ) -> usize {
        let Self { stored, found, matcher, shard, work } = self;
        if shard.is_some() {
            return 0;
        }
        let matched = match (found, &*matcher) {
            (RowSource::Covered(covered), None) => {
                covered.visit_near(most, |entry| visit(ValueRow::Entry(entry)))
            }
            (RowSource::Scan(scan), matcher) => {
                let (names, mut matched) = (stored.names(), 0);
                let passed = scan.visit_near(most, |key, document| {
                    let Ok(root) = View::of(document, names) else { return false };
                    let is_match = match matcher.as_ref() {
                        Some(matcher) => matcher.matches_with_key(&root, key),
                        None => Ok(true),
                    };
                    match is_match {
                        Ok(true) => {
                            let is_taken =
                                visit(ValueRow::Document(root, IndexedValue::of_key(key)));
                            matched += usize::from(is_taken);
                            is_taken
                        }
                        Ok(false) => true,
                        Err(_reported_by_advance) => false,
                    }
                });
                work.documents += passed as u64;
                matched
            }
            _ => 0,
        };
        work.matched += matched as u64;
        matched
    }

    /// Moves to the next document.
    fn step(&mut self) -> Result<bool> {
        interrupt::tick()?;
        match &mut self.found {
            RowSource::Nothing | RowSource::Covered(_) => Ok(false),
            RowSource::Scan(scan) => {
                let has_next = scan.advance()?;
                self.work.documents += u64::from(has_next);
                Ok(has_next)
            }
            RowSource::Fetch(fetch) => {
                let has_next = fetch.advance(&self.stored)?;
                self.work.documents += u64::from(has_next && fetch.reads_documents);
                Ok(has_next)
            }
        }
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        match &self.found {
            RowSource::Nothing => &[],
            RowSource::Scan(scan) => scan.key(),
            RowSource::Fetch(fetch) => &fetch.key,
            RowSource::Covered(covered) => covered.key(),
        }
    }

    /// The stored document, or what an index says of it, in place.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.found {
            RowSource::Nothing => &[],
            RowSource::Scan(scan) => scan.value_bytes(),
            RowSource::Fetch(fetch) => &fetch.document,
            RowSource::Covered(covered) => covered.bytes(),
        }
    }

    /// The stored document.
    pub(super) fn slice(&self) -> Slice {
        match &self.found {
            RowSource::Nothing => Slice::EMPTY,
            RowSource::Scan(scan) => scan.value(),
            RowSource::Fetch(fetch) => fetch.document.clone(),
            RowSource::Covered(covered) => covered.slice(),
        }
    }

    /// The entry that has all that the query takes, and where the values are, in its order; `None`
    /// if there is a document.
    #[inline]
    pub(super) fn values(&self) -> Option<(&IndexScan<'t>, &[CoveredField])> {
        match &self.found {
            RowSource::Covered(covered) => covered.values(),
            _ => None,
        }
    }

    /// The entry that gave the document, if the documents come in the order of entries.
    pub(super) fn entry(&self) -> Option<&IndexScan<'t>> {
        match &self.found {
            RowSource::Fetch(fetch) if fetch.keeps_order && fetch.source.remote().is_some() => {
                fetch.entry.as_ref().or_else(|| fetch.keys.entry())
            }
            RowSource::Fetch(fetch) if fetch.keeps_order => fetch.keys.entry(),
            RowSource::Covered(covered) => covered.entry(),
            _ => None,
        }
    }

    /// Returns whether the documents are projected already.
    pub(super) fn is_projected(&self) -> bool {
        matches!(&self.found, RowSource::Covered(covered) if covered.is_projected())
    }

    pub(super) fn view(&self) -> Result<View<'_>> {
        decode::view(&self.stored, self.bytes())
    }

    pub(super) fn work(&self) -> Work {
        let mut work = self.work;
        match &self.found {
            RowSource::Fetch(fetch) => work.entries = fetch.keys.read(),
            RowSource::Covered(covered) => (work.entries, work.documents) = covered.read_so_far(),
            RowSource::Nothing | RowSource::Scan(_) => {}
        }
        work
    }

    /// Releases memory while nobody reads; see [`flagstone_engine::Scan::park`].
    pub(super) fn park(&mut self) {
        match &mut self.found {
            RowSource::Nothing => {}
            RowSource::Scan(scan) => scan.park(),
            RowSource::Fetch(fetch) => {
                fetch.keys.park();
                fetch.document = Slice::copy_of(&fetch.document);
            }
            RowSource::Covered(covered) => covered.park(),
        }
    }
}

impl<'t> Fetch<'t> {
    /// Reads the documents of `keys` in their order.
    pub(super) fn new(source: &QuerySource<'t>, keys: Keys<'t>) -> Self {
        Self {
            source: source.clone(),
            keys,
            keeps_order: true,
            reads_documents: true,
            after: None,
            batch: KeyList::default(),
            batch_len: 1,
            key: Vec::new(),
            document: Slice::EMPTY,
            asked: VecDeque::new(),
            ahead: Vec::new(),
            entry: None,
            ahead_len: AHEAD_MIN,
        }
    }

    /// Of keys whose documents all match, fetches no more at first than the query takes.
    pub(super) fn taking(self, most: Option<usize>) -> Self {
        let ahead_len = most.map_or(self.ahead_len, |most| most.clamp(1, self.ahead_len));
        Self { ahead_len, ..self }
    }

    /// Sets whether documents come in the order of the keys.
    pub(super) fn keeps_order(self, keeps_order: bool) -> Self {
        Self { keeps_order, ..self }
    }

    /// Sets whether documents are read.
    pub(super) fn reads_documents(self, reads_documents: bool) -> Self {
        Self { reads_documents, ..self }
    }

    /// Leaves out the keys up to `position`.
    pub(super) fn after(self, position: Option<KeyPosition>) -> Self {
        Self { after: position, ..self }
    }

    fn advance(&mut self, stored: &Stored) -> Result<bool> {
        if let Some(remote) = self.source.remote().filter(|_| self.reads_documents) {
            let remote = Arc::clone(remote);
            return self.advance_remote(stored, &remote);
        }
        while self.next_key(stored)? {
            if self.after.as_ref().is_some_and(|after| after.has_passed(&self.key)) {
                continue;
            }
            if !self.reads_documents {
                return Ok(true);
            }
            // Without a document its entry expires at this moment.
            if let Some(document) = self.source.get(stored, &self.key)? {
                self.document = document;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Fetch::advance`] in a cluster: several documents are fetched at once, ever more of
    /// them, so that a query that stops early has fetched few in vain.
    fn advance_remote(&mut self, stored: &Stored, remote: &Arc<dyn Remote>) -> Result<bool> {
        loop {
            if let Some(Ahead { key, document, entry }) = self.ahead.pop() {
                (self.key, self.document, self.entry) = (key, document, entry);
                return Ok(true);
            }
            if self.asked.is_empty() {
                while self.asked.len() < self.ahead_len && self.next_key(stored)? {
                    if self.after.as_ref().is_none_or(|after| !after.has_passed(&self.key)) {
                        let entry = self.keys.entry().filter(|_| self.keeps_order);
                        self.asked.push_back((self.key.clone(), entry.map(IndexScan::copied)));
                    }
                }
                self.ahead_len = (2 * self.ahead_len).min(AHEAD_MAX);
            }
            if self.asked.is_empty() {
                return Ok(false);
            }
            let keys: Vec<&[u8]> = self.asked.iter().map(|(key, _)| key.as_slice()).collect();
            let rows = remote.get_first(&keys)?;
            let found = |((key, entry), row): ((Vec<u8>, _), Option<Row>)| {
                row.map(|row| Ahead { key, document: row.document, entry })
            };
            // Of long documents not all keys are answered at once.
            let asked = self.asked.drain(..rows.len().min(self.asked.len()));
            self.ahead = asked.zip(rows).filter_map(found).collect();
            self.ahead.reverse();
        }
    }

    fn next_key(&mut self, stored: &Stored) -> Result<bool> {
        if self.keeps_order {
            return self.keys.next(&mut self.key);
        }
        if self.batch.is_done() {
            self.batch.clear();
            while self.batch.len() < self.batch_len
                && self.batch.bytes() < BATCH_BYTES
                && self.keys.next(&mut self.key)?
            {
                self.batch.push(&self.key);
            }
            let keyspace = stored.keyspace().ok();
            self.batch
                .sort_by_part(|key| keyspace.map_or(0, |keyspace| keyspace.partition_of(key)));
            // A query that stops early has read few keys in vain.
            self.batch_len = (2 * self.batch_len).min(BATCH);
        }
        let Some(key) = self.batch.next() else { return Ok(false) };
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(true)
    }
}
