//! Reads of one key: the visible SeqNo first, then the tree's view.

use crate::core::Core;
use crate::damage::report_damages;
use crate::due::Due;
use crate::history::{History, ReadPoint};
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::hash::HashedKey;
use flagstone_base::{Error, Moment, Result, SeqNo};
use flagstone_sst::LookupStop;
use flagstone_tree::{GetResult, Look, Now, Tree, View};
use std::cell::Cell;
use std::sync::Arc;

/// The operands that a get may fold before the next write of the key stores the folded value.
const OPERANDS_MAX: usize = 32;
/// One more operand for each 128 bytes of the value, which is copied whenever it is stored: a get
/// copies these in about the time in which it folds an operand.
const BYTES_PER_OPERAND: usize = 128;
/// With more operands than this the get stores the value itself, since the key may not be written
/// again.
const OPERANDS_FOR_WRITES: usize = 1024;

/// Reads keys.
#[derive(Clone)]
pub(crate) struct Reads {
    pub(crate) core: Arc<Core>,
}

/// The moment by which a write that reads judges all that it depends on. Taken from the clock when
/// the first expiry is met.
pub(crate) struct ReadMoment<'a> {
    history: &'a History,
    moment: Cell<Option<Moment>>,
}

impl<'a> ReadMoment<'a> {
    pub(crate) fn new(reads: &'a Reads) -> Self {
        Self { history: &reads.core.history, moment: Cell::new(None) }
    }

    /// The moment `at` of a registered reader.
    pub(crate) fn at(reads: &'a Reads, at: Moment) -> Self {
        Self { history: &reads.core.history, moment: Cell::new(Some(at)) }
    }

    fn get(&self) -> Moment {
        let moment = self.moment.get().unwrap_or_else(|| self.history.clock.now());
        self.moment.set(Some(moment));
        moment
    }

    /// Returns whether an entry that expires at `expiry` has expired.
    pub(crate) fn has_expired(&self, expiry: Moment) -> bool {
        expiry <= self.get()
    }

    /// Returns whether what was read of `trees` is valid as of the moment: no entry that expires
    /// later was removed from them.
    pub(crate) fn is_valid_in<'t>(&self, mut trees: impl Iterator<Item = &'t Arc<Tree>>) -> bool {
        let Some(moment) = self.moment.get() else { return true };
        trees.all(|tree| tree.peek().expired_through() <= moment)
    }
}

impl Reads {
    /// Returns the newest entry of `key` as of `at`, which is registered, or as of now. Passes its
    /// value to `look` where it is stored whole.
    #[inline]
    pub(crate) fn look_found(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        at: Option<ReadPoint>,
        look: Option<Look<'_>>,
    ) -> Result<GetResult> {
        let clock = &self.core.history.clock;
        let found = match at {
            None => self.find(keyspace, key, hash, None, &|| clock.now(), look)?,
            Some(at) => self.find(keyspace, key, hash, Some(at.seqno), &|| at.moment, look)?,
        };
        if is_long(&found) {
            self.note_long(keyspace, key, hash, &found);
        }
        Ok(found)
    }

    /// As [`Reads::look_found`], with the value in the result.
    #[inline]
    pub(crate) fn get_found(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        at: Option<ReadPoint>,
    ) -> Result<GetResult> {
        self.look_found(keyspace, key, hash, at, None)
    }

    /// Returns the newest entry of `key` now, judged by `moment`.
    pub(crate) fn get_at_moment(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        moment: &ReadMoment<'_>,
    ) -> Result<GetResult> {
        self.find(keyspace, key, hash, None, &|| moment.get(), None)
    }

    /// As [`Reads::look_found`] as of now, but only from memory: returns `None` if a table must be
    /// read.
    pub(crate) fn try_look_found(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        look: Option<Look<'_>>,
    ) -> Result<Option<GetResult>> {
        let now = || self.core.history.clock.now();
        let found = self.find_by(keyspace, key, hash, None, |tree, view, at| {
            tree.try_look(view, HashedKey { key, hash }, at, &now, look)
        });
        let found = match found {
            Ok(found) => found,
            Err(LookupStop::Miss) => return Ok(None),
            Err(LookupStop::Failed(error)) => return Err(self.reported(error)),
        };
        if is_long(&found) {
            self.note_long(keyspace, key, hash, &found);
        }
        Ok(Some(found))
    }

    /// Remembers a key of which a get has folded many operands. If there were very many, stores the
    /// value at once: after a recovery, for example, when the key is no longer written.
    #[cold]
    fn note_long(&self, keyspace: &KeyspaceCore, key: &[u8], hash: u64, found: &GetResult) {
        if found.operands as usize <= OPERANDS_FOR_WRITES {
            self.core.long_chains.note(keyspace.id, key, hash);
        } else if self.note_value(keyspace, key, hash, found) {
            self.core.health.act(Due::FLUSHES);
        }
    }

    // Inlined, or the result is copied once more.
    #[inline(always)]
    fn find(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        at: Option<SeqNo>,
        now: Now<'_>,
        look: Option<Look<'_>>,
    ) -> Result<GetResult> {
        self.find_by(keyspace, key, hash, at, |tree, view, at| {
            let found = tree.look(view, HashedKey { key, hash }, at, now, look);
            found.map_err(|error| self.reported(error))
        })
    }

    /// Looks `key` up by `look`, in the view of its tree and as of a SeqNo that fit together.
    #[inline(always)]
    fn find_by<S: From<Error>>(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        at: Option<SeqNo>,
        look: impl FnOnce(&Tree, &View, SeqNo) -> Result<GetResult, S>,
    ) -> Result<GetResult, S> {
        self.core.health.check_open()?;
        loop {
            // The SeqNo first, then the tree and its view: entries up to the SeqNo are in the view,
            // unless a flush or compaction has dropped some for a newer watermark meanwhile, or
            // other trees have replaced this one.
            let seqno = at.unwrap_or_else(|| self.core.history.visible());
            let tree = keyspace.layout().tree_of(key, hash);
            let view = tree.peek();
            if view.watermark() > seqno && (at.is_none() || view.is_retired()) {
                continue;
            }
            // The clock is read after the view is taken, and never runs backwards. So entries that
            // were removed from the view have expired for this reader, too.
            let found = look(tree, &view, seqno)?;
            if !found.is_present() {
                keyspace.check_readable()?;
            }
            return Ok(found);
        }
    }

    /// Stores the folded value of `key` next to its operands in the memtable, if there are many.
    /// Nothing is logged or numbered for it, since it changes nothing that can be read. Returns
    /// true when that memtable can be flushed now.
    pub(crate) fn fold_chain(&self, keyspace: &KeyspaceCore, key: &[u8], hash: u64) -> bool {
        if !self.core.long_chains.take(keyspace.id, key, hash) {
            return false;
        }
        // An error is left to the next reader of the key.
        let now = || self.core.history.clock.now();
        let found = self.find(keyspace, key, hash, None, &now, None).ok().filter(is_long);
        found.is_some_and(|found| self.note_value(keyspace, key, hash, &found))
    }

    fn note_value(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        found: &GetResult,
    ) -> bool {
        let bytes = found.value.as_ref().map_or(0, |value| value.len());
        // The state of a key that expires depends on the reader.
        let fits = bytes as u64 <= self.core.setup().batch_bytes_max() && found.expiry.is_none();
        let Some(seqno) = found.seqno.filter(|_| fits) else { return false };
        let tree = keyspace.layout().tree_of(key, hash);
        tree.note_folded(key, hash, seqno, found.value.as_deref())
    }

    /// Returns `error` after the damage that a read has found was reported.
    #[cold]
    pub(crate) fn reported(&self, error: Error) -> Error {
        let Core { health, keyspaces, trees, .. } = &*self.core;
        report_damages(health, keyspaces, trees, None);
        error
    }
}

/// Returns whether a get folded enough operands to make storing the value worthwhile.
#[inline]
fn is_long(found: &GetResult) -> bool {
    let operands = found.operands as usize;
    operands >= OPERANDS_MAX
        && operands >= found.value.as_ref().map_or(0, |value| value.len()) / BYTES_PER_OPERAND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyspaceOptions, testing};

    /// A fold whose operands cannot be combined.
    #[test]
    fn a_get_of_a_key_that_is_merged_often_folds_few_operands() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let options = KeyspaceOptions::new().fold("count/1");
        let kv = db.keyspace_with("kv", options).unwrap();
        let (reads, core) = (&kv.handle().parts().reads, kv.core());
        for n in 1..=1000_u64 {
            kv.merge("key", "").unwrap();
            if n % 77 == 0 {
                let hash = core.hash(b"key");
                let found = reads.find(core, b"key", hash, None, &|| Moment::ZERO, None).unwrap();
                assert!(found.operands <= OPERANDS_MAX as u32, "{} at {n}", found.operands);
                assert_eq!(kv.get("key").unwrap().unwrap(), n.to_le_bytes());
            }
        }
    }
}
