//! Before a write: waits as long as flushes and compactions need, and no longer.

use super::admission::admit;
use super::admitted::Admitted;
use super::large::LARGE_WRITE;
use super::stall::{Pressure, STOP, pressure_at};
use super::throttle::{RoomCheck, Throttle};
use crate::event::{Event, StallCause};
use crate::keyspace_core::Trees;
use crate::queue::{BackOff, SealGroup};
use flagstone_base::{ErrorKind, Result};
use flagstone_tree::Tree;
use std::sync::Arc;
use std::time::Duration;

/// The shortest time after which a caller that may not wait is told to retry.
const RETRY_MIN: Duration = Duration::from_millis(1);
/// The longest such time. Writers that wait check as often.
const RETRY_MAX: Duration = Duration::from_millis(50);
/// One part in this many of the memtables' share is for trees whose flush fails, so that writes to
/// other trees continue.
const STUCK_PARTS: u64 = 4;
/// A small write needs any free part of the memtables' share.
const ANY_BYTES: u64 = 1;

/// Waits until there is room for a write of `bytes`. If `wait` is false, returns Busy instead of
/// stopping. A large write keeps its admission until it is in its memtable. `trees` returns the
/// trees that are written; it is called only if somebody must wait, since a tree that waits for
/// compaction holds back only its own writers.
#[inline]
pub(crate) fn before_write<'t, 'a>(
    throttle: &'t Throttle,
    bytes: usize,
    wait: bool,
    trees: impl FnOnce() -> Trees<'a>,
) -> Result<Option<Admitted<'t>>> {
    throttle.health.check_may_write()?;
    if !throttle
        .stall
        .is_free(throttle.memory.memtable_bytes(), throttle.setup.options.memtable_share())
    {
        hold_back(throttle, &trees(), wait)?;
    }
    match bytes < LARGE_WRITE {
        true => Ok(None),
        false => admit(throttle, bytes as u64, wait),
    }
}

/// The result of [`try_before_write`], for a writer that must not sleep.
pub(crate) enum TryWrite<'a> {
    /// Write now.
    Now {
        /// The admission of a large write.
        admitted: Option<Admitted<'a>>,
        /// How long the writer should pause after this write.
        pause: Duration,
    },
    /// Try again after this time.
    Later(Duration),
}

/// Like [`before_write`], but returns the time that a caller must wait instead of sleeping.
///
/// # Errors
/// Same as [`before_write`], except Busy.
pub(crate) fn try_before_write<'t>(
    throttle: &'t Throttle,
    bytes: usize,
    trees: &Trees<'_>,
) -> Result<TryWrite<'t>> {
    throttle.health.check_may_write()?;
    let share = throttle.setup.options.memtable_share();
    let mut pause = Duration::ZERO;
    if !throttle.stall.is_free(throttle.memory.memtable_bytes(), share) {
        check_flushes(throttle, trees)?;
        match pressure_on(throttle, trees) {
            Pressure::Free => {}
            Pressure::Delay(delay) => pause = delay,
            Pressure::Stop(cause) => {
                if cause == StallCause::Compaction {
                    check_compactions(throttle, trees, failures_of(throttle, trees))?;
                }
                throttle.check_room_may_come(cause, ANY_BYTES)?;
                return Ok(TryWrite::Later(retry_after(throttle)));
            }
        }
    }
    if bytes < LARGE_WRITE {
        return Ok(TryWrite::Now { admitted: None, pause });
    }
    match admit(throttle, bytes as u64, false) {
        Ok(admitted) => Ok(TryWrite::Now { admitted, pause }),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(TryWrite::Later(retry_after(throttle))),
        Err(error) => Err(error),
    }
}

/// Returns when a writer that found no room may try again. The work that makes room is started.
#[cold]
pub(crate) fn retry_after(throttle: &Throttle) -> Duration {
    let left = throttle.work.left_of_flush(throttle.setup.now());
    left.clamp(RETRY_MIN, RETRY_MAX)
}

fn pressure_on(throttle: &Throttle, trees: &Trees<'_>) -> Pressure {
    let brake = trees.iter().map(|tree| tree.brake()).max().unwrap_or(0);
    pressure_at(throttle.memory.memtable_bytes(), throttle.setup.options.memtable_share(), brake)
}

#[cold]
fn hold_back(throttle: &Throttle, trees: &Trees<'_>, wait: bool) -> Result<()> {
    check_flushes(throttle, trees)?;
    let cause = match pressure_on(throttle, trees) {
        Pressure::Free => return Ok(()),
        Pressure::Delay(delay) => {
            if wait && !throttle.setup.executor.assist() {
                throttle.delay(delay);
            }
            return Ok(());
        }
        Pressure::Stop(cause) => cause,
    };
    let failures = failures_of(throttle, trees);
    let check = || -> RoomCheck<()> {
        match pressure_on(throttle, trees) {
            Pressure::Stop(StallCause::Memory) => {
                check_flushes(throttle, trees)?;
                Ok(Err(StallCause::Memory))
            }
            Pressure::Stop(StallCause::Compaction) => {
                check_compactions(throttle, trees, failures)?;
                Ok(Err(StallCause::Compaction))
            }
            Pressure::Stop(cause) => Ok(Err(cause)),
            Pressure::Free | Pressure::Delay(_) => Ok(Ok(())),
        }
    };
    if wait {
        return throttle.stop(cause, check);
    }
    check()?.map_err(|cause| throttle.no_room(cause, ANY_BYTES))
}

/// The number of failed compactions of `trees`.
fn failures_of(throttle: &Throttle, trees: &Trees<'_>) -> u32 {
    let queue = throttle.work.lock();
    trees.iter().filter_map(|tree| queue.failing.get(&tree.id())).map(BackOff::failures).sum()
}

/// Checks whether a writer can wait for a compaction of one of `trees`. Returns an error if one has
/// failed since there were `failures`, or if none can run.
fn check_compactions(throttle: &Throttle, trees: &Trees<'_>, failures: u32) -> Result<()> {
    let now = throttle.setup.now();
    let error = {
        let queue = throttle.work.lock();
        let is_stopped = |tree: &&&Arc<Tree>| tree.brake() >= STOP;
        let error = |tree: &&Arc<Tree>| {
            let id = tree.id();
            let failing = queue.failing.get(&id).and_then(|b| b.hopeless_error(failures, now));
            let is_idle = !queue.compacting.contains(&id);
            let blocked = || queue.blocked.get(&id).filter(|_| is_idle);
            Some((id, failing.or_else(blocked)?.clone()))
        };
        trees.iter().filter(is_stopped).find_map(error)
    };
    let what = "writers wait for a compaction that fails,";
    error.map_or(Ok(()), |(tree, error)| Err(throttle.keyspaces.in_tree(&error, tree, what)))
}

/// Refuses a write to one of `trees` if its flush keeps failing and the tree has used up its part
/// of the memory. Refuses every write if the log is at its limit because of such a tree.
fn check_flushes(throttle: &Throttle, trees: &Trees<'_>) -> Result<()> {
    let stuck = throttle.work.stuck();
    if stuck == 0 {
        return Ok(());
    }
    let is_log_full = throttle.history.log_bytes() >= throttle.setup.options.wal_bytes_max();
    let bytes_max = throttle.setup.options.memtable_share() / STUCK_PARTS / stuck;
    let is_full = |tree: &&Arc<Tree>| tree.active_bytes() + tree.sealed_bytes() >= bytes_max;
    let is_refused = |group: &SealGroup| {
        let is_in_group = |tree: &&&Arc<Tree>| group.trees.iter().any(|t| Arc::ptr_eq(t, tree));
        is_log_full || trees.iter().filter(is_in_group).any(is_full)
    };
    let refused = {
        let queue = throttle.work.lock();
        let mut lasting = queue.flushes.lasting_groups();
        lasting.find_map(|(group, error)| is_refused(group).then(|| error.clone()))
    };
    let Some(error) = refused else { return Ok(()) };
    if !is_log_full {
        return Err(error.context("writers wait for a flush that fails"));
    }
    if throttle.stall.note_full_log(throttle.setup.now()) {
        throttle.health.tell(&Event::StallStarted { cause: StallCause::Log });
    }
    Err(error.context("the log is full, and a flush that would shorten it fails"))
}

#[cfg(test)]
mod tests {
    use crate::testing::Builder;
    use crate::{KeyspaceOptions, Routing};
    use flagstone_base::key::KeyRange;

    /// An open cursor pins its view. The memtables of the view once counted as unflushed, so a
    /// thread that held a cursor and wrote waited for itself.
    #[test]
    fn a_cursor_that_is_held_does_not_stop_its_own_writer() {
        let dir = tempfile::tempdir().unwrap();
        let db = Builder::at(dir.path()).memory_budget(1 << 20).open().unwrap();
        let options = KeyspaceOptions::new().routing(Routing::Hash(1));
        let kv = db.keyspace_with("k", options).unwrap();
        let mut cursors = Vec::new();
        for i in 0..4000_u32 {
            kv.put(i.to_be_bytes(), [7; 1000]).unwrap();
            if i % 200 == 0 {
                let mut scan = kv.scan_range(KeyRange::ALL);
                assert!(scan.next().is_some());
                cursors.push(scan);
            }
        }
        drop(cursors);
        assert_eq!(kv.count().unwrap(), 4000);
    }
}
