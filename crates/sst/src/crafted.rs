//! Tests that tables crafted to take much memory take no more than a fixed multiple of their file.
//!
//! An index of a few hundred KB once took 2 GiB when it was opened (each separator was stored
//! whole, 64 KiB for five bytes), and a compressed section of range deletes, small in the file,
//! took seven.

use crate::builder::TableBuilder;
use crate::cache::BlockCache;
use crate::format::{Footer, TableLabel, encode_header, seal_block};
use crate::index_builder::IndexSection;
use crate::options::{BuilderOptions, TableIdent};
use crate::properties::{Handle, Properties, Sections};
use crate::table::Table;
use flagstone_base::checksum::crc32c_of_parts;
use flagstone_base::codec::{put_bytes, put_u32, put_varint};
use flagstone_base::{Compression, DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::{Disk, MemDisk};
use flagstone_testkit::memory::{Counting, peak};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

#[global_allocator]
static COUNTING: Counting = Counting;

const IDENT: TableIdent =
    TableIdent { database: DatabaseId([7; 16]), number: FileNumber(42), salt: 0 };

/// A crafted file while it is built.
struct Crafted {
    bytes: Vec<u8>,
    sections: Sections,
}

impl Crafted {
    /// Begins a file with `data` in place of its data blocks.
    fn new(data: &[u8]) -> Self {
        let mut bytes = encode_header(IDENT);
        bytes.extend_from_slice(data);
        Self { bytes, sections: Sections::default() }
    }

    fn section(&mut self, raw: &[u8], compression: Compression) -> Handle {
        let (offset, mut stored) = (self.bytes.len() as u64, Vec::new());
        seal_block(raw, compression, IDENT, offset, &mut stored);
        self.bytes.extend_from_slice(&stored);
        Handle { offset, len: stored.len() as u64 }
    }

    /// Adds an index of blocks with these lengths and separators, the latter as (shared, suffix).
    fn index(&mut self, blocks: &[(u64, usize, Vec<u8>)]) {
        let mut raw = Vec::new();
        put_varint(&mut raw, blocks.len() as u64);
        put_varint(&mut raw, encode_header(IDENT).len() as u64);
        put_varint(&mut raw, 0);
        for (len, shared, suffix) in blocks {
            put_varint(&mut raw, *len);
            put_varint(&mut raw, *shared as u64);
            put_bytes(&mut raw, suffix);
        }
        self.sections.index = Some(self.section(&raw, Compression::None));
    }

    /// Adds an index of the one part `part`. The top records `blocks` blocks of `bytes` bytes for
    /// it.
    fn index_part(&mut self, part: &[u8], blocks: u32, bytes: u64) {
        let part = self.section(part, Compression::None);
        let (mut section, mut top) = (IndexSection::default(), Vec::new());
        section.add(part.len, b"k", None);
        put_bytes(&mut top, &section.encode(part.offset));
        put_varint(&mut top, blocks.into());
        put_varint(&mut top, bytes);
        self.sections.index = Some(self.section(&top, Compression::None));
        self.sections.index_parts = Some(part);
    }

    /// Returns the whole file, with `data_blocks` in its properties and `tail_offset` in its
    /// footer.
    fn finish(mut self, data_blocks: u64, tail_offset: u64) -> Vec<u8> {
        let properties = Properties {
            data_blocks,
            data_bytes_raw: u64::MAX,
            block_bytes_max: u64::MAX,
            sections: self.sections,
            ..Properties::default()
        };
        let mut raw = Vec::new();
        properties.encode(&mut raw);
        let properties = self.section(&raw, Compression::None);
        let label = TableLabel::new(IDENT, 0);
        self.bytes.extend_from_slice(&Footer { properties, tail_offset, label }.encode());
        self.bytes
    }
}

/// Opens a crafted file and runs `reads` on it. Returns the result and the peak memory.
fn memory_of<T>(file: &[u8], reads: impl FnOnce(&Arc<Table>) -> Result<T>) -> (Result<T>, usize) {
    memory_in(0, file, reads)
}

fn memory_in<T>(
    cache_bytes: u64,
    file: &[u8],
    reads: impl FnOnce(&Arc<Table>) -> Result<T>,
) -> (Result<T>, usize) {
    let (disk, path) = (MemDisk::default(), Path::new("/000042.sst"));
    disk.put_content(path, file);
    let cache = BlockCache::new(cache_bytes);
    let (done, bytes) = peak(|| reads(&Table::open(disk.open(path)?, IDENT, None, &cache)?));
    (done, bytes.unwrap())
}

fn corruption<T>(done: Result<T>) -> Error {
    let error = done.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error:?}");
    error
}

#[test]
fn separators_of_64_kib_each_take_what_they_take_on_disk() {
    let count = 50_000;
    let mut crafted = Crafted::new(&vec![1; count]);
    let mut blocks = vec![(1, 0, vec![0]), (1, 0, vec![b'k'; 65_535])];
    blocks.resize(count, (1, 65_535, Vec::new()));
    crafted.index(&blocks);
    let file = crafted.finish(count as u64, (64 + count) as u64);
    let find = |table: &Arc<Table>| {
        assert!(table.resident_bytes() < 20 * file.len() as u64, "{}", table.resident_bytes());
        // The first block is found, and is not a block.
        table.get(&[b'k'; 65_535], 1, SeqNo::MAX, &mut |_, _| ControlFlow::Continue(()))
    };
    let (found, bytes) = memory_of(&file, find);
    let text = corruption(found).to_string();
    assert!(text.contains("000042.sst") && text.contains("block"), "{text}");
    assert!(bytes < 20 * file.len(), "{bytes} bytes for {}", file.len());
}

#[test]
fn a_part_of_an_index_that_does_not_match_its_top_takes_little_memory() {
    let get =
        |table: &Arc<Table>| table.get(b"kk", 1, SeqNo::MAX, &mut |_, _| ControlFlow::Continue(()));
    // Two thousand million blocks of one byte each would take 48 GB.
    for (blocks, told) in [(7, 900), ((1 << 31) - 1, 900), (u32::MAX, 900), (0, 900), (7, u64::MAX)]
    {
        let mut crafted = Crafted::new(&[1; 900]);
        let mut part = IndexSection::default();
        (0..9).for_each(|_| part.add(100, b"k", None));
        crafted.index_part(&part.encode(64), blocks, told);
        let parts = crafted.sections.index_parts.unwrap();
        let file = crafted.finish(blocks.into(), parts.offset + parts.len);
        for cache_bytes in [0, 1 << 20, 1 << 40] {
            let (read, bytes) = memory_in(cache_bytes, &file, get);
            let text = corruption(read).to_string();
            assert!(text.contains("000042.sst") && text.contains("offset "), "{text}");
            assert!(bytes < 1 << 20, "{bytes} bytes for {}", file.len());
        }
    }
}

#[test]
fn a_part_of_an_index_may_not_be_long() {
    let mut crafted = Crafted::new(&[1; 900]);
    crafted.index_part(&vec![0; 8 << 20], 9, 900);
    let parts = crafted.sections.index_parts.unwrap();
    let file = crafted.finish(9, parts.offset + parts.len);
    for cache_bytes in [0, 1 << 30] {
        let (opened, bytes) = memory_in(cache_bytes, &file, |_| Ok(()));
        corruption(opened);
        assert!(bytes < 1 << 20, "{bytes} bytes");
    }
}

#[test]
fn range_deletes_take_what_is_stored_of_them_while_they_are_read_and_nothing_afterwards() {
    let count = 3_000_000_u64;
    let mut raw = Vec::new();
    put_varint(&mut raw, count);
    (0..count).for_each(|_| raw.extend_from_slice(&[1, 0, 1, b'a']));
    for compression in [Compression::Zstd(1), Compression::Lz4] {
        let mut crafted = Crafted::new(&[]);
        crafted.sections.range_deletes = Some(crafted.section(&raw, compression));
        crafted.index(&[]);
        let file = crafted.finish(0, 64);
        assert!(file.len() < raw.len() / 100);
        let (opened, bytes) = memory_of(&file, |_| Ok(()));
        corruption(opened);
        assert!(bytes < 4 * file.len(), "{bytes} bytes for {}", file.len());
    }
    let mut crafted = Crafted::new(&[]);
    crafted.sections.range_deletes = Some(crafted.section(&raw, Compression::None));
    crafted.index(&[]);
    let file = crafted.finish(0, 64);
    let (opened, bytes) = memory_of(&file, |table| {
        assert!(table.resident_bytes() < 4096, "{} of an open table", table.resident_bytes());
        table.range_deletes().map(|ranges| ranges.count())
    });
    assert_eq!(opened.unwrap(), count);
    assert!(bytes < file.len() * 5 / 4, "{bytes} bytes for {}", file.len());
}

#[test]
fn a_builder_holds_the_bytes_of_its_range_deletes_and_no_more() {
    let count = 20_000_u64;
    let disk = MemDisk::default();
    let file = disk.create(Path::new("/000042.sst")).unwrap();
    let mut builder = TableBuilder::new(file, IDENT, BuilderOptions::default()).unwrap();
    let add = || {
        for n in 0..count {
            let [start, end] = [8 * n, 8 * n + 4].map(|n| format!("key{n:013}"));
            builder.add_range_delete(start.as_bytes(), end.as_bytes(), SeqNo::new(n + 1)).unwrap();
        }
    };
    let ((), bytes) = peak(add);
    // 37 bytes each. While the buffer grows to twice its size, it exists twice for a moment.
    assert!(bytes.unwrap() as u64 <= 3 * 40 * count, "{bytes:?}");
    assert_eq!(builder.finish().unwrap().range_deletes, count);
}

#[test]
fn attachments_are_not_read_by_opening_and_take_little_when_they_are() {
    let mut crafted = Crafted::new(&[]);
    crafted.sections.attachments = Some(crafted.section(&vec![0; 200 << 20], Compression::Zstd(1)));
    crafted.index(&[]);
    let file = crafted.finish(0, 64);
    let (opened, bytes) = memory_of(&file, |_| Ok(()));
    opened.unwrap();
    assert!(bytes < 8 * file.len(), "{bytes} bytes for {}", file.len());
    let (read, bytes) = memory_of(&file, |table| table.attachments());
    corruption(read);
    assert!(bytes < 8 * file.len(), "{bytes} bytes for {}", file.len());
}

#[test]
fn a_block_that_cannot_be_as_long_as_it_says_gets_no_memory() {
    for tag in [Compression::Lz4.tag(), Compression::Zstd(1).tag()] {
        let mut block = vec![5; 40];
        put_u32(&mut block, 500 << 20);
        block.push(tag);
        let place = [&[7; 16][..], &42_u64.to_le_bytes(), &64_u64.to_le_bytes()].concat();
        let crc = crc32c_of_parts(&[&place, &block]);
        put_u32(&mut block, crc);
        let mut crafted = Crafted::new(&block);
        crafted.index(&[(block.len() as u64, 0, b"k".to_vec())]);
        let file = crafted.finish(1, 64 + block.len() as u64);
        let (read, bytes) = memory_of(&file, |table| {
            table.get(b"k", 1, SeqNo::MAX, &mut |_, _| ControlFlow::Continue(()))
        });
        let text = corruption(read).to_string();
        assert!(text.contains("raw length within its bounds"), "{text}");
        assert!(bytes < 64 << 10, "{bytes} bytes");
    }
}
