//! Shortcuts: combined merge operands of a key, stored next to their chain, so that no reader walks
//! all of it.
//!
//! ```text
//! level 2                             [64 .. 1]
//! level 1                [72 .. 65]   [64 .. 57] [56 .. 49] ..  [8 .. 1]
//! versions   75 74 73     72 71 .. 65  64 63 ..
//! a get reads 75 74 73   [72 .. 65]   [64 .. 1]
//! ```
//!
//! Eight versions make a shortcut, eight shortcuts one of the next level. So a reader visits at
//! most seven of each level, and a reader at an old SeqNo skips newer versions in as many steps.
//! Nothing is replaced: a shortcut is valid for readers at or above its SeqNo, and the versions it
//! covers stay for the others. Operands that cannot be combined get a passage instead, which only
//! readers at old SeqNos use. A merge pays for this with one call of [`Fold::partial`], and three
//! to five bytes of memory.

use super::store::Inserted;
use super::versions::{KeyAt, NewShortcut, VersionAt, Versions, What};
use crate::arena::{Bump, ChunkPool};
use crate::fold::Fold;
use flagstone_base::{Kind, SeqNo};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// This many shortcuts of one level make one of the next.
const FAN_IN: u16 = 8;
/// The limit on the bytes of a combined operand, which takes memory in addition to its operands.
const COMBINED_MAX: usize = 512;
/// The tally of a key: the lower bits count versions since the last block, the upper bits count
/// blocks that could not be combined since the last value.
const BLOCK_BITS: u32 = FAN_IN.trailing_zeros();
const APART_MAX: u16 = u16::MAX >> BLOCK_BITS;
/// The number of uncombined operands from which on a chain is long: a get then folds all of them.
const LONG: u16 = 32;
const _: () = assert!(FAN_IN.is_power_of_two() && LONG.is_power_of_two() && LONG >= FAN_IN);

/// The parameters of combining. The caller holds the memtable's lock.
pub(super) struct Combining<'a> {
    pub(super) versions: &'a Versions,
    pub(super) pool: &'a ChunkPool,
    pub(super) fold: &'a dyn Fold,
    pub(super) key: &'a [u8],
    /// The hash of the key if entries carry checks: a combined operand gets a check too.
    pub(super) key_hash: Option<u64>,
}

/// The result of [`after_merge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    /// A shortcut with a value was added.
    pub(super) is_combined: bool,
    /// Many operands are uncombined: 32, and again at 64, 128, and so on.
    pub(super) is_long: bool,
}

/// Counts a merge operand that was just inserted, and combines a block if it is complete.
#[inline]
pub(super) fn after_merge(
    combining: &Combining<'_>,
    bump: &mut Bump,
    inserted: &Inserted,
) -> Merged {
    if !inserted.linked.is_newest {
        return Merged::default();
    }
    let tally = combining.versions.tally(inserted.at);
    let counted = tally.load(Ordering::Relaxed) + 1;
    if !counted.is_multiple_of(FAN_IN) {
        tally.store(counted, Ordering::Relaxed);
        return Merged::default();
    }
    let apart = (counted >> BLOCK_BITS) - 1;
    if combining.combine_levels(bump, inserted.at) {
        tally.store(apart << BLOCK_BITS, Ordering::Relaxed);
        return Merged { is_combined: true, is_long: false };
    }
    let apart = apart + 1;
    let is_long = apart >= LONG / FAN_IN && apart.is_power_of_two();
    let kept = if apart == APART_MAX { APART_MAX / 2 } else { apart };
    tally.store(kept << BLOCK_BITS, Ordering::Relaxed);
    Merged { is_combined: false, is_long }
}

/// A part of a chain that becomes one shortcut.
struct Block {
    newest: SeqNo,
    /// The combined operand, if the operands can be combined.
    value: Option<Vec<u8>>,
    /// The place that follows the block.
    end: VersionAt,
}

impl Combining<'_> {
    /// Makes a shortcut of the newest block, and of the higher blocks that it completes. Returns
    /// whether the newest block was combined.
    #[cold]
    fn combine_levels(&self, bump: &mut Bump, at: KeyAt) -> bool {
        let mut is_combined = false;
        for level in 0.. {
            let Some(block) = self.block(self.versions.first(at), level) else { break };
            let value = block.value.as_deref();
            let shortcut = NewShortcut {
                seqno: block.newest,
                level: level + 1,
                key_hash: self.key_hash,
                skip: block.end,
                value,
            };
            if !self.versions.add_shortcut(bump, self.pool, at, shortcut) {
                break;
            }
            is_combined |= level == 0 && value.is_some();
        }
        is_combined
    }

    /// Returns the newest block of `level` from `first` on, or `None` if there are not enough
    /// shortcuts of that level. The versions are level 0.
    fn block(&self, first: VersionAt, level: u32) -> Option<Block> {
        let mut block: Option<Block> = None;
        let mut place = first;
        let mut count = 0;
        while count < FAN_IN {
            let version = self.versions.version_at(place)?;
            let is_operand = version.trailer.kind() == Kind::Merge;
            let is_sound = || self.key_hash.is_none_or(|hash| version.is_sound(hash));
            let value = match self.versions.what(place)? {
                // A version that changed in memory is not combined: the flush detects it.
                What::Version if level == 0 && is_operand && is_sound() => Some(version.value),
                What::Combined(of) if level > 0 && of == level && is_sound() => Some(version.value),
                What::Passage(of) if level > 0 && of == level => None,
                // Readers at older SeqNos skip the state too; other readers stop at it.
                What::State if level > 0 && count > 0 => {
                    block = block.map(|block| Block { value: None, ..block });
                    place = self.versions.follow(place);
                    continue;
                }
                _ => return None,
            };
            let value = value.filter(|value| value.len() <= COMBINED_MAX);
            let end = self.versions.follow(place);
            block = Some(match block {
                None => {
                    let newest = version.trailer.seqno();
                    Block { newest, value: value.map(<[u8]>::to_vec), end }
                }
                Some(block) => {
                    let both = block.value.zip(value);
                    let value = both.and_then(|(newer, older)| self.partial(older, &newer));
                    Block { value, end, ..block }
                }
            });
            place = end;
            count += 1;
        }
        block
    }

    /// Combines two operands. A panic of the fold is ignored here: it will also panic for a read or
    /// a flush of the key, which report it.
    fn partial(&self, older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let partial = || self.fold.partial(self.key, older, newer);
        let both = catch_unwind(AssertUnwindSafe(partial)).ok().flatten();
        both.filter(|both| both.len() <= COMBINED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::{Store, StoreWriter};
    use super::super::versions::StoredVersion;
    use super::*;
    use flagstone_base::Trailer;
    use flagstone_base::hash::{key_hash, remix};

    /// Operands are letters. An operand `!` cannot be combined.
    struct Letters;

    impl Fold for Letters {
        fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            Some([base.unwrap_or_default(), &operands.concat()].concat())
        }

        fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
            assert!(!older.contains(&b'?'), "the story of a fold that panics");
            let is_apart = older.contains(&b'!') || newer.contains(&b'!');
            (!is_apart).then(|| [older, newer].concat())
        }

        fn name(&self) -> &str {
            "letters"
        }
    }

    #[derive(Default)]
    struct Chain {
        store: Option<Store>,
        writer: StoreWriter,
        /// The entries inserted, sorted by SeqNo.
        all: Vec<(u64, Kind, Vec<u8>)>,
    }

    const KEY: &[u8] = b"key";

    impl Chain {
        fn insert(&mut self, seqno: u64, kind: Kind, value: &[u8]) -> Merged {
            let store = self.store.get_or_insert_with(Store::new);
            let (pool, key_hash) = (ChunkPool::new(0), Some(key_hash(KEY, 0)));
            let hash = remix(key_hash.unwrap());
            let trailer = Trailer::new(SeqNo::new(seqno), kind);
            let version = StoredVersion::new(trailer, value, key_hash);
            let inserted = store.insert(&mut self.writer, &pool, KEY, hash, version).unwrap();
            let place = self.all.partition_point(|other| other.0 < seqno);
            self.all.insert(place, (seqno, kind, value.to_vec()));
            if kind != Kind::Merge {
                store.versions.tally(inserted.at).store(0, Ordering::Relaxed);
                return Merged::default();
            }
            let versions = &store.versions;
            let fold = &Letters;
            let combining = Combining { versions, pool: &pool, fold, key: KEY, key_hash };
            after_merge(&combining, self.writer.bump(), &inserted)
        }

        /// Adds the state at `seqno` beside the versions.
        fn note(&mut self, seqno: u64) {
            let store = self.store.as_ref().unwrap();
            let found = store.find(KEY, remix(key_hash(KEY, 0))).unwrap();
            let trailer = Trailer::new(SeqNo::new(seqno), Kind::Put);
            let pool = ChunkPool::new(0);
            let state = StoredVersion::new(trailer, b"state", Some(key_hash(KEY, 0)));
            assert!(store.versions.is_sound(found, SeqNo::new(seqno), key_hash(KEY, 0)));
            store.versions.add_state(self.writer.bump(), &pool, found, state);
            store.versions.tally(found).store(0, Ordering::Relaxed);
        }

        /// Returns the bytes of all entries above `covered` and not above `at`, and the number of
        /// steps.
        fn read(&self, at: u64, covered: u64) -> (Vec<u8>, usize) {
            let store = self.store.as_ref().unwrap();
            let found = store.find(KEY, remix(key_hash(KEY, 0))).unwrap();
            let (at, covered) = (SeqNo::new(at), SeqNo::new(covered));
            let accepts = |_, below: SeqNo| covered <= below.plus(1);
            let (mut values, mut steps) = (Vec::new(), 0);
            let mut place = store.versions.settle(store.versions.first(found), at, accepts);
            while let Some(version) = store.versions.version_at(place) {
                if version.trailer.seqno() < covered {
                    break;
                }
                values.push(version.value);
                steps += 1;
                place = store.versions.settle(store.versions.follow(place), at, accepts);
            }
            values.reverse();
            (values.concat(), steps)
        }

        fn check(&self, at: u64, covered: u64) -> usize {
            let (found, steps) = self.read(at, covered);
            let seen = self.all.iter().filter(|entry| (covered..=at).contains(&entry.0));
            let expected: Vec<u8> = seen.flat_map(|entry| entry.2.clone()).collect();
            assert_eq!(found, expected, "at {at}, from {covered} on");
            steps
        }
    }

    /// The length of long chains.
    const LONG: u64 = if cfg!(miri) { 600 } else { 5000 };
    /// Under Miri few readers are tried.
    const STEP: usize = if cfg!(miri) { 97 } else { 1 };

    fn letter(n: u64) -> [u8; 1] {
        [b'a' + (n % 26) as u8]
    }

    #[test]
    fn a_reader_at_any_seqno_takes_few_steps_and_sees_what_is_there() {
        let mut chain = Chain::default();
        // SeqNos have gaps, which belong to other keys.
        for n in 1..=LONG {
            let merged = chain.insert(3 * n, Kind::Merge, &letter(n));
            assert_eq!((merged.is_combined, merged.is_long), (n % 8 == 0, false), "{n}");
        }
        for at in (0..3 * LONG + 10).step_by(7 * STEP) {
            // Level 3 has 512 bytes, and there is no level 4: nine of level 3, and seven of each
            // other level.
            assert!(chain.check(at, 0) <= 9 + 3 * 7, "at {at}");
        }
        for covered in (0..3 * LONG).step_by(101 * STEP) {
            chain.check(3 * LONG, covered);
            chain.check(2 * LONG - 1, covered);
        }
    }

    #[test]
    fn a_reader_of_the_past_passes_what_cannot_be_combined() {
        let mut chain = Chain::default();
        for n in 1..=LONG {
            chain.insert(n, Kind::Merge, b"!");
            if n % 32 == 0 {
                chain.note(n);
            }
        }
        let store = chain.store.as_ref().unwrap();
        let found = store.find(KEY, remix(key_hash(KEY, 0))).unwrap();
        for at in (1..=LONG).step_by(STEP) {
            let before = store.versions.steps.load(Ordering::Relaxed);
            let first = store.versions.first(found);
            let place = store.versions.settle(first, SeqNo::new(at), |_, _| true);
            let version = store.versions.version_at(place).unwrap();
            assert_eq!(version.trailer.seqno().get(), at);
            // Up and down five levels.
            let steps = store.versions.steps.load(Ordering::Relaxed) - before;
            assert!(steps <= 5 * 8 * 2, "{steps} steps to {at}");
        }
    }

    #[test]
    fn values_and_what_cannot_be_combined_part_shortcuts() {
        let mut chain = Chain::default();
        for n in 1..=LONG.min(3000) {
            let (kind, value) = match n % 500 {
                70 => (Kind::Put, b'P'),
                170 => (Kind::Delete, b'D'),
                300 => (Kind::Merge, b'!'),
                333 => (Kind::Merge, b'?'),
                _ => (Kind::Merge, letter(n)[0]),
            };
            chain.insert(n, kind, &[value]);
        }
        for at in (0..LONG.min(3000)).step_by(STEP) {
            chain.check(at, 0);
            chain.check(at, at / 2);
        }
    }

    #[test]
    fn what_comes_late_is_seen_beside_shortcuts() {
        let mut chain = Chain::default();
        for n in 1..=600 {
            chain.insert(2 * n, Kind::Merge, &letter(n));
        }
        for late in [1199, 1, 601, 603, 301, 999] {
            chain.insert(late, Kind::Merge, b"L");
            for at in (0..=1200).step_by(STEP) {
                chain.check(at, 0);
            }
        }
        // The newest part is combined as before.
        for n in 601..=1200 {
            chain.insert(2 * n, Kind::Merge, &letter(n));
        }
        for at in (0..=2400).step_by(STEP) {
            chain.check(at, 0);
        }
        assert!(chain.check(2400, 1202) < 50);
    }

    #[test]
    fn a_chain_that_cannot_be_combined_is_reported_at_32_and_every_doubling() {
        let mut chain = Chain::default();
        let last = LONG.next_power_of_two() / 2;
        let told: Vec<u64> =
            (1..=last).filter(|n| chain.insert(*n, Kind::Merge, b"!").is_long).collect();
        assert_eq!(told, (5..=last.ilog2()).map(|n| 1 << n).collect::<Vec<u64>>());
        chain.insert(last + 1, Kind::Put, b"value");
        let told: Vec<u64> = (last + 2..=last + 104)
            .filter(|n| chain.insert(*n, Kind::Merge, b"!").is_long)
            .collect();
        assert_eq!(told, [last + 33, last + 65]);
        if cfg!(miri) {
            return;
        }
        // The tally does not overflow, however long the chain gets.
        let more = (5000..90_000).filter(|n| chain.insert(*n, Kind::Merge, b"!").is_long).count();
        assert!(more > 8, "{more}");
    }
}
