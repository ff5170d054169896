//! The work during the writes: snapshots, paused scans, checkpoints, verifications.

use super::place::{Handles, SUMS, Setting, open};
use super::worker::{Checked, Told, failed};
use crate::rng::Rng;
use flagstone::{Database, Keyspace, Options, Scan, Space};
use flagstone_base::hash::remix;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The number of entries that a snapshot must show unchanged at its end.
const LOOKED_AT: usize = 2000;
/// The time between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);
/// The time after which a life verifies the whole database, once.
const VERIFY_AFTER: Duration = Duration::from_secs(12);

/// Waits. Returns false if the life ends.
fn wait(told: &Told, time: Duration) -> bool {
    let since = Instant::now();
    while since.elapsed() < time {
        if told.stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
    !told.stop.load(Ordering::Relaxed)
}

/// Takes snapshots and holds each for a second or two, with a scan that pauses in the middle.
pub(super) fn snapshots(db: &Database, handles: &Handles, told: &Told, seed: u64) -> Checked {
    let mut rng = Rng::new(remix(seed ^ 0x5EED));
    while wait(told, Duration::from_millis(rng.below(2000))) {
        told.pinned_from.store(told.put.load(Ordering::Relaxed), Ordering::Relaxed);
        let snapshot = db.snapshot();
        let begin = [format!("t0/{:012x}", rng.below(5000)).into_bytes(), b"t0/".to_vec()];
        let all = [&handles.slots, &handles.series];
        let scan = |at: usize| snapshot.scan(all[at], begin[at].clone()..b"u".to_vec());
        let before = (digest(scan(0), LOOKED_AT)?, digest(scan(1), LOOKED_AT)?);
        let mut waiting = scan(0);
        let half = digest_of(&mut waiting, LOOKED_AT / 2)?;
        if rng.percent(50) {
            waiting.park();
        }
        wait(told, Duration::from_millis(rng.between(200, 2000)));
        let after = (digest(scan(0), LOOKED_AT)?, digest(scan(1), LOOKED_AT)?);
        let rest = digest_of(&mut waiting, LOOKED_AT - LOOKED_AT / 2)?;
        drop((waiting, snapshot));
        told.pinned_from.store(u64::MAX, Ordering::Relaxed);
        if before != after || half.wrapping_add(rest) != before.0 {
            return Err("a snapshot has changed while it was held".into());
        }
    }
    Ok(())
}

fn digest(mut scan: Scan<'_, Keyspace>, entries: usize) -> Result<u64, String> {
    digest_of(&mut scan, entries)
}

/// Returns the sum of the hashes of the next entries.
fn digest_of(scan: &mut Scan<'_, Keyspace>, entries: usize) -> Result<u64, String> {
    let hash =
        |bytes: &[u8], from| bytes.iter().fold(from, |hash, byte| remix(hash ^ u64::from(*byte)));
    let mut sum = 0_u64;
    for _ in 0..entries {
        if !scan.advance().map_err(failed)? {
            break;
        }
        sum = sum.wrapping_add(hash(&scan.value_bytes()[..8], hash(scan.key(), 1)));
    }
    Ok(sum)
}

/// Creates checkpoints and reads them. Verifies the database once.
pub(super) fn upkeep(db: &Database, dir: &Path, told: &Told, setting: &Setting) -> Checked {
    let copy = dir.with_extension("copy");
    if wait(told, VERIFY_AFTER) {
        db.verify().map_err(failed)?;
    }
    while wait(told, CHECKPOINT_EVERY) {
        let _none = std::fs::remove_dir_all(&copy);
        db.checkpoint(&copy).map_err(failed)?;
        let options = Options::new().memory_budget(4 << 20);
        let (opened, handles) = open(&copy, options).map_err(failed)?;
        opened.verify_quickly().map_err(failed)?;
        let sums = handles.sums.count().map_err(failed)?;
        let expected = setting.threads * SUMS;
        if sums != expected {
            return Err(format!("a checkpoint has {sums} sums, expected {expected}"));
        }
        drop(handles);
        opened.close().map_err(failed)?;
        std::fs::remove_dir_all(&copy).map_err(|error| error.to_string())?;
    }
    Ok(())
}
