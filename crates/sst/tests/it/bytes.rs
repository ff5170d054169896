//! Tests of the bytes of tables: what version 1 writes never changes.

use crate::tools::{Entry, Folder, IDENT, get, plain};
use flagstone_base::{Compression, ErrorKind, KeyspaceId, Kind, Moment, Result, SeqNo, TreeId};
use flagstone_env::{Disk, MemDisk};
use flagstone_sst::{
    BlockCache, BuilderOptions, Expiries, InspectOptions, Table, TableBuilder, TableIdent,
    TableMeta, TableOptions, inspect,
};

/// `apple#9:Put=red`, `apple#4:Delete`, `applesauce#300:Merge=+1`, `pear#5:Put=green`, the range
/// delete `[b..c)#6`, attachment 1 `shape`; database `db` x 16, table 42, keyspace 3, tree 4, hash
/// seed 7.
///
/// ```text
/// 000  46535354 48454144                   magic FSSTHEAD
/// 008  01000000 00000000 00000000 00000000 version 1, features
/// 018  dbdbdbdb dbdbdbdb dbdbdbdb dbdbdbdb database
/// 028  2a000000 00000000                   table 42
/// 030  00000000 00000000 00000000 37b7274d zeros, crc
/// 040  01 00 05 03 "apple" "red"           data block: put, restart
/// 04c  02 05 00 00                         delete, shares 5 = "apple"
/// 050  04 05 05 02 "sauce" "+1"            merge
/// 05b  01 00 04 05 "pear" "green"          put, shares nothing
/// 068  0000 0500  0c00 0000                places: offset, SeqNo - 4 (w = 2)
/// 070  1000 2801  1b00 0100
/// 078  cd cd 57 65                         fingerprints
/// 07c  04000000 00000000 04000000          base 4, n 4
/// 088  02 02 04 00                         w, o, restart shift, zero
/// 08c  4c000000 00 87c8d88c                raw length 76, none, crc
/// 095  32 bytes                            filter: one part of one block
/// 0b5  20000000 00 df438d60                raw length 32, none, crc
/// 0be  01 06 01 "b" 01 "c"                 range deletes: one, #6
/// 0c4  06000000 00 81144123
/// 0cd  01 01 05 "shape"                    attachments: one, id 1
/// 0d5  08000000 00 5c9e3f3f
/// 0de  01 40 00                            index: one block from 64, none continued
/// 0e1  55 00 05 "apple"                    85 bytes, shares 0, separator
/// 0e9  0b000000 00 6380c94d
/// 0f2  01 39 ... 11 02 00 00  12 01 01     properties: content, 57 bytes, at its end:
///                                          no compression, one older version
/// 12d  02 01 03  03 01 04  04 01 07        keyspace 3, tree 4, seed 7
/// 136  06 01 01  07 01 4c  08 01 4c        one block, 76 raw, largest 76
/// 13f  09 01 04                            sampled: 4 zero bits, which no key here has
/// 142  20 03 be01 0f  21 03 cd01 11        range deletes 190+15, attachments 205+17
/// 14c  23 03 de01 14  24 03 9501 01        index 222+20, filter from 149 with 1 block
/// 156  64000000 00 ad374b10
/// 15f  f2000000 00000000 6d000000 00000000 footer: properties 242+109
/// 16f  be000000 00000000 00000000          tail from 190
/// 17b  46535354 464f4f54 ...               label as in the header, FSSTFOOT
/// 1ab  70f7fd9e                            crc
/// ```
const GOLDEN: &[u8] = include_bytes!("golden.sst");
/// The same table as written when the filter was one section of the tail.
const GOLDEN_ONE_FILTER: &[u8] = include_bytes!("golden_one_filter.sst");
/// The same table in blocks of 64 bytes, with an index in parts of one block.
const GOLDEN_INDEX_PARTS: &[u8] = include_bytes!("golden_index_parts.sst");
/// The same table as written before tables recorded their compression.
const GOLDEN_NO_COMPRESSION: &[u8] = include_bytes!("golden_no_compression.sst");

/// A table with two entries that expire.
const GOLDEN_EXPIRIES: &[u8] = include_bytes!("golden_expiries.sst");

fn options() -> BuilderOptions {
    BuilderOptions { hash_seed: 7, keyspace: KeyspaceId(3), tree: TreeId(4), ..plain().into() }
}

fn entries() -> Vec<Entry> {
    let mut entries = vec![
        Entry::put("apple", 9, "red"),
        Entry { kind: Kind::Delete, ..Entry::put("apple", 4, "") },
        Entry { kind: Kind::Merge, ..Entry::put("applesauce", 300, "+1") },
        Entry::put("pear", 5, "green"),
    ];
    entries.sort_by(|a, b| a.as_ref().order(&b.as_ref()));
    entries
}

fn fill(builder: &mut TableBuilder) -> Result<()> {
    builder.attach(1, b"shape");
    builder.add_range_delete(b"b", b"c", SeqNo::new(6))?;
    entries().iter().try_for_each(|entry| builder.add(entry.as_ref()))
}

fn expiring() -> [Entry; 3] {
    [
        Entry::put("apple", 9, "red").expiring(1_700_000_000_000),
        Entry::put("applesauce", 7, "+1"),
        Entry::put("pear", 5, "green").expiring(1_700_000_005_000),
    ]
}

fn fill_expiring(builder: &mut TableBuilder) -> Result<()> {
    expiring().iter().try_for_each(|entry| builder.add(entry.as_ref()))
}

#[test]
fn the_same_entries_give_the_same_bytes_for_ever() {
    type Fill = fn(&mut TableBuilder) -> Result<()>;
    let tables = TableOptions { block_bytes: 64, ..plain() };
    let in_parts = BuilderOptions { tables, index_part_blocks: 1, ..options() };
    let tables: [(_, _, Fill, _); 3] = [
        ("golden.sst", options(), fill, GOLDEN),
        ("golden_index_parts.sst", in_parts, fill, GOLDEN_INDEX_PARTS),
        ("golden_expiries.sst", options(), fill_expiring, GOLDEN_EXPIRIES),
    ];
    for (name, options, fill, golden) in tables {
        let folder = Folder::new();
        folder.write(options, fill).unwrap();
        let written = std::fs::read(folder.path()).unwrap();
        if std::env::var_os("FLAGSTONE_GOLDEN").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/");
            std::fs::write(format!("{folder}{name}"), &written).unwrap();
        }
        assert!(written == golden, "the format of {name} changed: version 1 never does");
    }
}

#[test]
fn an_index_in_parts_is_a_feature_that_a_reader_must_know() {
    let feature = |bytes: &[u8]| bytes[bytes.len() - 80 + 28 + 16];
    assert_eq!((feature(GOLDEN), feature(GOLDEN_INDEX_PARTS)), (0, 1));
    let folder = Folder::new();
    std::fs::write(folder.path(), GOLDEN_INDEX_PARTS).unwrap();
    for cache_bytes in [0, 1 << 20] {
        let table = folder.open_in(None, &BlockCache::new(cache_bytes)).unwrap();
        table.verify().unwrap();
        table.verify_stored().unwrap();
        assert_eq!(get(&table, b"apple", 99).unwrap(), entries()[..2]);
        assert_eq!(get(&table, b"pear", 99).unwrap(), entries()[3..]);
    }
    let mut text = String::new();
    let options = InspectOptions { entries: true };
    inspect(&folder.disk, &folder.path(), options, &mut text).unwrap();
    for word in ["in 2 parts", "features 0x0 0x1 0x0", "entry    0 apple#9:Put=red", "pear#5"] {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
}

#[test]
fn expiries_are_a_feature_that_a_reader_must_know() {
    let feature = |bytes: &[u8]| bytes[bytes.len() - 80 + 28 + 16];
    assert_eq!((feature(GOLDEN), feature(GOLDEN_EXPIRIES)), (0, 2));
    let folder = Folder::new();
    std::fs::write(folder.path(), GOLDEN_EXPIRIES).unwrap();
    let table = folder.open(None).unwrap();
    table.verify().unwrap();
    for entry in expiring() {
        assert_eq!(get(&table, &entry.key, 99).unwrap(), [entry]);
    }
    let Expiries { count, min, median, max } = table.properties().content.expiries;
    let millis = [min, median, max].map(Moment::millis);
    assert_eq!((count, millis), (2, [1_700_000_000_000, 1_700_000_000_000, 1_700_000_005_000]));
    let mut text = String::new();
    let options = InspectOptions { entries: true };
    inspect(&folder.disk, &folder.path(), options, &mut text).unwrap();
    for word in ["2 expire @1700000000000..@1700000005000", "apple#9:Put@1700000000000=red"] {
        assert!(text.contains(word), "{word} is missing in\n{text}");
    }
}

#[test]
fn a_table_of_version_1_is_read() {
    for (bytes, compression, size) in [
        (GOLDEN_NO_COMPRESSION, None, "429 B"),
        (GOLDEN_ONE_FILTER, Some(Compression::None), "433 B plain"),
        (GOLDEN, Some(Compression::None), "431 B plain"),
    ] {
        let folder = Folder::new();
        std::fs::write(folder.path(), bytes).unwrap();
        let table = folder.open(None).unwrap();
        assert_eq!(table.verify().unwrap().entries, 4);
        assert_eq!(get(&table, b"apple", 99).unwrap(), entries()[..2]);
        assert_eq!(table.properties().tree, TreeId(4));
        assert_eq!(table.properties().content.compression, compression);
        let shown = format!("000042 [apple..pear] #4..#300 4 entries 1 range deletes {size}");
        assert_eq!(table.to_string(), shown);
    }
}

#[test]
fn an_inspection_shows_what_is_there() {
    let folder = Folder::new();
    std::fs::write(folder.path(), GOLDEN).unwrap();
    let mut text = String::new();
    let options = InspectOptions { entries: true };
    inspect(&folder.disk, &folder.path(), options, &mut text).unwrap();
    for line in [
        "table    000042 [apple..pear] #4..#300 4 entries 1 range deletes 431 B plain",
        "header   format 1, features 0x0 0x0 0x0, database dbdbdbdbdbdbdbdbdbdbdbdbdbdbdbdb, \
         table 000042",
        "deleted  [b..c)#6",
        "attached 1: 5 bytes",
        "entry    0 apple#9:Put=red",
        "entry    2 applesauce#300:Merge=+1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
}

#[test]
fn every_compression_holds_the_same_and_packs_what_repeats() {
    let folder = Folder::new();
    let write = |compression| {
        let meta = folder
            .write(TableOptions { compression, ..plain() }, |builder| {
                (0..2000).try_for_each(|i| {
                    builder.add(Entry::put(format!("{i:05}"), 1, [b'v'; 90]).as_ref())
                })
            })
            .unwrap();
        assert_eq!(meta.compression, Some(compression));
        let table = folder.open(Some(&meta)).unwrap();
        table.verify().unwrap();
        assert_eq!(table.properties().content.compression, Some(compression));
        meta
    };
    let plain = write(Compression::None);
    assert!(write(Compression::Lz4).bytes < plain.bytes / 4);
    assert!(write(Compression::Zstd(1)).bytes < plain.bytes / 4);
}

/// The reason why the manifest holds a salt: in a file whose blocks all end with their crc, the crc
/// of the file does not depend on the contents of the blocks. So it cannot distinguish two tables
/// of the same length, number and salt.
#[test]
fn the_checksum_of_a_file_distinguishes_salts_but_not_values() {
    let folder = Folder::new();
    let write = |value: &str| {
        let fill = |builder: &mut TableBuilder| builder.add(Entry::put("key", 7, value).as_ref());
        folder.write(options(), fill).unwrap()
    };
    let (one, other) = (write("this"), write("that"));
    assert_eq!(one, other);
    let file = |salt| {
        let ident = TableIdent { salt, ..IDENT };
        let path = std::path::Path::new("t");
        let disk = MemDisk::default();
        let mut builder = TableBuilder::new(disk.create(path).unwrap(), ident, options()).unwrap();
        builder.add(Entry::put("key", 7, "this").as_ref()).unwrap();
        let meta = builder.finish().unwrap();
        assert_eq!(meta.salt, salt);
        let open = |meta| {
            let cache = BlockCache::new(1 << 20);
            Table::open(disk.open(path).unwrap(), IDENT, meta, &cache)
        };
        let table = open(Some(&meta)).unwrap();
        table.verify().unwrap();
        open(None).unwrap().verify().unwrap();
        let other = TableMeta { salt: salt + 1, ..meta.clone() };
        assert_eq!(open(Some(&other)).unwrap_err().kind(), ErrorKind::Corruption);
        meta.checksum
    };
    assert_ne!(file(1), file(2));
}
