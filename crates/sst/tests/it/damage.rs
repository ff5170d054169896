//! Tests of damaged files: damage is reported, and nothing panics or takes much memory.

use crate::tools::{Dice, Entry, Folder, IDENT, get, plain, seed};
use flagstone_base::{Compression, DatabaseId, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_sst::{
    BlockCache, BuilderOptions, CursorOptions, InspectOptions, Table, TableIdent, TableMeta,
    TableOptions, inspect,
};

/// Writes a table of some blocks with every kind of section.
fn write(folder: &Folder, compression: Compression) -> (TableMeta, Vec<u8>) {
    write_with(folder, TableOptions { block_bytes: 256, compression, ..TableOptions::default() })
}

fn write_with(folder: &Folder, options: impl Into<BuilderOptions>) -> (TableMeta, Vec<u8>) {
    let meta = folder
        .write(options, |builder| {
            builder.attach(1, b"an attachment");
            builder.add_range_delete(b"key020", b"key030", SeqNo::new(500))?;
            (0..60).try_for_each(|i| {
                let value = "value ".repeat(i % 5);
                let mut entry = Entry::put(format!("key{i:03}"), 100 + i as u64, value);
                entry.expiry = (i % 7 == 0).then_some(1_700_000_000_000 + i as u64);
                builder.add(entry.as_ref())
            })
        })
        .unwrap();
    (meta, std::fs::read(folder.path()).unwrap())
}

/// Reads everything in every way, up to the first error.
fn read_all(folder: &Folder, meta: Option<&TableMeta>, cache_bytes: u64) -> Result<()> {
    let table = folder.open_in(meta, &BlockCache::new(cache_bytes))?;
    let mut cursor = table.cursor(CursorOptions::COMPACTION);
    cursor.seek_first()?;
    while cursor.valid() {
        let key = cursor.entry().key.to_vec();
        assert!(!get(&table, &key, SeqNo::MAX.get())?.is_empty());
        cursor.next()?;
    }
    cursor.seek_last()?;
    cursor.seek(b"key033", SeqNo::MAX)?;
    cursor.seek_before(b"key033")?;
    let _ = table.range_deletes()?.count() + table.attachments()?.len() as u64;
    table.verify().map(|_report| ())
}

#[test]
fn every_flipped_bit_is_found_and_nothing_panics() {
    let mut dice = Dice::new(seed());
    for (compression, index_part_blocks) in
        [(Compression::None, 256), (Compression::Lz4, 256), (Compression::None, 4)]
    {
        let folder = Folder::new();
        let options = TableOptions { block_bytes: 256, compression, ..TableOptions::default() };
        let options = BuilderOptions { index_part_blocks, ..options.into() };
        let (meta, good) = write_with(&folder, options);
        read_all(&folder, Some(&meta), 0).unwrap();
        folder.open(Some(&meta)).unwrap().verify_stored().unwrap();
        for at in 0..good.len() {
            let mut broken = good.clone();
            broken[at] ^= 1 << dice.below(8);
            std::fs::write(folder.path(), &broken).unwrap();
            let with_meta = dice.below(2) == 0;
            let known = with_meta.then_some(&meta);
            // Index and filter are in memory, or in parts.
            let cache_bytes = dice.pick(&[0, 1 << 20]);
            let opened = folder.open_in(known, &BlockCache::new(cache_bytes));
            let stored = opened.and_then(|table| table.verify_stored());
            let read = read_all(&folder, known, cache_bytes);
            for error in [read.unwrap_err(), stored.unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            }
            if at % 7 == 0 {
                let mut text = String::new();
                let options = InspectOptions { entries: true };
                inspect(&folder.disk, &folder.path(), options, &mut text).unwrap();
                assert!(!text.is_empty());
            }
        }
    }
}

#[test]
fn a_file_cut_short_is_found() {
    let folder = Folder::new();
    let (meta, good) = write(&folder, Compression::None);
    for len in (0..good.len()).step_by(3) {
        std::fs::write(folder.path(), &good[..len]).unwrap();
        for meta in [Some(&meta), None] {
            let error = folder.open(meta).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{len} bytes: {error}");
        }
        let mut text = String::new();
        inspect(&folder.disk, &folder.path(), InspectOptions::default(), &mut text).unwrap();
        assert!(text.contains("DAMAGED"));
    }
}

#[test]
fn a_table_of_another_database_or_number_is_refused() {
    let folder = Folder::new();
    let (meta, _) = write(&folder, Compression::None);
    for ident in [
        TableIdent { database: DatabaseId([9; 16]), ..IDENT },
        TableIdent { number: FileNumber(43), ..IDENT },
    ] {
        let cache = BlockCache::new(1 << 20);
        let opened =
            Table::open(folder.disk.open(&folder.path()).unwrap(), ident, Some(&meta), &cache);
        assert_eq!(opened.unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(cache.pinned_bytes(), 0);
    }
}

#[test]
fn a_newer_version_or_unknown_feature_is_unsupported_not_corrupt() {
    let folder = Folder::new();
    let (_, good) = write(&folder, Compression::None);
    let footer = good.len() - 80;
    // The version, and a feature that a reader must know.
    for (place, value) in [(footer + 28 + 8, 2), (footer + 28 + 16, 8)] {
        let mut newer = good.clone();
        newer[place] = value;
        let crc = flagstone_base::checksum::crc32c(&newer[footer..footer + 76]);
        newer[footer + 76..].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(folder.path(), &newer).unwrap();
        assert_eq!(folder.open(None).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let mut compatible = good.clone();
    compatible[footer + 28 + 12] = 2;
    let crc = flagstone_base::checksum::crc32c(&compatible[footer..footer + 76]);
    compatible[footer + 76..].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(folder.path(), &compatible).unwrap();
    folder.open(None).unwrap();
}

#[test]
fn a_feature_bit_of_expiries_that_does_not_fit_the_entries_is_found() {
    let folder = Folder::new();
    let (_, expiring) = write(&folder, Compression::None);
    let entry = Entry::put("key", 1, "value");
    folder.write(plain(), |builder| builder.add(entry.as_ref())).unwrap();
    let plain = std::fs::read(folder.path()).unwrap();
    for (good, bits) in [(expiring, 2), (plain, 0)] {
        let (footer, mut bytes) = (good.len() - 80, good);
        assert_eq!(bytes[footer + 28 + 16], bits);
        bytes[footer + 28 + 16] ^= 2;
        let crc = flagstone_base::checksum::crc32c(&bytes[footer..footer + 76]);
        bytes[footer + 76..].copy_from_slice(&crc.to_le_bytes());
        std::fs::write(folder.path(), &bytes).unwrap();
        let error = folder.open(None).unwrap().verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("feature bit"), "{error}");
    }
}

#[test]
fn what_a_table_pins_is_given_back_and_its_blocks_can_be_forgotten() {
    let folder = Folder::new();
    let (meta, _) = write(&folder, Compression::None);
    let cache = BlockCache::new(1 << 20);
    let table =
        Table::open(folder.disk.open(&folder.path()).unwrap(), IDENT, Some(&meta), &cache).unwrap();
    assert_eq!(cache.pinned_bytes(), table.resident_bytes());
    for _ in 0..2 {
        get(&table, b"key001", 999).unwrap();
    }
    assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
    assert!(cache.used_bytes() > 0);
    table.forget_blocks();
    assert_eq!(cache.used_bytes(), 0);
    drop(table);
    assert_eq!(cache.pinned_bytes(), 0);
}
