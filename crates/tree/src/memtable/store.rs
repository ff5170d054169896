//! Keys and their versions in an arena, found through a hash table of addresses.
//!
//! ```text
//! slot, u64 (0 = free):   hash : 32  |  address of the key : 32
//! key, aligned to 8:      newest version u32 (atomic) | key length u16 | tally u16 | key bytes
//! ```
//!
//! Everything except the atomic link is written before its address is published and never changes.
//! So readers take no lock: each link is stored with Release and loaded with Acquire. Only the
//! writer uses the tally (`shortcuts.rs`). `versions.rs` describes versions.
//!
//! To grow, the writer publishes a table four times as large. Old tables stay readable until the
//! memtable is dropped: a reader of an old table misses only keys that were added after it began.

use super::versions::{KeyAt, Linked, StoredVersion, Versions, write_version};
use crate::arena::{Bump, ChunkPool};
use flagstone_base::bytes::same;
use flagstone_env::memory::{HUGE_PAGE_BYTES, Pages};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ops::Deref;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const KEY_HEADER: usize = 8;
/// The fewest slots of a table: 8 KiB.
const SLOTS_MIN: usize = 1 << 10;
const TABLES: usize = 14;

/// The keys and versions of one memtable.
pub(super) struct Store {
    /// The keys and versions themselves.
    pub(super) versions: Versions,
    tables: [OnceLock<Slots>; TABLES],
    /// The number of tables. The last one is current.
    tables_len: AtomicUsize,
    tables_bytes: AtomicU64,
}

/// The slots of a table.
enum Slots {
    Allocated(Box<[AtomicU64]>),
    /// Whole huge pages: every lookup reads another place.
    Mapped(Pages),
}

/// The size of a memtable, actual or expected.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemtableSize {
    pub(crate) keys: usize,
    /// Bytes of memory.
    pub(crate) bytes: u64,
}

/// The writer's part of a store. The memtable's lock guards it.
#[derive(Default)]
pub(super) struct StoreWriter {
    bump: Bump,
    keys: usize,
    /// The number of slots of the first table.
    slots_first: usize,
}

impl StoreWriter {
    /// Creates a writer for a store of about this size: no table is copied until there are more
    /// keys.
    pub(super) fn expecting(size: MemtableSize) -> Self {
        let slots_first = size.keys.saturating_mul(2).next_power_of_two();
        let slots_first = slots_first.clamp(SLOTS_MIN, 1 << 20);
        Self { bump: Bump::expecting(size.bytes), slots_first, keys: 0 }
    }

    pub(super) const fn bump(&mut self) -> &mut Bump {
        &mut self.bump
    }

    pub(super) const fn keys(&self) -> usize {
        self.keys
    }
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            versions: Versions::new(),
            tables: [const { OnceLock::new() }; TABLES],
            tables_len: AtomicUsize::new(0),
            tables_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes of chunks and tables.
    pub(super) fn bytes(&self) -> u64 {
        self.versions.arena.bytes() + self.tables_bytes.load(Ordering::Relaxed)
    }

    fn table(&self) -> Option<&[AtomicU64]> {
        let len = self.tables_len.load(Ordering::Acquire);
        self.tables[len.checked_sub(1)?].get().map(|table| &**table)
    }

    /// Returns the place of `key`, whose remixed hash is `hash`.
    #[inline]
    pub(super) fn find(&self, key: &[u8], hash: u64) -> Option<KeyAt> {
        let table = self.table()?;
        let tag = hash >> 32;
        let mask = table.len() - 1;
        let mut place = tag as usize & mask;
        loop {
            let slot = table[place].load(Ordering::Acquire);
            if slot == 0 {
                return None;
            }
            if slot >> 32 == tag {
                let at = KeyAt(slot as u32);
                // The value follows the key, so its cache lines arrive while the key is compared.
                self.prefetch(at);
                if same(self.key(at), key) {
                    return Some(at);
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// The bytes of the key at `at`.
    #[inline]
    pub(super) fn key(&self, at: KeyAt) -> &[u8] {
        // SAFETY: this store made `at`, published it with Release, and it was read with Acquire.
        let pointer = unsafe { self.versions.arena.pointer(at.0) };
        // SAFETY: a key header is at this address, written before the address was published.
        let len = unsafe { pointer.add(4).cast::<u16>().read() };
        // SAFETY: the key's bytes follow the header and never change.
        unsafe { std::slice::from_raw_parts(pointer.add(KEY_HEADER), usize::from(len)) }
    }

    /// Prefetches the key at `at`, which will be read soon.
    #[inline]
    pub(super) fn prefetch(&self, at: KeyAt) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: this store made `at`, as in `key`.
            let pointer = unsafe { self.versions.arena.pointer(at.0) };
            for line in 0..3 {
                let place = pointer.cast::<i8>().wrapping_add(64 * line);
                // SAFETY: a prefetch reads nothing, wherever it points.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }

    /// Adds a version of `key`, which replaces an earlier version with the same SeqNo. Returns
    /// `None` if the arena has no addresses left.
    pub(super) fn insert(
        &self,
        writer: &mut StoreWriter,
        pool: &ChunkPool,
        key: &[u8],
        hash: u64,
        version: StoredVersion<'_>,
    ) -> Option<Inserted> {
        if let Some(at) = self.find(key, hash) {
            let room = version.room();
            let (address, pointer) = self.versions.arena.allocate(&mut writer.bump, pool, room)?;
            // SAFETY: the memory was just allocated for the version.
            unsafe { write_version(pointer.as_ptr(), version) };
            let linked = self.versions.link(at, version.trailer.seqno(), address);
            return Some(Inserted { at, is_new: false, linked });
        }
        self.make_room(writer);
        let key_room = (KEY_HEADER + key.len()).next_multiple_of(8);
        let version_room = version.room();
        let room = key_room + version_room;
        // A value of 512 KiB or more gets a chunk of its own, where only the start has an address,
        // so key and version must not share it.
        let shared = room <= 64 << 10;
        let first = if shared { room } else { key_room };
        let (address, pointer) = self.versions.arena.allocate(&mut writer.bump, pool, first)?;
        let (newest, place) = if shared {
            // SAFETY: the version's memory follows the key's, in the same allocation.
            (address + (key_room / 8) as u32, unsafe { pointer.as_ptr().add(key_room) })
        } else {
            let (newest, place) =
                self.versions.arena.allocate(&mut writer.bump, pool, version_room)?;
            (newest, place.as_ptr())
        };
        // SAFETY: `place` has the room of the version.
        unsafe { write_version(place, version) };
        // SAFETY: `pointer` has space for a key header and the key, and no reader knows it yet.
        unsafe { write_key(pointer.as_ptr(), newest, key) };
        if let Some(table) = self.table() {
            claim(table, hash >> 32 << 32 | u64::from(address));
        }
        writer.keys += 1;
        let linked = Linked { is_newest: true, has_replaced: false };
        Some(Inserted { at: KeyAt(address), is_new: true, linked })
    }

    /// Publishes a larger table if the current one is more than 5/8 full.
    fn make_room(&self, writer: &StoreWriter) {
        let slots = self.table().map_or(0, <[AtomicU64]>::len);
        let len = self.tables_len.load(Ordering::Relaxed);
        if writer.keys < slots / 8 * 5 || len == TABLES {
            return;
        }
        let table = Slots::zeroed((slots * 4).max(writer.slots_first.max(SLOTS_MIN)));
        if let Some(old) = self.table() {
            for slot in old.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|&s| s != 0) {
                claim(&table, slot);
            }
        }
        self.tables_bytes.fetch_add(size_of_val(&*table) as u64, Ordering::Relaxed);
        let _never_set_before = self.tables[len].set(table);
        self.tables_len.store(len + 1, Ordering::Release);
    }

    /// Frees the store: its memory goes to the pool or the allocator.
    pub(super) fn give_back(&mut self, writer: &mut StoreWriter, pool: &ChunkPool) {
        self.versions.arena.give_back(&mut writer.bump, pool);
        self.tables_len = AtomicUsize::new(0);
    }
}

/// The result of [`Store::insert`].
pub(super) struct Inserted {
    pub(super) at: KeyAt,
    pub(super) is_new: bool,
    pub(super) linked: Linked,
}

/// Stores `slot` in the first free place from its hash on.
fn claim(table: &[AtomicU64], slot: u64) {
    let mask = table.len() - 1;
    let mut place = (slot >> 32) as usize & mask;
    while table[place].load(Ordering::Relaxed) != 0 {
        place = (place + 1) & mask;
    }
    table[place].store(slot, Ordering::Release);
}

impl Slots {
    /// Allocates `len` slots, at least `SLOTS_MIN`, all zero. The memory comes from the system
    /// untouched, so a large table costs only the pages that are used.
    fn zeroed(len: usize) -> Self {
        let Ok(layout) = Layout::array::<AtomicU64>(len) else {
            return Self::Allocated(Box::default());
        };
        if layout.size().is_multiple_of(HUGE_PAGE_BYTES)
            && let Some(pages) = Pages::new(layout.size())
        {
            return Self::Mapped(pages);
        }
        debug_assert!(len >= SLOTS_MIN);
        // SAFETY: `len` is at least SLOTS_MIN, so the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
        if start.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the memory has the layout of `len` AtomicU64, whose zero bytes are a valid value,
        // and comes from the global allocator, as Box requires.
        Self::Allocated(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) })
    }
}

impl Deref for Slots {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            Self::Allocated(slots) => slots,
            Self::Mapped(pages) => {
                let start = pages.start().cast::<AtomicU64>().as_ptr();
                let len = pages.bytes() / size_of::<AtomicU64>();
                // SAFETY: the pages are aligned and zeroed, live as long as `self`, and are used as
                // slots alone.
                unsafe { std::slice::from_raw_parts(start, len) }
            }
        }
    }
}

/// Writes a key and its header to `place`.
///
/// # Safety
/// `place` is aligned to 8, has space for the header and the key, and no reader knows it.
unsafe fn write_key(place: *mut u8, newest: u32, key: &[u8]) {
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<AtomicU32>().write(AtomicU32::new(newest)) };
    // SAFETY: as above; a key has at most 65,535 bytes.
    unsafe { place.add(4).cast::<[u16; 2]>().write([key.len() as u16, 0]) };
    // SAFETY: as above; fresh memory does not overlap the caller's key.
    unsafe { ptr::copy_nonoverlapping(key.as_ptr(), place.add(KEY_HEADER), key.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::hash::{key_hash, remix};
    use flagstone_base::{Kind, Moment, SeqNo, Trailer};

    fn version(seqno: u64, value: &[u8]) -> StoredVersion<'_> {
        StoredVersion::new(Trailer::new(SeqNo::new(seqno), Kind::Put), value, None)
    }

    fn hash(key: &[u8]) -> u64 {
        remix(key_hash(key, 7))
    }

    #[test]
    fn a_large_table_is_in_pages_and_as_zero_as_a_small_one() {
        for (len, is_mapped) in [(SLOTS_MIN, false), (1 << 18, true)] {
            let slots = Slots::zeroed(len);
            assert_eq!((slots.len(), matches!(slots, Slots::Mapped(_))), (len, is_mapped));
            // Miri would take minutes for all slots.
            let (step, claimed) = if cfg!(miri) { (1021, 50) } else { (1, len as u64 / 2) };
            let is_free = |slot: &&AtomicU64| slot.load(Ordering::Relaxed) == 0;
            assert!(slots.iter().step_by(step).all(|slot| is_free(&slot)));
            for n in 1..=claimed {
                claim(&slots, remix(n) << 32 | n);
            }
            let free = slots.iter().step_by(step).filter(is_free).count();
            let taken = len.div_ceil(step) - free;
            assert!(if cfg!(miri) { taken <= 50 } else { taken == len / 2 }, "{taken}");
        }
    }

    #[test]
    fn versions_are_chained_by_seqno_whatever_order_they_arrive_in() {
        let (store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::default();
        let mut replaced = 0;
        for seqno in [5_u64, 9, 1, 7, 7, 3] {
            let value = seqno.to_string();
            let (key, version) = (b"key", version(seqno, value.as_bytes()));
            let inserted = store.insert(&mut writer, &pool, key, hash(key), version).unwrap();
            replaced += usize::from(inserted.linked.has_replaced);
        }
        let at = store.find(b"key", hash(b"key")).unwrap();
        let mut chain = Vec::new();
        let mut place = store.versions.first(at);
        while let Some(version) = store.versions.version_at(place) {
            chain.push(version.trailer.seqno().get());
            place = store.versions.follow(place);
        }
        assert_eq!(chain, [9, 7, 5, 3, 1]);
        assert_eq!(replaced, 1);
        assert_eq!(writer.keys(), 1);
    }

    #[test]
    fn every_key_is_found_while_the_table_grows() {
        let (store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::default();
        let keys = if cfg!(miri) { 700_u32 } else { 50_000 };
        for i in 0..keys {
            let key = i.to_be_bytes();
            store.insert(&mut writer, &pool, &key, hash(&key), version(1, &key)).unwrap();
        }
        for i in 0..keys {
            let key = i.to_be_bytes();
            let at = store.find(&key, hash(&key)).unwrap();
            assert_eq!(store.versions.version_at(store.versions.first(at)).unwrap().value, key);
        }
        assert!(store.find(b"no", hash(b"no")).is_none());
    }

    /// Readers take no lock: they must see the bytes of every key and version that they can reach.
    /// Miri and ThreadSanitizer report a link that is published too weakly.
    #[test]
    fn readers_beside_a_writer_see_whole_keys_and_versions_while_the_table_grows() {
        let keys = if cfg!(miri) { 700_u32 } else { 20_000 };
        let (store, pool, visible) = (Store::new(), ChunkPool::new(0), AtomicU32::new(0));
        let read = |key: u32| {
            let key = key.to_be_bytes();
            let at = store.find(&key, hash(&key)).unwrap();
            assert_eq!(store.key(at), key);
            let (mut place, mut seqno) = (store.versions.first(at), u64::MAX);
            while let Some(version) = store.versions.version_at(place) {
                assert!(version.trailer.seqno().get() < seqno && version.value == key);
                seqno = version.trailer.seqno().get();
                place = store.versions.follow(place);
            }
            assert_eq!(seqno, 1, "the oldest version");
        };
        let reader = || loop {
            let seen = visible.load(Ordering::Acquire);
            if let Some(last) = seen.checked_sub(1) {
                [last, last / 2, last / 4].into_iter().for_each(read);
            }
            if seen == keys {
                return;
            }
            std::thread::yield_now();
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            let mut writer = StoreWriter::default();
            let mut insert = |key: u32, seqno| {
                let key = key.to_be_bytes();
                let version = version(seqno, &key);
                store.insert(&mut writer, &pool, &key, hash(&key), version).unwrap();
            };
            for key in 0..keys {
                insert(key, 1);
                visible.store(key + 1, Ordering::Release);
                insert(key / 2, u64::from(key) + 2);
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            drop(writer);
        });
    }

    #[test]
    fn versions_with_and_without_expiry_come_back() {
        let (store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::default();
        let (key, key_hash) = (b"key", key_hash(b"key", 7));
        let trailers = [
            Trailer::new(SeqNo::new(4), Kind::Put),
            Trailer::expiring(SeqNo::new(3), Moment::from_millis(5000)),
            Trailer::expiring(SeqNo::new(2), Moment::MAX),
            Trailer::new(SeqNo::new(1), Kind::Delete),
        ];
        for (trailer, value) in trailers.iter().zip([&b"v"[..], b"value", b"", b""]) {
            let version = StoredVersion::new(*trailer, value, Some(key_hash));
            store.insert(&mut writer, &pool, key, hash(key), version).unwrap();
        }
        let at = store.find(key, hash(key)).unwrap();
        let mut place = store.versions.first(at);
        for (trailer, value) in trailers.iter().zip([&b"v"[..], b"value", b"", b""]) {
            let version = store.versions.version_at(place).unwrap();
            assert_eq!((version.trailer, version.value), (*trailer, value));
            assert!(version.is_sound(key_hash));
            place = store.versions.follow(place);
        }
        assert!(place.is_end());
    }

    #[test]
    fn large_and_empty_values_come_back() {
        let (mut store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::expecting(MemtableSize { keys: 10, bytes: 0 });
        let sizes = [0, 1, 65_000, 66_000, 262_144, 3 << 20];
        for len in sizes {
            let (key, value) = (format!("k{len}"), vec![len as u8; len]);
            let key = key.as_bytes();
            store.insert(&mut writer, &pool, key, hash(key), version(1, &value)).unwrap();
        }
        for len in sizes {
            let key = format!("k{len}");
            let at = store.find(key.as_bytes(), hash(key.as_bytes())).unwrap();
            assert_eq!(
                store.versions.version_at(store.versions.first(at)).unwrap().value,
                vec![len as u8; len]
            );
        }
        store.give_back(&mut writer, &pool);
        assert!(store.find(b"k0", hash(b"k0")).is_none());
    }
}
