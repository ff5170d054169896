//! Every operation fails once: acknowledged records are there, failed ones are not, and the log
//! continues to work.

use crate::{
    BATCH, Dice, ID, SMALL, create, dir, enqueue, list_more, mem, open, recover, release_through,
    seed,
};
use flagstone_base::{ErrorKind, SeqNo};
use flagstone_env::{Effect, Failure, Fault, FaultDisk, MemDisk, Op};
use flagstone_wal::{Listed, Log, Record, payload_checksum, salvage};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

fn faulty(disk: &MemDisk) -> (FaultDisk, Log) {
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    let nothing = recover(disk, None).unwrap().0;
    let log = create(Arc::new(faulty.clone()), SMALL, &nothing).unwrap();
    (faulty, log)
}

#[derive(Default)]
struct Outcome {
    written: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    synced: BTreeSet<u64>,
    poisoned: bool,
}

/// Commits `count` records, some in groups, and notes the result of each.
fn commit(log: &Log, dice: &Dice, count: u64, outcome: &mut Outcome) {
    let mut group = Vec::new();
    for seqno in 1..=count {
        match enqueue(log, seqno) {
            Ok(lsn) => group.push((seqno, lsn)),
            Err(error) if error.kind() == ErrorKind::Busy => {
                outcome.failed.insert(seqno);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Poisoned);
                outcome.poisoned = true;
                return;
            }
        }
        let choice = dice.below(8);
        if choice < 3 {
            continue;
        }
        for (seqno, lsn) in group.drain(..) {
            let is_synced = choice == 7;
            let end = if is_synced { log.sync_through(lsn) } else { log.write_through(lsn) };
            match end {
                Ok(()) if is_synced => drop(outcome.synced.insert(seqno)),
                Ok(()) => drop(outcome.written.insert(seqno)),
                Err(error) if error.kind() == ErrorKind::Poisoned => outcome.poisoned = true,
                Err(_) => drop(outcome.failed.insert(seqno)),
            }
        }
        if choice == 6 {
            let _may_fail = log.prepare();
        }
    }
}

fn check(disk: &MemDisk, outcome: &Outcome, with_written: bool, story: &str) {
    let (_, seqnos) = recover(disk, None).unwrap_or_else(|e| panic!("{story}: {e}"));
    let found: BTreeSet<u64> = seqnos.iter().copied().collect();
    assert_eq!(found.len(), seqnos.len(), "{story}");
    assert!(seqnos.is_sorted(), "{story}");
    assert!(outcome.synced.is_subset(&found), "{story}: a synced record is missing");
    if with_written {
        assert!(outcome.written.is_subset(&found), "{story}: a written record is missing");
    }
    let back: Vec<_> = outcome.failed.intersection(&found).collect();
    assert!(back.is_empty(), "{story}: failed records came back: {back:?}");
    if with_written {
        let mut salvaged = BTreeSet::new();
        let mut note = |record: Record<'_>| {
            salvaged.insert(record.first_seqno.get());
            Ok(())
        };
        salvage(disk, dir(), ID, &Listed::default(), &mut note).unwrap();
        assert_eq!(salvaged, found, "{story}: a repair finds what an open does");
    }
}

fn fail_each(op: Op, effects: &[Effect], may_poison: bool) {
    let seed = seed(0xFA17);
    for &effect in effects {
        for k in 1..200 {
            let story = format!("seed {seed}, {op:?} {k} {effect:?}");
            let disk = mem();
            let (faulty, log) = faulty(&disk);
            faulty.inject(Fault::new(effect).on(&[op]).nth(k));
            let mut outcome = Outcome::default();
            commit(&log, &Dice::new(seed + k), 120, &mut outcome);
            assert!(may_poison || !outcome.poisoned, "{story}");
            faulty.heal();
            if !outcome.poisoned {
                let lsn = enqueue(&log, 121).unwrap();
                log.sync_through(lsn).unwrap_or_else(|e| panic!("{story}: {e}"));
                outcome.synced.insert(121);
                check(&disk.crash_losing_unsynced(), &outcome, true, &story);
            }
            check(&disk.kill(), &outcome, true, &story);
            check(&disk.crash(k), &outcome, false, &story);
            if faulty.hits() == 0 {
                break;
            }
        }
    }
}

#[test]
fn a_failed_append_fails_its_group_alone() {
    let io = Failure::Io;
    let effects = [
        Effect::Fail(Failure::NoSpace),
        Effect::Short(100, io),
        Effect::Short(500, io),
        Effect::FailAfter(io),
    ];
    fail_each(Op::Append, &effects, false);
}

#[test]
fn a_segment_that_cannot_be_created_is_tried_again() {
    let effects = [Effect::Fail(Failure::NoSpace), Effect::FailAfter(Failure::Io)];
    fail_each(Op::Create, &effects, false);
    fail_each(Op::SyncDir, &effects, false);
    fail_each(Op::Reuse, &effects, false);
}

#[test]
fn a_failed_sync_loses_nothing_that_was_promised() {
    let effects = [Effect::Fail(Failure::Io), Effect::FailAfter(Failure::Io)];
    fail_each(Op::Sync, &effects, true);
}

#[test]
fn after_a_failed_sync_every_call_returns_poisoned() {
    let disk = mem();
    let (faulty, log) = faulty(&disk);
    let early = enqueue(&log, 1).unwrap();
    log.sync_through(early).unwrap();
    faulty.inject(Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]));
    let late = enqueue(&log, 2).unwrap();
    let error = log.sync_through(late).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    assert!(error.to_string().contains(".wal"), "{error}");
    faulty.heal();
    let answers = [
        log.sync_through(late),
        log.sync_alone(late),
        log.write_through(early),
        log.sync_all(),
        enqueue(&log, 3).map(drop),
    ];
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Poisoned);
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space_again() {
    let disk = mem();
    let (faulty, log) = faulty(&disk);
    let mut outcome = Outcome::default();
    faulty.set_room(Some(10_000));
    for seqno in 1..=400 {
        if seqno == 300 {
            faulty.set_room(None);
        }
        let lsn = enqueue(&log, seqno).unwrap();
        match log.write_through(lsn) {
            Ok(()) => drop(outcome.written.insert(seqno)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace);
                outcome.failed.insert(seqno);
            }
        }
    }
    assert!(outcome.failed.len() > 100, "{}", outcome.failed.len());
    assert!((301..=400).all(|seqno| outcome.written.contains(&seqno)));
    check(&disk.kill(), &outcome, true, "killed");
    log.sync_all().unwrap();
    let crashed = disk.crash_losing_unsynced();
    check(&crashed, &outcome, true, "crashed");
    let log = open(&crashed, SMALL);
    log.sync_through(enqueue(&log, 401).unwrap()).unwrap();
    assert_eq!(recover(&crashed, None).unwrap().1.last(), Some(&401));
}

/// Two commits shared an append on a disk that was full after the first of them. Both were refused,
/// there was no space for the void either, and after a kill the first one came back.
#[test]
fn a_refused_record_does_not_come_back_when_there_is_no_space_for_its_void() {
    for room in (0..400).step_by(9) {
        let disk = mem();
        let (faulty, log) = faulty(&disk);
        let mut outcome = Outcome::default();
        log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
        outcome.synced.insert(1);
        faulty.set_room(Some(room));
        for group in [[2, 3, 4], [5, 6, 7]] {
            let lsns = group.map(|seqno| (seqno, enqueue(&log, seqno).unwrap()));
            for (seqno, lsn) in lsns {
                match log.write_through(lsn) {
                    Ok(()) => drop(outcome.written.insert(seqno)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::OutOfSpace);
                        outcome.failed.insert(seqno);
                    }
                }
            }
            let story = format!("room for {room} bytes");
            check(&disk.kill(), &outcome, true, &story);
            check(&disk.crash_losing_unsynced(), &outcome, false, &story);
            (0..8).for_each(|luck| check(&disk.crash(luck), &outcome, false, &story));
        }
        assert!(!outcome.failed.is_empty());
        faulty.set_room(None);
        log.sync_through(enqueue(&log, 8).unwrap()).unwrap();
        outcome.synced.insert(8);
        check(&disk.crash_losing_unsynced(), &outcome, false, "there is room again");
    }
}

#[test]
fn a_log_is_poisoned_when_a_refused_record_can_neither_be_blanked_nor_voided() {
    let (full, broken) = (Effect::FailAfter(Failure::NoSpace), Effect::Fail(Failure::Io));
    for is_void_refused in [true, false] {
        let disk = mem();
        let (faulty, log) = faulty(&disk);
        log.sync_through(enqueue(&log, 1).unwrap()).unwrap();
        let append = Fault::new(full).on(&[Op::Append]);
        faulty.inject(if is_void_refused { append.forever() } else { append });
        faulty.inject(Fault::new(broken).on(&[Op::Blank]));
        let error = log.write_through(enqueue(&log, 2).unwrap()).unwrap_err();
        if is_void_refused {
            assert_eq!(error.kind(), ErrorKind::Poisoned);
            assert!(error.to_string().contains("a refused write may come back"), "{error}");
        } else {
            assert_eq!(error.kind(), ErrorKind::OutOfSpace);
            assert_eq!(recover(&disk.crash_losing_unsynced(), None).unwrap().1, [1]);
            assert_eq!(recover(&disk.kill(), None).unwrap().1, [1]);
        }
    }
}

#[test]
fn a_spare_segment_takes_the_log_over_a_full_disk() {
    let disk = mem();
    let (faulty, log) = faulty(&disk);
    let enqueue = |seqno| log.enqueue(BATCH, SeqNo::new(seqno), 1, b"", payload_checksum(b""));
    list_more(&log);
    let mut seqno = 0;
    // Few enough syncs that the growing segment is not left for the prepared one.
    while !log.wants_spare() {
        seqno += 1;
        let lsn = enqueue(seqno).unwrap();
        if seqno % 8 == 0 {
            log.sync_through(lsn).unwrap();
        }
    }
    log.sync_all().unwrap();
    while log.prepare().unwrap() {}
    faulty.set_room(Some(0));
    let mut refused = 0;
    for seqno in seqno + 1..seqno + 10 {
        let lsn = enqueue(seqno).unwrap();
        refused += u64::from(log.write_through(lsn).is_err());
    }
    assert_eq!(refused, 1);
}

#[test]
fn threads_that_share_a_failed_append_all_get_its_error() {
    let seed = seed(0x7F);
    let disk = mem();
    let (faulty, log) = faulty(&disk);
    let fault = Fault::new(Effect::Short(300, Failure::Io)).on(&[Op::Append]);
    for nth in [20, 50, 51, 90] {
        faulty.inject(fault.clone().nth(nth));
    }
    let numbering = Mutex::new(0_u64);
    let outcome = Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (log, numbering, outcome) = (&log, &numbering, &outcome);
            scope.spawn(move || {
                let dice = Dice::new(seed + thread);
                for _ in 0..150 {
                    let (seqno, lsn) = {
                        let mut last = numbering.lock().unwrap();
                        *last += 1;
                        (*last, enqueue(log, *last).unwrap())
                    };
                    let is_synced = dice.below(3) == 0;
                    let end =
                        if is_synced { log.sync_through(lsn) } else { log.write_through(lsn) };
                    let mut outcome = outcome.lock().unwrap();
                    match end {
                        Ok(()) if is_synced => drop(outcome.synced.insert(seqno)),
                        Ok(()) => drop(outcome.written.insert(seqno)),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Io);
                            outcome.failed.insert(seqno);
                        }
                    }
                }
            });
        }
    });
    let outcome = outcome.into_inner().unwrap();
    assert!(faulty.hits() == 4 && !outcome.failed.is_empty());
    check(&disk.kill(), &outcome, true, "killed");
    check(&disk.crash(seed), &outcome, false, "crashed");
    assert_eq!(release_through(&log, 0).unwrap(), 0);
}
