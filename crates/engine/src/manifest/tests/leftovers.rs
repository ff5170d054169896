//! What a directory may hold: nothing, the remains of a creation, a database, or part of one.

use super::support::*;
use crate::manifest::*;
use flagstone_base::ErrorKind;
use flagstone_env::{Disk, MemDisk, SeededRandom};
use std::collections::BTreeSet;
use std::path::Path;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(DIR).join(name)
}

#[test]
fn where_there_is_no_database_none_is_found() {
    let nowhere = World::on(MemDisk::default());
    assert!(nowhere.load().unwrap().is_none());
    let world = World::new();
    assert!(world.load().unwrap().is_none());
    for name in ["LOCK", "CURRENT.tmp", "notes.txt", "000001.manifest"] {
        world.mem.put_content(&path(name), b"x");
        assert!(world.load().unwrap().is_none(), "{name}");
    }
    let manifest = world.open().unwrap();
    assert_eq!(manifest.number().to_string(), "000001");
}

#[test]
fn a_finished_manifest_without_current_is_a_leftover_only_while_it_is_new() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    let current = world.mem.content(&path("CURRENT")).unwrap();
    world.mem.remove(&path("CURRENT")).unwrap();
    assert!(world.load().unwrap().is_none());
    world.mem.put_content(&path("CURRENT"), &current);
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    world.mem.remove(&path("CURRENT")).unwrap();
    let error = world.load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("CURRENT"), "{error}");
}

#[test]
fn tables_or_logs_without_current_are_corruption() {
    for name in ["000004.sst", "000003.wal"] {
        let world = World::new();
        world.mem.put_content(&path(name), b"");
        let error = world.load().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let text = "holds data of a database, but CURRENT, which names its manifest, is missing";
        assert_eq!(error.to_string(), format!("{}: {text}", path(name).display()));
        assert!(world.open().is_err());
    }
}

#[test]
fn a_missing_or_foreign_manifest_is_corruption() {
    let world = World::new();
    drop(world.open().unwrap());
    let bytes = world.mem.content(&path("000001.manifest")).unwrap();
    let manifest = path("000001.manifest");
    world.mem.remove(&manifest).unwrap();
    let text = format!("{}: CURRENT names it, but it is missing", manifest.display());
    assert_eq!(world.load().unwrap_err().to_string(), text);
    let mut foreign = bytes.clone();
    foreign[30] ^= 1;
    let crc = flagstone_base::checksum::crc32c(&foreign[..60]);
    foreign[60..64].copy_from_slice(&crc.to_le_bytes());
    world.mem.put_content(&path("000001.manifest"), &foreign);
    let error = world.load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("of database"), "{error}");
    world.mem.put_content(&path("000001.manifest"), &bytes);
    assert!(world.load().unwrap().is_some());
}

#[test]
fn there_is_one_creation() {
    let world = World::new();
    drop(world.open().unwrap());
    let error = Manifest::create(world.location(), ID, ManifestState::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_database_of_a_newer_writer_may_be_read_but_not_written() {
    let world = World::new();
    drop(world.open().unwrap());
    let mut bytes = world.mem.content(&path("000001.manifest")).unwrap();
    bytes[20] = 2;
    let crc = flagstone_base::checksum::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    world.mem.put_content(&path("000001.manifest"), &bytes);
    assert!(world.load().unwrap().unwrap().write_refused.is_some());
    assert_eq!(world.open().err().unwrap().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_new_file_gets_a_number_above_everything_in_the_directory() {
    let world = World::new();
    drop(world.open().unwrap());
    world.mem.put_content(&path("000040.sst"), b"unfinished");
    world.mem.put_content(&path("000050.manifest"), b"unfinished");
    world.mem.put_content(&path("CURRENT.tmp"), b"unfinished");
    let world = World::on(world.mem.kill());
    let manifest = world.open().unwrap();
    assert_eq!(manifest.number().to_string(), "000051");
    assert_eq!(manifest.state().next_file.to_string(), "000052");
}

#[test]
fn a_clean_close_is_known_at_the_next_open_which_clears_it() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&Edit { clean_close: true, ..Edit::default() }).unwrap();
    drop(manifest);
    assert!(world.load().unwrap().unwrap().state.clean_close);
    drop(world.open().unwrap());
    assert!(!world.load().unwrap().unwrap().state.clean_close);
}

#[test]
fn a_file_is_shown_frame_by_frame_even_when_it_is_damaged() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    let damaged = manifest.bytes() as usize - 1;
    let next = Edit { last_seqno: Some(flagstone_base::SeqNo::new(300)), ..Edit::default() };
    manifest.append(&next).unwrap();
    let path = path("000001.manifest");
    let bytes = world.mem.content(&path).unwrap();
    let shown = |bytes: &[u8]| {
        world.mem.put_content(&path, bytes);
        let mut text = String::new();
        dump(&world.disk, &path, &mut text).unwrap();
        text
    };
    let text = shown(&bytes);
    assert_eq!(
        text,
        "manifest 000001 of database 30313233343536373839616263646566, made from 000000, format 2, \
         features 0x0 0x0 0x0\n\
         offset 64: snapshot of 12 bytes\n  last SeqNo #0\n  next file 000002\n  \
         next keyspace 1, next tree 1, epoch 0\n\
         offset 84: edit of 55 bytes\n  created keyspace 1 \"a\": bytes, 1 hash partition, \
         compression lz4, bottom_compression zstd 1, block_bytes 16384, filter_bits 10, \
         bottom_dictionary false\n\
         offset 147: edit of 5 bytes\n  last SeqNo #300\n"
    );
    let mut broken = bytes;
    broken[damaged] ^= 1;
    let text = shown(&broken);
    assert!(text.contains("offset 84: 63 bytes that are no frame\noffset 147: edit"), "{text}");
}

#[test]
fn a_new_database_has_golden_bytes() {
    let world = World::new();
    let mut manifest = world.open().unwrap();
    manifest.append(&created(keyspace(1, "a", 1))).unwrap();
    let bytes = world.mem.content(&path("000001.manifest")).unwrap();
    let golden = [
        &b"FSMANIFS"[..],
        &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        b"0123456789abcdef",
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x9C, 0x0F, 0x48, 0x1C],
        &[12, 0, 0, 0, 0x45, 0x42, 0x25, 0xDE],
        &[1, 1, 3, 1, 1, 0, 13, 1, 0, 15, 1, 2],
        &[55, 0, 0, 0, 0x57, 0x20, 0x9A, 0xDC],
        &[2, 3, 52, 51],
        &[1, 1, 1, 3, 1, b'a', 5, 1, 1],
        &[7, 17, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[
            9, 5, b'b', b'y', b't', b'e', b's', 12, 2, 1, 0, 14, 2, 2, 1, 16, 3, 0x80, 0x80, 1, 18,
            1, 10,
        ],
    ];
    assert_eq!(bytes, golden.concat());
}

/// Commits wait while the edit of an ingest is appended.
#[test]
fn an_append_for_which_a_file_was_begun_begins_none() {
    let (world, random) = (World::new(), SeededRandom::new(3));
    let mut manifest = world.open().unwrap();
    let mut files = BTreeSet::new();
    for file in 0..40 {
        let edit = next_edit(manifest.state(), &random, 1000 + file);
        manifest.roll_before(400);
        let number = manifest.number();
        manifest.append(&edit).unwrap();
        assert_eq!(manifest.number(), number);
        files.insert(number);
    }
    assert!(files.len() > 2 && world.load().unwrap().is_some());
}
