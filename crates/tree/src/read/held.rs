//! The memory and files that a scan holds, and what remains when other threads take them.

use crate::merge::{MergeCursor, RangeSource};
use crate::scans::{ParkableScan, Spared};
use crate::view::View;
use flagstone_base::Slice;
use flagstone_env::{BiasedLock, ContenderAccess};
use flagstone_sst::BlockCache;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// A value up to this length is copied when its block is released. A longer one makes up most of
/// its block, which is kept instead.
const COPIED_MAX: usize = 4 << 10;
/// A value up to this length is copied and kept even if the caller has not asked for it: it is
/// hardly larger than the scan.
const KEPT_MAX: usize = 256;
/// A scan whose caller has not asked for the value may keep blocks of at least this many bytes.
const UNSHOWN_MIN: u64 = 1 << 20;

/// The cursors over one view.
pub(super) struct ScanCursors {
    pub(super) view: Arc<View>,
    /// The views of the further trees.
    pub(super) others: Vec<Arc<View>>,
    pub(super) merge: MergeCursor,
    pub(super) ranges: Vec<RangeSource>,
    /// The walk has processed the entry that the cursors are on.
    pub(super) is_handled: bool,
}

/// The value of the current key of a scan.
pub(super) enum ScanValue {
    /// The scan has no current key.
    None,
    /// The value of the entry that the cursors are on. Nothing is counted or copied unless the
    /// caller asks for it.
    Current,
    /// A value that the cursors have passed, or that was folded.
    Made(Slice),
    /// A copy that the caller has a reference to.
    Copied,
    /// The value was released. It is read again before the caller may ask for it.
    Left,
}

/// Memory and files that a scan holds. Other threads may take them while the scan is idle.
pub(crate) struct ScanResources {
    pub(super) pinned: Option<Box<ScanCursors>>,
    pub(super) value: ScanValue,
    /// The caller may ask for the value. A caller that merges several scans asks only one of them.
    pub(super) is_shown: bool,
    /// The caller may have a reference to the value in place.
    is_lent: Cell<bool>,
    /// The copy of a value in a memtable, to which the caller may have a reference.
    copied: OnceCell<Vec<u8>>,
    /// The buffer for the next copy.
    spare: Cell<Vec<u8>>,
    /// The scan was read since idle scans were last looked for.
    is_fresh: bool,
    /// The bytes of its blocks that are counted in the allowance.
    charged: u64,
    cache: Arc<BlockCache>,
}

impl ScanResources {
    pub(super) fn new(cache: &Arc<BlockCache>) -> Self {
        Self {
            pinned: None,
            value: ScanValue::None,
            is_shown: true,
            is_lent: Cell::new(false),
            copied: OnceCell::new(),
            spare: Cell::default(),
            is_fresh: true,
            charged: 0,
            cache: Arc::clone(cache),
        }
    }

    /// Prepares for the next key, but for `is_shown`: the caller has no reference to the value any
    /// more.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.value = ScanValue::None;
        self.is_fresh = true;
        *self.is_lent.get_mut() = false;
        if let Some(mut copied) = self.copied.take() {
            copied.clear();
            self.spare.set(copied);
        }
    }

    /// Returns whether the caller may ask for a value of `len` bytes without calling
    /// [`ScanResources::show`].
    #[inline]
    pub(super) const fn is_kept(len: usize) -> bool {
        len <= KEPT_MAX
    }

    /// Allows the caller to ask for the value. Returns true if the value must be read first.
    #[inline]
    pub(super) fn show(&mut self) -> bool {
        self.is_shown = true;
        matches!(self.value, ScanValue::Left)
    }

    /// Returns the value, which shares the memory of its block. A value in a memtable is copied.
    #[inline]
    pub(super) fn value(&self) -> Slice {
        match (&self.value, &self.pinned) {
            (ScanValue::Made(value), _) => value.clone(),
            (ScanValue::Current, Some(pinned)) => pinned.merge.value(),
            (ScanValue::Copied, _) => Slice::copy_of(self.copied.get().map_or(&[], Vec::as_slice)),
            _ => Slice::default(),
        }
    }

    /// Returns the value in place. Its memory stays valid until the scan advances, even if other
    /// threads take the rest.
    #[inline]
    pub(super) fn lend(&self) -> &[u8] {
        match (&self.value, &self.pinned) {
            (ScanValue::Made(value), _) => {
                self.is_lent.set(true);
                value
            }
            (ScanValue::Current, Some(pinned)) => {
                let value = pinned.merge.entry().map_or(&[][..], |entry| entry.value);
                if !pinned.merge.is_in_memory() {
                    self.is_lent.set(true);
                    return value;
                }
                // A reference would keep the memtable alive.
                self.copied.get_or_init(|| {
                    let mut copy = self.spare.take();
                    copy.extend_from_slice(value);
                    copy
                })
            }
            (ScanValue::Copied, _) => self.copied.get().map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// Releases memtables, tables and blocks, except the value that the caller may ask for or has a
    /// reference to.
    #[must_use]
    pub(super) fn give_up(&mut self) -> Option<Box<ScanCursors>> {
        let pinned = self.pinned.take()?;
        let value = std::mem::replace(&mut self.value, ScanValue::None);
        self.value = match value {
            value if self.is_lent.get() => match value {
                ScanValue::Current => ScanValue::Made(pinned.merge.value()),
                other => other,
            },
            ScanValue::Current if self.copied.get().is_some() => ScanValue::Copied,
            ScanValue::Current => {
                let bytes = pinned.merge.entry().map_or(&[][..], |entry| entry.value);
                if !self.is_shown && !Self::is_kept(bytes.len()) {
                    ScanValue::Left
                } else if bytes.len() > COPIED_MAX {
                    ScanValue::Made(pinned.merge.value())
                } else {
                    ScanValue::Made(Slice::copy_of(bytes))
                }
            }
            ScanValue::Made(value) if !self.is_shown => {
                if Self::is_kept(value.len()) {
                    ScanValue::Made(Slice::copy_of(&value))
                } else {
                    ScanValue::Left
                }
            }
            other => other,
        };
        self.charge(0);
        Some(pinned)
    }

    /// Counts the blocks. Releases them if they are too many for a scan whose value the caller does
    /// not ask for; `scans` is the number of scans that are merged.
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

impl Drop for ScanResources {
    fn drop(&mut self) {
        self.charge(0);
    }
}

impl ParkableScan for BiasedLock<ScanResources> {
    fn holds(&self) -> bool {
        self.is_open()
    }

    fn park(&self, spared: Spared) -> bool {
        let take = |access: &mut ContenderAccess<'_, ScanResources>| {
            if spared == Spared::Fresh && std::mem::take(&mut access.value.is_fresh) {
                return None;
            }
            access.close();
            access.value.give_up()
        };
        // The released cursors are dropped after the lock is free, when the scan may already
        // continue.
        self.try_with(take).flatten().is_some()
    }
}
