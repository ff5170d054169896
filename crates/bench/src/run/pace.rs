//! How long a phase runs, on how many threads, and how often it is looked at.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// When a phase ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// After this time; operations that run then are finished and count.
    Time(Duration),
    /// After so many operations, split evenly over the threads.
    Operations(u64),
    /// When every worker has said that it has nothing more to do.
    UntilDone,
}

/// How long a phase runs, and how it is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Threads, each in a closed loop.
    pub threads: usize,
    /// When it ends.
    pub length: Length,
    /// The time of a row.
    pub interval: Duration,
    /// Whether all files of the store are synced at the end, which then belongs to the time measured.
    pub closing_sync: bool,
}

impl Default for Pace {
    /// 4 threads, 20 seconds, a row a second.
    fn default() -> Self {
        Self {
            threads: 4,
            length: Length::Time(Duration::from_secs(20)),
            interval: Duration::from_secs(1),
            closing_sync: false,
        }
    }
}

impl Pace {
    /// Operations of thread `thread` of all: for others than [`Length::Operations`] without end.
    pub fn quota(&self, thread: usize) -> u64 {
        let Length::Operations(all) = self.length else { return u64::MAX };
        let threads = self.threads.max(1) as u64;
        all / threads + u64::from((thread as u64) < all % threads)
    }

    /// Adds its options to those of a header.
    pub fn describe(&self, options: &mut BTreeMap<String, Value>) {
        options.insert("threads".into(), self.threads.into());
        match self.length {
            Length::Time(time) => options.insert("seconds".into(), time.as_secs_f64().into()),
            Length::Operations(count) => options.insert("operations".into(), count.into()),
            Length::UntilDone => None,
        };
        options.insert("interval".into(), self.interval.as_secs_f64().into());
        options.insert("closing-sync".into(), self.closing_sync.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_split_without_losing_one() {
        for (threads, all) in [(1, 7), (3, 7), (4, 8), (16, 5)] {
            let pace = Pace { threads, length: Length::Operations(all), ..Pace::default() };
            assert_eq!((0..threads).map(|thread| pace.quota(thread)).sum::<u64>(), all);
        }
        assert_eq!(Pace::default().quota(0), u64::MAX);
    }
}
