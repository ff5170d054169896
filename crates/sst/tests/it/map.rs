//! Tests that a table is the map it was written from, by comparison with the sorted entries.

use crate::tools::{Dice, Entry, Folder, get, plain, seed};
use flagstone_base::{Compression, Kind, SeqNo};
use flagstone_sst::{
    BlockCache, BuilderOptions, CursorOptions, FilterKey, Near, Table, TableCursor, TableOptions,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), (Kind, Vec<u8>, Option<u64>)>;

fn random_model(dice: &mut Dice) -> Model {
    let mut model = Model::new();
    let count = dice.pick(&[1, 2, 17, 100, 1500]);
    let alphabet = dice.pick(&[1, 2, 4, 256]);
    let key_max = dice.pick(&[1, 3, 12, 300]);
    let value_max = dice.pick(&[1, 20, 200]);
    let seqno_max = dice.pick(&[1, 50, 70_000, SeqNo::MAX.get() as usize]);
    let prefix = vec![b'p'; dice.pick(&[0, 0, 9, 40])];
    let has_expiries = dice.below(2) == 0;
    let mut hot: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        let key = if !hot.is_empty() && dice.below(3) == 0 {
            hot[dice.below(hot.len())].clone()
        } else {
            let mut key = prefix.clone();
            let len = 1 + dice.below(key_max);
            key.extend((0..len).map(|_| dice.below(alphabet) as u8));
            key
        };
        if hot.len() < dice.pick(&[1, 5, 50]) {
            hot.push(key.clone());
        }
        let seqno = dice.below(seqno_max) as u64;
        let kind = dice.pick(&[Kind::Put, Kind::Put, Kind::Merge, Kind::Delete]);
        let len = if kind == Kind::Delete { 0 } else { dice.below(value_max) };
        let fill = dice.word() as u8;
        let value = if dice.below(2) == 0 { vec![fill; len] } else { dice.bytes(len) };
        let expires = has_expiries && kind == Kind::Put && dice.below(2) == 0;
        let expiry = expires.then(|| dice.word() >> dice.below(64));
        model.insert((key, Reverse(seqno)), (kind, value, expiry));
    }
    model
}

fn entries(model: &Model) -> Vec<Entry> {
    let entry = |((key, Reverse(seqno)), (kind, value, expiry)): (&(Vec<u8>, _), &_)| {
        let (key, value, kind): (_, Vec<u8>, Kind) = (key.clone(), Clone::clone(value), *kind);
        Entry { key, seqno: *seqno, kind, value, expiry: *expiry }
    };
    model.iter().map(entry).collect()
}

fn random_options(dice: &mut Dice) -> BuilderOptions {
    let tables = TableOptions {
        block_bytes: dice.pick(&[64, 200, 1000, 4096, 16 << 10]),
        compression: dice.pick(&[Compression::None, Compression::Lz4, Compression::Zstd(1)]),
        filter_bits: dice.pick(&[0, 10, 10, 16]),
        bottom_dictionary: dice.below(2) == 0,
        ..TableOptions::default()
    };
    BuilderOptions {
        tables,
        is_bottom: dice.below(2) == 0,
        dictionary_sample_bytes: dice.pick(&[1, 5_000, 20_000, 1 << 20]),
        index_part_blocks: dice.pick(&[1, 2, 3, 7, 256]),
        hash_seed: dice.word(),
        ..BuilderOptions::default()
    }
}

fn here(cursor: &TableCursor) -> Option<Entry> {
    if !cursor.valid() {
        return None;
    }
    let entry = cursor.entry();
    assert_eq!(cursor.value(), *entry.value);
    Some(Entry::of(entry))
}

fn check_walks(cursor: &mut TableCursor, entries: &[Entry]) {
    cursor.seek_first().unwrap();
    for entry in entries {
        assert_eq!(here(cursor).as_ref(), Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
    cursor.seek_last().unwrap();
    for entry in entries.iter().rev() {
        assert_eq!(here(cursor).as_ref(), Some(entry));
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid());
    check_near_walk(cursor, entries);
}

/// Walks within each block, and steps over its end as usual.
fn check_near_walk(cursor: &mut TableCursor, entries: &[Entry]) {
    cursor.seek_first().unwrap();
    for pair in entries.windows(2) {
        let is_version = pair[0].key == pair[1].key;
        match cursor.next_near() {
            Near::None => {
                assert_eq!(here(cursor).as_ref(), Some(&pair[0]));
                cursor.next().unwrap();
            }
            near => assert_eq!(near == Near::Version, is_version),
        }
        assert_eq!(here(cursor).as_ref(), Some(&pair[1]));
    }
    assert_eq!(cursor.next_near(), Near::None);
}

/// Returns a key that is present, or near a present one.
fn near_key(dice: &mut Dice, entries: &[Entry]) -> Vec<u8> {
    let mut key = entries[dice.below(entries.len())].key.clone();
    match dice.below(6) {
        0 => key.push(0),
        1 => key.truncate(1.max(key.len() - 1)),
        2 => {
            let at = dice.below(key.len());
            key[at] = key[at].wrapping_add(1);
        }
        3 => {
            let at = dice.below(key.len());
            key[at] = key[at].wrapping_sub(1);
        }
        _ => {}
    }
    key
}

fn cursor_options(dice: &mut Dice) -> CursorOptions {
    CursorOptions {
        fill_cache: dice.below(2) == 0,
        use_cache: dice.below(4) > 0,
        readahead: dice.below(2) == 0,
        ahead_bytes: [0, 5000, 256 << 10][dice.below(3)],
    }
}

fn check_points(table: &Arc<Table>, dice: &mut Dice, entries: &[Entry]) {
    let options = cursor_options(dice);
    let mut cursor = table.cursor(options);
    for _ in 0..200 {
        let key = near_key(dice, entries);
        let at = match dice.below(3) {
            0 => SeqNo::MAX.get(),
            1 => entries[dice.below(entries.len())].seqno,
            _ => entries[dice.below(entries.len())].seqno.saturating_sub(1),
        };
        let seen: Vec<Entry> =
            entries.iter().filter(|e| e.key == key && e.seqno <= at).cloned().collect();
        assert_eq!(get(table, &key, at).unwrap(), seen, "get {key:?} at {at}");

        let from = entries.partition_point(|e| (&e.key, Reverse(e.seqno)) < (&key, Reverse(at)));
        cursor.seek(&key, SeqNo::new(at)).unwrap();
        assert_eq!(here(&cursor), entries.get(from).cloned(), "seek {key:?} at {at}");
        walk_from(&mut cursor, dice, entries, from);

        let before = entries.partition_point(|e| e.key < key).checked_sub(1);
        cursor.seek_before(&key).unwrap();
        assert_eq!(here(&cursor), before.map(|i| entries[i].clone()), "before {key:?}");
        if let Some(before) = before {
            walk_from(&mut cursor, dice, entries, before);
        }
    }
}

/// Moves the cursor a few steps back and forth.
fn walk_from(cursor: &mut TableCursor, dice: &mut Dice, entries: &[Entry], from: usize) {
    let mut at = from;
    for _ in 0..dice.below(8) {
        if at >= entries.len() {
            return;
        }
        if dice.below(2) == 0 {
            if dice.below(2) == 0 || cursor.next_near() == Near::None {
                cursor.next().unwrap();
            }
            at += 1;
        } else {
            cursor.prev().unwrap();
            at = at.wrapping_sub(1);
        }
        assert_eq!(here(cursor), entries.get(at).cloned());
    }
}

#[test]
fn a_table_is_the_map_it_was_written_from() {
    let seed = seed();
    for round in 0..120 {
        let mut dice = Dice::new(seed.wrapping_add(round));
        println!("FLAGSTONE_SEED={} ", seed.wrapping_add(round));
        let entries = entries(&random_model(&mut dice));
        let folder = Folder::new();
        let meta = folder
            .write(random_options(&mut dice), |builder| {
                entries.iter().try_for_each(|entry| builder.add(entry.as_ref()))
            })
            .unwrap();
        assert_eq!(meta.entries, entries.len() as u64);
        assert_eq!(meta.smallest, entries[0].key);
        assert_eq!(meta.largest, entries[entries.len() - 1].key);
        // Without a cache, index and filter are in parts, none of which is kept. With a small cache
        // some are kept.
        let cache = BlockCache::new(dice.pick(&[0, 4 << 10, 40 << 10, 1 << 20]));
        let table = folder.open_in((dice.below(2) == 0).then_some(&meta), &cache).unwrap();
        table.verify().unwrap();
        let options = cursor_options(&mut dice);
        check_walks(&mut table.cursor(options), &entries);
        check_points(&table, &mut dice, &entries);
    }
}

#[test]
fn a_key_with_many_versions_is_read_at_every_seqno() {
    let folder = Folder::new();
    let mut entries = vec![Entry::put("a", 9, "first")];
    entries.extend((1..=400).rev().map(|seqno| Entry::put("hot", seqno * 2, seqno.to_string())));
    entries.push(Entry::put("z", 3, "last"));
    for (index_part_blocks, cache_bytes) in [(256, 1 << 20), (3, 1 << 20), (3, 0), (1, 8 << 10)] {
        let tables = TableOptions { block_bytes: 64, ..plain() };
        let options = BuilderOptions { tables, index_part_blocks, ..BuilderOptions::default() };
        folder
            .write(options, |builder| entries.iter().try_for_each(|e| builder.add(e.as_ref())))
            .unwrap();
        let table = folder.open_in(None, &BlockCache::new(cache_bytes)).unwrap();
        check_versions(&table, &entries);
    }
}

fn check_versions(table: &Arc<Table>, entries: &[Entry]) {
    let mut cursor = table.cursor(CursorOptions::SCAN);
    for at in 0..=802 {
        let newest = get(table, b"hot", at).unwrap();
        assert_eq!(newest.len() as u64, (at / 2).min(400));
        assert!(newest.iter().rev().map(|e| e.seqno).eq((1..=newest.len() as u64).map(|s| s * 2)));
        cursor.seek(b"hot", SeqNo::new(at)).unwrap();
        let expected = newest.first().unwrap_or(&entries[entries.len() - 1]);
        assert_eq!(here(&cursor).as_ref(), Some(expected));
    }
}

#[test]
fn values_of_many_megabytes_come_back() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let folder = Folder::new();
        let random = Dice::new(7).bytes(3 << 20);
        let values = [vec![], random, vec![b'x'; 20 << 20], b"small".to_vec()];
        let options = TableOptions { compression, ..TableOptions::default() };
        let meta = folder
            .write(options, |builder| {
                for (i, value) in values.iter().enumerate() {
                    builder.add(Entry::put([i as u8 + 1], 5, value).as_ref())?;
                }
                Ok(())
            })
            .unwrap();
        let table = folder.open(Some(&meta)).unwrap();
        table.verify().unwrap();
        for (i, value) in values.iter().enumerate() {
            assert!(get(&table, &[i as u8 + 1], 5).unwrap()[0].value == *value);
        }
    }
}

#[test]
fn keys_of_the_largest_length_are_found() {
    let folder = Folder::new();
    let keys: Vec<Vec<u8>> = (0..40_u8).map(|i| [vec![7; 65_534], vec![i]].concat()).collect();
    let meta = folder
        .write(plain(), |builder| {
            keys.iter().try_for_each(|key| builder.add(Entry::put(key, 5, "v").as_ref()))
        })
        .unwrap();
    let table = folder.open(Some(&meta)).unwrap();
    table.verify().unwrap();
    assert!(keys.iter().all(|key| get(&table, key, 5).unwrap().len() == 1));
}

#[test]
fn a_table_of_range_deletes_alone_is_a_table() {
    let folder = Folder::new();
    let meta = folder
        .write(plain(), |builder| {
            builder.add_range_delete(b"m", b"p", SeqNo::new(4))?;
            builder.add_range_delete(b"b", b"n", SeqNo::new(9))
        })
        .unwrap();
    assert_eq!((meta.entries, meta.range_deletes), (0, 2));
    assert_eq!((meta.smallest.as_slice(), meta.largest.as_slice()), (&b"b"[..], &b"p"[..]));
    assert!(meta.largest_exclusive);
    let table = folder.open(Some(&meta)).unwrap();
    table.verify().unwrap();
    assert_eq!(format!("{:?}", table.range_deletes().unwrap()), "[[b..n)#9, [m..p)#4]");
    assert_eq!(get(&table, b"c", 99).unwrap(), []);
    let mut cursor = table.cursor(CursorOptions::SCAN);
    cursor.seek_first().unwrap();
    assert!(!cursor.valid());
    cursor.seek(b"c", SeqNo::MAX).unwrap();
    cursor.seek_before(b"c").unwrap();
    cursor.seek_last().unwrap();
    assert!(!cursor.valid());
}

#[test]
fn range_deletes_widen_the_bounds_of_entries() {
    let folder = Folder::new();
    let write = |end: &[u8]| {
        let meta = folder.write(plain(), |builder| {
            builder.add_range_delete(b"a", end, SeqNo::new(4))?;
            builder.add(Entry::put("k", 5, "v").as_ref())
        });
        folder.open(None).unwrap().verify().unwrap();
        meta.unwrap()
    };
    let inside = write(b"k");
    assert_eq!((inside.smallest.as_slice(), inside.largest.as_slice()), (&b"a"[..], &b"k"[..]));
    assert!(!inside.largest_exclusive);
    let beyond = write(b"k\0");
    assert!(beyond.largest_exclusive);
}

#[test]
fn an_ingested_table_reads_at_its_global_seqno() {
    let folder = Folder::new();
    let mut meta = folder
        .write(plain(), |builder| {
            builder.add(Entry::put("k", 0, "v").as_ref())?;
            builder.add_range_delete(b"x", b"y", SeqNo::ZERO)
        })
        .unwrap();
    meta.global_seqno = Some(SeqNo::new(77));
    let table = folder.open(Some(&meta)).unwrap();
    table.verify().unwrap();
    assert_eq!(get(&table, b"k", 76).unwrap(), []);
    assert_eq!(get(&table, b"k", 77).unwrap(), [Entry::put("k", 77, "v")]);
    assert_eq!(table.range_deletes().unwrap().iter().next().unwrap().seqno.get(), 77);
    let mut cursor = table.cursor(CursorOptions::SCAN);
    cursor.seek(b"k", SeqNo::new(76)).unwrap();
    assert!(!cursor.valid());
    cursor.seek(b"k", SeqNo::new(77)).unwrap();
    assert_eq!(here(&cursor), Some(Entry::put("k", 77, "v")));
}

#[test]
fn attachments_come_back_by_id() {
    let folder = Folder::new();
    let meta = folder
        .write(plain(), |builder| {
            builder.attach(9, b"nine");
            builder.attach(3, b"three");
            builder.attach(9, b"nine again");
            builder.add(Entry::put("k", 1, "v").as_ref())
        })
        .unwrap();
    let table = folder.open(Some(&meta)).unwrap();
    let seen: Vec<_> =
        table.attachments().unwrap().into_iter().map(|(id, bytes)| (id, bytes.to_vec())).collect();
    assert_eq!(seen, [(3, b"three".to_vec()), (9, b"nine again".to_vec())]);
}

/// The names of a collection can be larger than the target size of a table.
#[test]
fn attachments_neither_fill_a_table_nor_stay_in_memory() {
    let folder = Folder::new();
    let mut estimated = 0;
    let meta = folder
        .write(plain(), |builder| {
            builder.attach(9, &[7; 1 << 20]);
            builder.add(Entry::put("k", 1, "v").as_ref())?;
            estimated = builder.bytes_estimated();
            Ok(())
        })
        .unwrap();
    assert!(estimated < 10_000, "{estimated}");
    let table = folder.open(Some(&meta)).unwrap();
    assert!(table.resident_bytes() < 10_000, "{}", table.resident_bytes());
    assert_eq!(table.attachments().unwrap()[0].1.len(), 1 << 20);
}

#[test]
fn a_filter_of_parts_of_keys_is_asked_by_the_caller_alone() {
    use flagstone_base::hash::{key_hash, remix};
    let folder = Folder::new();
    let filter_key = FilterKey { id: 1, extract: |key| &key[..3] };
    let options = BuilderOptions { filter_key, ..plain().into() };
    let meta = folder
        .write(options, |builder| {
            builder.add(Entry::put("abc1", 1, "v").as_ref())?;
            builder.add(Entry::put("abc2", 1, "w").as_ref())
        })
        .unwrap();
    let table = folder.open(Some(&meta)).unwrap();
    table.verify().unwrap();
    assert!(table.may_contain(remix(key_hash(b"abc", 0))).unwrap());
    assert!(!table.may_contain(remix(key_hash(b"abd", 0))).unwrap());
    assert_eq!(get(&table, b"abc2", 1).unwrap(), [Entry::put("abc2", 1, "w")]);
}

#[test]
fn what_is_out_of_order_or_out_of_bounds_is_refused() {
    use flagstone_base::ErrorKind::InvalidInput;
    let folder = Folder::new();
    let refused = |second: Entry| {
        folder
            .write(plain(), |builder| {
                builder.add(Entry::put("k", 5, "v").as_ref())?;
                builder.add(second.as_ref())
            })
            .unwrap_err()
            .kind()
    };
    assert_eq!(refused(Entry::put("k", 5, "w")), InvalidInput);
    assert_eq!(refused(Entry::put("k", 6, "w")), InvalidInput);
    assert_eq!(refused(Entry::put("a", 6, "w")), InvalidInput);
    assert_eq!(refused(Entry::put(vec![b'z'; 65_536], 6, "w")), InvalidInput);
    assert_eq!(refused(Entry { kind: Kind::RangeDelete, ..Entry::put("l", 1, "m") }), InvalidInput);
    let empty = folder.write(plain(), |_| Ok(()));
    assert_eq!(empty.unwrap_err().kind(), InvalidInput);
}
