//! Keys and their versions in an arena, found through a hash table of addresses.
//!
//! ```text
//! slot, u64 (0 = free):   hash : 32  |  address of the key : 32
//! key, aligned to 8:      newest version u32 (atomic) | key length u16 | 0 u16 | key bytes
//! version, aligned to 8:  trailer u64 | older version u32 (atomic) | value length u32 | value
//! ```
//!
//! Everything but the two atomic links is written before its address is published and never
//! changes; links only ever lead to more. So readers take no lock: each link is stored with
//! Release and loaded with Acquire. The versions of a key are chained by SeqNo, newest first,
//! whatever order they arrive in.
//!
//! The table grows by publishing one four times as large; the old ones stay readable until the
//! memtable is dropped (a reader in one misses only keys that were added after it began).

use super::arena::{Arena, Bump, ChunkPool};
use flagstone_base::bytes::same;
use flagstone_base::{SeqNo, Trailer};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const KEY_HEADER: usize = 8;
const VERSION_HEADER: usize = 16;
/// The fewest slots of a table: 8 KiB.
const SLOTS_MIN: usize = 1 << 10;
const TABLES: usize = 14;

/// Where a key stands. Made only by the store it belongs to, used only with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyAt(u32);

impl KeyAt {
    pub(super) const fn to_u32(self) -> u32 {
        self.0
    }

    /// The place behind a number that [`KeyAt::to_u32`] gave, of the same store.
    pub(super) const fn from_u32(address: u32) -> Self {
        Self(address)
    }
}

/// The keys and versions of one memtable.
pub(super) struct Store {
    arena: Arena,
    tables: [OnceLock<Box<[AtomicU64]>>; TABLES],
    /// How many tables there are; the last one is current.
    tables_len: AtomicUsize,
    tables_bytes: AtomicU64,
}

/// How large a memtable is, or the next one of its tree is expected to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) keys: usize,
    /// Of memory.
    pub(crate) bytes: u64,
}

/// What only the writer needs; the memtable's lock guards it.
#[derive(Default)]
pub(super) struct StoreWriter {
    bump: Bump,
    keys: usize,
    /// How many slots the first table gets.
    slots_first: usize,
}

impl StoreWriter {
    /// A writer that expects about as much: no table is copied until there are more keys.
    pub(super) fn expecting(size: Size) -> Self {
        let slots_first = size.keys.saturating_mul(2).next_power_of_two();
        let slots_first = slots_first.clamp(SLOTS_MIN, 1 << 20);
        Self { bump: Bump::expecting(size.bytes), slots_first, keys: 0 }
    }

    pub(super) const fn keys(&self) -> usize {
        self.keys
    }
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            arena: Arena::new(),
            tables: [const { OnceLock::new() }; TABLES],
            tables_len: AtomicUsize::new(0),
            tables_bytes: AtomicU64::new(0),
        }
    }

    /// Memory held by chunks and tables.
    pub(super) fn bytes(&self) -> u64 {
        self.arena.bytes() + self.tables_bytes.load(Ordering::Relaxed)
    }

    fn table(&self) -> Option<&[AtomicU64]> {
        let len = self.tables_len.load(Ordering::Acquire);
        self.tables[len.checked_sub(1)?].get().map(|table| &**table)
    }

    /// The place of `key`, whose remixed hash is `hash`.
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
                // The value lies behind the key: its lines come while the key is compared.
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
        // SAFETY: `at` was made by this store, published with Release and read with Acquire.
        let pointer = unsafe { self.arena.pointer(at.0) };
        // SAFETY: a key header stands there, written before the address was published.
        let len = unsafe { pointer.add(4).cast::<u16>().read() };
        // SAFETY: the key's bytes stand behind the header and never change.
        unsafe { std::slice::from_raw_parts(pointer.add(KEY_HEADER), usize::from(len)) }
    }

    /// Asks the processor to fetch the key at `at`, which will be looked at soon.
    #[inline]
    pub(super) fn prefetch(&self, at: KeyAt) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: `at` was made by this store, as in `key`.
            let pointer = unsafe { self.arena.pointer(at.0) };
            for line in 0..3 {
                let place = pointer.cast::<i8>().wrapping_add(64 * line);
                // SAFETY: a prefetch reads nothing, wherever it points.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }

    /// Whether the version at `place` is the oldest of its key.
    pub(super) fn is_oldest(&self, place: VersionAt) -> bool {
        place.is_end() || self.older(place.0).load(Ordering::Acquire) == 0
    }

    /// The versions of the key at `at`, newest first.
    #[inline]
    pub(super) fn versions(&self, at: KeyAt) -> Versions<'_> {
        Versions { store: self, next: self.newest(at).load(Ordering::Acquire) }
    }

    fn newest(&self, at: KeyAt) -> &AtomicU32 {
        // SAFETY: as in `key`; the header begins with the link.
        unsafe { &*self.arena.pointer(at.0).cast::<AtomicU32>() }
    }

    fn older(&self, version: u32) -> &AtomicU32 {
        // SAFETY: `version` came out of a link of this store, so a version header stands there.
        unsafe { &*self.arena.pointer(version).add(8).cast::<AtomicU32>() }
    }

    #[inline]
    fn version(&self, address: u32) -> StoredVersion<'_> {
        // SAFETY: `address` came out of a link of this store, loaded with Acquire.
        let pointer = unsafe { self.arena.pointer(address) };
        // SAFETY: a version header stands there, written before the address was published.
        let trailer = unsafe { pointer.cast::<Trailer>().read() };
        // SAFETY: as above.
        let len = unsafe { pointer.add(12).cast::<u32>().read() };
        // SAFETY: the value's bytes stand behind the header and never change.
        let value =
            unsafe { std::slice::from_raw_parts(pointer.add(VERSION_HEADER), len as usize) };
        StoredVersion { trailer, value }
    }

    /// Adds a version of `key`; the key's place when it is new. One with the same SeqNo takes the
    /// place of the earlier one. `None` when the arena has no addresses left.
    pub(super) fn insert(
        &self,
        writer: &mut StoreWriter,
        pool: &ChunkPool,
        key: &[u8],
        hash: u64,
        (trailer, value): (Trailer, &[u8]),
    ) -> Option<Inserted> {
        if let Some(at) = self.find(key, hash) {
            let room = VERSION_HEADER + value.len();
            let (address, pointer) = self.arena.allocate(&mut writer.bump, pool, room)?;
            // SAFETY: the room was just allocated for a header and the value.
            unsafe { write_version(pointer.as_ptr(), trailer, value) };
            self.link(at, trailer.seqno(), address);
            return Some(Inserted { at, is_new: false });
        }
        self.make_room(writer);
        let key_room = (KEY_HEADER + key.len()).next_multiple_of(8);
        let room = key_room + VERSION_HEADER + value.len();
        // A value of 512 KiB or more goes to a chunk of its own, where only the start has an
        // address: key and version must not share it.
        let shared = room <= 64 << 10;
        let first = if shared { room } else { key_room };
        let (address, pointer) = self.arena.allocate(&mut writer.bump, pool, first)?;
        let (version, place) = if shared {
            // SAFETY: the version's room lies behind the key's, in the same allocation.
            (address + (key_room / 8) as u32, unsafe { pointer.as_ptr().add(key_room) })
        } else {
            let room = VERSION_HEADER + value.len();
            let (version, place) = self.arena.allocate(&mut writer.bump, pool, room)?;
            (version, place.as_ptr())
        };
        // SAFETY: `place` has room for a version header and the value.
        unsafe { write_version(place, trailer, value) };
        // SAFETY: `pointer` has room for a key header and the key, and nobody knows it yet.
        unsafe { write_key(pointer.as_ptr(), version, key) };
        if let Some(table) = self.table() {
            claim(table, hash >> 32 << 32 | u64::from(address));
        }
        writer.keys += 1;
        Some(Inserted { at: KeyAt(address), is_new: true })
    }

    /// Links the version at `address` into the chain of `at` before the first older one.
    fn link(&self, at: KeyAt, seqno: SeqNo, address: u32) {
        let mut link = self.newest(at);
        let mut next = link.load(Ordering::Acquire);
        while next != 0 && self.version(next).trailer.seqno() > seqno {
            link = self.older(next);
            next = link.load(Ordering::Acquire);
        }
        if next != 0 && self.version(next).trailer.seqno() == seqno {
            next = self.older(next).load(Ordering::Acquire);
        }
        self.older(address).store(next, Ordering::Relaxed);
        link.store(address, Ordering::Release);
    }

    /// Publishes a larger table when the current one is more than 5/8 full.
    fn make_room(&self, writer: &StoreWriter) {
        let slots = self.table().map_or(0, <[AtomicU64]>::len);
        let len = self.tables_len.load(Ordering::Relaxed);
        if writer.keys < slots / 8 * 5 || len == TABLES {
            return;
        }
        let table = zeroed_slots((slots * 4).max(writer.slots_first.max(SLOTS_MIN)));
        if let Some(old) = self.table() {
            for slot in old.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|&s| s != 0) {
                claim(&table, slot);
            }
        }
        self.tables_bytes.fetch_add(size_of_val(&*table) as u64, Ordering::Relaxed);
        let _never_set_before = self.tables[len].set(table);
        self.tables_len.store(len + 1, Ordering::Release);
    }

    /// Ends the store: its memory goes to the pool or the allocator.
    pub(super) fn give_back(&mut self, writer: &mut StoreWriter, pool: &ChunkPool) {
        self.arena.give_back(&mut writer.bump, pool);
        self.tables_len = AtomicUsize::new(0);
    }
}

/// What [`Store::insert`] did.
pub(super) struct Inserted {
    pub(super) at: KeyAt,
    pub(super) is_new: bool,
}

/// Puts `slot` into the first free place from its hash on.
fn claim(table: &[AtomicU64], slot: u64) {
    let mask = table.len() - 1;
    let mut place = (slot >> 32) as usize & mask;
    while table[place].load(Ordering::Relaxed) != 0 {
        place = (place + 1) & mask;
    }
    table[place].store(slot, Ordering::Release);
}

/// Zeroed memory comes from the system untouched: a large table costs its pages as they are used.
fn zeroed_slots(len: usize) -> Box<[AtomicU64]> {
    let Ok(layout) = Layout::array::<AtomicU64>(len) else { return Box::default() };
    // SAFETY: `len` is at least SLOTS_MIN, so the layout's size is not zero.
    let start = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
    if start.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory has the layout of `len` AtomicU64, whose zero bytes are a valid value,
    // and comes from the global allocator, as Box wants it.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start, len)) }
}

/// # Safety
/// `place` is aligned to 8, has room for the header and the value, and no reader knows it.
unsafe fn write_version(place: *mut u8, trailer: Trailer, value: &[u8]) {
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<Trailer>().write(trailer) };
    // SAFETY: as above.
    unsafe { place.add(8).cast::<AtomicU32>().write(AtomicU32::new(0)) };
    // SAFETY: as above; a value has at most 512 MiB.
    unsafe { place.add(12).cast::<u32>().write(value.len() as u32) };
    // SAFETY: as above; fresh memory does not overlap the caller's value.
    unsafe { ptr::copy_nonoverlapping(value.as_ptr(), place.add(VERSION_HEADER), value.len()) };
}

/// # Safety
/// `place` is aligned to 8, has room for the header and the key, and no reader knows it.
unsafe fn write_key(place: *mut u8, newest: u32, key: &[u8]) {
    // SAFETY: by the contract of this function.
    unsafe { place.cast::<AtomicU32>().write(AtomicU32::new(newest)) };
    // SAFETY: as above; a key has at most 65,535 bytes.
    unsafe { place.add(4).cast::<[u16; 2]>().write([key.len() as u16, 0]) };
    // SAFETY: as above; fresh memory does not overlap the caller's key.
    unsafe { ptr::copy_nonoverlapping(key.as_ptr(), place.add(KEY_HEADER), key.len()) };
}

/// One version of a key.
pub(super) struct StoredVersion<'a> {
    pub(super) trailer: Trailer,
    pub(super) value: &'a [u8],
}

/// The versions of a key, newest first.
pub(super) struct Versions<'a> {
    store: &'a Store,
    next: u32,
}

impl<'a> Versions<'a> {
    /// The place of the version that comes next; it outlives the borrow: [`Versions::resume`].
    pub(super) const fn place(&self) -> VersionAt {
        VersionAt(self.next)
    }

    /// Goes on at a place taken from an iterator over the same store.
    pub(super) const fn resume(store: &'a Store, place: VersionAt) -> Self {
        Self { store, next: place.0 }
    }
}

/// A place in a chain of versions; used only with the store it came from.
#[derive(Clone, Copy)]
pub(crate) struct VersionAt(u32);

impl VersionAt {
    /// Behind the last version.
    pub(crate) const END: Self = Self(0);

    /// Whether no version stands there.
    pub(crate) const fn is_end(self) -> bool {
        self.0 == 0
    }
}

impl<'a> Iterator for Versions<'a> {
    type Item = StoredVersion<'a>;

    #[inline]
    fn next(&mut self) -> Option<StoredVersion<'a>> {
        if self.next == 0 {
            return None;
        }
        let version = self.store.version(self.next);
        self.next = self.store.older(self.next).load(Ordering::Acquire);
        Some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::Kind;
    use flagstone_base::hash::{key_hash, remix};

    fn hash(key: &[u8]) -> u64 {
        remix(key_hash(key, 7))
    }

    #[test]
    fn versions_are_chained_by_seqno_whatever_order_they_arrive_in() {
        let (store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::default();
        for seqno in [5_u64, 9, 1, 7, 7, 3] {
            let trailer = Trailer::new(SeqNo::new(seqno), Kind::Put);
            let value = seqno.to_string();
            let key = b"key";
            store.insert(&mut writer, &pool, key, hash(key), (trailer, value.as_bytes())).unwrap();
        }
        let at = store.find(b"key", hash(b"key")).unwrap();
        let chain: Vec<u64> = store.versions(at).map(|v| v.trailer.seqno().get()).collect();
        assert_eq!(chain, [9, 7, 5, 3, 1]);
        assert_eq!(writer.keys(), 1);
    }

    #[test]
    fn every_key_is_found_while_the_table_grows() {
        let (store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::default();
        let keys = if cfg!(miri) { 2_000_u32 } else { 50_000 };
        let trailer = Trailer::new(SeqNo::new(1), Kind::Put);
        for i in 0..keys {
            let key = i.to_be_bytes();
            store.insert(&mut writer, &pool, &key, hash(&key), (trailer, &key)).unwrap();
        }
        for i in 0..keys {
            let key = i.to_be_bytes();
            let at = store.find(&key, hash(&key)).unwrap();
            assert_eq!(store.versions(at).next().unwrap().value, key);
        }
        assert!(store.find(b"no", hash(b"no")).is_none());
    }

    #[test]
    fn large_and_empty_values_come_back() {
        let (mut store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::expecting(Size { keys: 10, bytes: 0 });
        let trailer = Trailer::new(SeqNo::new(1), Kind::Put);
        let sizes = [0, 1, 65_000, 66_000, 262_144, 3 << 20];
        for len in sizes {
            let (key, value) = (format!("k{len}"), vec![len as u8; len]);
            let key = key.as_bytes();
            store.insert(&mut writer, &pool, key, hash(key), (trailer, &value)).unwrap();
        }
        for len in sizes {
            let key = format!("k{len}");
            let at = store.find(key.as_bytes(), hash(key.as_bytes())).unwrap();
            assert_eq!(store.versions(at).next().unwrap().value, vec![len as u8; len]);
        }
        store.give_back(&mut writer, &pool);
        assert!(store.find(b"k0", hash(b"k0")).is_none());
    }
}
