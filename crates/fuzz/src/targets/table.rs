//! A table: opened, read both ways, searched, verified, shown.

use super::{bounded, note};
use flagstone_base::hash::{key_hash, remix};
use flagstone_base::{
    Compression, DatabaseId, EntryRef, Error, ErrorKind, FileNumber, Kind, Result, SeqNo,
};
use flagstone_env::{Disk, MemDisk};
use flagstone_sst::{
    BlockCache, BuilderOptions, CursorOptions, InspectOptions, Table, TableBuilder, TableIdent,
    TableOptions, inspect,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const IDENT: TableIdent =
    TableIdent { database: DatabaseId([7; 16]), number: FileNumber(42), salt: 7 };
const PATH: &str = "/000042.sst";
/// The largest number of entries that are read in one direction.
const ENTRIES_MAX: usize = 2000;

fn refused(error: &Error) {
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()), "{error:?}");
    assert!(error.to_string().contains("000042.sst"), "no file in: {error}");
    note(error);
}

type Entry = (Vec<u8>, u64, Vec<u8>);

/// Returns the entries in one direction, and whether all were read.
fn walk(table: &Arc<Table>, is_back: bool) -> Result<(Vec<Entry>, bool)> {
    let mut cursor = table.cursor(CursorOptions::SCAN);
    if is_back {
        cursor.seek_last()?
    } else {
        cursor.seek_first()?
    }
    let mut entries = Vec::new();
    while cursor.valid() {
        if entries.len() == ENTRIES_MAX {
            return Ok((entries, false));
        }
        let entry = cursor.entry();
        entries.push((entry.key.to_vec(), entry.seqno().get(), entry.value.to_vec()));
        if is_back { cursor.prev()? } else { cursor.next()? }
    }
    Ok((entries, true))
}

fn get(table: &Table, key: &[u8], at: SeqNo) -> Result<Vec<Entry>> {
    let hash = remix(key_hash(key, table.properties().hash_seed));
    let mut found = Vec::new();
    table.get(key, hash, at, &mut |trailer, value| {
        found.push((key.to_vec(), trailer.seqno().get(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn read(table: &Arc<Table>) -> Result<()> {
    let verified = table.verify();
    let both = [walk(table, false), walk(table, true)];
    for entries in both.iter().flatten().map(|(entries, _)| entries) {
        for (key, seqno, _) in entries.iter().step_by(entries.len() / 8 + 1) {
            let _found = get(table, key, SeqNo::new(*seqno));
            let mut cursor = table.cursor(CursorOptions::COMPACTION);
            let _found = (cursor.seek(key, SeqNo::MAX), cursor.seek_before(key));
        }
    }
    for key in [&b""[..], b"k", b"key1", &[0xFF; 20]] {
        let _found = get(table, key, SeqNo::MAX);
    }
    let _shown = (table.to_string(), table.verify_stored());
    let _attached = bounded(table.bytes() as usize, 200, "attachments", || table.attachments());
    let verified = verified?;
    // In a table that verifies, both directions give the same entries, and every entry is found.
    let [forwards, backwards] = both;
    let ((forwards, is_all), (mut backwards, _)) = (forwards?, backwards?);
    if is_all {
        backwards.reverse();
        assert!(forwards == backwards, "a cursor backwards sees other entries");
        assert_eq!(forwards.len() as u64, verified.entries);
        let in_order = |pair: &[Entry]| (&pair[0].0, pair[1].1) < (&pair[1].0, pair[0].1);
        assert!(forwards.windows(2).all(in_order), "entries out of order");
        for entry in &forwards {
            let found = get(table, &entry.0, SeqNo::new(entry.1))?;
            assert_eq!(found.first(), Some(entry), "an entry is not found");
        }
    }
    note(format_args!("a table, {}", verified.range_deletes > 0));
    Ok(())
}

pub(super) fn body(bytes: &[u8]) {
    let disk = MemDisk::default();
    disk.put_content(Path::new(PATH), bytes);
    // Index and filter are in memory, and then in parts.
    for cache_bytes in [64 << 10, 0] {
        let cache = BlockCache::new(cache_bytes);
        let open = || Table::open(disk.open(Path::new(PATH))?, IDENT, None, &cache);
        match bounded(bytes.len(), 100, "opening a table", open) {
            Ok(table) => {
                read(&table).unwrap_or_else(|error| refused(&error));
                drop(table);
                assert_eq!(cache.pinned_bytes(), 0);
            }
            Err(error) => refused(&error),
        }
    }
    let mut text = String::new();
    let options = InspectOptions { entries: bytes.len().is_multiple_of(2) };
    if let Err(error) = inspect(&disk, Path::new(PATH), options, &mut text) {
        refused(&error);
    }
}

fn table(options: impl Into<BuilderOptions>, fill: impl FnOnce(&mut TableBuilder)) -> Vec<u8> {
    let disk = MemDisk::default();
    let file = disk.create(Path::new(PATH)).unwrap();
    let mut builder = TableBuilder::new(file, IDENT, options).unwrap();
    fill(&mut builder);
    builder.finish().unwrap();
    disk.content(Path::new(PATH)).unwrap()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let options = TableOptions { compression, block_bytes: 256, ..TableOptions::default() };
        seeds.push(table(options, |builder| {
            builder.attach(1, b"names names names names names names");
            builder.add_range_delete(b"key05", b"key09", SeqNo::new(70)).unwrap();
            builder.add_range_delete(b"key05", b"key07", SeqNo::new(60)).unwrap();
            for n in 0..30 {
                let key = format!("key{n:02}");
                let kinds = [(9, Kind::Put), (5, Kind::Merge), (2, Kind::Delete)];
                for (seqno, kind) in &kinds[..1 + n % 3] {
                    let value = if *kind == Kind::Delete { "" } else { "value value value" };
                    let seqno = SeqNo::new(*seqno << (n % 20));
                    let entry = EntryRef::new(key.as_bytes(), seqno, *kind, value.as_bytes());
                    builder.add(entry).unwrap();
                }
            }
        }));
    }
    // One key has many blocks, and there is no filter.
    let plain = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let options = TableOptions { block_bytes: 64, filter_bits: 0, ..plain };
    let versions = |builder: &mut TableBuilder| {
        for seqno in (1..20).rev() {
            let entry = EntryRef::new(b"k", SeqNo::new(seqno), Kind::Merge, &[1; 40]);
            builder.add(entry).unwrap();
        }
    };
    seeds.push(table(options, versions));
    // The same with an index in parts, and a table of many keys.
    seeds.push(table(BuilderOptions { index_part_blocks: 3, ..options.into() }, versions));
    seeds.push(table(
        BuilderOptions {
            index_part_blocks: 2,
            ..TableOptions { filter_bits: 10, ..options }.into()
        },
        |builder| {
            for n in 0..24 {
                let (key, value) = (format!("key{n:02}"), [n; 30]);
                builder
                    .add(EntryRef::new(key.as_bytes(), SeqNo::new(9), Kind::Put, &value))
                    .unwrap();
            }
        },
    ));
    // A table of range deletes alone, and one of long keys with a shared prefix.
    seeds.push(table(plain, |builder| {
        builder.add_range_delete(b"", b"z", SeqNo::new(3)).unwrap();
    }));
    seeds.push(table(options_of_long_keys(), |builder| {
        for n in 0..12_u8 {
            let key = [&[b'a' + n / 4; 200][..], &[n]].concat();
            builder.add(EntryRef::new(&key, SeqNo::new(1), Kind::Put, b"v")).unwrap();
        }
    }));
    seeds.push(with_dictionary());
    seeds
}

/// A table whose blocks share a dictionary.
fn with_dictionary() -> Vec<u8> {
    let tables =
        TableOptions { block_bytes: 1024, bottom_dictionary: true, ..TableOptions::default() };
    let sampled = BuilderOptions { dictionary_sample_bytes: 24 << 10, ..tables.into() };
    let bytes = table(BuilderOptions { is_bottom: true, ..sampled }, |builder| {
        for n in 0..600_u32 {
            let (key, n) = (format!("key{n:03}"), n.wrapping_mul(0x9E37_79B9));
            let value = format!("author: user{}, score: {}, subreddit: {}", n, n % 97, n % 13);
            let entry = EntryRef::new(key.as_bytes(), SeqNo::new(9), Kind::Put, value.as_bytes());
            builder.add(entry).unwrap();
        }
    });
    let disk = MemDisk::default();
    disk.put_content(Path::new(PATH), &bytes);
    let file = disk.open(Path::new(PATH)).unwrap();
    let table = Table::open(file, IDENT, None, &BlockCache::new(0)).unwrap();
    assert!(table.dictionary().unwrap().is_some(), "nothing mutates a dictionary");
    bytes
}

fn options_of_long_keys() -> TableOptions {
    TableOptions { block_bytes: 64, compression: Compression::Lz4, ..TableOptions::default() }
}
