//! The SeqNos at which readers read, and the moments by which they judge expiries. Compaction keeps
//! what each reader sees.

use super::expiry::ExpiryClock;
use super::publish::Publisher;
use flagstone_base::{Moment, SeqNo};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The registered SeqNos and moments, with the readers of each.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// The readers at each point. Readers at one SeqNo differ in their moments: the oldest of them
    /// must not hold expiry back for longer than it reads.
    held: Mutex<BTreeMap<ReadPoint, Readers>>,
    /// Garbage waits for readers at SeqNos below this one; 0 if none does.
    awaited_below: AtomicU64,
    /// Called when the last of these readers is gone.
    on_oldest_gone: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The readers at one point.
struct Readers {
    count: usize,
    /// When the first of them came, by the monotonic clock.
    since: Duration,
}

/// The point in history that a reader sees: the writes up to a SeqNo, without those that have
/// expired at a moment. Points are ordered by SeqNo first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadPoint {
    pub(crate) seqno: SeqNo,
    pub(crate) moment: Moment,
}

/// A registered SeqNo and moment, until it is dropped.
pub(crate) struct Registered {
    snapshots: Arc<Snapshots>,
    point: ReadPoint,
}

impl Snapshots {
    /// Registers a reader of what is visible now. It takes the same lock as [`Snapshots::live`], so
    /// a compaction either knows of this reader or uses an older watermark and moment. `now` reads
    /// the monotonic clock.
    pub(crate) fn register(
        self: &Arc<Self>,
        publisher: &Publisher,
        clock: &ExpiryClock,
        now: impl FnOnce() -> Duration,
    ) -> Registered {
        let mut held = self.held.lock();
        let seqno = publisher.visible();
        // Read after the SeqNo: a reader that sees an entry with an expiry finds the clock in use.
        let moment = clock.of_reader();
        let point = ReadPoint { seqno, moment };
        held.entry(point).or_insert_with(|| Readers { count: 0, since: now() }).count += 1;
        Registered { snapshots: Arc::clone(self), point }
    }

    /// The earliest moment by which a registered reader judges; MAX if there is no reader.
    pub(super) fn moment(&self) -> Moment {
        let held = self.held.lock();
        held.keys().map(|point| point.moment).min().unwrap_or(Moment::MAX)
    }

    /// The registered SeqNos, ascending, and the SeqNo visible now.
    pub(crate) fn live(&self, publisher: &Publisher) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        let mut seqnos: Vec<SeqNo> = held.keys().map(|point| point.seqno).collect();
        seqnos.dedup();
        (seqnos, publisher.visible())
    }

    /// When the oldest reader came of those that see less than a new one would: only they keep what
    /// was overwritten since. Readers at one point count as the first of them.
    pub(crate) fn oldest_since(&self, publisher: &Publisher) -> Option<Duration> {
        let held = self.held.lock();
        let (point, readers) = held.first_key_value()?;
        (point.seqno < publisher.visible()).then_some(readers.since)
    }

    /// Sets the function to call when the oldest reader is gone and garbage waits for that. The
    /// thread that drops the snapshot calls it.
    pub(crate) fn on_oldest_gone(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _first = self.on_oldest_gone.set(Box::new(tell));
    }

    /// Notes that garbage waits until no reader is at `seqno` or below. Must be called under the
    /// lock that guards the waiting trees.
    pub(crate) fn await_seqno(&self, seqno: SeqNo) {
        self.awaited_below.fetch_max(seqno.get() + 1, Ordering::Relaxed);
    }

    /// Notes that garbage waits only for readers at `newest` and below, or for none. Must be called
    /// under the same lock.
    pub(crate) fn set_awaited(&self, newest: Option<SeqNo>) {
        let below = newest.map_or(0, |seqno| seqno.get() + 1);
        self.awaited_below.store(below, Ordering::Relaxed);
    }

    /// Returns whether a reader at `seqno` or below is registered.
    pub(crate) fn is_held(&self, seqno: SeqNo) -> bool {
        self.held.lock().first_key_value().is_some_and(|(oldest, _)| oldest.seqno <= seqno)
    }

    /// Removes a reader at `point`. Returns true if it was the last one at the oldest SeqNo, and
    /// garbage waits for that.
    fn give_up(&self, point: ReadPoint) -> bool {
        let mut held = self.held.lock();
        let Some(readers) = held.get_mut(&point) else { return false };
        readers.count -= 1;
        if readers.count > 0 {
            return false;
        }
        held.remove(&point);
        // Read under the lock: a tree that begins to wait says so first, and then checks for the
        // reader.
        let is_awaited = point.seqno.get() < self.awaited_below.load(Ordering::Relaxed);
        is_awaited && held.first_key_value().is_none_or(|(oldest, _)| oldest.seqno > point.seqno)
    }
}

impl Registered {
    pub(crate) const fn seqno(&self) -> SeqNo {
        self.point.seqno
    }

    /// The SeqNo and moment of the reader.
    pub(crate) const fn point(&self) -> ReadPoint {
        self.point
    }
}

impl Clone for Registered {
    fn clone(&self) -> Self {
        // The reader that is cloned is there.
        if let Some(readers) = self.snapshots.held.lock().get_mut(&self.point) {
            readers.count += 1;
        }
        Self { snapshots: Arc::clone(&self.snapshots), point: self.point }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.snapshots.give_up(self.point)
            && let Some(tell) = self.snapshots.on_oldest_gone.get()
        {
            tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_env::ManualClock;

    fn start() -> Duration {
        Duration::ZERO
    }

    fn unused() -> ExpiryClock {
        ExpiryClock::new(Arc::new(ManualClock::default()), Moment::ZERO, false)
    }

    #[test]
    fn no_entry_is_removed_that_a_reader_of_an_earlier_moment_sees() {
        let (manual, snapshots) = (Arc::new(ManualClock::default()), Arc::<Snapshots>::default());
        let clock = ExpiryClock::new(Arc::clone(&manual) as _, Moment::ZERO, true);
        let publisher = Publisher::new(SeqNo::new(7));
        assert_eq!(snapshots.moment(), Moment::MAX);
        let first = snapshots.register(&publisher, &clock, start);
        let begun = clock.now();
        manual.advance(Duration::from_secs(5));
        let second = snapshots.register(&publisher, &clock, start);
        assert_eq!((first.point().moment, second.point().moment), (begun, clock.now()));
        assert_eq!(snapshots.moment(), begun);
        let third = first.clone();
        drop(first);
        assert_eq!((snapshots.moment(), third.point().moment), (begun, begun));
        drop((second, third));
        assert_eq!(snapshots.moment(), Moment::MAX);
    }

    #[test]
    fn a_reader_that_is_gone_holds_nothing_back_while_others_read_at_its_seqno() {
        let (manual, snapshots) = (Arc::new(ManualClock::default()), Arc::<Snapshots>::default());
        let clock = ExpiryClock::new(Arc::clone(&manual) as _, Moment::ZERO, true);
        let publisher = Publisher::new(SeqNo::new(7));
        let mut reader = snapshots.register(&publisher, &clock, start);
        for _ in 0..10 {
            manual.advance(Duration::from_secs(5));
            let next = snapshots.register(&publisher, &clock, start);
            assert_eq!(snapshots.moment(), reader.point().moment);
            assert_eq!(snapshots.live(&publisher).0, [SeqNo::new(7)]);
            reader = next;
            assert_eq!(snapshots.moment(), clock.now());
        }
        snapshots.await_seqno(SeqNo::new(7));
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        snapshots.on_oldest_gone(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let last = reader.clone();
        manual.advance(Duration::from_secs(5));
        let later = snapshots.register(&publisher, &clock, start);
        drop((reader, last));
        assert!(snapshots.is_held(SeqNo::new(7)));
        assert_eq!(told.load(Ordering::Relaxed), 0, "another one still reads at the SeqNo");
        drop(later);
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }

    /// Nothing told for how long a reader had kept what others had overwritten.
    #[test]
    fn the_age_of_the_oldest_reader_counts_once_it_keeps_something() {
        let publisher = |at| Publisher::new(SeqNo::new(at));
        let snapshots = Arc::new(Snapshots::default());
        let second = Duration::from_secs;
        assert_eq!(snapshots.oldest_since(&publisher(7)), None);
        let first = snapshots.register(&publisher(7), &unused(), || second(10));
        let same = snapshots.register(&publisher(7), &unused(), || second(20));
        let newer = snapshots.register(&publisher(8), &unused(), || second(30));
        assert_eq!(snapshots.oldest_since(&publisher(7)), None, "it sees what a new one would");
        drop(first);
        assert_eq!(snapshots.oldest_since(&publisher(8)), Some(second(10)));
        drop(same);
        assert_eq!(snapshots.oldest_since(&publisher(8)), None);
        assert_eq!(snapshots.oldest_since(&publisher(9)), Some(second(30)));
        drop(newer);
        assert_eq!(snapshots.oldest_since(&publisher(9)), None);
    }

    #[test]
    fn a_seqno_is_live_until_its_last_reader_is_gone() {
        let publisher = Publisher::new(SeqNo::new(7));
        let snapshots = Arc::new(Snapshots::default());
        let first = snapshots.register(&publisher, &unused(), start);
        let second = first.clone();
        drop(first);
        assert_eq!(snapshots.live(&publisher), (vec![SeqNo::new(7)], SeqNo::new(7)));
        drop(second);
        assert_eq!(snapshots.live(&publisher).0, []);
    }

    #[test]
    fn only_the_end_of_the_oldest_awaited_reader_is_reported() {
        let snapshots = Arc::new(Snapshots::default());
        let reported = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&reported);
        snapshots.on_oldest_gone(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let readers = || {
            let publisher = |at| Publisher::new(SeqNo::new(at));
            [3, 5, 9].map(|at| snapshots.register(&publisher(at), &unused(), start))
        };
        drop(readers());
        assert_eq!(reported.load(Ordering::Relaxed), 0, "nobody waits");
        let [first, second, third] = readers();
        snapshots.await_seqno(SeqNo::new(5));
        drop(second);
        assert_eq!(reported.load(Ordering::Relaxed), 0, "an older one is left");
        assert!(snapshots.is_held(SeqNo::new(3)));
        drop(first);
        assert_eq!(reported.load(Ordering::Relaxed), 1);
        assert!(!snapshots.is_held(SeqNo::new(5)) && snapshots.is_held(SeqNo::new(9)));
        drop(third);
        assert_eq!(reported.load(Ordering::Relaxed), 1, "nobody waits for this one");
        snapshots.set_awaited(None);
        drop(readers());
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}
