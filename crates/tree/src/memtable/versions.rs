//! The versions of keys in an arena: chains, and the shortcuts in them.
//!
//! ```text
//! version, aligned to 8:  trailer u64 | older version u32 (atomic) | value length u32 | check u32
//!                         | [expiry u64] | value
//! shortcut, aligned to 8: trailer u64 | older version u32 (atomic) | value length + 2^31 u32
//!                         | check u32 | skip u32 | level u32 (atomic) | value
//! ```
//!
//! Only a version whose trailer has the flag of an expiry has one. A shortcut never has.
//!
//! Everything except links and levels is written before its address is published and never changes;
//! a changed link only leads to more versions. The versions of a key are chained by SeqNo, newest
//! first, whatever order they arrive in.
//!
//! A shortcut is in the chain before the newest of the merge operands that it combines, and has the
//! SeqNo of that operand. Its skip link leads to what follows the oldest operand. A reader that may
//! use the shortcut continues at its skip link, any other reader at its older link:
//!
//! ```text
//! newest -> 17 -> [16..9] -> 16 -> 15 .. 9 -> [8..1] -> 8 -> 7 .. 1 -> put
//!                    \------ skip -----------^   \------ skip ----------^
//! ```
//! A shortcut over operands that cannot be combined has no value: it is a passage, which only
//! readers at older SeqNos use. A shortcut may also be the state of the key at its SeqNo, folded
//! with what is below the memtable; older versions then matter only to readers at older SeqNos.

use crate::arena::{Arena, Bump, ChunkPool};
use flagstone_base::{EntryCheck, Kind, Moment, SeqNo, Trailer};
use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

const VERSION_HEADER: usize = 20;
const EXPIRY_BYTES: usize = size_of::<u64>();
const SHORTCUT_HEADER: usize = 28;
/// Set in the length of a shortcut's value. No value has more than 512 MiB.
const SHORTCUT: u32 = 1 << 31;
/// The level of a shortcut that must not be used, because a version was added to what it covers.
const UNUSABLE: u32 = 0;
/// The level of a shortcut that is the state of its key at its SeqNo: nothing older matters.
const STATE: u32 = u32::MAX;
/// Set in the level of a shortcut without a value, which leads readers at older SeqNos past what it
/// covers.
const PASSAGE: u32 = 1 << 31;

/// The address of a key. Made only by the store it belongs to, and used only with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyAt(pub(super) u32);

impl KeyAt {
    pub(super) const fn to_u32(self) -> u32 {
        self.0
    }

    /// Restores a place from a number that [`KeyAt::to_u32`] returned, for the same store.
    pub(super) const fn from_u32(address: u32) -> Self {
        Self(address)
    }
}

/// What a place in a chain holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Version,
    /// A shortcut of this level, with a value.
    Combined(u32),
    /// A shortcut of this level, without a value.
    Passage(u32),
    State,
}

/// A shortcut over versions of a key.
pub(super) struct NewShortcut<'v> {
    /// That of the newest version in it.
    pub(super) seqno: SeqNo,
    pub(super) level: u32,
    /// With the hash of its key it gets a check.
    pub(super) key_hash: Option<u64>,
    /// The version that follows it.
    pub(super) skip: VersionAt,
    /// Its versions combined. Without a value it is a passage.
    pub(super) value: Option<&'v [u8]>,
}

/// All versions of one memtable.
pub(super) struct Versions {
    /// The arena of keys and versions: the chain of a key begins with a link in its header.
    pub(super) arena: Arena,
    /// The number of places that readers visited.
    #[cfg(test)]
    pub(super) steps: std::sync::atomic::AtomicUsize,
}

impl Versions {
    pub(super) const fn new() -> Self {
        Self {
            arena: Arena::new(),
            #[cfg(test)]
            steps: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Returns whether the version at `place` is the oldest of its key, and not a shortcut.
    pub(super) fn is_oldest(&self, place: VersionAt) -> bool {
        let is_last = || self.older(place.0).load(Ordering::Acquire) == 0;
        place.is_end() || (!self.head(place.0).1 && is_last())
    }

    /// Returns the newest version of the key at `at`, or a shortcut.
    #[inline]
    pub(super) fn first(&self, at: KeyAt) -> VersionAt {
        VersionAt(self.newest(at).load(Ordering::Acquire))
    }

    /// Returns the version or shortcut at `place`, or `None` at the end.
    #[inline]
    pub(super) fn version_at(&self, place: VersionAt) -> Option<StoredVersion<'_>> {
        (!place.is_end()).then(|| self.version(place.0))
    }

    /// Returns the first version from `place` on that is not above `at`, or a shortcut for which
    /// `accepts` returns true. `accepts` gets the newest SeqNo of the shortcut and the SeqNo below
    /// its oldest.
    #[inline]
    pub(super) fn settle(
        &self,
        place: VersionAt,
        at: SeqNo,
        accepts: impl Fn(SeqNo, SeqNo) -> bool,
    ) -> VersionAt {
        let mut next = place.0;
        while next != 0 {
            #[cfg(test)]
            self.steps.fetch_add(1, Ordering::Relaxed);
            let (seqno, is_shortcut) = self.head(next);
            if is_shortcut {
                let skip = self.skip(next);
                let below = if skip == 0 { SeqNo::ZERO } else { self.head(skip).0 };
                let is_accepted = || match self.level(next).load(Ordering::Acquire) {
                    UNUSABLE => false,
                    STATE => true,
                    level => level & PASSAGE == 0 && accepts(seqno, below),
                };
                if seqno <= at && is_accepted() {
                    break;
                }
                // Skip the shortcut if everything that it covers is too new.
                let leads = skip != 0 && below >= at;
                next = if leads { skip } else { self.older(next).load(Ordering::Acquire) };
                continue;
            }
            if seqno <= at {
                break;
            }
            next = self.older(next).load(Ordering::Acquire);
        }
        VersionAt(next)
    }

    /// Returns what follows a version, or everything that a shortcut covers. A shortcut that was
    /// made unusable meanwhile still leads there: a reader at it cannot see what was added.
    #[inline]
    pub(super) fn follow(&self, place: VersionAt) -> VersionAt {
        if place.is_end() {
            return VersionAt::END;
        }
        let is_shortcut = self.head(place.0).1;
        VersionAt(if is_shortcut {
            self.skip(place.0)
        } else {
            self.older(place.0).load(Ordering::Acquire)
        })
    }

    /// Returns what is at `place`, or `None` at the end, or for a shortcut that must not be used.
    pub(super) fn what(&self, place: VersionAt) -> Option<What> {
        if place.is_end() {
            return None;
        }
        if !self.head(place.0).1 {
            return Some(What::Version);
        }
        match self.level(place.0).load(Ordering::Acquire) {
            UNUSABLE => None,
            STATE => Some(What::State),
            level if level & PASSAGE != 0 => Some(What::Passage(level & !PASSAGE)),
            level => Some(What::Combined(level)),
        }
    }

    /// The writer's tally of the key at `at`.
    pub(super) fn tally(&self, at: KeyAt) -> &AtomicU16 {
        // SAFETY: this store made `at`, published it with Release, and it was read with Acquire;
        // the tally follows the length, and it is only accessed as an atomic.
        unsafe { &*self.arena.pointer(at.0).add(6).cast::<AtomicU16>() }
    }

    /// Adds a shortcut before everything else of the key at `at`. Returns false if the arena has
    /// no addresses left.
    pub(super) fn add_shortcut(
        &self,
        bump: &mut Bump,
        pool: &ChunkPool,
        at: KeyAt,
        shortcut: NewShortcut<'_>,
    ) -> bool {
        let NewShortcut { seqno, level, key_hash, skip, value } = shortcut;
        let level = if value.is_some() { level } else { level | PASSAGE };
        let value = value.unwrap_or_default();
        let room = SHORTCUT_HEADER + value.len();
        let Some((address, place)) = self.arena.allocate(bump, pool, room) else {
            return false;
        };
        let link = self.newest(at);
        let trailer = Trailer::new(seqno, Kind::Merge);
        let version = StoredVersion::new(trailer, value, key_hash);
        let older = link.load(Ordering::Acquire);
        // SAFETY: the memory was just allocated for a header and the value, and no reader knows it.
        unsafe { write_shortcut(place.as_ptr(), older, skip.0, level, version) };
        link.store(address, Ordering::Release);
        true
    }

    fn newest(&self, at: KeyAt) -> &AtomicU32 {
        // SAFETY: as in `tally`; the header begins with the link.
        unsafe { &*self.arena.pointer(at.0).cast::<AtomicU32>() }
    }

    fn older(&self, version: u32) -> &AtomicU32 {
        // SAFETY: `version` came from a link of this store, so a version header is at this address.
        unsafe { &*self.arena.pointer(version).add(8).cast::<AtomicU32>() }
    }

    /// The skip link of the shortcut at `address`; 0 is the end.
    fn skip(&self, address: u32) -> u32 {
        // SAFETY: as in `version`; a shortcut is at this address.
        unsafe { self.arena.pointer(address).add(20).cast::<u32>().read() }
    }

    fn level(&self, address: u32) -> &AtomicU32 {
        // SAFETY: as in `version`; a shortcut is at this address.
        unsafe { &*self.arena.pointer(address).add(24).cast::<AtomicU32>() }
    }

    /// Adds the state of the key at `at`, before the version that has the SeqNo of `state`. Does
    /// nothing if there is no such version, or the state is there already.
    pub(super) fn add_state(
        &self,
        bump: &mut Bump,
        pool: &ChunkPool,
        at: KeyAt,
        state: StoredVersion<'_>,
    ) {
        let seqno = state.trailer.seqno();
        let mut link = self.newest(at);
        let mut next = link.load(Ordering::Acquire);
        while next != 0 && self.head(next).0 > seqno {
            link = self.older(next);
            next = link.load(Ordering::Acquire);
        }
        let is_there = self.what(VersionAt(next)) == Some(What::State);
        if next == 0 || self.head(next).0 != seqno || is_there {
            return;
        }
        let room = SHORTCUT_HEADER + state.value.len();
        let Some((address, place)) = self.arena.allocate(bump, pool, room) else {
            return;
        };
        // SAFETY: the memory was just allocated for a header and the value, and no reader knows it.
        unsafe { write_shortcut(place.as_ptr(), next, next, STATE, state) };
        link.store(address, Ordering::Release);
    }

    /// Returns whether everything that the state of the key at `seqno` is folded from matches its
    /// check.
    pub(super) fn is_sound(&self, at: KeyAt, seqno: SeqNo, key_hash: u64) -> bool {
        let mut place = self.first(at);
        while let Some(version) = self.version_at(place) {
            let what = self.what(place).filter(|what| !matches!(what, What::Passage(_)));
            if what.is_some() && version.trailer.seqno() <= seqno {
                if !version.is_sound(key_hash) {
                    return false;
                }
                let is_value = version.trailer.kind() != Kind::Merge;
                if is_value || what == Some(What::State) {
                    return true;
                }
            }
            place = VersionAt(self.older(place.0).load(Ordering::Acquire));
        }
        true
    }

    /// Returns the SeqNo of the version at `address`, and whether it is a shortcut.
    #[inline]
    fn head(&self, address: u32) -> (SeqNo, bool) {
        // SAFETY: as in `version`.
        let pointer = unsafe { self.arena.pointer(address) };
        // SAFETY: as in `version`.
        let word = unsafe { pointer.cast::<u64>().read() };
        // SAFETY: as in `version`.
        let len = unsafe { pointer.add(12).cast::<u32>().read() };
        (Trailer::seqno_of(word), len & SHORTCUT != 0)
    }

    #[inline]
    fn version(&self, address: u32) -> StoredVersion<'_> {
        // SAFETY: `address` came from a link of this store, loaded with Acquire.
        let pointer = unsafe { self.arena.pointer(address) };
        // SAFETY: a version header is at this address, written before the address was published.
        let word = unsafe { pointer.cast::<u64>().read() };
        // SAFETY: as above.
        let len = unsafe { pointer.add(12).cast::<u32>().read() };
        // SAFETY: as above.
        let check = EntryCheck::from_u32(unsafe { pointer.add(16).cast::<u32>().read() });
        let is_shortcut = len & SHORTCUT != 0;
        let mut header = if is_shortcut { SHORTCUT_HEADER } else { VERSION_HEADER };
        let trailer = Trailer::from_word(word, || {
            // SAFETY: as above; the word says that an expiry follows the header.
            let millis = unsafe { pointer.add(header).cast::<u64>().read_unaligned() };
            header += EXPIRY_BYTES;
            Moment::from_millis(millis)
        });
        let len = (len & !SHORTCUT) as usize;
        // SAFETY: the value's bytes follow the header and never change.
        let value = unsafe { std::slice::from_raw_parts(pointer.add(header), len) };
        StoredVersion { trailer, check, value }
    }

    /// Links the version at `address` into the chain of `at`, before the first older version. Marks
    /// the shortcuts that it passes as unusable, because they may cover it now.
    pub(super) fn link(&self, at: KeyAt, seqno: SeqNo, address: u32) -> Linked {
        let mut link = self.newest(at);
        let mut next = link.load(Ordering::Acquire);
        let mut is_newest = true;
        while next != 0 {
            let (other, is_shortcut) = self.head(next);
            if other < seqno || (other == seqno && !is_shortcut) {
                break;
            }
            if is_shortcut {
                self.level(next).store(UNUSABLE, Ordering::Release);
            }
            is_newest = false;
            link = self.older(next);
            next = link.load(Ordering::Acquire);
        }
        let has_replaced = next != 0 && self.head(next).0 == seqno;
        if has_replaced {
            next = self.older(next).load(Ordering::Acquire);
        }
        self.older(address).store(next, Ordering::Relaxed);
        link.store(address, Ordering::Release);
        Linked { is_newest, has_replaced }
    }
}

/// The place where a version was linked into its chain.
#[derive(Clone, Copy)]
pub(super) struct Linked {
    /// The version is before all others.
    pub(super) is_newest: bool,
    /// The version replaced one with the same SeqNo.
    pub(super) has_replaced: bool,
}

/// One version of a key.
#[derive(Clone, Copy)]
pub(super) struct StoredVersion<'a> {
    pub(super) trailer: Trailer,
    /// The check that the entry has carried since it was written. Meaningless if entries carry no
    /// checks.
    pub(super) check: EntryCheck,
    pub(super) value: &'a [u8],
}

impl<'a> StoredVersion<'a> {
    /// Creates a version, with a check if the hash of its key is given.
    pub(super) fn new(trailer: Trailer, value: &'a [u8], key_hash: Option<u64>) -> Self {
        let made = Self { trailer, check: EntryCheck::default(), value };
        Self { check: key_hash.map_or(made.check, |hash| made.computed(hash)), ..made }
    }

    fn computed(&self, key_hash: u64) -> EntryCheck {
        EntryCheck::of_trailer(key_hash, self.trailer, self.value)
    }

    /// The memory that the version takes, with its header.
    #[inline]
    pub(super) const fn room(&self) -> usize {
        let fields = if self.trailer.has_expiry() { EXPIRY_BYTES } else { 0 };
        VERSION_HEADER + fields + self.value.len()
    }

    /// Returns whether the version matches its check.
    pub(super) fn is_sound(&self, key_hash: u64) -> bool {
        self.computed(key_hash) == self.check
    }
}

/// A place in a chain of versions. Used only with the store it came from.
#[derive(Clone, Copy)]
pub(crate) struct VersionAt(u32);

impl VersionAt {
    /// The end of a chain.
    pub(crate) const END: Self = Self(0);

    /// Returns whether this is the end of a chain.
    pub(crate) const fn is_end(self) -> bool {
        self.0 == 0
    }
}

/// Writes a version and its header to `place`.
///
/// # Safety
/// `place` is aligned to 8, has [`StoredVersion::room`], and no reader knows it.
pub(super) unsafe fn write_version(place: *mut u8, version: StoredVersion<'_>) {
    let StoredVersion { trailer, check, value } = version;
    let mut header = VERSION_HEADER;
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<u64>().write(trailer.word()) };
    // SAFETY: as above.
    unsafe { place.add(8).cast::<AtomicU32>().write(AtomicU32::new(0)) };
    // SAFETY: as above; a value has at most 512 MiB.
    unsafe { place.add(12).cast::<u32>().write(value.len() as u32) };
    // SAFETY: as above.
    unsafe { place.add(16).cast::<u32>().write(check.to_u32()) };
    if let Some(expiry) = trailer.expiry() {
        // SAFETY: as above.
        unsafe { place.add(header).cast::<u64>().write_unaligned(expiry.millis()) };
        header += EXPIRY_BYTES;
    }
    // SAFETY: as above; fresh memory does not overlap the caller's value.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), place.add(header), value.len()) };
}

/// Writes a shortcut and its header to `place`. Its trailer has no flags.
///
/// # Safety
/// `place` is aligned to 8, has space for the header and the value, and no reader knows it.
unsafe fn write_shortcut(
    place: *mut u8,
    older: u32,
    skip: u32,
    level: u32,
    version: StoredVersion<'_>,
) {
    let StoredVersion { trailer, check, value } = version;
    debug_assert!(!trailer.has_expiry(), "a shortcut has no expiry");
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<u64>().write(trailer.word()) };
    // SAFETY: as above.
    unsafe { place.add(8).cast::<AtomicU32>().write(AtomicU32::new(older)) };
    // SAFETY: as above.
    unsafe { place.add(12).cast::<u32>().write(value.len() as u32 | SHORTCUT) };
    // SAFETY: as above.
    unsafe { place.add(16).cast::<u32>().write(check.to_u32()) };
    // SAFETY: as above.
    unsafe { place.add(20).cast::<u32>().write(skip) };
    // SAFETY: as above.
    unsafe { place.add(24).cast::<AtomicU32>().write(AtomicU32::new(level)) };
    // SAFETY: as above; fresh memory does not overlap the caller's value.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), place.add(SHORTCUT_HEADER), value.len()) };
}
