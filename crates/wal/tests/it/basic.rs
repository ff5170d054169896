//! The log on a disk that works.

use crate::{
    BATCH, ID, SMALL, all_files, create, dir, enqueue, file, list_more, mem, open, payload,
    recover, release_through,
};
use flagstone_base::{DatabaseId, ErrorKind, SeqNo};
use flagstone_env::{Disk, Op};
use flagstone_wal::inspect::{Finding, Inspector};
use flagstone_wal::{
    Log, LogOptions, Lsn, NewRecord, RecordKind, VerifyDepth, payload_checksum,
    payload_checksum_of_parts, read,
};
use std::sync::Arc;

#[test]
fn what_was_enqueued_is_read_back_in_order_across_segments() {
    let disk = mem();
    let log = open(&disk, SMALL);
    let mut last = Lsn::default();
    for seqno in 1..=300 {
        last = enqueue(&log, seqno).unwrap();
        if seqno % 7 == 0 {
            log.write_through(last).unwrap();
        }
    }
    log.sync_through(last).unwrap();
    assert_eq!((log.written(), log.synced(), log.enqueued()), (last, last, last));
    assert!(log.segments().len() > 10);
    let (recovered, seqnos) = recover(&disk.crash_losing_unsynced(), None).unwrap();
    assert_eq!(seqnos, (1..=300).collect::<Vec<_>>());
    assert_eq!(recovered.next_seqno, SeqNo::new(301));
    assert_eq!(recovered.dropped_bytes, 0);
    assert_eq!(recovered.segments, log.segments());
    assert_eq!(log.bytes(), recovered.segments.iter().map(|s| s.bytes).sum::<u64>());
}

#[test]
fn records_enqueued_together_are_framed_all_or_none() {
    let log = open(&mem(), SMALL);
    let record = |seqno, kind| {
        let (first_seqno, payload) = (SeqNo::new(seqno), &b"x"[..]);
        let payload_checksum = payload_checksum(payload);
        NewRecord { kind, first_seqno, count: 1, payload, shared: None, payload_checksum }
    };
    list_more(&log);
    let refused = [[(1, BATCH), (1, BATCH)], [(1, BATCH), (2, RecordKind::VOID)]];
    for pair in refused {
        let error = log.enqueue_together(&pair.map(|(seqno, kind)| record(seqno, kind)));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(log.enqueued(), Lsn::default());
    }
    let end = log.enqueue_together(&[record(1, BATCH), record(2, BATCH)]).unwrap();
    log.write_through(end).unwrap();
    assert_eq!(log.stats().records, 2);
}

/// The queue held a copy of each document: with documents of megabytes that doubled the memory.
#[test]
fn a_shared_payload_is_not_copied_and_is_released_once_it_is_written() {
    let disk = mem();
    let log = open(&disk, LogOptions { segment_bytes: 1 << 20, ..SMALL });
    list_more(&log);
    let shared = Arc::new(vec![7; 100_000]);
    let record = |seqno: u64, payload: &'static [u8]| NewRecord {
        kind: BATCH,
        first_seqno: SeqNo::new(seqno),
        count: 1,
        payload,
        shared: Some(&shared),
        payload_checksum: payload_checksum_of_parts(&[payload, &shared]),
    };
    log.enqueue_together(&[record(1, b"head"), record(2, b"")]).unwrap();
    let small = log.enqueue(BATCH, SeqNo::new(3), 1, b"x", payload_checksum(b"x")).unwrap();
    assert_eq!(Arc::strong_count(&shared), 3, "both wait in the queue, as they are");
    log.write_through(small).unwrap();
    assert_eq!(Arc::strong_count(&shared), 1);
    assert_eq!(log.stats().appends, 5, "two for each payload that is shared");
    let mut lengths = Vec::new();
    read(&disk.kill(), dir(), ID, &all_files(&disk, None), &mut |record| {
        lengths.push(record.payload.len());
        Ok(())
    })
    .unwrap();
    assert_eq!(lengths, [100_004, 100_000, 1]);
    assert_eq!(log.bytes(), log.stats().bytes, "one segment, and every byte of it was counted");
}

#[test]
fn a_new_log_creates_no_file_by_itself_and_writes_only_to_listed_ones() {
    let disk = mem();
    let log = open(&disk, SMALL);
    log.sync_all().unwrap();
    assert_eq!(disk.list(dir()).unwrap(), Vec::<String>::new());
    let record = || log.enqueue(BATCH, SeqNo::new(1), 1, b"x", payload_checksum(b"x"));
    assert_eq!(record().unwrap_err().kind(), ErrorKind::Busy);
    let files = log.make_files().unwrap();
    assert_eq!(record().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(log.make_files().unwrap(), files, "they are not listed yet");
    let syncs = disk.counts().of(Op::SyncDir);
    log.list_files(&files);
    log.write_through(record().unwrap()).unwrap();
    assert!(disk.content(&file(1)).unwrap().len() > 4608);
    assert!(disk.content(&file(2)).unwrap().is_empty());
    let crashed = disk.crash_losing_unsynced();
    assert_eq!(crashed.list(dir()).unwrap().len(), files.len(), "their names are durable");
    assert_eq!(disk.counts().of(Op::SyncDir), syncs);
}

/// The manifest may be slow. A rotation does not wait for it, but a segment does not grow without
/// limit.
#[test]
fn a_segment_grows_beyond_its_size_while_no_other_is_listed() {
    let disk = mem();
    let log = open(&disk, SMALL);
    list_more(&log);
    let record = |seqno| {
        let payload = [7; 1000];
        log.enqueue(BATCH, SeqNo::new(seqno), 1, &payload, payload_checksum(&payload))
    };
    let mut last = 0;
    let busy = loop {
        match record(last + 1) {
            Ok(lsn) => log.write_through(lsn).unwrap(),
            Err(error) => break error,
        }
        last += 1;
    };
    assert_eq!(busy.kind(), ErrorKind::Busy);
    let segments = log.segments();
    assert_eq!(segments.len(), 16);
    let longest = segments.last().unwrap().bytes;
    assert!(longest > 3 * SMALL.segment_bytes && longest <= 4 * SMALL.segment_bytes, "{longest}");
    list_more(&log);
    log.write_through(record(last + 1).unwrap()).unwrap();
    assert_eq!(log.segments().len(), 17);
    let mut found = 0;
    let listed = all_files(&disk, None);
    let mut count = |_: flagstone_wal::Record<'_>| {
        found += 1;
        Ok(())
    };
    read(&disk.kill(), dir(), ID, &listed, &mut count).unwrap();
    assert_eq!(found, last + 1);
}

#[test]
fn a_record_larger_than_a_segment_has_a_segment_of_its_own() {
    let disk = mem();
    let log = open(&disk, SMALL);
    let big = vec![7; 100_000];
    list_more(&log);
    for (seqno, payload) in [(1, &b"small"[..]), (2, &big), (3, b"small")] {
        let checksum = payload_checksum(payload);
        log.enqueue(BATCH, SeqNo::new(seqno), 1, payload, checksum).unwrap();
    }
    log.sync_all().unwrap();
    let segments = log.segments();
    assert_eq!(segments.len(), 3);
    assert!(segments[1].bytes > 100_000 && segments[2].bytes < 5000);
    assert_eq!(segments[1].last_seqno(), Some(SeqNo::new(2)));
}

#[test]
fn many_records_are_written_by_one_append() {
    let disk = mem();
    let log = open(&disk, LogOptions::default());
    list_more(&log);
    for seqno in 1..=1000 {
        let payload = payload(seqno);
        let checksum = payload_checksum(&payload);
        log.enqueue(BATCH, SeqNo::new(seqno), 1, &payload, checksum).unwrap();
    }
    log.write_through(log.enqueued()).unwrap();
    assert_eq!(disk.counts().of(Op::Append), 1);
    let stats = log.stats();
    assert_eq!((stats.records, stats.appends, stats.segments), (1000, 1, 1));
}

#[test]
fn a_reopened_log_continues_in_a_new_segment() {
    let disk = mem();
    for round in 0..5_u64 {
        let log = open(&disk, SMALL);
        for seqno in round * 10 + 1..=round * 10 + 10 {
            enqueue(&log, seqno).unwrap();
        }
        log.sync_all().unwrap();
    }
    assert_eq!(recover(&disk, None).unwrap().1, (1..=50).collect::<Vec<_>>());
    assert!(disk.list(dir()).unwrap().len() >= 5);
}

#[test]
fn seqnos_that_were_not_logged_are_no_gap() {
    let disk = mem();
    let log = open(&disk, SMALL);
    for seqno in [5, 6, 100, 101, 5000] {
        enqueue(&log, seqno).unwrap();
    }
    log.sync_all().unwrap();
    drop(log);
    let log = open(&disk, SMALL);
    enqueue(&log, 9000).unwrap();
    log.sync_all().unwrap();
    assert_eq!(recover(&disk, None).unwrap().1, [5, 6, 100, 101, 5000, 9000]);
}

#[test]
fn records_that_take_no_seqno_keep_their_place() {
    let disk = mem();
    let log = open(&disk, SMALL);
    let definition = RecordKind(2);
    list_more(&log);
    for (kind, first, count) in [(BATCH, 1, 3), (definition, 4, 0), (BATCH, 4, 2), (BATCH, 6, 1)] {
        let checksum = payload_checksum(b"x");
        log.enqueue(kind, SeqNo::new(first), count, b"x", checksum).unwrap();
    }
    log.sync_all().unwrap();
    let mut found = Vec::new();
    let recovered = read(&disk, dir(), ID, &all_files(&disk, None), &mut |record| {
        found.push((record.kind.0, record.first_seqno.get(), record.count));
        Ok(())
    });
    assert_eq!(found, [(1, 1, 3), (2, 4, 0), (1, 4, 2), (1, 6, 1)]);
    assert_eq!(recovered.unwrap().next_seqno, SeqNo::new(7));
}

#[test]
fn calls_that_can_never_work_are_refused_and_change_nothing() {
    let disk = mem();
    let log = open(&disk, SMALL);
    enqueue(&log, 10).unwrap();
    for seqno in [0, 9, 10] {
        assert_eq!(enqueue(&log, seqno).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let void = log.enqueue(RecordKind::VOID, SeqNo::new(11), 1, b"", 0);
    assert_eq!(void.unwrap_err().kind(), ErrorKind::InvalidInput);
    let other = open(&mem(), SMALL);
    let foreign = (1..=100).map(|seqno| enqueue(&other, seqno).unwrap()).last().unwrap();
    assert_eq!(log.write_through(foreign).unwrap_err().kind(), ErrorKind::InvalidInput);
    enqueue(&log, 11).unwrap();
    log.sync_all().unwrap();
    assert_eq!(recover(&disk, None).unwrap().1, [10, 11]);
    let tiny = LogOptions { segment_bytes: 100, ..SMALL };
    let nothing = recover(&mem(), None).unwrap().0;
    let refused = create(Arc::new(mem()), tiny, &nothing).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn released_segments_become_spares_and_their_old_records_never_return() {
    let disk = mem();
    let log = open(&disk, SMALL);
    let mut oldest = None;
    for seqno in 1..=600 {
        let lsn = enqueue(&log, seqno).unwrap();
        log.write_through(lsn).unwrap();
        if seqno % 20 == 0 {
            release_through(&log, seqno - 5).unwrap();
            oldest = log.oldest_segment();
            let (_, seqnos) = recover(&disk.kill(), oldest.map(|n| n.0)).unwrap();
            let first = log.segments()[0].first_seqno.get();
            assert!(first <= seqno - 4);
            assert_eq!(seqnos, (first..=seqno).collect::<Vec<_>>());
        }
    }
    assert!(disk.counts().of(Op::Reuse) > 10, "{}", disk.counts());
    drop(log);
    let recovered = recover(&disk, oldest.map(|n| n.0)).unwrap().0;
    let log = create(Arc::new(disk.clone()), SMALL, &recovered).unwrap();
    log.sync_through(enqueue(&log, 601).unwrap()).unwrap();
    let (_, seqnos) = recover(&disk.crash_losing_unsynced(), oldest.map(|n| n.0)).unwrap();
    assert_eq!(seqnos.last(), Some(&601));
}

#[test]
fn the_segment_being_written_is_released_after_a_rotation() {
    let disk = mem();
    let log = open(&disk, SMALL);
    log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
    assert_eq!(release_through(&log, u64::MAX >> 8).unwrap(), 0);
    log.rotate();
    log.write_through(enqueue(&log, 2).unwrap()).unwrap();
    assert_eq!(release_through(&log, 0).unwrap(), 0);
    assert_eq!(release_through(&log, 1).unwrap(), 1);
    assert!(!disk.exists(&file(1)).unwrap() && disk.exists(&file(2)).unwrap());
}

#[test]
fn an_empty_segment_stays_while_the_manifest_begins_the_log_with_it() {
    let disk = mem();
    let log = open(&disk, SMALL);
    log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
    log.rotate();
    log.sync_through(enqueue(&log, 2).unwrap()).unwrap();
    let last = log.segments()[1];
    drop(log);
    // A crash took the first record of the last segment, or it was refused and blanked.
    let mut torn = disk.reuse(&file(last.number.0)).unwrap();
    let record = 28 + payload(2).len() as u64;
    torn.blank(last.bytes - record, record).unwrap();
    let (recovered, seqnos) = recover(&disk, None).unwrap();
    assert_eq!(seqnos, [1]);
    let log = create(Arc::new(disk.clone()), SMALL, &recovered).unwrap();
    assert_eq!(log.segments()[1].last_seqno(), None, "it is empty");
    // A flush ends here, and its edit names the empty segment. Meanwhile a write begins another
    // one.
    let from = log.segments()[1].number;
    log.sync_through(enqueue(&log, 2).unwrap()).unwrap();
    assert_eq!(log.release_before(from).unwrap(), 1);
    assert!(disk.exists(&file(from.0)).unwrap(), "the manifest names it");
    assert_eq!(recover(&disk.crash_losing_unsynced(), Some(from.0)).unwrap().1, [2]);
}

#[test]
fn a_header_that_a_crash_cut_short_is_verified_as_it_is_recovered() {
    let disk = mem();
    let log = open(&disk, SMALL);
    log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
    drop(log);
    let whole = disk.content(&file(1)).unwrap();
    // The cut is in the second copy of the header: nothing was written after it.
    disk.put_content(&file(1), &whole[..4200]);
    let (recovered, seqnos) = recover(&disk, None).unwrap();
    assert!(seqnos.is_empty());
    let log = create(Arc::new(disk.clone()), SMALL, &recovered).unwrap();
    let verify =
        |log: &Log| log.verify(&all_files(&disk, None), VerifyDepth::Full, &mut |_| Ok(()));
    verify(&log).unwrap();
    // A segment that was begun after that has both copies.
    log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
    let begun = log.segments().last().unwrap().number.0;
    let whole = disk.content(&file(begun)).unwrap();
    disk.put_content(&file(begun), &whole[..4200]);
    let error = verify(&log).unwrap_err();
    assert!(error.to_string().contains("000002.wal"), "{error}");
}

#[test]
fn a_prepared_segment_is_used_without_being_created() {
    let disk = mem();
    let log = open(&disk, SMALL);
    assert!(!log.prepare().unwrap(), "an empty log needs no spare");
    let mut seqno = 0;
    while !log.wants_spare() {
        seqno += 1;
        log.sync_through(enqueue(&log, seqno).unwrap()).unwrap();
    }
    while log.prepare().unwrap() {}
    assert!(!log.wants_spare());
    log.sync_all().unwrap();
    let before = disk.counts();
    log.rotate();
    log.sync_through(enqueue(&log, seqno + 1).unwrap()).unwrap();
    let after = disk.counts();
    assert_eq!(after.of(Op::Create), before.of(Op::Create));
    assert_eq!(after.of(Op::SyncDir), before.of(Op::SyncDir));
    assert_eq!(after.of(Op::Reuse), before.of(Op::Reuse) + 1);
    assert_eq!(recover(&disk, None).unwrap().1.len() as u64, seqno + 1);
}

#[test]
fn a_growing_segment_that_is_often_synced_is_left_for_a_prepared_one() {
    let disk = mem();
    let log = open(&disk, LogOptions { segment_bytes: 1 << 20, spares: 1, keep: None });
    for seqno in 1..=300 {
        log.sync_through(enqueue(&log, seqno).unwrap()).unwrap();
        assert!(seqno > 60 || !log.wants_spare());
        while log.prepare().unwrap() {}
    }
    assert_eq!(log.segments().len(), 2);
    assert_eq!(disk.content(&file(2)).unwrap().len(), 1 << 20);
    assert!(!log.wants_spare());
    assert_eq!(recover(&disk, None).unwrap().1.len(), 300);
}

#[test]
fn a_log_that_is_rarely_synced_writes_no_zeroes_in_advance() {
    let disk = mem();
    let log = open(&disk, LogOptions { segment_bytes: 1 << 20, spares: 1, keep: None });
    for seqno in 1..=3000 {
        let payload = [7; 1000];
        let checksum = payload_checksum(&payload);
        list_more(&log);
        let lsn = log.enqueue(BATCH, SeqNo::new(seqno), 1, &payload, checksum).unwrap();
        log.write_through(lsn).unwrap();
        assert!(!log.wants_spare());
    }
    assert!(log.segments().len() >= 3);
}

#[test]
fn a_spare_made_too_late_for_its_number_is_passed_over_until_its_neighbours_go() {
    let disk = mem();
    let log = open(&disk, SMALL);
    let mut seqno = 0;
    while !log.wants_spare() {
        seqno += 1;
        log.sync_through(enqueue(&log, seqno).unwrap()).unwrap();
    }
    assert!(log.prepare().unwrap());
    log.rotate();
    enqueue(&log, seqno + 1).unwrap();
    while log.prepare().unwrap() {}
    log.rotate();
    enqueue(&log, seqno + 2).unwrap();
    log.sync_all().unwrap();
    assert_eq!(recover(&disk, None).unwrap().1.len() as u64, seqno + 2);
    let numbers: Vec<u64> = log.segments().iter().map(|segment| segment.number.0).collect();
    let passed = (1..).find(|number| !numbers.contains(number)).unwrap();
    assert!(passed < numbers[numbers.len() - 1] && disk.exists(&file(passed)).unwrap());
    release_through(&log, seqno + 1).unwrap();
    assert!(!disk.exists(&file(passed)).unwrap());
}

#[test]
fn the_log_of_another_database_is_refused() {
    let disk = mem();
    let log = open(&disk, SMALL);
    log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
    let other = DatabaseId([8; 16]);
    let error = read(&disk, dir(), other, &all_files(&disk, None), &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(read(&disk, dir(), ID, &all_files(&disk, Some(900)), &mut |_| Ok(())).is_ok());
}

#[test]
fn a_visitor_that_refuses_stops_the_reading() {
    let disk = mem();
    let log = open(&disk, SMALL);
    (1..=9).for_each(|seqno| drop(enqueue(&log, seqno)));
    log.sync_all().unwrap();
    let refusal = || flagstone_base::Error::invalid("enough");
    let error =
        read(&disk, dir(), ID, &all_files(&disk, None), &mut |_| Err(refusal())).unwrap_err();
    assert_eq!(error.to_string(), "enough");
}

#[test]
fn an_inspector_lists_all_records_even_around_damage() {
    let disk = mem();
    let log = open(&disk, LogOptions::default());
    for seqno in 1..=5 {
        log.sync_through(enqueue(&log, seqno).unwrap()).unwrap();
    }
    let findings = |disk: &_| -> Vec<Finding> {
        Inspector::open(disk, &file(1)).unwrap().map(Result::unwrap).collect()
    };
    let whole = findings(&disk);
    assert_eq!(whole.len(), 6);
    assert!(whole[0].to_string().starts_with("segment 1 of 0707"), "{}", whole[0]);
    let Finding::Record(at, header) = whole[2] else { panic!("{}", whole[2]) };
    assert_eq!(header.payload_len as usize, payload(2).len());
    let mut content = disk.content(&file(1)).unwrap();
    content[at as usize + 3] ^= 0x80;
    disk.put_content(&file(1), &content);
    let damaged = findings(&disk);
    let texts: Vec<String> = damaged.iter().map(Finding::to_string).collect();
    assert_eq!(damaged.len(), 6, "{texts:?}");
    assert!(matches!(damaged[2], Finding::Gap(from, _, _) if from == at), "{texts:?}");
    assert_eq!(damaged[3..], whole[3..]);
}
