//! A cursor over the entries of a table, in both directions.

use crate::allowance::Allowance;
use crate::block::{Block, Parsed};
use crate::lookup::{CacheUse, Nearby};
use crate::table::Table;
use flagstone_base::bytes::same;
use flagstone_base::{EntryRef, Kind, Malformed, Result, SeqNo, Slice, Trailer, interrupt};
use std::ops::Range;
use std::sync::Arc;

/// A row of reads continues across cached blocks if there are fewer than this many in a row.
const STEP_MAX: usize = 4;
/// The number of blocks of a row that are read one at a time. A short scan seldom needs more, and a
/// block that it does not need costs more than a read saves.
const ALONE: u32 = 4;
/// Then a cursor reads ahead as many bytes as the row has read so far, but at least this many if it
/// may.
const AHEAD_MIN: u64 = 16 << 10;
/// The limit on one read ahead; `ahead_bytes` can lower it.
const AHEAD_MAX: u64 = 256 << 10;

/// A parked cursor releases a block of at least this size.
const HUGE_BLOCK: usize = 1 << 20;

/// Key suffixes up to this length are copied by a copy of this fixed length.
const SUFFIX_SHORT: usize = 16;

/// How a cursor reads and uses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// Whether blocks read from the file are inserted into the cache. If not set, cached blocks are
    /// used, but do not count as used.
    pub fill_cache: bool,
    /// Whether cached blocks are used. If not set, every block is read from the file and its
    /// checksum verified: a bit of a cached block may have flipped since it was read.
    pub use_cache: bool,
    /// Whether to read ahead as much as allowed from the first block on. If not set, a cursor
    /// begins by reading one block at a time. When it has missed four blocks in a row, in either
    /// direction, it reads as many bytes as this row has read so far, at least 16 KiB.
    pub readahead: bool,
    /// The limit on one read ahead, which the cursor keeps outside the cache: at most 256 KiB. A
    /// larger block is read alone. Without `readahead` this memory comes from the
    /// [`Allowance`](crate::Allowance) of scans; while that is exhausted, blocks are read one at a
    /// time.
    pub ahead_bytes: u64,
}

impl CursorOptions {
    /// For scans: fills the cache, and reads ahead once the scan proves long.
    pub const SCAN: Self =
        Self { fill_cache: true, use_cache: true, readahead: false, ahead_bytes: AHEAD_MAX };
    /// For compactions: leaves the cache unchanged, and reads ahead from the first block on.
    pub const COMPACTION: Self =
        Self { fill_cache: false, use_cache: true, readahead: true, ahead_bytes: AHEAD_MAX };

    /// Returns these options for one of `cursors` that read ahead at the same time: together they
    /// keep about 4 MiB, and each also a block or two.
    #[must_use]
    pub fn shared_by(self, cursors: usize) -> Self {
        let share = (4 << 20) / cursors.max(1) as u64;
        Self { ahead_bytes: share.clamp(AHEAD_MIN, AHEAD_MAX), ..self }
    }
}

/// What follows in the block of a cursor: see [`TableCursor::next_near`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// The entry of a larger key, which the cursor is on now.
    Key,
    /// An older entry of the same key, which the cursor is on now.
    Version,
    /// No entry. The cursor has not moved.
    None,
}

/// Stored blocks that were read ahead.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    /// The file offset of `bytes`.
    offset: u64,
    /// The last block missed, the misses before it and the bytes read for the row of blocks that
    /// ends with it, and whether that row goes backwards.
    last_missed: Option<usize>,
    row_misses: u32,
    row_bytes: u64,
    is_back: bool,
}

/// A positioned reader of one table, in both directions. It shares ownership of its table. It is
/// not valid before the first seek and after an error.
pub struct TableCursor {
    table: Arc<Table>,
    options: CursorOptions,
    ahead: Ahead,
    /// The part of the index that the cursor is in, if the index is in parts.
    nearby: Nearby,
    /// The bytes of `ahead` that are counted in the allowance of scans.
    ahead_charged: u64,
    /// The current block and its number.
    block: Option<Block>,
    number: usize,
    index: usize,
    valid: bool,
    key: Vec<u8>,
    /// The number of bytes of `key` that come from the key of the restart `restart`.
    restart_bytes: usize,
    restart: usize,
    trailer: Trailer,
    value: Range<usize>,
}

impl Table {
    /// Returns a cursor over the entries, which is not yet positioned.
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
    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.valid = false;
        if self.table.index.count() == 0 {
            return Ok(());
        }
        self.enter(0)?;
        self.move_to(0)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.valid = false;
        match self.table.index.count().checked_sub(1) {
            Some(last) => self.enter_at_end(last),
            None => Ok(()),
        }
    }

    /// Moves to the first entry at or after (`key`, `at`) in the order of entries: the newest entry
    /// of `key` that a reader at `at` sees, or the first entry of a larger key.
    pub fn seek(&mut self, key: &[u8], at: SeqNo) -> Result<()> {
        self.valid = false;
        if self.table.index.count() == 0 {
            return Ok(());
        }
        let cache_use = self.cache_use();
        let Some(number) = self.table.find(&mut self.nearby, key, at, cache_use)? else {
            return self.seek_first();
        };
        self.enter(number)?;
        let (index, count) = self.lower_bound(key, at)?;
        if index < count {
            return self.move_to(index);
        }
        if number + 1 < self.table.index.count() {
            self.enter(number + 1)?;
            // The next block begins after `key`, or with `key` at or before `at`.
            return self.move_to(0);
        }
        Ok(())
    }

    /// Moves to the last entry whose key is below `key`: the oldest version of that key.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.valid = false;
        let cache_use = self.cache_use();
        let Some(number) = self.table.find_before(&mut self.nearby, key, cache_use)? else {
            return Ok(());
        };
        self.enter(number)?;
        let (index, _count) = self.lower_bound(key, SeqNo::MAX)?;
        match index.checked_sub(1) {
            Some(before) => self.move_to(before),
            None if number > 0 => self.enter_at_end(number - 1),
            None => Ok(()),
        }
    }

    /// Moves to the next entry. After the last entry the cursor is not valid.
    #[expect(clippy::should_implement_trait, reason = "a fallible cursor is no iterator")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        let next = self.index + 1;
        if self.block.as_ref().is_some_and(|block| next < block.count()) {
            return self.move_to(next);
        }
        self.valid = false;
        if self.number + 1 < self.table.index.count() {
            interrupt::check()?;
            self.enter(self.number + 1)?;
            return self.move_to(0);
        }
        Ok(())
    }

    /// Moves to the previous entry. Before the first entry the cursor is not valid.
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid {
            return Ok(());
        }
        if let Some(before) = self.index.checked_sub(1) {
            return self.move_to(before);
        }
        self.valid = false;
        match self.number.checked_sub(1) {
            Some(number) => {
                interrupt::check()?;
                self.enter_at_end(number)
            }
            None => Ok(()),
        }
    }

    /// Moves to the next entry if it is in the current block. An entry that cannot be parsed counts
    /// as none: [`TableCursor::next`] returns its error.
    #[inline]
    pub fn next_near(&mut self) -> Near {
        let index = self.index + 1;
        let Some(block) = self.block.as_ref().filter(|block| self.valid && index < block.count())
        else {
            return Near::None;
        };
        // The two forms are not joined into one result: it would go through memory, and the
        // processor would wait for it.
        match block.parse_short(index) {
            Some(parsed) => self.pass(index, &parsed),
            None => self.next_near_any(index),
        }
    }

    /// As [`TableCursor::next_near`], to an entry of any form.
    #[inline(never)]
    fn next_near_any(&mut self, index: usize) -> Near {
        let parsed = self.block.as_ref().and_then(|block| block.parse_any(index).ok());
        parsed.map_or(Near::None, |parsed| self.pass(index, &parsed))
    }

    /// Moves to entry `index` of the current block, the next one.
    #[inline(always)]
    fn pass(&mut self, index: usize, parsed: &Parsed) -> Near {
        let Some(block) = &self.block else { return Near::None };
        let kept = self.kept(block, index);
        let Ok(front) = front(block, index, parsed, kept) else { return Near::None };
        let is_version = has_key(&self.key, block, parsed, front);
        assemble(&mut self.key, block, parsed, front);
        let restart = block.restart_of(index);
        self.settle(index, restart, parsed);
        if is_version { Near::Version } else { Near::Key }
    }

    /// Returns whether the cursor is on an entry.
    #[inline]
    pub const fn valid(&self) -> bool {
        self.valid
    }

    /// The current entry. Meaningless unless [`TableCursor::valid`].
    #[inline]
    pub fn entry(&self) -> EntryRef<'_> {
        let value = match &self.block {
            Some(block) if self.valid => &block.bytes()[self.value.clone()],
            _ => &[],
        };
        EntryRef { key: &self.key, trailer: self.trailer, value }
    }

    /// The value of the current entry, which shares the memory of its block.
    #[inline]
    pub fn value(&self) -> Slice {
        match &self.block {
            Some(block) if self.valid => block.slice(self.value.clone()),
            _ => Slice::default(),
        }
    }

    /// The file offset of the block of the current entry.
    pub fn block_offset(&self) -> u64 {
        self.table.offset_of(self.number)
    }

    /// The table of this cursor.
    pub const fn table(&self) -> &Arc<Table> {
        &self.table
    }

    const fn cache_use(&self) -> CacheUse {
        if self.options.fill_cache { CacheUse::Fill } else { CacheUse::Leave }
    }

    /// Bytes of the current block.
    pub fn block_bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |block| block.bytes().len() as u64)
    }

    /// Releases the current block if it is huge, and keeps the position: until
    /// [`TableCursor::reload_block`] the entry has no value, and only a seek moves the cursor.
    /// Returns whether a block is released.
    pub fn release_block(&mut self) -> bool {
        let _huge = self.block.take_if(|block| self.valid && block.bytes().len() >= HUGE_BLOCK);
        self.valid && self.block.is_none()
    }

    /// Reads the block again that [`TableCursor::release_block`] released.
    ///
    /// # Errors
    /// Corruption; any error of reading the file. The cursor is then not valid.
    pub fn reload_block(&mut self) -> Result<()> {
        if !self.valid || self.block.is_some() {
            return Ok(());
        }
        let index = self.index;
        self.enter(self.number)?;
        self.move_to(index)
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

    /// Makes block `number` the current one, without an entry.
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
        self.move_to(last)
    }

    /// Moves to entry `index` of the current block and assembles its key.
    #[inline]
    fn move_to(&mut self, index: usize) -> Result<()> {
        self.valid = false;
        let Some(block) = &self.block else {
            return Ok(());
        };
        let (restart, kept) = (block.restart_of(index), self.kept(block, index));
        let found = block.parse(index).and_then(|parsed| {
            let front = front(block, index, &parsed, kept)?;
            assemble(&mut self.key, block, &parsed, front);
            Ok(parsed)
        });
        match found {
            Ok(parsed) => {
                self.settle(index, restart, &parsed);
                Ok(())
            }
            Err(wrong) => {
                self.restart = usize::MAX;
                Err(self.table.wrong_in_block(self.number, wrong))
            }
        }
    }

    /// Returns how many leading bytes of the key come from the restart of entry `index`, if it is
    /// that of the current entry.
    #[inline]
    fn kept(&self, block: &Block, index: usize) -> Option<usize> {
        (self.restart == block.restart_of(index)).then_some(self.restart_bytes)
    }

    /// Makes entry `index`, whose key is assembled, the current one.
    #[inline]
    fn settle(&mut self, index: usize, restart: usize, parsed: &Parsed) {
        self.restart = restart;
        self.restart_bytes = if index == restart { self.key.len() } else { parsed.shared as usize };
        self.index = index;
        self.trailer = parsed.trailer;
        self.value = parsed.value();
        self.valid = true;
    }

    /// Reads block `number` from the file, and the blocks beyond it if this miss continues a row.
    #[cold]
    fn read(&mut self, number: usize) -> Result<Block> {
        let cache_use = self.cache_use();
        let index = self.table.index_of(&mut self.nearby, number, cache_use)?;
        let handle = index.handle(number);
        self.ahead.note(number);
        if let Some(stored) = self.ahead.part(handle.offset, handle.len) {
            let block = self.table.open_stored(number, handle.offset, stored, cache_use);
            return block.inspect_err(|_| self.ahead.bytes.clear());
        }
        let most = self.options.ahead_bytes;
        let wanted = if self.options.readahead {
            most
        } else if self.ahead.row_misses >= ALONE {
            self.ahead.row_bytes.max(AHEAD_MIN).min(most)
        } else {
            0
        };
        // Whole blocks only, about `wanted` bytes besides this one, and only blocks of this part of
        // the index.
        let reach = wanted + handle.len / 2;
        let (start, end) = if self.ahead.is_back {
            let end = handle.offset + handle.len;
            (index.start_within(number, end.saturating_sub(reach)), end)
        } else {
            (handle.offset, index.end_within(number, handle.offset + reach))
        };
        self.ahead.row_bytes += end - start;
        let is_alone = end - start == handle.len && !self.options.readahead;
        if is_alone
            || handle.len >= most
            || !may_hold(self.table.scans(), &mut self.ahead_charged, end - start, self.options)
        {
            return self.table.read_block(index, number, cache_use);
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
            self.table.open_stored(number, handle.offset, stored, cache_use)
        });
        block.inspect_err(|_| self.ahead.bytes.clear())
    }
}

/// Returns whether `len` bytes may be read ahead, and if so counts them; `charged` is the number of
/// bytes counted already.
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
    /// Records a miss of block `number`, which continues the row of the last miss or begins a new
    /// row.
    fn note(&mut self, number: usize) {
        let last = self.last_missed.replace(number);
        let is_back = last.is_some_and(|last| number < last);
        let follows = last.is_some_and(|last| (1..=STEP_MAX).contains(&last.abs_diff(number)));
        if follows && is_back == self.is_back {
            self.row_misses = self.row_misses.saturating_add(1);
        } else {
            (self.row_misses, self.row_bytes) = (0, 0);
        }
        self.is_back = is_back && follows;
    }

    /// Returns the `len` bytes at `offset` if all of them were read.
    fn part(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.bytes.get(start..end)
    }
}

/// Returns the first bytes of the key of entry `index`, which it shares with that of its restart;
/// `None` if the key of the cursor begins with them. `kept` is the number of bytes that this one
/// shares with that of the same restart.
#[inline]
fn front<'a>(
    block: &'a Block,
    index: usize,
    parsed: &Parsed,
    kept: Option<usize>,
) -> Result<Option<&'a [u8]>, Malformed> {
    let shared = parsed.shared as usize;
    match kept {
        Some(kept) if shared <= kept => Ok(None),
        _ => block.shared(index, shared).map(Some),
    }
}

/// Returns whether an entry has the key `key`. If it has no `front`, it shares its first bytes.
#[inline]
fn has_key(key: &[u8], block: &Block, parsed: &Parsed, front: Option<&[u8]>) -> bool {
    let (shared, suffix) = (parsed.shared as usize, parsed.suffix());
    key.len() == shared + suffix.len()
        && same(&block.bytes()[suffix], &key[shared..])
        && front.is_none_or(|front| same(front, &key[..shared]))
}

/// Sets `key` to the key of an entry. If it has no `front`, `key` begins with its first bytes.
#[inline]
fn assemble(key: &mut Vec<u8>, block: &Block, parsed: &Parsed, front: Option<&[u8]>) {
    match front {
        None => key.truncate(parsed.shared as usize),
        Some(front) => {
            key.clear();
            key.extend_from_slice(front);
        }
    }
    let suffix = parsed.suffix();
    match block.bytes()[suffix.start..].first_chunk::<SUFFIX_SHORT>() {
        // A copy of fixed length needs no call. The bytes after the suffix are removed again.
        Some(bytes) if suffix.len() <= SUFFIX_SHORT => {
            let len = key.len() + suffix.len();
            key.extend_from_slice(bytes);
            key.truncate(len);
        }
        _ => key.extend_from_slice(&block.bytes()[suffix]),
    }
}
