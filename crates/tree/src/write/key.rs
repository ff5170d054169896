//! Writes one key to a table: decides which of its entries are kept, in bounded memory.
//!
//! ```text
//! entries, newest first   unpublished | newest stripe | .. | oldest stripe
//! written                 every one   | of each stripe: a value, a tombstone or its merge operands
//! ```
//!
//! A put that has expired for all readers is written as a tombstone at its SeqNo.
//!
//! Entries stream by. Of a stripe only its base and its operands are held, combined as far as the
//! fold allows. Folds apply operands oldest first, so operands wait for the base of their stripe.
//! If they outgrow `fold_bytes` they are released and read again: backwards, to fold them onto the
//! base in parts, or forwards, to write them as they come. So a key costs `fold_bytes`, and its
//! value twice, however often it was merged.

use super::output::TableOutputs;
use crate::fold::Fold;
use crate::memtable::History;
use crate::merge::{Chain, MergeCursor, Retention};
use crate::options::Direction;
use crate::ranges::RangeSet;
use flagstone_base::{EntryCheck, EntryRef, Kind, Result, SeqNo, Slice, Trailer};

/// The bytes that an entry counts towards a step.
pub(super) const fn entry_bytes(entry: &EntryRef<'_>) -> u64 {
    (entry.key.len() + entry.value.len() + 8) as u64
}

/// The number and bytes of the entries read.
#[derive(Clone, Copy, Default)]
pub(super) struct EntriesRead {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// Reads the next key with all its entries and writes those that are kept. Returns `None` at the
/// end.
///
/// `is_bottom` tells whether no older entry of the key exists elsewhere.
pub(super) fn write_next_key(
    merge: &mut MergeCursor,
    outputs: &mut TableOutputs,
    retention: &mut Retention,
    ranges: &RangeSet,
    is_bottom: impl FnOnce(&[u8]) -> bool,
) -> Result<Option<EntriesRead>> {
    let Some(first) = merge.entry() else { return Ok(None) };
    let key = first.key.to_vec();
    let mut writer = KeyWriter {
        is_bottom: is_bottom(&key),
        key: &key,
        outputs,
        retention,
        ranges,
        held: Vec::new(),
        has_begun: false,
        has_dropped: false,
        has_expired: false,
        moved: EntriesRead::default(),
    };
    while let Some(entry) = merge.entry()
        && entry.key == key
    {
        match writer.retention.boundary(entry.seqno()) {
            Some(boundary) => writer.write_stripe(merge, boundary)?,
            None => {
                writer.count(&entry);
                let check = writer.carried(merge);
                writer.keep(entry.trailer, entry.value, check)?;
                merge.next()?;
            }
        }
    }
    let (moved, has_expired) = (writer.moved, writer.has_expired);
    let newest_held = writer.held.first().map(|(trailer, _)| trailer.seqno());
    // If anything was written, that is newer than the tombstones.
    let untraced = newest_held.filter(|_| !writer.has_begun);
    // Tombstones that no older entry follows hide nothing.
    if writer.has_dropped || newest_held.is_some() {
        retention.set_dropped();
    }
    if let Some(seqno) = untraced {
        retention.set_untraced(seqno);
    }
    if has_expired {
        retention.set_expired();
    }
    Ok(Some(moved))
}

struct KeyWriter<'a> {
    key: &'a [u8],
    is_bottom: bool,
    outputs: &'a mut TableOutputs,
    retention: &'a Retention,
    ranges: &'a RangeSet,
    /// Tombstones that are written only if an older entry is.
    held: Vec<(Trailer, Option<EntryCheck>)>,
    has_begun: bool,
    /// Whether anything was dropped.
    has_dropped: bool,
    /// Whether a put became a tombstone.
    has_expired: bool,
    moved: EntriesRead,
}

/// The part of a key's history that all readers see as one state.
struct SnapshotStripe {
    /// Nothing in the stripe is newer.
    boundary: SeqNo,
    /// Everything in the stripe is newer. `None` if there is no older snapshot.
    floor: Option<SeqNo>,
    /// Entries below this SeqNo are hidden by a deleted range.
    covered: SeqNo,
}

impl SnapshotStripe {
    fn contains(&self, entry: &EntryRef<'_>) -> bool {
        self.floor.is_none_or(|floor| entry.seqno() > floor)
    }
}

/// The contents of a stripe that are not hidden in it.
#[derive(Default)]
struct Contents {
    chain: Chain,
    /// The SeqNo of the newest operand.
    newest: Option<SeqNo>,
    /// There were too many operands to hold.
    is_long: bool,
    base: Option<Base>,
}

/// The put or tombstone that ends a stripe.
struct Base {
    trailer: Trailer,
    value: Slice,
    /// The check that the entry has carried.
    check: Option<EntryCheck>,
}

impl Contents {
    fn base_value(&self) -> Option<&Slice> {
        let put = self.base.as_ref().filter(|base| base.trailer.kind() == Kind::Put);
        put.map(|base| &base.value)
    }

    /// Returns whether the base will expire. Operands are not folded into it, because the result
    /// depends on when they are read: afterwards they begin with an absent value.
    fn will_expire(&self) -> bool {
        self.base.as_ref().is_some_and(|base| base.trailer.has_expiry())
    }
}

impl KeyWriter<'_> {
    fn count(&mut self, entry: &EntryRef<'_>) {
        self.moved.entries += 1;
        self.moved.bytes += entry_bytes(entry);
    }

    /// The check that the current entry of `merge` has carried.
    fn carried(&self, merge: &MergeCursor) -> Option<EntryCheck> {
        self.outputs.checks().and_then(|seed| merge.check(seed))
    }

    /// Computes the check of an entry that is created here.
    fn made(&self, trailer: Trailer, value: &[u8]) -> Option<EntryCheck> {
        let entry = EntryRef { key: self.key, trailer, value };
        self.outputs.checks().map(|seed| EntryCheck::of_entry(&entry, seed))
    }

    /// Verifies the current entry of `merge`, which is not written as it is: an entry that changed
    /// in memory must neither be folded, nor be dropped because it reads as an entry of another
    /// key.
    fn verify(&self, merge: &MergeCursor) -> Result<()> {
        self.outputs.checks().map_or(Ok(()), |seed| merge.verify(seed))
    }

    /// As [`KeyWriter::verify`], for a base that operands are folded into.
    fn verify_base(&self, base: &Base) -> Result<()> {
        let entry = EntryRef { key: self.key, trailer: base.trailer, value: &base.value };
        match (self.outputs.checks(), base.check) {
            (Some(seed), Some(check)) => check.verify(&entry, seed),
            _ => Ok(()),
        }
    }

    fn keep_base(&mut self, base: Option<&Base>) -> Result<()> {
        base.map_or(Ok(()), |base| self.keep(base.trailer, &base.value, base.check))
    }

    fn fold_bytes(&self) -> usize {
        self.outputs.fold_bytes()
    }

    /// Writes what is kept of the stripe that ends at `boundary`; `merge` is in that stripe.
    fn write_stripe(&mut self, merge: &mut MergeCursor, boundary: SeqNo) -> Result<()> {
        let floor = self.retention.floor(boundary);
        let covered = self.ranges.covering(self.key, boundary);
        let stripe = SnapshotStripe { boundary, floor, covered };
        let mut found = self.read_stripe(merge, &stripe)?;
        let Some(newest) = found.newest else {
            return self.keep_base(found.base.as_ref());
        };
        let nothing_older = self.is_bottom && merge.entry().is_none_or(|e| e.key != self.key);
        // A deleted range in the stripe itself hides everything older, here and below.
        let is_covered = stripe.covered > stripe.floor.unwrap_or_default();
        let ends = found.base.is_some() || is_covered || nothing_older;
        let ends = ends && !found.will_expire();
        let fold = self.retention.fold();
        if let Some(fold) = fold.filter(|_| ends) {
            self.has_dropped = true;
            found.base.as_ref().map_or(Ok(()), |base| self.verify_base(base))?;
            let value = if found.is_long {
                self.fold_again(merge, fold, &stripe, &found)?
            } else {
                let base = found.base_value().map(|value| &**value);
                fold.fold(self.key, base, &found.chain.oldest_first()).map(Slice::from)
            };
            let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
            let (trailer, value) = (Trailer::new(newest, kind), value.unwrap_or_default());
            return self.keep(trailer, &value, self.made(trailer, &value));
        }
        if found.is_long {
            self.copy_again(merge, &stripe)?;
        } else {
            self.keep_chain(&mut found.chain)?;
        }
        self.keep_base(found.base.as_ref())
    }

    /// Reads the stripe. Afterwards `merge` is after it.
    fn read_stripe(
        &mut self,
        merge: &mut MergeCursor,
        stripe: &SnapshotStripe,
    ) -> Result<Contents> {
        let mut found = Contents::default();
        while let Some(entry) = merge.entry()
            && entry.key == self.key
            && stripe.contains(&entry)
        {
            self.count(&entry);
            if found.base.is_some() || entry.seqno() < stripe.covered {
                self.has_dropped = true;
                self.verify(merge)?;
            } else if entry.kind() != Kind::Merge {
                found.base = Some(self.base(merge, entry.trailer)?);
            } else {
                self.verify(merge)?;
                found.newest.get_or_insert(entry.seqno());
                if !found.is_long {
                    let (fold, seqno) = (self.retention.fold(), entry.seqno());
                    found.chain.push(fold, self.key, seqno, merge.value());
                    found.is_long = found.chain.bytes() > self.fold_bytes();
                    if found.is_long {
                        found.chain.clear();
                    }
                }
            }
            merge.next()?;
        }
        Ok(found)
    }

    /// Returns the current entry of `merge`, which ends a stripe.
    fn base(&mut self, merge: &MergeCursor, trailer: Trailer) -> Result<Base> {
        if !self.retention.is_expired(trailer) {
            return Ok(Base { trailer, value: merge.value(), check: self.carried(merge) });
        }
        self.verify(merge)?;
        self.has_expired = true;
        let trailer = Trailer::new(trailer.seqno(), Kind::Delete);
        Ok(Base { trailer, value: Slice::default(), check: self.made(trailer, b"") })
    }

    /// Reads the operands of a stripe again, oldest first, and folds them in parts.
    fn fold_again(
        &self,
        merge: &MergeCursor,
        fold: &dyn Fold,
        stripe: &SnapshotStripe,
        found: &Contents,
    ) -> Result<Option<Slice>> {
        let base = found.base.as_ref().map(|base| base.trailer.seqno());
        let (newest, above) = (stripe.boundary, base.max(stripe.floor));
        let mut value = found.base_value().cloned();
        let history = History { key: self.key, newest, above };
        let mut back = merge.again(Direction::Reverse, history)?;
        let (mut operands, mut bytes) = (Vec::new(), 0);
        loop {
            let next = back.entry().filter(|entry| entry.key == self.key);
            let next = next.filter(|entry| entry.seqno() <= stripe.boundary);
            let is_enough = next.is_none() || bytes > self.fold_bytes();
            if is_enough && !operands.is_empty() {
                let oldest_first: Vec<&[u8]> = operands.iter().map(|o: &Slice| &**o).collect();
                value = fold.fold(self.key, value.as_deref(), &oldest_first).map(Slice::from);
                operands.clear();
                bytes = 0;
            }
            let Some(entry) = next else { return Ok(value) };
            if entry.seqno() >= stripe.covered {
                self.verify(&back)?;
                let operand = back.value();
                bytes += operand.len() + size_of::<Slice>();
                operands.push(operand);
            }
            back.next()?;
        }
    }

    /// Reads the operands of a stripe again and writes them, combined as far as `fold_bytes`
    /// allows.
    fn copy_again(&mut self, merge: &MergeCursor, stripe: &SnapshotStripe) -> Result<()> {
        let history = History { key: self.key, newest: stripe.boundary, above: stripe.floor };
        let mut again = merge.again(Direction::Forward, history)?;
        let mut chain = Chain::default();
        while let Some(entry) = again.entry()
            && entry.key == self.key
            && stripe.contains(&entry)
            && entry.kind() == Kind::Merge
            && entry.seqno() >= stripe.covered
        {
            self.verify(&again)?;
            chain.push(self.retention.fold(), self.key, entry.seqno(), again.value());
            if chain.bytes() > self.fold_bytes() {
                self.keep_chain(&mut chain)?;
            }
            again.next()?;
        }
        self.keep_chain(&mut chain)
    }

    fn keep_chain(&mut self, chain: &mut Chain) -> Result<()> {
        chain.settle(self.retention.fold(), self.key);
        self.has_dropped |= chain.is_combined();
        for (seqno, value) in chain.parts() {
            let trailer = Trailer::new(*seqno, Kind::Merge);
            self.keep(trailer, value, self.made(trailer, value))?;
        }
        chain.clear();
        Ok(())
    }

    /// Writes an entry with its check. A tombstone that may hide nothing is held until something
    /// older is written.
    fn keep(&mut self, trailer: Trailer, value: &[u8], check: Option<EntryCheck>) -> Result<()> {
        let may_go = self.is_bottom && !self.retention.keeps_tombstones();
        if trailer.kind() == Kind::Delete && may_go {
            self.held.push((trailer, check));
            return Ok(());
        }
        for (held, check) in std::mem::take(&mut self.held) {
            self.add(held, b"", check)?;
        }
        self.add(trailer, value, check)
    }

    fn add(&mut self, trailer: Trailer, value: &[u8], check: Option<EntryCheck>) -> Result<()> {
        if !self.has_begun {
            self.outputs.cut_before(self.key)?;
            self.has_begun = true;
        }
        self.outputs.add(EntryRef { key: self.key, trailer, value }, check)
    }
}
