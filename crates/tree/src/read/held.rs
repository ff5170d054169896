//! What a scan holds, and what is left of it when it gives that up.

use crate::merge::{MergeCursor, RangeSource};
use crate::scans::Rests;
use crate::view::View;
use flagstone_base::Slice;
use flagstone_env::{Room, Visited};
use flagstone_sst::BlockCache;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// A value up to this length is copied when its block is given up; a longer one is most of its block.
const COPIED_MAX: usize = 4 << 10;
/// A value up to this length is kept, copied, even if nobody asks for it yet: it is hardly larger than the scan.
const KEPT_MAX: usize = 256;
/// A scan whose value nobody asks for yet keeps blocks of so many bytes at least.
const UNSHOWN_MIN: u64 = 1 << 20;

/// The cursors over one view.
pub(super) struct Pinned {
    pub(super) view: Arc<View>,
    pub(super) merge: MergeCursor,
    pub(super) ranges: Vec<RangeSource>,
    /// The walk has handled the entry that the cursors stand at.
    pub(super) is_handled: bool,
}

/// The value of the key a scan stands at.
pub(super) enum Value {
    /// It stands at none.
    None,
    /// That of the entry the cursors stand at: nothing is counted or copied unless it is asked for.
    Current,
    /// One that the cursors have left behind, or that was folded.
    Made(Slice),
    /// A copy that the caller has a reference to.
    Copied,
    /// It was given up: to be read again before somebody asks for it.
    Left,
}

/// Memory and files that a scan holds. Other threads take them from it while it waits.
pub(crate) struct Held {
    pub(super) pinned: Option<Box<Pinned>>,
    pub(super) value: Value,
    /// The caller may ask for the value. Of scans that are merged it asks for that of one.
    is_shown: bool,
    /// The caller may have a reference to the value where it is.
    is_lent: Cell<bool>,
    /// The copy of a value in a memtable that the caller may have a reference to.
    copied: OnceCell<Vec<u8>>,
    /// Room for the next copy.
    spare: Cell<Vec<u8>>,
    /// It was read since somebody last looked for scans that wait.
    is_fresh: bool,
    /// The bytes of its blocks, as they are counted.
    charged: u64,
    cache: Arc<BlockCache>,
}

impl Held {
    pub(super) fn new(cache: &Arc<BlockCache>) -> Self {
        Self {
            pinned: None,
            value: Value::None,
            is_shown: true,
            is_lent: Cell::new(false),
            copied: OnceCell::new(),
            spare: Cell::default(),
            is_fresh: true,
            charged: 0,
            cache: Arc::clone(cache),
        }
    }

    /// The scan goes on: no reference to the value is left.
    #[inline]
    pub(super) fn begin(&mut self, is_shown: bool) {
        self.value = Value::None;
        self.is_shown = is_shown;
        self.is_fresh = true;
        *self.is_lent.get_mut() = false;
        if let Some(mut copied) = self.copied.take() {
            copied.clear();
            self.spare.set(copied);
        }
    }

    /// Whether the caller may ask for a value of so many bytes without a call of [`Held::show`].
    #[inline]
    pub(super) const fn is_kept(len: usize) -> bool {
        len <= KEPT_MAX
    }

    /// From now on the caller may ask for the value; true when that must be read first.
    #[inline]
    pub(super) fn show(&mut self) -> bool {
        self.is_shown = true;
        matches!(self.value, Value::Left)
    }

    /// The value; shares the memory of its block, copies out of a memtable.
    #[inline]
    pub(super) fn value(&self) -> Slice {
        match (&self.value, &self.pinned) {
            (Value::Made(value), _) => value.clone(),
            (Value::Current, Some(pinned)) => pinned.merge.value(),
            (Value::Copied, _) => Slice::copy_of(self.copied.get().map_or(&[], Vec::as_slice)),
            _ => Slice::default(),
        }
    }

    /// The value in place. Its memory stays until the scan goes on, whoever takes away what this holds.
    #[inline]
    pub(super) fn lend(&self) -> &[u8] {
        match (&self.value, &self.pinned) {
            (Value::Made(value), _) => {
                self.is_lent.set(true);
                value
            }
            (Value::Current, Some(pinned)) => {
                let value = pinned.merge.entry().map_or(&[][..], |entry| entry.value);
                if !pinned.merge.is_in_memory() {
                    self.is_lent.set(true);
                    return value;
                }
                // A reference would keep the memtable.
                self.copied.get_or_init(|| {
                    let mut copy = self.spare.take();
                    copy.extend_from_slice(value);
                    copy
                })
            }
            (Value::Copied, _) => self.copied.get().map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Gives up memtables, tables and blocks, but for the value that the caller may ask for, or has.
    #[must_use]
    pub(super) fn give_up(&mut self) -> Option<Box<Pinned>> {
        let pinned = self.pinned.take()?;
        let value = std::mem::replace(&mut self.value, Value::None);
        self.value = match value {
            value if self.is_lent.get() => match value {
                Value::Current => Value::Made(pinned.merge.value()),
                other => other,
            },
            Value::Current if self.copied.get().is_some() => Value::Copied,
            Value::Current => {
                let bytes = pinned.merge.entry().map_or(&[][..], |entry| entry.value);
                match self.is_shown || Self::is_kept(bytes.len()) {
                    true if bytes.len() > COPIED_MAX => Value::Made(pinned.merge.value()),
                    true => Value::Made(Slice::copy_of(bytes)),
                    false => Value::Left,
                }
            }
            Value::Made(value) if !self.is_shown => match Self::is_kept(value.len()) {
                true => Value::Made(Slice::copy_of(&value)),
                false => Value::Left,
            },
            other => other,
        };
        self.charge(0);
        Some(pinned)
    }

    /// Counts the blocks. If they are too many for a scan that is not asked for its value, one of so many `scans` that
    /// are merged, gives them up.
    pub(super) fn settle(&mut self, scans: usize) {
        let bytes = self.pinned.as_ref().map_or(0, |pinned| pinned.merge.block_bytes());
        self.charge(bytes);
        let share = self.cache.scans().max() / scans.max(1) as u64;
        if !self.is_shown && bytes > share.max(UNSHOWN_MIN) {
            drop(self.give_up());
        }
    }

    fn charge(&mut self, bytes: u64) {
        self.cache.scans().change(self.charged, bytes);
        self.charged = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.charge(0);
    }
}

impl Rests for Room<Held> {
    fn holds(&self) -> bool {
        self.is_open()
    }

    fn rest(&self, spares_fresh: bool) -> bool {
        let take = |visited: &mut Visited<'_, Held>| {
            if spares_fresh && std::mem::take(&mut visited.value.is_fresh) {
                return None;
            }
            visited.close();
            visited.value.give_up()
        };
        // What is taken is dropped when the scan may go on.
        self.visit(take).flatten().is_some()
    }
}
