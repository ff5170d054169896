//! Segments that are kept for readers of changes, and what these readers find.

use crate::{
    BATCH, ID, SMALL, all_files, create, dir, enqueue, file, mem, open, payload, recover,
    recover_listed, release_through,
};
use flagstone_base::{ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::names::{Name, parse};
use flagstone_env::{Disk, Effect, Failure, Fault, FaultDisk, MemDisk, Op};
use flagstone_wal::{
    ChangeSource, Keep, Listed, Log, LogCursor, LogFiles, LogOptions, NewestKept, RecordKind,
    Recovered, VerifyDepth, payload_checksum,
};
use std::sync::Arc;
use std::time::Duration;

const KEPT: LogOptions =
    LogOptions { keep: Some(Keep { bytes: 1 << 20, age: Duration::MAX }), ..SMALL };

/// The SeqNos of the records that the cursor finds now.
fn follow(source: ChangeSource<'_>, cursor: &mut LogCursor) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    loop {
        let next = cursor.next(source, SeqNo::MAX, |record| {
            assert_eq!(record.payload, payload(record.first_seqno.get()));
            Ok(record.first_seqno.get())
        });
        match next? {
            Some(seqno) => found.push(seqno),
            None => return Ok(found),
        }
    }
}

fn all_after(log: &Log, seqno: u64) -> Result<Vec<u64>> {
    follow(ChangeSource::Log(log), &mut LogCursor::after(SeqNo::new(seqno)))
}

fn commit(log: &Log, seqnos: std::ops::RangeInclusive<u64>) {
    seqnos.for_each(|seqno| log.sync_through(enqueue(log, seqno).unwrap()).unwrap());
}

fn kept_files(disk: &MemDisk) -> usize {
    let names = disk.list(dir()).unwrap();
    names.iter().filter(|name| matches!(parse(name), Name::Kept(_))).count()
}

/// Recovers a log that was closed, of which the manifest names the newest kept segment.
fn recover_after(
    disk: &MemDisk,
    from: FileNumber,
    newest_kept: Option<NewestKept>,
) -> Result<(Recovered, Vec<u64>)> {
    recover_listed(disk, &Listed { newest_kept, ..all_files(disk, Some(from.0)) })
}

fn range(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

#[test]
fn records_are_found_in_order_from_any_place_once_they_are_synced() {
    let disk = mem();
    let log = open(&disk, KEPT);
    let mut cursor = LogCursor::after(SeqNo::ZERO);
    let last = (1..=50).map(|seqno| enqueue(&log, seqno).unwrap()).last().unwrap();
    log.write_through(last).unwrap();
    let found = follow(ChangeSource::Log(&log), &mut cursor).unwrap();
    assert!(found.len() < 50, "the last segment is not synced");
    log.sync_through(last).unwrap();
    let rest = follow(ChangeSource::Log(&log), &mut cursor).unwrap();
    assert_eq!([found, rest].concat(), range(1, 50));
    commit(&log, 51..=100);
    assert_eq!(follow(ChangeSource::Log(&log), &mut cursor).unwrap(), range(51, 100));
    assert!(release_through(&log, 100).unwrap() > 3);
    assert_eq!(kept_files(&disk), log.changes_info().segments as usize - 1);
    for after in [0, 1, 37, 99, 100] {
        assert_eq!(all_after(&log, after).unwrap(), range(after + 1, 100));
    }
}

#[test]
fn a_log_continues_kept_segments_after_a_clean_end_and_after_a_crash() {
    let disk = mem();
    let log = open(&disk, KEPT);
    commit(&log, 1..=40);
    let from = log.next_number();
    let newest_kept = log.newest_kept_before(from);
    log.remove_files().unwrap();
    drop(log);
    let names = disk.list(dir()).unwrap();
    assert!(names.iter().all(|name| matches!(parse(name), Name::Kept(_))), "{names:?}");
    let (recovered, seqnos) = recover_after(&disk, from, newest_kept).unwrap();
    assert_eq!(seqnos, [0; 0]);
    let files = LogFiles::find(&disk, dir(), ID, &recovered, SeqNo::new(40)).unwrap();
    let mut cursor = LogCursor::after(SeqNo::new(7));
    assert_eq!(follow(ChangeSource::Files(&files, &disk), &mut cursor).unwrap(), range(8, 40));
    let log = create(Arc::new(disk.clone()), KEPT, &recovered).unwrap();
    log.begin_changes(SeqNo::new(40));
    commit(&log, 41..=80);
    assert_eq!(all_after(&log, 0).unwrap(), range(1, 80));
    // The manifest says where the log begins, and no file was renamed before the crash.
    let needed = log.segments().last().unwrap().number;
    let crashed = disk.crash_losing_unsynced();
    let (recovered, _) = recover(&crashed, Some(needed.0)).unwrap();
    let before = kept_files(&crashed);
    let log = create(Arc::new(crashed.clone()), KEPT, &recovered).unwrap();
    assert!(kept_files(&crashed) > before);
    commit(&log, 81..=120);
    assert_eq!(all_after(&log, 0).unwrap(), range(1, 120));
}

#[test]
fn what_is_beyond_the_bound_is_removed_and_a_reader_of_it_is_told() {
    let disk = mem();
    let keep = Some(Keep { bytes: 20_000, age: Duration::MAX });
    let log = open(&disk, LogOptions { keep, ..KEPT });
    commit(&log, 1..=30);
    let mut slow = LogCursor::after(SeqNo::ZERO);
    let first = slow.next(ChangeSource::Log(&log), SeqNo::MAX, |record| Ok(record.first_seqno));
    assert_eq!(first.unwrap(), Some(SeqNo::new(1)));
    commit(&log, 31..=200);
    release_through(&log, 200).unwrap();
    let dropped = log.trim_changes().unwrap();
    assert!(dropped.segments > 2 && dropped.through > SeqNo::new(30), "{dropped:?}");
    assert_eq!(log.changes_info().dropped_through, dropped.through);
    assert!(log.changes_info().bytes < 60_000);
    let oldest = dropped.through.get();
    assert_eq!(all_after(&log, oldest).unwrap(), range(oldest + 1, 200));
    for refused in [follow(ChangeSource::Log(&log), &mut slow), all_after(&log, oldest - 1)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooOld);
    }
    log.drop_changes().unwrap();
    assert_eq!(kept_files(&disk), 0);
}

/// The first SeqNo of a session says where the one before has ended, also if numbers are skipped.
#[test]
fn when_all_of_a_session_is_removed_a_reader_at_its_end_has_missed_nothing() {
    let disk = mem();
    let log = open(&disk, KEPT);
    commit(&log, 1..=40);
    let from = log.next_number();
    let newest_kept = log.newest_kept_before(from);
    log.remove_files().unwrap();
    drop(log);
    let (recovered, _) = recover_after(&disk, from, newest_kept).unwrap();
    let log = create(Arc::new(disk.clone()), KEPT, &recovered).unwrap();
    log.begin_changes(SeqNo::new(42));
    commit(&log, 1000..=1040);
    assert_eq!(all_after(&log, 30).unwrap(), [range(31, 40), range(1000, 1040)].concat());
    let first = log.segments()[0].number;
    drop(log);
    let (whole, _) = recover(&disk, Some(first.0)).unwrap();
    for name in disk.list(dir()).unwrap() {
        if matches!(parse(&name), Name::Kept(_)) {
            disk.remove(&dir().join(name)).unwrap();
        }
    }
    let log = create(Arc::new(disk.clone()), KEPT, &whole).unwrap();
    log.begin_changes(SeqNo::new(1040));
    for after in [42, 43, 999] {
        assert_eq!(all_after(&log, after).unwrap(), range(1000, 1040));
    }
    assert_eq!(all_after(&log, 41).unwrap_err().kind(), ErrorKind::TooOld);
}

#[test]
fn a_verification_reads_kept_segments() {
    let disk = mem();
    let log = open(&disk, KEPT);
    commit(&log, 1..=60);
    release_through(&log, 60).unwrap();
    let listed = all_files(&disk, None);
    let verify = |depth| log.verify(&listed, depth, &mut |_record| Ok(()));
    assert_eq!(verify(VerifyDepth::Full).unwrap().records, 60);
    let names = disk.list(dir()).unwrap();
    let name = names.iter().find(|name| matches!(parse(name), Name::Kept(_))).unwrap();
    let path = dir().join(name);
    let whole = disk.content(&path).unwrap();
    for (at, is_seen_quickly) in [(4640, false), (0, true)] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        // Without a header when both copies are damaged.
        bytes[4096 + at % 4096] ^= u8::from(is_seen_quickly);
        disk.put_content(&path, &bytes);
        assert_eq!(verify(VerifyDepth::Full).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(verify(VerifyDepth::Quick).is_err(), is_seen_quickly);
    }
    disk.put_content(&path, &whole);
    verify(VerifyDepth::Full).unwrap();
}

#[test]
fn without_keeping_released_segments_are_used_again_and_kept_ones_are_removed() {
    let disk = mem();
    let log = open(&disk, KEPT);
    commit(&log, 1..=60);
    release_through(&log, 60).unwrap();
    assert!(kept_files(&disk) > 0);
    let needed = log.segments()[0].number;
    drop(log);
    let (recovered, _) = recover(&disk, Some(needed.0)).unwrap();
    let log = create(Arc::new(disk.clone()), SMALL, &recovered).unwrap();
    assert_eq!(kept_files(&disk), 0);
    commit(&log, 61..=120);
    release_through(&log, 120).unwrap();
    assert_eq!(kept_files(&disk), 0);
    let needed = log.segments()[0].number;
    drop(log);
    // What was logged in between does not note gaps, so no reader may read it.
    let (recovered, _) = recover(&disk, Some(needed.0)).unwrap();
    let log = create(Arc::new(disk.clone()), KEPT, &recovered).unwrap();
    log.begin_changes(SeqNo::new(120));
    commit(&log, 121..=140);
    assert_eq!(all_after(&log, 119).unwrap_err().kind(), ErrorKind::TooOld);
    assert_eq!(all_after(&log, 120).unwrap(), range(121, 140));
}

/// The manifest names the newest kept segment: the log cannot, after a clean end.
#[test]
fn a_lost_or_foreign_newest_segment_ends_the_chain() {
    let disk = mem();
    let log = open(&disk, KEPT);
    commit(&log, 1..=60);
    let from = log.next_number();
    let newest_kept = log.newest_kept_before(from).unwrap();
    log.remove_files().unwrap();
    drop(log);
    let found = |disk: &MemDisk, newest_kept: Option<NewestKept>| {
        let recovered = recover_after(disk, from, newest_kept).unwrap().0;
        let files = LogFiles::find(disk, dir(), ID, &recovered, SeqNo::new(60)).unwrap();
        let info = files.changes_info();
        (info.segments, info.dropped_through.get())
    };
    let (segments, dropped_through) = found(&disk, Some(newest_kept));
    assert!(segments > 3 && dropped_through == 0, "{segments}");
    let none = (0, 60);
    assert_eq!(found(&disk, None), none);
    let wrong = [
        NewestKept { salt: newest_kept.salt ^ 1, ..newest_kept },
        NewestKept { end: newest_kept.end + 1, ..newest_kept },
        NewestKept { number: FileNumber(newest_kept.number.0 + 1), ..newest_kept },
    ];
    assert!(wrong.iter().all(|wrong| found(&disk, Some(*wrong)) == none));
}

/// Its place was filled with a void: readers of changes passed it and never learned that they
/// missed the writes after it, which are not in the log.
#[test]
fn a_gap_whose_write_failed_without_a_spare_is_noted_by_what_fills_its_place() {
    let disk = mem();
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let nothing = recover(&disk, None).unwrap().0;
    let log = create(Arc::new(faulty.clone()), KEPT, &nothing).unwrap();
    let files = log.make_files().unwrap();
    log.list_files(&files[..1]);
    let enqueue = |seqno, kind| {
        let checksum = payload_checksum(b"");
        log.enqueue(kind, SeqNo::new(seqno), 1, b"", checksum)
    };
    log.sync_through(enqueue(1, BATCH).unwrap()).unwrap();
    faulty.inject(Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]));
    let gap = enqueue(2, RecordKind::GAP).unwrap();
    assert_eq!(log.write_through(gap).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(enqueue(4, BATCH).unwrap_err().kind(), ErrorKind::Busy);
    log.list_files(&files[1..]);
    log.sync_through(enqueue(4, BATCH).unwrap()).unwrap();
    log.sync_through(enqueue(6, BATCH).unwrap()).unwrap();
    let (mut cursor, mut found) = (LogCursor::after(SeqNo::ZERO), Vec::new());
    while let Some(record) = cursor
        .next(ChangeSource::Log(&log), SeqNo::MAX, |record| {
            Ok((record.first_seqno.get(), record.kind == RecordKind::GAP))
        })
        .unwrap()
    {
        found.push(record);
    }
    assert_eq!(found, [(1, false), (2, true), (4, false), (6, false)]);
}

/// They were removed, although an edit of the manifest that lists them was in doubt. If a crash
/// brought the edit back, the database could not be opened.
#[test]
fn files_whose_names_are_synced_stay_when_a_later_sync_fails() {
    let disk = mem();
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let nothing = recover(&disk, None).unwrap().0;
    let log = create(Arc::new(faulty.clone()), KEPT, &nothing).unwrap();
    let files = log.make_files().unwrap();
    faulty.inject(Fault::new(Effect::Fail(Failure::Io)).on(&[Op::SyncDir]));
    log.make_files().unwrap_err();
    assert_eq!(disk.crash_losing_unsynced().list(dir()).unwrap().len(), files.len());
    assert_eq!(log.make_files().unwrap(), files);
}

/// After a power cut an empty segment may end in the second copy of its header. When it was kept, a
/// verification took it for damage, and the next open removed it with everything before it.
#[test]
fn an_empty_segment_that_a_crash_cut_in_its_header_is_kept() {
    let disk = mem();
    let log = open(&disk, KEPT);
    commit(&log, 1..=3);
    log.rotate();
    commit(&log, 4..=4);
    let last = log.segments().last().unwrap().number;
    drop(log);
    // The record of the last segment is lost, and a part of the header.
    let whole = disk.content(&file(last.0)).unwrap();
    disk.put_content(&file(last.0), &whole[..4200]);
    let (recovered, seqnos) = recover(&disk, None).unwrap();
    assert_eq!(seqnos, [1, 2, 3]);
    let log = create(Arc::new(disk.clone()), KEPT, &recovered).unwrap();
    commit(&log, 4..=6);
    assert!(release_through(&log, 3).unwrap() > 1);
    let verify =
        |log: &Log| log.verify(&all_files(&disk, None), VerifyDepth::Full, &mut |_| Ok(()));
    verify(&log).unwrap();
    assert_eq!(all_after(&log, 0).unwrap(), range(1, 6));
    let from = log.segments()[0].number;
    assert!(from > last, "the cut segment is kept");
    drop(log);
    let (recovered, _) = recover(&disk, Some(from.0)).unwrap();
    let log = create(Arc::new(disk.clone()), KEPT, &recovered).unwrap();
    assert_eq!(log.lost_changes().segments, 0);
    verify(&log).unwrap();
    assert_eq!(all_after(&log, 0).unwrap(), range(1, 6));
}
