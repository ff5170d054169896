//! A cursor over the entries of a table, in both directions.

use crate::allowance::Allowance;
use crate::block::{Block, Parsed};
use crate::lookup::{CacheUse, Nearby};
use crate::table::Table;
use flagstone_base::{EntryRef, Kind, Malformed, Result, SeqNo, Slice, Trailer};
use std::ops::Range;
use std::sync::Arc;

/// Blocks found in the cache do not end a row of reads, if they are fewer than this in a row.
const STEP_MAX: usize = 4;
/// What a cursor reads at once behind the first block of a row: as much as it has read in this row, but
/// not less than this if it may.
const AHEAD_MIN: u64 = 16 << 10;
/// And not more than this, or what it was told.
const AHEAD_MAX: u64 = 256 << 10;

/// A cursor that has to wait for its turn lets go of larger blocks.
const HUGE_BLOCK: usize = 1 << 20;

/// Suffixes of keys up to this length are copied as if they had it.
const SUFFIX_SHORT: usize = 16;

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// Whether blocks read from the file go into the cache. Without it blocks found there are used, but do not
    /// count as used.
    pub fill_cache: bool,
    /// Whether blocks found in the cache are used. Without it every block comes from the file, past its checksum: a
    /// bit may have flipped in a cached block since it was read.
    pub use_cache: bool,
    /// Whether to read as much as it may at once from the first block on. Without it a cursor begins with one
    /// block, and at the next that it misses, in either direction, reads as much as in this row of blocks before:
    /// 16 KiB at least.
    pub readahead: bool,
    /// The most that it reads at once and keeps, outside the cache: 256 KiB at most. A block that is larger is read
    /// alone. Without `readahead` this comes from the [`Allowance`](crate::Allowance) of scans, and blocks are read alone
    /// while there is no room.
    pub ahead_bytes: u64,
}

impl CursorOptions {
    /// For scans: fills the cache, reads ahead when it proves long.
    pub const SCAN: Self =
        Self { fill_cache: true, use_cache: true, readahead: false, ahead_bytes: AHEAD_MAX };
    /// For compactions: leaves the cache alone, reads ahead from the start.
    pub const COMPACTION: Self =
        Self { fill_cache: false, use_cache: true, readahead: true, ahead_bytes: AHEAD_MAX };

    /// The same for one of `cursors` that read ahead at once: all of them together keep about 4 MiB, and each a
    /// block or two.
    #[must_use]
    pub fn shared_by(self, cursors: usize) -> Self {
        let share = (4 << 20) / cursors.max(1) as u64;
        Self { ahead_bytes: share.clamp(AHEAD_MIN, AHEAD_MAX), ..self }
    }
}

/// Stored blocks read ahead of need.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    /// The offset of `bytes` in the file.
    offset: u64,
    /// The block missed last, how many bytes were read for the row of blocks that ends with it, and whether that
    /// goes backwards.
    last_missed: Option<usize>,
    row_bytes: u64,
    is_back: bool,
}

/// A positioned reader of one table. It owns its table, is fallible, and goes both ways; after an
/// error, and until the first seek, it is not valid.
pub struct TableCursor {
    table: Arc<Table>,
    options: CursorOptions,
    ahead: Ahead,
    /// The part of the index that it is in, if the index is in parts.
    nearby: Nearby,
    /// What is counted of that.
    ahead_charged: u64,
    /// The block it is in, and that block's number.
    block: Option<Block>,
    number: usize,
    index: usize,
    valid: bool,
    key: Vec<u8>,
    /// How many bytes of `key` are those of the restart `restart`.
    restart_bytes: usize,
    restart: usize,
    trailer: Trailer,
    value: Range<usize>,
}

impl Table {
    /// A cursor over its entries, not yet positioned.
    pub fn cursor(self: &Arc<Self>, options: CursorOptions) -> TableCursor {
        TableCursor {
            table: Arc::clone(self),
            options,
            ahead: Ahead::default(),
            nearby: Nearby::default(),
            ahead_charged: 0,
            block: None,
            number: 0,
            index: 0,
            valid: false,
            key: Vec::new(),
            restart_bytes: 0,
            restart: usize::MAX,
            trailer: Trailer::new(SeqNo::ZERO, Kind::Delete),
            value: 0..0,
        }
    }
}

impl TableCursor {
    /// Goes to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.valid = false;
        if self.table.index.count() == 0 {
            return Ok(());
        }
        self.enter(0)?;
        self.stand(0)
    }

    /// Goes to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.valid = false;
        match self.table.index.count().checked_sub(1) {
            Some(last) => self.enter_at_end(last),
            None => Ok(()),
        }
    }

    /// Goes to the first entry at or behind (`key`, `at`) in the order of entries: the newest entry
    /// of `key` that a reader at `at` sees, or the first of a larger key.
    pub fn seek(&mut self, key: &[u8], at: SeqNo) -> Result<()> {
        self.valid = false;
        if self.table.index.count() == 0 {
            return Ok(());
        }
        let cache_use = self.cache_use();
        let Some(number) = self.table.find(&mut self.nearby, (key, at), cache_use)? else {
            return self.seek_first();
        };
        self.enter(number)?;
        let (index, count) = self.lower_bound(key, at)?;
        if index < count {
            return self.stand(index);
        }
        if number + 1 < self.table.index.count() {
            self.enter(number + 1)?;
            // The next block begins behind `key`, or with this key at or before `at`.
            return self.stand(0);
        }
        Ok(())
    }

    /// Goes to the last entry whose key is below `key`: its oldest version.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.valid = false;
        let cache_use = self.cache_use();
        let Some(number) = self.table.find_before(&mut self.nearby, key, cache_use)? else {
            return Ok(());
        };
        self.enter(number)?;
        let (index, _count) = self.lower_bound(key, SeqNo::MAX)?;
        match index.checked_sub(1) {
            Some(before) => self.stand(before),
            None if number > 0 => self.enter_at_end(number - 1),
            None => Ok(()),
        }
    }

    /// Goes to the next entry; past the last it is no longer valid.
    #[expect(clippy::should_implement_trait, reason = "a fallible cursor is no iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        let next = self.index + 1;
        if self.block.as_ref().is_some_and(|block| next < block.count()) {
            return self.stand(next);
        }
        self.valid = false;
        if self.number + 1 < self.table.index.count() {
            self.enter(self.number + 1)?;
            return self.stand(0);
        }
        Ok(())
    }

    /// Goes to the entry before; before the first it is no longer valid.
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if let Some(before) = self.index.checked_sub(1) {
            return self.stand(before);
        }
        self.valid = false;
        match self.number.checked_sub(1) {
            Some(number) => self.enter_at_end(number),
            None => Ok(()),
        }
    }

    /// Whether it stands on an entry.
    #[inline]
    pub const fn valid(&self) -> bool {
        self.valid
    }

    /// The entry it stands on; meaningless unless [`TableCursor::valid`].
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        let value = match &self.block {
            Some(block) if self.valid => &block.bytes()[self.value.clone()],
            _ => &[],
        };
        EntryRef { key: &self.key, trailer: self.trailer, value }
    }

    /// The key of the entry.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// SeqNo and kind of the entry.
    #[inline]
    pub const fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// The value of the entry, sharing the memory of its block.
    #[inline]
    pub fn value(&self) -> Slice {
        match &self.block {
            Some(block) if self.valid => block.slice(self.value.clone()),
            _ => Slice::default(),
        }
    }

    /// Where the block of the entry begins in the file.
    pub fn block_offset(&self) -> u64 {
        self.table.offset_of(self.number)
    }

    /// The table it reads.
    pub const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    const fn cache_use(&self) -> CacheUse {
        if self.options.fill_cache { CacheUse::Fill } else { CacheUse::Leave }
    }

    /// Bytes of the block it stands in.
    pub fn block_bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.bytes().len() as u64)
    }

    /// Lets go of its block if that is huge, and keeps its place: until [`TableCursor::take_again`] it has no value and
    /// does not move, but by a seek. Whether it has let go of one.
    pub fn let_go(&mut self) -> bool {
        let _huge = self.block.take_if(|block| self.valid && block.bytes().len() >= HUGE_BLOCK);
        self.valid && self.block.is_none()
    }

    /// Reads the block again that it has let go.
    ///
    /// # Errors
    /// Corruption, or what reading the file answers; it is no longer valid then.
    pub fn take_again(&mut self) -> Result<()> {
        if !self.valid || self.block.is_some() {
            return Ok(());
        }
        let index = self.index;
        self.enter(self.number)?;
        self.stand(index)
    }

    fn lower_bound(&self, key: &[u8], at: SeqNo) -> Result<(usize, usize)> {
        let Some(block) = &self.block else {
            return Ok((0, 0));
        };
        let index = block
            .lower_bound(key, at)
            .map_err(|wrong| self.table.wrong_in_block(self.number, wrong))?;
        Ok((index, block.count()))
    }

    /// Makes block `number` the current one, standing nowhere.
    fn enter(&mut self, number: usize) -> Result<()> {
        self.valid = false;
        self.restart = usize::MAX;
        if self.block.is_some() && self.number == number {
            return Ok(());
        }
        self.block = None;
        let CursorOptions { use_cache, fill_cache, .. } = self.options;
        let cached = use_cache.then(|| self.table.cached_block(number, fill_cache)).flatten();
        self.block = Some(match cached {
            Some(block) => block,
            None => self.read(number)?,
        });
        self.number = number;
        Ok(())
    }

    fn enter_at_end(&mut self, number: usize) -> Result<()> {
        self.enter(number)?;
        let last = self.block.as_ref().map_or(0, |block| block.count() - 1);
        self.stand(last)
    }

    /// Stands on entry `index` of the current block, putting its key together.
    #[inline]
    fn stand(&mut self, index: usize) -> Result<()> {
        self.valid = false;
        let Some(block) = &self.block else {
            return Ok(());
        };
        let result = block.parse(index).and_then(|parsed| {
            let restart = block.restart_of(index);
            assemble(
                &mut self.key,
                block,
                index,
                &parsed,
                (self.restart == restart).then_some(self.restart_bytes),
            )?;
            self.restart = restart;
            self.restart_bytes =
                if index == restart { self.key.len() } else { parsed.shared as usize };
            Ok(parsed)
        });
        match result {
            Ok(parsed) => {
                self.index = index;
                self.trailer = parsed.trailer;
                self.value = parsed.value();
                self.valid = true;
                Ok(())
            }
            Err(wrong) => {
                self.restart = usize::MAX;
                Err(self.table.wrong_in_block(self.number, wrong))
            }
        }
    }

    /// Reads block `number` from the file, and what lies beyond it too when blocks are missed in a row.
    #[cold]
    fn read(&mut self, number: usize) -> Result<Block> {
        let (fill, cache_use) = (self.options.fill_cache, self.cache_use());
        let index = self.table.index_of(&mut self.nearby, number, cache_use)?;
        let handle = index.handle(number);
        let place = (number, handle.offset);
        self.ahead.note(number);
        if let Some(stored) = self.ahead.part(handle.offset, handle.len) {
            let block = self.table.open_stored(place, stored, fill);
            return block.inspect_err(|_| self.ahead.bytes.clear());
        }
        let most = self.options.ahead_bytes;
        let wanted = if self.options.readahead {
            most
        } else if self.ahead.row_bytes > 0 {
            self.ahead.row_bytes.max(AHEAD_MIN).min(most)
        } else {
            0
        };
        // Whole blocks only, about so many, and never past those of this part of the index.
        let reach = wanted + handle.len / 2;
        let (start, end) = match self.ahead.is_back {
            false => (handle.offset, index.end_within(number, handle.offset + reach)),
            true => {
                let end = handle.offset + handle.len;
                (index.start_within(number, end.saturating_sub(reach)), end)
            }
        };
        self.ahead.row_bytes += end - start;
        let is_alone = end - start == handle.len && !self.options.readahead;
        if is_alone
            || handle.len >= most
            || !may_hold(self.table.scans(), &mut self.ahead_charged, end - start, self.options)
        {
            return self.table.read_block(index, number, fill);
        }
        self.ahead.offset = start;
        let len = (end - start) as usize;
        if self.ahead.bytes.capacity() < len {
            self.ahead.bytes = Vec::with_capacity(len);
        }
        self.ahead.bytes.resize(len, 0);
        let read = self.table.file.read_exact_at(&mut self.ahead.bytes, start);
        let block = read.and_then(|()| {
            let from = (handle.offset - start) as usize;
            let stored = &self.ahead.bytes[from..from + handle.len as usize];
            self.table.open_stored(place, stored, fill)
        });
        block.inspect_err(|_| self.ahead.bytes.clear())
    }
}

/// Whether there is room for `len` bytes that are read ahead, where `charged` bytes are counted.
fn may_hold(allowance: &Allowance, charged: &mut u64, len: u64, options: CursorOptions) -> bool {
    if options.readahead {
        return true;
    }
    let held = len.max(*charged);
    let may = allowance.try_change(*charged, held);
    if may {
        *charged = held;
    }
    may
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        if self.ahead_charged > 0 {
            self.table.scans().change(self.ahead_charged, 0);
        }
    }
}

impl Ahead {
    /// Block `number` is missed: it goes on with the row of the one missed last, or begins another.
    fn note(&mut self, number: usize) {
        let last = self.last_missed.replace(number);
        let is_back = last.is_some_and(|last| number < last);
        let follows = last.is_some_and(|last| (1..=STEP_MAX).contains(&last.abs_diff(number)));
        if !follows || is_back != self.is_back {
            self.row_bytes = 0;
        }
        self.is_back = is_back && follows;
    }

    /// The bytes from `offset` on, if all `len` were read.
    fn part(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.bytes.get(start..end)
    }
}

/// Makes `key` that of entry `index`. `kept` says how many of its bytes are already those of the
/// same restart's key.
#[inline]
fn assemble(
    key: &mut Vec<u8>,
    block: &Block,
    index: usize,
    parsed: &Parsed,
    kept: Option<usize>,
) -> Result<(), Malformed> {
    let shared = parsed.shared as usize;
    match kept {
        Some(kept) if shared <= kept => key.truncate(shared),
        _ => {
            let front = block.shared(index, shared)?;
            key.clear();
            key.extend_from_slice(front);
        }
    }
    let suffix = parsed.suffix();
    match block.bytes()[suffix.start..].first_chunk::<SUFFIX_SHORT>() {
        // A copy of a fixed length needs no call: the bytes after the suffix go again.
        Some(bytes) if suffix.len() <= SUFFIX_SHORT => {
            let len = key.len() + suffix.len();
            key.extend_from_slice(bytes);
            key.truncate(len);
        }
        _ => key.extend_from_slice(&block.bytes()[suffix]),
    }
    Ok(())
}
