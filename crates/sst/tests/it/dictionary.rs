//! Tests of tables whose blocks share a dictionary.

use crate::tools::{Dice, Entry, Folder, IDENT, get, seed};
use flagstone_base::{DatabaseId, ErrorKind, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_sst::{
    BlockCache, BuilderOptions, CursorOptions, InspectOptions, Learned, Salvage, SalvageCursor,
    Table, TableBuilder, TableIdent, TableMeta, TableOptions, inspect,
};
use std::sync::Arc;

const SAMPLE_BYTES: usize = 24 << 10;

/// A table as an earlier build wrote it.
const GOLDEN: &[u8] = include_bytes!("golden_dictionary.sst");

/// Tables of the deepest level, with blocks of 4 KiB, or of 1 KiB with a dictionary.
fn options(bottom_dictionary: bool) -> BuilderOptions {
    let tables = TableOptions { block_bytes: 4096, bottom_dictionary, ..TableOptions::default() };
    BuilderOptions {
        tables,
        is_bottom: true,
        dictionary_sample_bytes: SAMPLE_BYTES,
        ..BuilderOptions::default()
    }
}

/// Returns `count` entries that have much in common, and more with those of the same `kind`.
fn alike(kind: &str, count: usize) -> Vec<Entry> {
    let mut dice = Dice::new(7);
    let words = ["stone", "river", "lantern", "orchard", "winter", "harbour", "velvet", "copper"];
    let mut entry = |n| {
        let mut body = String::new();
        for _ in 0..4 {
            body.push_str(words[dice.below(words.len())]);
            body.push_str(&dice.below(1000).to_string());
        }
        let value = format!(
            "{kind}_author:user{}/{kind}_subreddit:sub{}/{kind}_score:{}/{kind}_body:{body}",
            dice.below(100_000),
            dice.below(500),
            dice.below(90),
        );
        Entry::put(format!("key{n:06}"), 1000 + n as u64, value)
    };
    (0..count).map(&mut entry).collect()
}

fn write(folder: &Folder, options: BuilderOptions, entries: &[Entry]) -> TableMeta {
    folder.write(options, |b| entries.iter().try_for_each(|entry| b.add(entry.as_ref()))).unwrap()
}

/// Returns the bytes of the table.
fn written(options: BuilderOptions, entries: &[Entry]) -> Vec<u8> {
    let folder = Folder::new();
    write(&folder, options, entries);
    std::fs::read(folder.path()).unwrap()
}

fn dictionary_of(learned: Learned, entries: &[Entry]) -> (Learned, Option<Vec<u8>>) {
    let folder = Folder::new();
    let mut after = Learned::Nothing;
    let meta = folder
        .write(options(true), |builder| {
            builder.learn(learned);
            entries.iter().try_for_each(|entry| builder.add(entry.as_ref()))?;
            after = builder.learned();
            Ok(())
        })
        .unwrap();
    (after, folder.open(Some(&meta)).unwrap().dictionary().unwrap())
}

/// Another version of zstd may train another dictionary and write other frames, so only what is
/// read is compared.
#[test]
fn a_table_of_an_earlier_build_is_read() {
    let (folder, entries) = (Folder::new(), alike("comment", 260));
    if std::env::var_os("FLAGSTONE_GOLDEN").is_some() {
        let options = BuilderOptions { dictionary_sample_bytes: 16 << 10, ..options(true) };
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/golden_dictionary.sst");
        std::fs::write(golden, written(options, &entries)).unwrap();
    }
    std::fs::write(folder.path(), GOLDEN).unwrap();
    for cache_bytes in [0, 1 << 20] {
        let table = folder.open_in(None, &BlockCache::new(cache_bytes)).unwrap();
        assert_eq!(table.verify().unwrap().entries, 260);
        table.verify_stored().unwrap();
        let dictionary = table.dictionary().unwrap().unwrap();
        assert!(GOLDEN.windows(dictionary.len()).any(|bytes| bytes == dictionary));
        assert!(dictionary.starts_with(&[0x37, 0xA4, 0x30, 0xEC]));
        for entry in &entries {
            let found = get(&table, &entry.key, SeqNo::MAX.get()).unwrap();
            assert_eq!(found, std::slice::from_ref(entry));
        }
        assert!(get(&table, b"key000260", SeqNo::MAX.get()).unwrap().is_empty());
    }
    assert_eq!(left(&folder, None), (260, 0));
}

#[test]
fn blocks_are_short_and_the_table_is_the_map_it_was_written_from() {
    let (folder, entries) = (Folder::new(), alike("comment", 3000));
    let plain = write(&folder, options(false), &entries);
    let plain_blocks = folder.open(Some(&plain)).unwrap().properties().data_blocks;
    let meta = write(&folder, options(true), &entries);
    for cache_bytes in [0, 1 << 20] {
        let cache = BlockCache::new(cache_bytes);
        let table = folder.open_in(Some(&meta), &cache).unwrap();
        let dictionary = table.dictionary().unwrap().unwrap();
        assert!((256..=SAMPLE_BYTES / 8).contains(&dictionary.len()));
        assert!((1..1024).contains(&table.properties().dictionary_share));
        assert!(table.properties().data_blocks > 3 * plain_blocks);
        assert!(meta.bytes < plain.bytes + plain.bytes / 8, "{} {}", meta.bytes, plain.bytes);
        assert_eq!(table.verify().unwrap().entries, 3000);
        table.verify_stored().unwrap();
        for entry in entries.iter().step_by(7) {
            assert_eq!(get(&table, &entry.key, SeqNo::MAX.get()).unwrap()[0], *entry);
        }
        let mut cursor = table.cursor(CursorOptions::SCAN);
        cursor.seek_first().unwrap();
        for entry in &entries {
            assert_eq!(Entry::of(cursor.entry()), *entry);
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        assert!(table.resident_bytes() > (27 << 10) + dictionary.len() as u64);
        assert_eq!(cache.pinned_bytes(), table.resident_bytes());
        drop((table, cursor));
        assert_eq!(cache.pinned_bytes(), 0);
    }
    let mut text = String::new();
    inspect(&folder.disk, &folder.path(), InspectOptions::default(), &mut text).unwrap();
    assert!(text.contains("section  dictionary") && !text.contains("DAMAGED"), "{text}");
}

/// Writes a table with the dictionary that `learned` has, and puts what follows there.
fn hand_on(folder: &Folder, learned: &mut Learned, entries: &[Entry]) -> TableMeta {
    let write = |builder: &mut TableBuilder| {
        builder.learn(std::mem::replace(learned, Learned::Nothing));
        entries.iter().try_for_each(|entry| builder.add(entry.as_ref()))?;
        *learned = builder.learned();
        Ok(())
    };
    folder.write(options(true), write).unwrap()
}

#[test]
fn open_tables_with_one_dictionary_share_it() {
    let (comments, posts) = (alike("comment", 3000), alike("post", 3000));
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let (mut learned, mut of_posts) = (Learned::Nothing, Learned::Nothing);
    let metas = [
        hand_on(&folders[0], &mut learned, &comments),
        hand_on(&folders[1], &mut learned, &comments),
        hand_on(&folders[2], &mut of_posts, &posts),
    ];
    let cache = BlockCache::new(1 << 20);
    let open = |at: usize| folders[at].open_in(Some(&metas[at]), &cache).unwrap();
    let (first, second, other) = (open(0), open(1), open(2));
    let dictionary = |table: &Table| table.dictionary().unwrap().unwrap();
    assert_eq!(dictionary(&first), dictionary(&second));
    assert_ne!(dictionary(&first), dictionary(&other));
    let alone: u64 = [&first, &second, &other].iter().map(|table| table.resident_bytes()).sum();
    let prepared = (26 << 10) + 2 * dictionary(&first).len() as u64;
    let shared = alone - cache.pinned_bytes();
    assert!((prepared..prepared + 4096).contains(&shared), "{shared}, one takes {prepared}");

    // It stays while a table has it, and is prepared again afterwards.
    drop(first);
    let read = |table: &Arc<Table>, entries: &[Entry]| {
        for entry in entries.iter().step_by(97) {
            assert_eq!(get(table, &entry.key, SeqNo::MAX.get()).unwrap()[0], *entry);
        }
    };
    read(&second, &comments);
    read(&other, &posts);
    assert_eq!(cache.pinned_bytes(), second.resident_bytes() + other.resident_bytes());
    drop(second);
    assert_eq!(cache.pinned_bytes(), other.resident_bytes());
    read(&open(0), &comments);
    drop(other);
    assert_eq!(cache.pinned_bytes(), 0);
}

#[test]
fn a_table_that_gets_no_dictionary_is_written_as_if_none_was_tried() {
    let small = alike("comment", 100);
    let mut dice = Dice::new(3);
    let noise: Vec<Entry> =
        (0..400).map(|n| Entry::put(format!("key{n:06}"), n, dice.bytes(300))).collect();
    // Blocks of 4 KiB have much in common within them, and little with one another.
    let runs: Vec<Entry> = (0..400)
        .map(|n| {
            let same = Dice::new(n / 8).bytes(500);
            Entry::put(format!("key{n:06}"), n, same)
        })
        .collect();
    for entries in [small, noise, runs] {
        for entry_checks in [false, true] {
            let with = |dictionary| BuilderOptions { entry_checks, ..options(dictionary) };
            assert!(written(with(true), &entries) == written(with(false), &entries));
        }
    }
    let upper = |dictionary| BuilderOptions { is_bottom: false, ..options(dictionary) };
    let entries = alike("comment", 1000);
    assert!(written(upper(true), &entries) == written(upper(false), &entries));
}

#[test]
fn a_dictionary_is_handed_on_until_another_does_better() {
    let entries = alike("comment", 1000);
    let (first, dictionary) = dictionary_of(Learned::Nothing, &entries);
    let dictionary = dictionary.unwrap();
    let (second, same) = dictionary_of(first, &alike("comment", 800));
    assert!(same.as_ref() == Some(&dictionary));
    let (third, other) = dictionary_of(second, &alike("a picture and its title", 1000));
    let other = other.unwrap();
    assert!(other != dictionary);
    let (_, again) = dictionary_of(third, &alike("a picture and its title", 900));
    assert!(again.as_ref() == Some(&other));
    // A table too small for a dictionary leaves what is known.
    let (kept, none) = dictionary_of(Learned::Nothing, &alike("comment", 50));
    assert!(none.is_none() && matches!(kept, Learned::Nothing));
    // After noise the next table does not try.
    let mut dice = Dice::new(3);
    let noise: Vec<Entry> =
        (0..400).map(|n| Entry::put(format!("key{n:06}"), n, dice.bytes(300))).collect();
    let (learned, none) = dictionary_of(Learned::Nothing, &noise);
    assert!(none.is_none() && matches!(learned, Learned::Unhelpful));
    assert!(dictionary_of(learned, &entries).1.is_none());
}

#[test]
fn a_changed_entry_of_the_sample_is_found() {
    let folder = Folder::new();
    let entries = alike("comment", 1000);
    let written = folder.write(options(true), |builder| {
        entries.iter().enumerate().try_for_each(|(n, entry)| {
            let entry = entry.as_ref();
            let check = flagstone_base::EntryCheck::of_entry(&entry, 0);
            let mut value = entry.value.to_vec();
            if n == 20 {
                value[3] ^= 1;
            }
            let changed = flagstone_base::EntryRef { value: &value, ..entry };
            builder.add_checked(changed, Some(check))
        })
    });
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Corruption);
}

fn read_all(folder: &Folder, meta: Option<&TableMeta>) -> Result<()> {
    let table = folder.open_in(meta, &BlockCache::new(0))?;
    let mut cursor = table.cursor(CursorOptions::COMPACTION);
    cursor.seek_first()?;
    while cursor.valid() {
        cursor.next()?;
    }
    let _dictionary = table.dictionary()?;
    table.verify().map(|_report| ())
}

#[test]
fn every_damaged_byte_is_found_and_names_the_file() {
    let (folder, mut dice) = (Folder::new(), Dice::new(seed()));
    let meta = write(&folder, options(true), &alike("comment", 400));
    let good = std::fs::read(folder.path()).unwrap();
    assert!(folder.open(Some(&meta)).unwrap().dictionary().unwrap().is_some());
    read_all(&folder, Some(&meta)).unwrap();
    for at in (dice.below(11)..good.len()).step_by(11) {
        let mut broken = good.clone();
        broken[at] ^= 1 << dice.below(8);
        std::fs::write(folder.path(), &broken).unwrap();
        let known = (dice.below(2) == 0).then_some(&meta);
        let stored = folder.open(known).and_then(|table| table.verify_stored());
        for error in [read_all(&folder, known).unwrap_err(), stored.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
            assert!(error.to_string().contains("000042.sst"), "byte {at}: {error}");
        }
    }
}

/// Returns the keys that are left in the file, and the number of lost parts.
fn left(folder: &Folder, known: Option<&TableMeta>) -> (usize, usize) {
    let file = folder.disk.open(&folder.path()).unwrap();
    let salvage = Arc::new(Salvage::of(file, IDENT, known));
    let (mut cursor, mut count) = (SalvageCursor::new(&salvage), 0);
    while cursor.advance().unwrap() {
        count += 1;
    }
    (count, salvage.lost().len())
}

#[test]
fn salvage_finds_the_dictionary_without_index_and_properties() {
    let (folder, entries) = (Folder::new(), alike("comment", 1000));
    let meta = write(&folder, options(true), &entries);
    let good = std::fs::read(folder.path()).unwrap();
    assert_eq!(left(&folder, Some(&meta)), (1000, 0));
    let dictionary = folder.open(None).unwrap().dictionary().unwrap().unwrap();
    let at = good.windows(dictionary.len()).position(|bytes| bytes == dictionary).unwrap();
    // The properties are just before the footer of 80 bytes.
    let mut broken = good.clone();
    broken[good.len() - 80 - 20] ^= 1;
    std::fs::write(folder.path(), &broken).unwrap();
    for known in [Some(&meta), None] {
        assert_eq!(left(&folder, known).0, 1000);
    }
    // A damaged block in addition.
    broken[2000] ^= 1;
    std::fs::write(folder.path(), &broken).unwrap();
    let (count, lost) = left(&folder, Some(&meta));
    assert!((970..1000).contains(&count) && lost == 1, "{count} left, {lost} lost");
    // Without the dictionary the blocks are lost, and this is reported.
    let mut broken = good;
    broken[at + 300] ^= 1;
    std::fs::write(folder.path(), &broken).unwrap();
    for known in [Some(&meta), None] {
        let (count, lost) = left(&folder, known);
        assert!(count == 0 && lost > 0, "{count} left, {lost} lost");
        let error = folder.open(known).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(&format!("offset {at}")), "{error}");
    }
}

#[test]
fn a_dictionary_in_another_file_is_refused() {
    let (folder, entries) = (Folder::new(), alike("comment", 1000));
    let other = TableIdent { database: DatabaseId([1; 16]), ..IDENT };
    let file = folder.disk.create(&folder.path()).unwrap();
    let mut builder = TableBuilder::new(file, other, options(true)).unwrap();
    entries.iter().for_each(|entry| builder.add(entry.as_ref()).unwrap());
    builder.finish().unwrap();
    let foreign = std::fs::read(folder.path()).unwrap();
    let mut own = written(options(true), &entries);
    assert_eq!(own.len(), foreign.len());
    // Everything of the other table but its footer.
    let end = own.len() - 80;
    own[64..end].copy_from_slice(&foreign[64..end]);
    std::fs::write(folder.path(), &own).unwrap();
    assert_eq!(folder.open(None).unwrap_err().kind(), ErrorKind::Corruption);
}
