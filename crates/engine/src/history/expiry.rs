//! The clock by which entries expire.
//!
//! ```text
//! now     max(wall clock, every moment returned before, the manifest's): for readers
//! safe    as now, but follows a jump of the wall clock only after an hour: for removal from tables
//! ```
//! A wall clock that is set far ahead by mistake must not destroy data. Readers follow it, since
//! they cannot know better. But the entries that they no longer see are still in tables, and only
//! `safe` is recorded: the entries come back when the clock is right and the database is opened
//! again.

use flagstone_base::Moment;
use flagstone_env::Clock;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A wall clock that gains more than this on the monotonic clock between two readings has jumped.
/// The clock of a machine that slept counts as such, too.
const JUMP: Duration = Duration::from_secs(3600);
/// No entry is removed because of a jump for this long after it: time to set the clock right.
const PAUSE: Duration = Duration::from_secs(3600);

/// The clock by which entries of one database expire. It never runs backwards.
pub(crate) struct ExpiryClock {
    clock: Arc<dyn Clock>,
    /// An entry may have an expiry.
    is_used: AtomicBool,
    /// The largest moment returned, in milliseconds.
    high: AtomicU64,
    trusted: Mutex<Trusted>,
}

/// The wall clock as far as it is trusted.
struct Trusted {
    /// A reading of the wall clock, and that of the monotonic clock at the same time.
    wall: Moment,
    monotonic: Duration,
    safe: Moment,
    /// When a jump was seen that is not trusted yet.
    jumped: Option<Duration>,
    /// The size of a jump that was not reported yet.
    untold: Option<Duration>,
}

impl ExpiryClock {
    /// A clock that never returns a moment before `high`. `is_used` tells whether an entry may have
    /// an expiry.
    pub(crate) fn new(clock: Arc<dyn Clock>, high: Moment, is_used: bool) -> Self {
        let (wall, monotonic) = (Moment::since_1970(clock.wall()), clock.monotonic());
        let safe = wall.max(high);
        let trusted = Trusted { wall, monotonic, safe, jumped: None, untold: None };
        Self {
            clock,
            is_used: AtomicBool::new(is_used),
            high: AtomicU64::new(high.millis()),
            trusted: Mutex::new(trusted),
        }
    }

    /// Notes that entries may have expiries. Called before the first such entry gets its number.
    pub(crate) fn set_used(&self) {
        self.is_used.store(true, Ordering::SeqCst);
    }

    /// Returns whether an entry may have an expiry.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    /// The moment by which a reader judges expiries now.
    pub(crate) fn now(&self) -> Moment {
        let wall = Moment::since_1970(self.clock.wall()).millis();
        let high = self.high.load(Ordering::Acquire);
        let now =
            if wall > high { self.high.fetch_max(wall, Ordering::AcqRel).max(wall) } else { high };
        Moment::from_millis(now)
    }

    /// The moment that a new reader keeps, read after its SeqNo: [`Moment::MAX`] if it sees no
    /// entry with an expiry.
    pub(super) fn of_reader(&self) -> Moment {
        if self.is_used() { self.now() } else { Moment::MAX }
    }

    /// The moment up to which this clock lets expired entries be removed from tables.
    pub(crate) fn safe(&self) -> Moment {
        let mut trusted = self.trusted.lock();
        let (wall, monotonic) = (Moment::since_1970(self.clock.wall()), self.clock.monotonic());
        trusted.update(wall, monotonic);
        // Later readers judge by no earlier moment than this.
        self.high.fetch_max(trusted.safe.millis(), Ordering::AcqRel);
        trusted.safe
    }

    /// Returns the size of a jump of the wall clock, once for each jump.
    pub(crate) fn take_jump(&self) -> Option<Duration> {
        self.trusted.lock().untold.take()
    }
}

impl Trusted {
    fn update(&mut self, wall: Moment, monotonic: Duration) {
        let passed = monotonic.saturating_sub(self.monotonic);
        let expected = self.wall.after(passed);
        let believed = if wall <= expected.after(JUMP) {
            self.jumped = None;
            wall
        } else {
            let since = *self.jumped.get_or_insert_with(|| {
                self.untold = Some(Duration::from_millis(wall.millis() - expected.millis()));
                monotonic
            });
            if monotonic.saturating_sub(since) < PAUSE {
                expected
            } else {
                self.jumped = None;
                wall
            }
        };
        (self.wall, self.monotonic) = (believed, monotonic);
        self.safe = self.safe.max(believed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_env::ManualClock;

    fn clocks(high: Moment) -> (Arc<ManualClock>, ExpiryClock) {
        let manual = Arc::new(ManualClock::default());
        manual.set_wall(Duration::from_secs(1_000_000));
        let clock = ExpiryClock::new(Arc::clone(&manual) as Arc<dyn Clock>, high, true);
        (manual, clock)
    }

    const fn second(n: u64) -> Moment {
        Moment::from_millis(n * 1000)
    }

    #[test]
    fn it_follows_the_wall_clock_and_never_runs_backwards() {
        let (manual, clock) = clocks(Moment::ZERO);
        assert_eq!((clock.now(), clock.safe()), (second(1_000_000), second(1_000_000)));
        manual.advance(Duration::from_secs(5));
        assert_eq!((clock.now(), clock.safe()), (second(1_000_005), second(1_000_005)));
        manual.set_wall(Duration::from_secs(999_000));
        assert_eq!((clock.now(), clock.safe()), (second(1_000_005), second(1_000_005)));
        manual.advance(Duration::from_secs(1006));
        assert_eq!((clock.now(), clock.safe()), (second(1_000_006), second(1_000_006)));
        assert_eq!(clock.take_jump(), None);
    }

    #[test]
    fn it_begins_at_the_moment_that_the_manifest_records() {
        let (manual, clock) = clocks(second(2_000_000));
        assert_eq!((clock.now(), clock.safe()), (second(2_000_000), second(2_000_000)));
        manual.advance(Duration::from_secs(5));
        assert_eq!(clock.now(), second(2_000_000));
    }

    #[test]
    fn a_jump_is_reported_once_and_tables_follow_it_an_hour_later() {
        let (manual, clock) = clocks(Moment::ZERO);
        manual.set_wall(Duration::from_secs(9_000_000));
        assert_eq!(clock.now(), second(9_000_000), "readers follow at once");
        assert_eq!(clock.safe(), second(1_000_000));
        assert_eq!(clock.take_jump(), Some(Duration::from_secs(8_000_000)));
        manual.advance(Duration::from_secs(3599));
        assert_eq!(clock.safe(), second(1_003_599), "time passes meanwhile");
        assert_eq!(clock.take_jump(), None);
        manual.advance(Duration::from_secs(1));
        assert_eq!(clock.safe(), second(9_003_600));
    }

    #[test]
    fn a_clock_that_was_set_right_within_the_hour_costs_nothing() {
        let (manual, clock) = clocks(Moment::ZERO);
        manual.set_wall(Duration::from_secs(9_000_000));
        clock.safe();
        manual.advance(Duration::from_secs(60));
        manual.set_wall(Duration::from_secs(1_000_060));
        assert_eq!(clock.safe(), second(1_000_060));
        manual.advance(Duration::from_secs(7200));
        assert_eq!(clock.safe(), second(1_007_260));
    }

    #[test]
    fn an_hour_is_no_jump() {
        let (manual, clock) = clocks(Moment::ZERO);
        manual.set_wall(Duration::from_secs(1_003_600));
        assert_eq!((clock.safe(), clock.take_jump()), (second(1_003_600), None));
    }

    #[test]
    fn a_reader_keeps_no_moment_while_nothing_expires() {
        let manual = Arc::new(ManualClock::default());
        let clock = ExpiryClock::new(manual, Moment::ZERO, false);
        assert_eq!(clock.of_reader(), Moment::MAX);
        clock.set_used();
        assert!(clock.of_reader() < Moment::MAX);
    }
}
