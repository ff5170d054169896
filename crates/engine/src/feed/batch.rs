//! What a reader of changes finds in a record of the log.

use super::token::ChangeToken;
use crate::commit::record::{self, LogNote, LoggedOp};
use crate::keyspace_core::KeyspaceCore;
use crate::keyspaces::Keyspaces;
use crate::open::each_op_and_old;
use flagstone_base::{KeyspaceId, Kind, Moment, Result, SeqNo};
use flagstone_env::names::{FileKind, path};
use flagstone_wal::Record;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// What happened to a database.
#[derive(Debug)]
pub enum FeedItem {
    /// A commit.
    Batch(FeedBatch),
    /// Writes that were not logged, of which nothing is known.
    Gap,
    /// An ingest into a keyspace, of keys from `start` on, below `end`. It may have been refused.
    Ingested {
        /// The name of the keyspace.
        keyspace: String,
        /// No key is smaller.
        start: Vec<u8>,
        /// All keys are smaller.
        end: Vec<u8>,
    },
    /// A keyspace was dropped.
    Dropped {
        /// The name that the keyspace had.
        name: String,
    },
    /// A keyspace got another name.
    Renamed {
        /// The name that the keyspace had.
        from: String,
        /// The name that it has from here on.
        to: String,
    },
}

/// The operations of one commit.
#[derive(Default)]
pub struct FeedBatch {
    payload: Vec<u8>,
    cores: Vec<Arc<KeyspaceCore>>,
    ops: Vec<FeedOp>,
}

struct FeedOp {
    core: usize,
    kind: Kind,
    expiry: Option<Moment>,
    seqno: SeqNo,
    key: Range<usize>,
    value: Range<usize>,
    /// Where the value before is, if it was kept: `Some(None)` if there was none.
    old: Option<Option<Range<usize>>>,
}

/// One operation of a commit.
#[derive(Clone, Copy)]
pub struct FeedChange<'a> {
    /// The keyspace that was written.
    pub keyspace: &'a Arc<KeyspaceCore>,
    /// The kind of the operation.
    pub kind: Kind,
    /// The moment from which on the key is absent, if a put has one.
    pub expiry: Option<Moment>,
    /// The SeqNo of the operation.
    pub seqno: SeqNo,
    /// The key; of a RangeDelete the start of the range.
    pub key: &'a [u8],
    /// The value; of a RangeDelete the end of the range.
    pub value: &'a [u8],
    /// The value that the key had before the commit, if that was kept: `Some(None)` if it was
    /// absent.
    pub old: Option<Option<&'a [u8]>>,
}

impl FeedBatch {
    /// The operations, in order.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = FeedChange<'_>> {
        self.ops.iter().map(|op| self.change(op))
    }

    /// The operation of this index.
    pub fn change_at(&self, index: usize) -> Option<FeedChange<'_>> {
        self.ops.get(index).map(|op| self.change(op))
    }

    fn change(&self, op: &FeedOp) -> FeedChange<'_> {
        FeedChange {
            keyspace: &self.cores[op.core],
            kind: op.kind,
            expiry: op.expiry,
            seqno: op.seqno,
            key: &self.payload[op.key.clone()],
            value: &self.payload[op.value.clone()],
            old: op.old.clone().map(|old| old.map(|old| &self.payload[old])),
        }
    }

    /// The index of a keyspace of the catalog that is wanted at `seqno` and belongs to none other.
    fn core(&mut self, id: KeyspaceId, seqno: SeqNo, reading: &Reading<'_>) -> Option<usize> {
        if let Some(at) = self.cores.iter().rposition(|core| core.id == id) {
            return Some(at);
        }
        let core = reading.keyspace(id, seqno)?;
        self.cores.push(core);
        Some(self.cores.len() - 1)
    }
}

impl std::fmt::Debug for FeedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FeedBatch({} operations)", self.ops.len())
    }
}

/// What a reader needs to understand records.
pub(super) struct Reading<'a> {
    pub(super) dir: &'a Path,
    pub(super) keyspaces: &'a Keyspaces,
    /// The names of the keyspaces that are wanted; `None` for all.
    pub(super) only: Option<&'a BTreeSet<String>>,
}

impl Reading<'_> {
    fn wants(&self, name: &str) -> bool {
        self.only.is_none_or(|only| only.contains(name))
    }

    fn keyspace(&self, id: KeyspaceId, at: SeqNo) -> Option<Arc<KeyspaceCore>> {
        let (core, record) =
            self.keyspaces.get(id).map(|core| (Arc::clone(&core), core.record()))?;
        (record.owner().is_none() && self.wants(record.name_at(at))).then_some(core)
    }

    /// Returns whether it is open what a record says: a crash may bring back what it tells of, or
    /// not.
    pub(super) fn is_in_doubt(&self, record: &Record<'_>) -> bool {
        let told = match LogNote::decode(record.kind, record.payload) {
            Some(Ok(LogNote::Drop { keyspace, .. } | LogNote::Rename { keyspace, .. })) => keyspace,
            _ => return false,
        };
        self.keyspaces.get(told).is_some_and(|core| core.is_in_doubt())
    }

    /// Reads a record; `None` if nothing in it is wanted, or if it is of keyspaces that were
    /// dropped since.
    pub(super) fn read(&self, record: &Record<'_>) -> Result<Option<FeedItem>> {
        if record.kind == record::BATCH {
            return self.read_batch(record);
        }
        let file = path(self.dir, FileKind::Wal, record.segment);
        let note = LogNote::decode(record.kind, record.payload);
        let note = note.transpose().map_err(|m| m.in_file(file.display(), record.offset))?;
        Ok(match note {
            Some(LogNote::Gap | LogNote::Lost) => Some(FeedItem::Gap),
            Some(LogNote::Ingest { keyspace, start, end }) => {
                let at = record.first_seqno;
                self.keyspace(keyspace, at).map(|core| {
                    let (start, end) = (start.to_vec(), end.to_vec());
                    FeedItem::Ingested { keyspace: core.name_at(at), start, end }
                })
            }
            // A keyspace that exists was not dropped: the drop was refused.
            Some(LogNote::Drop { keyspace, name }) => {
                let is_gone = self.keyspaces.get(keyspace).is_none();
                let name = Some(name).filter(|name| is_gone && self.wants(name));
                name.map(|name| FeedItem::Dropped { name: name.to_owned() })
            }
            Some(LogNote::Rename { keyspace, from, to }) => {
                self.read_rename(record.first_seqno, keyspace, from, to)
            }
            // Definitions: the catalog has them.
            None => None,
        })
    }

    /// What readers learn of a renaming at `seqno`, which may have been refused. A keyspace that
    /// was dropped since goes at once: nothing more of it is delivered, under no name.
    fn read_rename(
        &self,
        seqno: SeqNo,
        keyspace: KeyspaceId,
        from: &str,
        to: &str,
    ) -> Option<FeedItem> {
        match self.keyspaces.get(keyspace) {
            None => self.wants(from).then(|| FeedItem::Dropped { name: from.to_owned() }),
            Some(core) => {
                let is_wanted = self.wants(from) || self.wants(to);
                let is_true = is_wanted && core.record().is_renamed_at(seqno);
                is_true.then(|| FeedItem::Renamed { from: from.to_owned(), to: to.to_owned() })
            }
        }
    }

    fn read_batch(&self, record: &Record<'_>) -> Result<Option<FeedItem>> {
        let mut batch = FeedBatch::default();
        let base = record.payload.as_ptr().addr();
        let range = |bytes: &[u8]| {
            let start = bytes.as_ptr().addr() - base;
            start..start + bytes.len()
        };
        // Most operations belong to the same keyspace as the operation before.
        let mut last: Option<(KeyspaceId, Option<usize>)> = None;
        let mut olds = Vec::new();
        let visit_op = |seqno, op: LoggedOp<'_>| {
            let core = match last {
                Some((id, core)) if id == op.keyspace => core,
                _ => batch.core(op.keyspace, seqno, self),
            };
            last = Some((op.keyspace, core));
            if let Some(core) = core {
                let (kind, expiry) = (op.kind, op.expiry);
                let (key, value) = (range(op.key), range(op.value));
                batch.ops.push(FeedOp { core, kind, expiry, seqno, key, value, old: None });
            }
            Ok(())
        };
        let note_old = |at: usize, old: Option<&[u8]>| olds.push((at, old.map(range)));
        let done = each_op_and_old(record, visit_op, note_old);
        let file = path(self.dir, FileKind::Wal, record.segment);
        done.map_err(|refusal| refusal.in_file(&file, record.offset))??;
        if batch.ops.is_empty() {
            return Ok(None);
        }
        for (at, old) in olds {
            let seqno = record.first_seqno.plus(at as u64);
            if let Ok(at) = batch.ops.binary_search_by_key(&seqno, |op| op.seqno) {
                batch.ops[at].old = Some(old);
            }
        }
        batch.payload = record.payload.to_vec();
        Ok(Some(FeedItem::Batch(batch)))
    }
}

/// Something that was found, and the position after it.
pub type At = (ChangeToken, FeedItem);
