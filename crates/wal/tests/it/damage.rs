//! Bytes that changed on the disk are distinguished from a torn end, are never used, and never
//! cause a panic.

use crate::{
    Dice, ID, SMALL, all_files, dir, enqueue, file, mem, open, recover, recover_listed, seed,
};
use flagstone_base::{ErrorKind, FileNumber};
use flagstone_env::{Disk, MemDisk};
use flagstone_wal::{Listed, LogOptions, salvage};

/// A log of five records, of which the last says that the first four are synced, and the synced
/// offset.
fn small_log() -> (MemDisk, u64) {
    let disk = mem();
    let log = open(&disk, SMALL);
    for seqno in [21, 22, 23, 24] {
        enqueue(&log, seqno).unwrap();
    }
    log.sync_all().unwrap();
    let synced = log.bytes();
    log.write_through(enqueue(&log, 25).unwrap()).unwrap();
    (disk, synced)
}

/// The bits of both copies of a segment's header.
fn header_bits() -> impl Iterator<Item = usize> {
    (0..112).chain(4096..4096 + 112).flat_map(|byte| byte * 8..byte * 8 + 8)
}

fn flipped(whole: &[u8], bit: usize) -> Vec<u8> {
    let mut damaged = whole.to_vec();
    damaged[bit / 8] ^= 1 << (bit % 8);
    damaged
}

#[test]
fn any_flipped_bit_below_the_synced_offset_is_corruption_and_at_the_end_torn() {
    let (disk, synced) = small_log();
    let whole = disk.content(&file(1)).unwrap();
    assert!(synced < whole.len() as u64);
    for bit in 4608 * 8..whole.len() * 8 {
        disk.put_content(&file(1), &flipped(&whole, bit));
        let found = recover(&disk, None);
        if (bit / 8) as u64 >= synced {
            let (recovered, seqnos) = found.unwrap();
            assert_eq!(seqnos, [21, 22, 23, 24], "bit {bit}");
            assert_eq!(recovered.dropped_bytes, whole.len() as u64 - synced, "bit {bit}");
        } else {
            let error = found.expect_err(&format!("bit {bit} of {synced} bytes"));
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains("000001.wal, offset "), "{error}");
            assert!(error.to_string().contains("expected "), "{error}");
        }
    }
}

#[test]
fn one_damaged_copy_of_a_header_loses_nothing() {
    let (disk, _) = small_log();
    let whole = disk.content(&file(1)).unwrap();
    for bit in header_bits() {
        disk.put_content(&file(1), &flipped(&whole, bit));
        assert_eq!(recover(&disk, None).unwrap().1, [21, 22, 23, 24, 25], "bit {bit}");
    }
    for sector in [0, 4096] {
        let mut damaged = whole.clone();
        damaged[sector..sector + 512].fill(0);
        disk.put_content(&file(1), &damaged);
        assert_eq!(recover(&disk, None).unwrap().1, [21, 22, 23, 24, 25], "at {sector}");
    }
}

/// Both copies were in the first 512 bytes. Without these, the newest segment passed for an empty
/// one, and the log opened without an error.
#[test]
fn a_segment_with_synced_records_whose_header_is_lost_is_corruption() {
    let (disk, _) = small_log();
    let whole = disk.content(&file(1)).unwrap();
    for filler in [0, 0xEE] {
        let mut damaged = whole.clone();
        damaged[..112].fill(filler);
        damaged[4096..4608].fill(filler);
        disk.put_content(&file(1), &damaged);
        let error = recover(&disk, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("000001.wal"), "{error}");
    }
}

/// The file still had its former header, so the segment passed for one that was not begun.
#[test]
fn a_recycled_segment_whose_first_write_is_lost_is_corruption() {
    let disk = mem();
    let log = open(&disk, LogOptions { segment_bytes: 256 << 10, spares: 2, keep: None });
    let mut seqno = 0;
    let mut put = || {
        seqno += 1;
        log.sync_through(enqueue(&log, seqno).unwrap()).unwrap();
        seqno
    };
    while log.segments().len() < 2 {
        put();
    }
    let needed = log.segments()[1].number.0;
    log.release_before(FileNumber(needed)).unwrap();
    let taken = |number: &u64| !disk.content(&file(*number)).unwrap().is_empty();
    let recycled = (needed + 1..=16).find(taken).unwrap();
    let before = disk.content(&file(recycled)).unwrap();
    assert_eq!(recover(&disk, Some(needed)).unwrap().0.segments.len(), 1);
    log.rotate();
    let last = (0..40).map(|_| put()).last();
    assert_eq!(log.segments()[1].number.0, recycled);
    let whole = disk.content(&file(recycled)).unwrap();
    for lost in [0, 4608, 5120, 12 << 10] {
        let damaged = [&before[..lost], &whole[lost..]].concat();
        disk.put_content(&file(recycled), &damaged);
        let found = recover(&disk, Some(needed));
        if lost == 0 {
            assert_eq!(found.unwrap().1.last().copied(), last);
            continue;
        }
        let error = found.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(&format!("{recycled:06}.wal, offset 0")), "{error}");
        let listed = all_files(&disk, Some(needed));
        let salvaged = salvage(&disk, dir(), ID, &listed, &mut |_record| Ok(())).unwrap();
        assert_eq!(salvaged.lost[0].segment, FileNumber(recycled));
        assert!(!salvaged.lost[0].may_be_torn);
    }
}

#[test]
fn a_listed_file_that_is_missing_is_corruption_used_or_not() {
    let (disk, _) = small_log();
    let listed = all_files(&disk, None);
    assert_eq!(listed.files.len(), 16);
    for missing in &listed.files {
        let damaged = disk.kill();
        damaged.remove(&file(missing.0)).unwrap();
        let error = recover_listed(&damaged, &listed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(&format!("{missing}.wal")), "{error}");
        assert!(error.to_string().contains("missing"), "{error}");
        // Files before the oldest needed one may be missing.
        let from = Some(FileNumber(missing.0 + 1));
        let listed = Listed { from, ..listed.clone() };
        assert!(recover_listed(&damaged, &listed).is_ok());
    }
}

#[test]
fn a_segment_that_is_not_listed_is_corruption() {
    let (disk, _) = small_log();
    let mut listed = all_files(&disk, None);
    listed.files.remove(&FileNumber(1));
    let error = recover_listed(&disk, &listed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("000001.wal"), "{error}");
    // An empty file was created and not yet listed when the power was cut.
    let mut listed = all_files(&disk, None);
    listed.files.remove(&FileNumber(9));
    assert!(recover_listed(&disk, &listed).is_ok());
}

#[test]
fn a_prepared_segment_that_became_shorter_is_corruption_and_not_torn() {
    let disk = mem();
    let log = open(&disk, SMALL);
    let mut seqno = 0;
    while log.segments().len() < 2 {
        seqno += 1;
        log.sync_through(enqueue(&log, seqno).unwrap()).unwrap();
        while log.prepare().unwrap() {}
    }
    let last = file(log.segments()[1].number.0);
    let whole = disk.content(&last).unwrap();
    assert!(recover(&disk, None).is_ok());
    for len in [4608, 5000, SMALL.segment_bytes as usize - 1] {
        disk.put_content(&last, &whole[..len]);
        let error = recover(&disk, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("expected at least 8192 bytes"), "{error}");
    }
}

#[test]
fn a_segment_in_the_place_of_another_one_is_corruption() {
    let disk = mem();
    let log = open(&disk, SMALL);
    for seqno in 1..=60 {
        enqueue(&log, seqno).unwrap();
    }
    log.sync_all().unwrap();
    assert!(log.segments().len() > 3);
    for (from, to) in [(3, 2), (2, 3), (2, 9)] {
        let damaged = disk.kill();
        damaged.put_content(&file(to), &damaged.content(&file(from)).unwrap());
        let error = recover(&damaged, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(&format!("00000{to}.wal")), "{error}");
    }
}

#[test]
fn any_flipped_bit_of_a_segment_that_has_a_successor_is_corruption() {
    let disk = mem();
    let log = open(&disk, SMALL);
    enqueue(&log, 21).unwrap();
    enqueue(&log, 22).unwrap();
    log.rotate();
    enqueue(&log, 23).unwrap();
    log.sync_all().unwrap();
    let whole = disk.content(&file(1)).unwrap();
    for bit in 4608 * 8..whole.len() * 8 {
        disk.put_content(&file(1), &flipped(&whole, bit));
        assert_eq!(recover(&disk, None).unwrap_err().kind(), ErrorKind::Corruption, "bit {bit}");
    }
    for bit in header_bits() {
        disk.put_content(&file(1), &flipped(&whole, bit));
        assert_eq!(recover(&disk, None).unwrap().1, [21, 22, 23], "bit {bit}");
    }
    for len in 0..whole.len() {
        disk.put_content(&file(1), &whole[..len]);
        assert_eq!(recover(&disk, None).unwrap_err().kind(), ErrorKind::Corruption, "len {len}");
    }
}

#[test]
fn a_segment_cut_anywhere_gives_the_records_before_the_cut() {
    let (disk, _) = small_log();
    let whole = disk.content(&file(1)).unwrap();
    for len in 0..=whole.len() {
        disk.put_content(&file(1), &whole[..len]);
        let (recovered, seqnos) = recover(&disk, None).unwrap();
        assert_eq!(seqnos, (21..21 + seqnos.len() as u64).collect::<Vec<_>>());
        assert!(recovered.dropped_bytes < len.max(1) as u64);
        assert_eq!(seqnos.len() == 5, len == whole.len());
    }
}

#[test]
fn zeroes_after_the_end_are_not_torn_bytes() {
    let (disk, _) = small_log();
    let mut content = disk.content(&file(1)).unwrap();
    content.resize(3 << 20, 0);
    disk.put_content(&file(1), &content);
    let (recovered, seqnos) = recover(&disk, None).unwrap();
    assert_eq!((recovered.dropped_bytes, seqnos.len()), (0, 5));
    content[2 << 20] = 1;
    disk.put_content(&file(1), &content);
    let (recovered, _) = recover(&disk, None).unwrap();
    assert_eq!(recovered.dropped_bytes, (2 << 20) + 1 - recovered.segments[0].bytes);
}

#[test]
fn mutated_segments_are_read_or_refused_but_never_believed() {
    let seed = seed(0xDA3A);
    let disk = mem();
    let log = open(&disk, SMALL);
    for seqno in 1..=80 {
        let lsn = enqueue(&log, seqno).unwrap();
        if seqno % 9 == 0 {
            log.sync_through(lsn).unwrap();
        }
    }
    log.sync_all().unwrap();
    let names = disk.list(dir()).unwrap();
    let dice = Dice::new(seed);
    for round in 0..2000 {
        let damaged = disk.kill();
        for _ in 0..=dice.below(3) {
            let path = dir().join(&names[dice.below(names.len() as u64) as usize]);
            let mut content = damaged.content(&path).unwrap();
            if content.is_empty() {
                continue;
            }
            let at = dice.below(content.len() as u64) as usize;
            match dice.below(5) {
                0 => content.truncate(at),
                1 => content[at] = dice.below(256) as u8,
                2 => content[at..].iter_mut().take(8).for_each(|b| *b = 0xFF),
                3 => content.extend_from_within(at..),
                _ => content[at..].iter_mut().take(600).for_each(|b| *b = 0),
            }
            damaged.put_content(&path, &content);
        }
        match recover(&damaged, Some(1)) {
            Ok((_, seqnos)) => {
                assert_eq!(seqnos, (1..=seqnos.len() as u64).collect::<Vec<_>>(), "{round}");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{round}"),
        }
    }
}
