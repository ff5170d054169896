//! Power cuts and kills at every moment: all promised records are there, in order, and no others.

use crate::{Dice, SMALL, create, enqueue, mem, recover, seed};
use flagstone_base::{FileNumber, Result, SeqNo};
use flagstone_env::{FaultDisk, MemDisk};
use flagstone_wal::Log;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The records that a run promised before it ended, and the state that a manifest would have kept.
#[derive(Clone, Copy, Default)]
struct Promised {
    written: u64,
    synced: u64,
    enqueued: u64,
    /// The oldest needed segment.
    from: u64,
}

/// One step of a run: mostly a commit, sometimes a flush that releases the log before it.
fn step(log: &Log, dice: &Dice, promised: &mut Promised) -> Result<()> {
    let seqno = promised.enqueued + 1;
    let lsn = enqueue(log, seqno)?;
    promised.enqueued = seqno;
    match dice.below(16) {
        0..6 => {
            log.write_through(lsn)?;
            promised.written = seqno;
        }
        6..10 => {
            log.sync_through(lsn)?;
            (promised.written, promised.synced) = (seqno, seqno);
        }
        10 => {
            log.sync_alone(lsn)?;
            (promised.written, promised.synced) = (seqno, seqno);
        }
        11 => log.rotate(),
        12 => while log.prepare()? {},
        13 if seqno > 8 => {
            // A flush: the log is synced, the manifest names the oldest needed segment, the others
            // are released.
            log.sync_all()?;
            (promised.written, promised.synced) = (seqno, seqno);
            let kept = SeqNo::new(seqno - 8);
            let needed = log.segments().into_iter().find(|s| s.next_seqno > kept.plus(1));
            promised.from = needed.map_or(promised.from, |segment| segment.number.0);
            log.release_before(FileNumber(promised.from))?;
        }
        _ => {}
    }
    Ok(())
}

/// Opens the log and commits until the disk fails or `steps` are done.
fn run(disk: FaultDisk, dice: &Dice, promised: &mut Promised, steps: u64) -> Result<()> {
    let from = Some(promised.from).filter(|from| *from > 0);
    let (recovered, _) = recover(&disk, from)?;
    let log = create(Arc::new(disk), SMALL, &recovered)?;
    promised.enqueued = promised.enqueued.max(recovered.next_seqno.get().saturating_sub(1));
    (0..steps).try_for_each(|_| step(&log, dice, promised))
}

/// Recovers and checks that the log is complete up to `least`. Returns its last SeqNo.
fn check(disk: &MemDisk, promised: &Promised, least: u64, story: &str) -> u64 {
    let from = Some(promised.from).filter(|from| *from > 0);
    let (recovered, seqnos) = recover(disk, from).unwrap_or_else(|e| panic!("{story}: {e}"));
    let last = recovered.next_seqno.get().saturating_sub(1);
    assert!(last >= least, "{story}: {last} is the last, {least} was promised");
    assert!(last <= promised.enqueued, "{story}");
    if let Some(first) = seqnos.first() {
        assert_eq!(seqnos, (*first..=last).collect::<Vec<_>>(), "{story}");
    }
    last
}

#[test]
fn a_crash_at_any_operation_keeps_what_was_promised() {
    let seed = seed(0xC4A5);
    for k in 1..400 {
        let dice = Dice::new(seed);
        let disk = mem();
        let faulty = FaultDisk::new(Arc::new(disk.clone()));
        faulty.cut_power_at(k);
        let mut promised = Promised::default();
        let ended = run(faulty.clone(), &dice, &mut promised, 150);
        assert_eq!(ended.is_err(), faulty.is_off());
        let story = format!("seed {seed}, power cut at operation {k}");
        check(&disk.kill(), &promised, promised.written, &format!("{story}, killed"));
        let hardest = disk.crash_losing_unsynced();
        check(&hardest, &promised, promised.synced, &format!("{story}, all lost"));
        for crash in 0..6 {
            let story = format!("{story}, crash {crash}");
            check(&disk.crash(crash), &promised, promised.synced, &story);
        }
        if ended.is_ok() {
            break;
        }
    }
}

#[test]
fn crashes_follow_crashes() {
    let seed = seed(0x2C4A);
    for life in 0..60 {
        let dice = Dice::new(seed + life);
        let mut disk = mem();
        let mut promised = Promised::default();
        for crash in 0..12 {
            let story = format!("seed {seed}, life {life}, crash {crash}");
            let faulty = FaultDisk::new(Arc::new(disk.clone()));
            faulty.cut_power_at(1 + dice.below(60));
            let _ended = run(faulty, &dice, &mut promised, 40);
            disk = match dice.below(3) {
                0 => disk.kill(),
                1 => disk.crash_losing_unsynced(),
                _ => disk.crash(seed + crash),
            };
            let last = check(&disk, &promised, promised.synced, &story);
            // Lost records stay lost: their SeqNos are used again.
            promised.enqueued = last;
            promised.written = promised.written.min(last);
        }
    }
}

#[test]
fn a_crash_under_threads_keeps_what_each_was_promised() {
    let seed = seed(0x7EAD);
    let disk = mem();
    let log = create(Arc::new(disk.clone()), SMALL, &recover(&disk, None).unwrap().0).unwrap();
    let (numbering, running) = (Mutex::new(0_u64), AtomicU64::new(4));
    let (written, synced) = (AtomicU64::new(0), AtomicU64::new(0));
    let committer = |thread: u64| {
        let dice = Dice::new(seed + thread);
        for _ in 0..400 {
            let (seqno, lsn) = {
                let mut last = numbering.lock().unwrap();
                *last += 1;
                (*last, enqueue(&log, *last).unwrap())
            };
            match dice.below(4) {
                0 => log.sync_through(lsn).unwrap(),
                1 => log.sync_alone(lsn).unwrap(),
                _ => log.write_through(lsn).unwrap(),
            }
            written.fetch_max(seqno, Ordering::SeqCst);
            if dice.below(8) == 0 {
                log.sync_through(lsn).unwrap();
                synced.fetch_max(seqno, Ordering::SeqCst);
            }
        }
        running.fetch_sub(1, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let committer = &committer;
            scope.spawn(move || committer(thread));
        }
        let mut crash = 0;
        while running.load(Ordering::SeqCst) > 0 {
            crash += 1;
            let promised = Promised {
                written: written.load(Ordering::SeqCst),
                synced: synced.load(Ordering::SeqCst),
                enqueued: u64::MAX,
                from: 0,
            };
            let killed = disk.kill();
            check(&killed, &promised, promised.written, &format!("kill {crash}"));
            check(&killed.crash(crash), &promised, promised.synced, &format!("crash {crash}"));
        }
    });
}

#[test]
fn recovery_itself_changes_nothing() {
    let disk = mem();
    let mut promised = Promised::default();
    let faulty = FaultDisk::new(Arc::new(disk.clone()));
    run(faulty, &Dice::new(5), &mut promised, 60).unwrap();
    let before = disk.kill();
    let found = recover(&before, Some(promised.from)).unwrap();
    assert_eq!(recover(&before, Some(promised.from)).unwrap(), found);
    for op in flagstone_env::Op::CHANGES {
        assert_eq!(before.counts().of(op), 0, "{op:?}");
    }
    assert!(found.0.next_number > FileNumber(1));
}
