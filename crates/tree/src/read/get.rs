//! Reads one key: searches the sources, newest first, until its state is known.

use crate::merge::fold_operands;
use crate::tree::Tree;
use crate::view::View;
use flagstone_base::hash::{HashedKey, RemixedKey, key_hash as hash_of, remix};
use flagstone_base::{Error, Kind, Moment, Result, SeqNo, Slice, Trailer};
use flagstone_sst::{LookupStop, OnMiss, ReadOnMiss, StopOnMiss};
use std::ops::ControlFlow;

/// The result of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetResult {
    /// The SeqNo of the newest entry of the key, even if that is a tombstone or a deleted range.
    /// `None` if there is no trace of the key: a tombstone leaves none once it is compacted away.
    pub seqno: Option<SeqNo>,
    /// The value, or `None` if the key is absent.
    pub value: Option<Slice>,
    /// The expiry of the put that the value comes from, even if it has expired.
    pub expiry: Option<Moment>,
    /// Whether that put had expired for the reader. A value is folded of merge operands alone then.
    pub has_expired: bool,
    /// The number of merge operands folded for the value. Many operands make every get slow: write
    /// the value.
    pub operands: u32,
    /// Whether the value was passed to [`Look`] and is not here.
    pub was_seen: bool,
}

impl GetResult {
    /// Returns the moment from which on the value is absent. Returns `None` if there is no value,
    /// or if it does not expire.
    pub fn lives_until(&self) -> Option<Moment> {
        self.expiry.filter(|_| self.is_present() && !self.has_expired)
    }

    /// Returns whether there is a value, here or where it was seen.
    pub const fn is_present(&self) -> bool {
        self.value.is_some() || self.was_seen
    }
}

/// Returns the moment by which a reader judges expiries. Called when the first entry with an expiry
/// is met, so a read that meets none asks no clock.
pub type Now<'a> = &'a dyn Fn() -> Moment;

/// Called with a value where it is stored, so that it is not copied, and at most once. Not called
/// for a value that is folded of merge operands.
pub type Look<'a> = &'a mut dyn FnMut(&[u8]);

/// The state of a key as far as it is known.
struct Lookup<'a, 'l> {
    at: SeqNo,
    now: Now<'a>,
    look: Option<Look<'l>>,
    was_seen: bool,
    seqno: Option<SeqNo>,
    base: Option<Slice>,
    expiry: Option<Moment>,
    has_expired: bool,
    /// The operands found so far, newest first.
    operands: Vec<Slice>,
    /// The newest deleted range over the key, in the sources searched so far.
    covered: SeqNo,
    is_done: bool,
}

impl<'a, 'l> Lookup<'a, 'l> {
    const fn new(at: SeqNo, now: Now<'a>, look: Option<Look<'l>>) -> Self {
        Self {
            at,
            now,
            look,
            was_seen: false,
            expiry: None,
            has_expired: false,
            seqno: None,
            base: None,
            operands: Vec::new(),
            covered: SeqNo::ZERO,
            is_done: false,
        }
    }

    /// Takes the next older entry, whose value is `value`; `owned` makes a slice of it. Returns
    /// false once the state is known.
    #[inline]
    fn visit(&mut self, trailer: Trailer, value: &[u8], owned: impl FnOnce() -> Slice) -> bool {
        if trailer.seqno() < self.covered {
            self.is_done = true;
            return false;
        }
        self.seqno.get_or_insert(trailer.seqno());
        match trailer.kind() {
            Kind::Merge => {
                self.operands.push(owned());
                return true;
            }
            Kind::Put if trailer.has_expiry() => self.visit_expiring(trailer, value, owned),
            Kind::Put => self.found(value, owned),
            Kind::Delete | Kind::RangeDelete => {}
        }
        self.is_done = true;
        false
    }

    /// Takes a put with an expiry. After that moment it is a tombstone.
    #[cold]
    fn visit_expiring(&mut self, trailer: Trailer, value: &[u8], owned: impl FnOnce() -> Slice) {
        self.expiry = trailer.expiry();
        self.has_expired = trailer.is_expired_at((self.now)());
        if !self.has_expired {
            self.found(value, owned);
        }
    }

    /// Takes the value of a put.
    #[inline]
    fn found(&mut self, value: &[u8], owned: impl FnOnce() -> Slice) {
        match &mut self.look {
            Some(look) if self.operands.is_empty() => {
                look(value);
                self.was_seen = true;
            }
            _ => self.base = Some(owned()),
        }
    }

    /// Takes a deleted range over the key into account, before the entries of its source.
    #[inline]
    fn cover(&mut self, seqno: SeqNo) {
        self.covered = self.covered.max(seqno);
    }

    /// Ends a source. Everything older is deleted if a deleted range was found so far. Returns
    /// whether the state is known.
    #[inline]
    fn end_source(&mut self) -> bool {
        self.is_done |= self.covered > SeqNo::ZERO;
        self.is_done
    }
}

impl Tree {
    /// Returns the state of `key` at `at` in `view`. Takes no locks. Reads at most one
    /// block of each run, usually none.
    ///
    /// The caller took `at` before `view`, and `view.watermark() <= at` or `at` is registered. The
    /// moment that `now` returns is not before `view.expired_through()`.
    ///
    /// # Errors
    /// Io or Corruption of a table; Unsupported if the key has a merge operand and the tree no
    /// fold.
    pub fn get(
        &self,
        view: &View,
        key: HashedKey<'_>,
        at: SeqNo,
        now: Now<'_>,
    ) -> Result<GetResult> {
        self.look(view, key, at, now, None)
    }

    /// As [`Tree::get`], but passes a value that is stored whole to `look`, if there is one.
    ///
    /// # Errors
    /// As [`Tree::get`].
    #[inline]
    pub fn look(
        &self,
        view: &View,
        key: HashedKey<'_>,
        at: SeqNo,
        now: Now<'_>,
        look: Option<Look<'_>>,
    ) -> Result<GetResult> {
        let mut lookup = Lookup::new(at, now, look);
        self.look_up_anywhere(view, key.remixed(), &mut lookup)?;
        self.note_read(1);
        self.finish(key.key, lookup)
    }

    /// As [`Tree::look`], but from memory alone: memtables, and what is cached of tables.
    ///
    /// # Errors
    /// A miss if a file would have to be read; `look` was not called then. Corruption of a block
    /// in memory; Unsupported as for [`Tree::get`].
    pub fn try_look(
        &self,
        view: &View,
        key: HashedKey<'_>,
        at: SeqNo,
        now: Now<'_>,
        look: Option<Look<'_>>,
    ) -> Result<GetResult, LookupStop> {
        let mut lookup = Lookup::new(at, now, look);
        self.look_up::<StopOnMiss>(view, key.remixed(), &mut lookup)?;
        self.note_read(1);
        self.finish(key.key, lookup)
    }

    #[inline]
    fn finish<S: From<Error>>(
        &self,
        key: &[u8],
        mut lookup: Lookup<'_, '_>,
    ) -> Result<GetResult, S> {
        if lookup.seqno.is_none() && lookup.covered > SeqNo::ZERO {
            lookup.seqno = Some(lookup.covered);
        }
        let operands = lookup.operands.len() as u32;
        let value = if operands == 0 {
            lookup.base
        } else {
            let fold = self.options().fold.as_deref();
            fold_operands(fold, key, lookup.base.as_deref(), &lookup.operands)?
        };
        let Lookup { seqno, expiry, has_expired, was_seen, .. } = lookup;
        Ok(GetResult { seqno, value, expiry, has_expired, operands, was_seen })
    }

    /// The hash that the filters of tables know `key` by, if it is not that of the whole key.
    #[inline]
    pub(super) fn filter_hash(&self, key: &[u8]) -> Option<u64> {
        let filter_key = self.options().filter_key;
        (filter_key.id != 0)
            .then(|| remix(hash_of((filter_key.extract)(key), self.options().hash_seed)))
    }

    /// Not generic, so it is compiled in this crate, with the functions that it inlines.
    fn look_up_anywhere(
        &self,
        view: &View,
        key: RemixedKey<'_>,
        lookup: &mut Lookup<'_, '_>,
    ) -> Result<()> {
        self.look_up::<ReadOnMiss>(view, key, lookup)
    }

    /// Searches the memtables, then the tables, until the state of the key is known.
    #[inline]
    fn look_up<M: OnMiss>(
        &self,
        view: &View,
        key: RemixedKey<'_>,
        lookup: &mut Lookup<'_, '_>,
    ) -> Result<(), M::Stop> {
        look_up_memory(view, key, lookup);
        if lookup.is_done {
            return Ok(());
        }
        let filter_hash = self.filter_hash(key.key);
        for run in view.version.newest_first() {
            let Some(table) = run.table_of(key.key) else { continue };
            let at = lookup.at;
            if table.meta().seqnos().0 > at {
                continue;
            }
            lookup.cover(table.ranges_with::<M>()?.covering(key.key, at));
            table.get::<M>(key, filter_hash, at, &mut |trailer, value| {
                if lookup.visit(trailer, &value, || value.to_slice()) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            if lookup.end_source() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Searches the memtables, newest first, until the state of the key is known.
#[inline]
fn look_up_memory(view: &View, key: RemixedKey<'_>, lookup: &mut Lookup<'_, '_>) {
    for table in view.memtables() {
        let at = lookup.at;
        lookup.cover(table.covering(key.key, at));
        let covered = lookup.covered;
        table.get(key, at, covered, |entry| {
            lookup.visit(entry.trailer, entry.value, || Slice::copy_of(entry.value))
        });
        if lookup.end_source() {
            return;
        }
    }
}
