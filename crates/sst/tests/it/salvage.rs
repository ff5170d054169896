//! Tests that everything outside of the damage of a table can be read, and that the damage is
//! reported.

use flagstone_base::{Compression, DatabaseId, EntryRef, FileNumber, Kind, SeqNo};
use flagstone_env::{Disk, MemDisk};
use flagstone_sst::{
    BuilderOptions, Salvage, SalvageCursor, TableBuilder, TableIdent, TableMeta, TableOptions,
};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/000042.sst";
const IDENT: TableIdent =
    TableIdent { database: DatabaseId([7; 16]), number: FileNumber(42), salt: 9 };
const KEYS: u32 = 120;

/// 120 keys with two versions each, in blocks of 256 bytes, a range delete and an attachment.
fn table(disk: &MemDisk) -> TableMeta {
    table_with(disk, 256)
}

fn table_with(disk: &MemDisk, index_part_blocks: usize) -> TableMeta {
    let tables =
        TableOptions { block_bytes: 256, compression: Compression::Lz4, ..TableOptions::default() };
    let options = BuilderOptions { tables, index_part_blocks, ..BuilderOptions::default() };
    let mut builder =
        TableBuilder::new(disk.create(Path::new(PATH)).unwrap(), IDENT, options).unwrap();
    for n in 0..KEYS {
        for seqno in [2000 + n, 1000 + n] {
            let value = [n as u8, seqno as u8, 3, 4];
            let key = n.to_be_bytes();
            let entry = EntryRef::new(&key, SeqNo::new(seqno.into()), Kind::Put, &value);
            builder.add(entry).unwrap();
        }
    }
    builder.add_range_delete(b"x", b"z", SeqNo::new(7)).unwrap();
    builder.attach(1, b"name");
    builder.finish().unwrap()
}

fn read(salvage: Salvage) -> (Vec<(u32, u64)>, Arc<Salvage>) {
    let salvage = Arc::new(salvage);
    let mut cursor = SalvageCursor::new(&salvage);
    let mut entries = Vec::new();
    while cursor.advance().unwrap() {
        let entry = cursor.entry().unwrap();
        let key = u32::from_be_bytes(entry.key.try_into().unwrap());
        assert_eq!(entry.value[..2], [key as u8, entry.seqno().get() as u8]);
        entries.push((key, entry.seqno().get()));
    }
    (entries, salvage)
}

fn salvage(bytes: &[u8], known: Option<&TableMeta>) -> (Vec<(u32, u64)>, Arc<Salvage>) {
    let disk = MemDisk::default();
    disk.put_content(Path::new(PATH), bytes);
    read(Salvage::of(disk.open(Path::new(PATH)).unwrap(), IDENT, known))
}

/// Checks that every entry can be read, or that its key is in a part reported as lost.
fn check(entries: &[(u32, u64)], salvage: &Salvage, lost_max: usize) {
    let mut missing = 0;
    for n in 0..KEYS {
        for seqno in [2000 + u64::from(n), 1000 + u64::from(n)] {
            if entries.contains(&(n, seqno)) {
                continue;
            }
            missing += 1;
            let key = n.to_be_bytes();
            let told = salvage.lost().iter().any(|part| {
                part.from[..] <= key[..] && part.to.as_ref().is_none_or(|to| to[..] >= key[..])
            });
            assert!(told, "key {n} is missing: {:?}", salvage.lost());
        }
    }
    assert!(missing <= lost_max, "{missing} entries are missing: {:?}", salvage.lost());
}

#[test]
fn each_byte_damaged_loses_one_block_at_most() {
    each_byte_damaged(256, 200);
}

#[test]
fn a_damaged_part_of_the_index_loses_nothing() {
    each_byte_damaged(4, 700);
}

/// Damages one byte after another. Filter and index parts are within the last `no_data` bytes
/// before the tail.
fn each_byte_damaged(index_part_blocks: usize, no_data: u64) {
    let disk = MemDisk::default();
    let meta = table_with(&disk, index_part_blocks);
    let bytes = disk.content(Path::new(PATH)).unwrap();
    let (entries, whole) = salvage(&bytes, None);
    assert_eq!((entries.len(), whole.lost().len()), (240, 0));
    assert_eq!(whole.range_deletes().unwrap().count(), 1);
    assert_eq!(whole.attachments().unwrap().len(), 1);
    // Some bytes of the header, every block, every section and the footer.
    for at in (0..bytes.len()).step_by(13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        for known in [None, Some(&meta)] {
            let (entries, salvage) = salvage(&damaged, known);
            check(&entries, &salvage, 24);
            // The filter and the index parts in between have no entries.
            let tail = meta.bytes - meta.tail_bytes;
            let data = tail - no_data;
            let (at, is_lost) = (at as u64, !salvage.lost().is_empty());
            assert!(is_lost || at < 64 || at >= data, "byte {at}");
            assert!(!is_lost || (64..tail).contains(&at), "byte {at}");
        }
    }
}

#[test]
fn a_table_cut_anywhere_keeps_the_blocks_before() {
    let disk = MemDisk::default();
    let meta = table(&disk);
    let bytes = disk.content(Path::new(PATH)).unwrap();
    let mut before = 0;
    for len in (0..bytes.len()).step_by(97) {
        let (entries, salvage) = salvage(&bytes[..len], Some(&meta));
        check(&entries, &salvage, 240);
        assert!(entries.len() >= before, "the longer, the more");
        before = entries.len();
        let _no_panic = self::salvage(&bytes[..len], None);
    }
    assert_eq!(before, 240);
}

#[test]
fn two_damaged_blocks_and_a_damaged_tail_leave_the_blocks_between() {
    let disk = MemDisk::default();
    let meta = table(&disk);
    let mut bytes = disk.content(Path::new(PATH)).unwrap();
    let tail = bytes.len() - 40;
    for at in [300, 1500, tail] {
        bytes[at] ^= 1;
    }
    let (entries, salvage) = salvage(&bytes, Some(&meta));
    check(&entries, &salvage, 48);
    assert_eq!(salvage.lost().len(), 2);
    assert_eq!(salvage.range_deletes().unwrap().count(), 1);
}

#[test]
fn another_table_under_this_name_gives_nothing() {
    let disk = MemDisk::default();
    let meta = table(&disk);
    let file = disk.open(Path::new(PATH)).unwrap();
    let other = TableIdent { number: FileNumber(43), ..IDENT };
    let (entries, salvage) = read(Salvage::of(file, other, Some(&meta)));
    assert!(entries.is_empty() && salvage.lost().len() == 1);
}
