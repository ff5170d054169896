//! The room that overwritten entries take, and full compactions in pieces.

use crate::support::{hashed, small, threaded};
use flagstone::{ErrorKind, Space};
use flagstone_testkit::World;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const KEYS: u64 = 6000;
/// What is alive, without what tables add to it.
const LIVE: u64 = KEYS * 1000;

/// A value that does not compress.
fn value(key: u64, round: u64) -> Vec<u8> {
    let mut state = (key << 20) + round + 1;
    let mut byte = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..1000).map(|_| byte()).collect()
}

/// Tables used to grow to a gigabyte of garbage in each tree, whatever was alive in it.
#[test]
fn overwrites_take_no_more_room_than_the_option_allows() {
    for partitions in [1, 4] {
        let world = World::new(u64::from(partitions));
        let db = threaded(&world, small());
        let kv = db.space("a").options(hashed(partitions)).keyspace().unwrap();
        let mut most = 0;
        for round in 0..7 {
            for n in 0..KEYS {
                // Each key once a round, in no order.
                let key = n * 3331 % KEYS;
                kv.put(key.to_be_bytes(), value(key, round)).unwrap();
                if n % 500 == 0 {
                    most = most.max(db.stats().table_bytes());
                }
            }
        }
        // Two and a half times, and two shares of 512 KiB; and some for a machine that is busy
        // elsewhere.
        assert!(most < LIVE * 7 / 2, "{most} bytes of {LIVE} alive, {partitions} partitions");
        db.flush().unwrap();
        let began = Instant::now();
        let is_tidy = || db.stats().table_bytes() < LIVE * 14 / 10;
        while !is_tidy() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_tidy(), "{} bytes of {LIVE} alive at rest", db.stats().table_bytes());
        for key in (0..KEYS).step_by(7) {
            assert_eq!(kv.get(key.to_be_bytes()).unwrap().as_deref(), Some(&value(key, 6)[..]));
        }
    }
}

#[test]
fn an_amplification_out_of_range_is_refused() {
    for wrong in [0.0, 1.1, 101.0, f64::NAN] {
        let options = small().space_amplification_max(wrong);
        let error = World::new(1).open(&options).err().map(|error| error.kind());
        assert_eq!(error, Some(ErrorKind::InvalidInput), "{wrong}");
    }
}

#[test]
fn a_full_compaction_tells_how_far_it_is_and_can_be_broken_off() {
    let world = World::new(3);
    let session = world.open(&small()).unwrap();
    let kv = session.db.space("a").options(hashed(4)).keyspace().unwrap();
    for round in 0..2 {
        for key in 0..400_u64 {
            kv.put(key.to_be_bytes(), value(key, round)).unwrap();
        }
        session.db.flush().unwrap();
    }
    let mut seen = Vec::new();
    let broken = session.db.compact_with(|progress| {
        seen.push(progress);
        if progress.pieces == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(broken.unwrap().is_break());
    let last = *seen.last().unwrap();
    assert!(last.pieces == 2 && last.bytes_done < last.bytes_total, "{last:?}");
    assert!(seen.is_sorted_by_key(|progress| progress.bytes_done));
    let mut last = None;
    let whole = session.db.compact_with(|progress| {
        last = Some(progress);
        ControlFlow::Continue(())
    });
    assert!(whole.unwrap().is_continue());
    assert!(last.unwrap().pieces < 4, "what was done is not done again: {last:?}");
    let levels = &session.db.stats().keyspaces[0].levels;
    assert_eq!(levels.len(), 1, "{levels:?}");
    for key in 0..400_u64 {
        assert_eq!(kv.get(key.to_be_bytes()).unwrap().as_deref(), Some(&value(key, 1)[..]));
    }
}
