//! Flips bits of entries in memory, so that tests can show that the checks of entries detect it.
//!
//! Works only in builds with debug assertions, and only in the thread that asked for the flip.

use crate::entry::EntryRef;

/// Where a bit flips: each site is a copy of an entry that the write path makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The payload of a batch before its commit.
    Batch,
    /// The memtable, after the insert of the entry.
    Memtable,
    /// The entry on its way into a table, in a flush or compaction.
    Output,
}

/// The part of an entry in which a bit flips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPart {
    /// The key.
    Key,
    /// The value; the key if the value is empty.
    Value,
}

#[cfg(debug_assertions)]
mod armed {
    use super::{EntryPart, EntryRef, Site};
    use std::cell::{Cell, RefCell};
    use std::ops::Range;

    struct Flip {
        site: Site,
        part: EntryPart,
        /// The key of the entry; `None` for any key.
        key: Option<Vec<u8>>,
        /// The number of matching entries that pass before the bit flips.
        before: u64,
    }

    thread_local! {
        static IS_ARMED: Cell<bool> = const { Cell::new(false) };
        static FLIP: RefCell<Option<Flip>> = const { RefCell::new(None) };
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    fn arm(flip: Flip) {
        FLIP.set(Some(flip));
        IS_ARMED.set(true);
    }

    /// Flips one bit, the lowest of the last byte, in the next entry of `key` that comes to `site`
    /// in this thread.
    pub fn flip_next(site: Site, part: EntryPart, key: &[u8]) {
        arm(Flip { site, part, key: Some(key.to_vec()), before: 0 });
    }

    /// As [`flip_next`], for an entry of any key, after `before` other entries.
    pub fn flip_after(site: Site, part: EntryPart, before: u64) {
        arm(Flip { site, part, key: None, before });
    }

    /// Returns whether the requested flip has happened, and cancels it if not.
    pub fn flipped() -> bool {
        IS_ARMED.set(false);
        FLIP.take().is_none()
    }

    /// The number of bits that were flipped in this thread.
    pub fn count() -> u64 {
        COUNT.get()
    }

    fn take(site: Site, key: &[u8], value: &[u8]) -> Option<EntryPart> {
        if !IS_ARMED.get() {
            return None;
        }
        let mut flip = FLIP.take()?;
        let is_here = flip.site == site && flip.key.as_ref().is_none_or(|wanted| wanted == key);
        if is_here && flip.before == 0 {
            let is_empty = flip.part == EntryPart::Value && value.is_empty();
            COUNT.set(COUNT.get() + 1);
            return Some(if is_empty { EntryPart::Key } else { flip.part });
        }
        flip.before -= u64::from(is_here);
        FLIP.set(Some(flip));
        None
    }

    fn flip(bytes: &mut [u8]) {
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
    }

    /// Returns `entry` as it arrives at `site`: a changed copy, held by `room`, if a flip is due.
    pub fn arrived<'a>(site: Site, entry: EntryRef<'a>, room: &'a mut Vec<u8>) -> EntryRef<'a> {
        let Some(part) = take(site, entry.key, entry.value) else { return entry };
        *room = if part == EntryPart::Key { entry.key } else { entry.value }.to_vec();
        flip(room);
        match part {
            EntryPart::Key => EntryRef { key: room, ..entry },
            EntryPart::Value => EntryRef { value: room, ..entry },
        }
    }

    /// As [`arrived`], for an entry whose key and value are at these ranges of `bytes`, where the
    /// bit is flipped.
    pub fn arrived_at(site: Site, bytes: &mut [u8], key: Range<usize>, value: Range<usize>) {
        match take(site, &bytes[key.clone()], &bytes[value.clone()]) {
            Some(EntryPart::Key) => flip(&mut bytes[key]),
            Some(EntryPart::Value) => flip(&mut bytes[value]),
            None => {}
        }
    }

    /// As [`arrived_at`], for a key and a value in two buffers.
    pub fn arrived_apart(
        site: Site,
        keys: &mut [u8],
        key: Range<usize>,
        values: &mut [u8],
        value: Range<usize>,
    ) {
        match take(site, &keys[key.clone()], &values[value.clone()]) {
            Some(EntryPart::Key) => flip(&mut keys[key]),
            Some(EntryPart::Value) => flip(&mut values[value]),
            None => {}
        }
    }
}

#[cfg(not(debug_assertions))]
mod armed {
    use super::{EntryPart, EntryRef, Site};
    use std::ops::Range;

    /// Does nothing in this build.
    pub const fn flip_next(_: Site, _: EntryPart, _: &[u8]) {}

    /// Does nothing in this build.
    pub const fn flip_after(_: Site, _: EntryPart, _: u64) {}

    /// Returns false: no bit flips in this build.
    pub const fn flipped() -> bool {
        false
    }

    /// Returns 0: no bit flips in this build.
    pub const fn count() -> u64 {
        0
    }

    /// Returns `entry` unchanged.
    #[inline]
    pub const fn arrived<'a>(_: Site, entry: EntryRef<'a>, _: &'a mut Vec<u8>) -> EntryRef<'a> {
        entry
    }

    /// Does nothing in this build.
    #[inline]
    pub const fn arrived_at(_: Site, _: &mut [u8], _: Range<usize>, _: Range<usize>) {}

    /// Does nothing in this build.
    #[inline]
    pub const fn arrived_apart(
        _: Site,
        _: &mut [u8],
        _: Range<usize>,
        _: &mut [u8],
        _: Range<usize>,
    ) {
    }
}

pub use armed::{arrived, arrived_apart, arrived_at, count, flip_after, flip_next, flipped};
