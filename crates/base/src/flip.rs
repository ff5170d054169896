//! Bits that flip in memory, for tests: what checks of entries are there to find.
//!
//! Only in builds with debug assertions, and only in the thread that asked for it.

use crate::entry::EntryRef;

/// Where a bit flips: each is a copy that the write path makes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The payload of a batch, before it is committed.
    Batch,
    /// The memtable, after the entry was inserted.
    Memtable,
    /// The way into a table, in a flush or compaction.
    Output,
}

/// Which part of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its key.
    Key,
    /// Its value.
    Value,
}

#[cfg(debug_assertions)]
mod armed {
    use super::{EntryRef, Part, Site};
    use std::cell::{Cell, RefCell};
    use std::ops::Range;

    struct Flip {
        site: Site,
        part: Part,
        /// Of which key, or of any.
        key: Option<Vec<u8>>,
        /// How many entries pass before the bit flips.
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

    /// The next entry of `key` that comes to `site` in this thread has one bit flipped, the lowest of the last byte.
    pub fn flip_next(site: Site, part: Part, key: &[u8]) {
        arm(Flip { site, part, key: Some(key.to_vec()), before: 0 });
    }

    /// The same for an entry of any key, after `before` others.
    pub fn flip_after(site: Site, part: Part, before: u64) {
        arm(Flip { site, part, key: None, before });
    }

    /// Whether the flip that was asked for has happened; it will not any more.
    pub fn flipped() -> bool {
        IS_ARMED.set(false);
        FLIP.take().is_none()
    }

    /// How many bits have flipped in this thread.
    pub fn count() -> u64 {
        COUNT.get()
    }

    fn take(site: Site, key: &[u8], value: &[u8]) -> Option<Part> {
        if !IS_ARMED.get() {
            return None;
        }
        let mut flip = FLIP.take()?;
        let is_here = flip.site == site && flip.key.as_ref().is_none_or(|wanted| wanted == key);
        if is_here && flip.before == 0 {
            let is_empty = flip.part == Part::Value && value.is_empty();
            COUNT.set(COUNT.get() + 1);
            return Some(if is_empty { Part::Key } else { flip.part });
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

    /// `entry` as it came to `site`, changed in `room` if it is its turn.
    pub fn arrived<'a>(site: Site, entry: EntryRef<'a>, room: &'a mut Vec<u8>) -> EntryRef<'a> {
        let Some(part) = take(site, entry.key, entry.value) else { return entry };
        *room = if part == Part::Key { entry.key } else { entry.value }.to_vec();
        flip(room);
        match part {
            Part::Key => EntryRef { key: room, ..entry },
            Part::Value => EntryRef { value: room, ..entry },
        }
    }

    /// The same of an entry whose key and value lie at these places of `bytes`.
    pub fn arrived_at(site: Site, bytes: &mut [u8], key: Range<usize>, value: Range<usize>) {
        match take(site, &bytes[key.clone()], &bytes[value.clone()]) {
            Some(Part::Key) => flip(&mut bytes[key]),
            Some(Part::Value) => flip(&mut bytes[value]),
            None => {}
        }
    }
}

#[cfg(not(debug_assertions))]
mod armed {
    use super::{EntryRef, Part, Site};
    use std::ops::Range;

    /// Nothing flips.
    pub const fn flip_next(_: Site, _: Part, _: &[u8]) {}

    /// Nothing flips.
    pub const fn flip_after(_: Site, _: Part, _: u64) {}

    /// Nothing has flipped.
    pub const fn flipped() -> bool {
        false
    }

    /// None has.
    pub const fn count() -> u64 {
        0
    }

    /// The entry as it is.
    #[inline]
    pub const fn arrived<'a>(_: Site, entry: EntryRef<'a>, _: &'a mut Vec<u8>) -> EntryRef<'a> {
        entry
    }

    /// Nothing flips.
    #[inline]
    pub const fn arrived_at(_: Site, _: &mut [u8], _: Range<usize>, _: Range<usize>) {}
}

pub use armed::{arrived, arrived_at, count, flip_after, flip_next, flipped};
