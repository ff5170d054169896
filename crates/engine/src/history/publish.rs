//! Publication in SeqNo order: a commit becomes visible only when all commits with lower numbers
//! are.

use flagstone_base::SeqNo;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::sync::{Condvar, Mutex, spin_loop, spins, yield_now};
use std::collections::VecDeque;

/// Raises the visible SeqNo.
pub(crate) struct Publisher {
    visible: AtomicU64,
    line: Mutex<PublishQueue>,
    finished: Condvar,
}

/// The commits that are numbered and not yet visible, in the order of their numbers.
struct PublishQueue {
    commits: VecDeque<QueuedCommit>,
    /// The ticket of the front commit.
    front: u64,
    waiting: usize,
}

struct QueuedCommit {
    last: SeqNo,
    done: bool,
}

/// A commit's place in the line. It must reach [`Publisher::finish`], or all later commits wait.
#[must_use]
pub(crate) struct PublishTicket {
    place: u64,
    last: SeqNo,
}

/// How often a commit checks whether those before it are done before it sleeps. Mostly they are
/// copying a value, and a sleep costs two thread switches.
const SPINS: usize = spins(250);
const YIELDS: usize = 2;

impl Publisher {
    pub(crate) fn new(visible: SeqNo) -> Self {
        let line = PublishQueue { commits: VecDeque::with_capacity(64), front: 0, waiting: 0 };
        Self {
            visible: AtomicU64::new(visible.get()),
            line: Mutex::new(line),
            finished: Condvar::new(),
        }
    }

    /// The newest SeqNo a new reader sees.
    #[inline]
    pub(crate) fn visible(&self) -> SeqNo {
        SeqNo::new(self.visible.load(Ordering::Acquire))
    }

    /// Joins the line. Called under the numbering lock, so the line has the order of the numbers.
    pub(crate) fn join(&self, last: SeqNo) -> PublishTicket {
        let mut line = self.line.lock();
        line.commits.push_back(QueuedCommit { last, done: false });
        PublishTicket { place: line.front + line.commits.len() as u64 - 1, last }
    }

    /// Publishes a commit whose entries are in the memtables, or that failed and has none. Returns
    /// when it is visible.
    pub(crate) fn finish(&self, ticket: PublishTicket) {
        let mut line = self.line.lock();
        let place = (ticket.place - line.front) as usize;
        line.commits[place].done = true;
        if place == 0 {
            let mut last = None;
            while line.commits.front().is_some_and(|commit| commit.done) {
                last = line.commits.pop_front().map(|commit| commit.last);
                line.front += 1;
            }
            if let Some(last) = last {
                self.visible.store(last.get(), Ordering::Release);
            }
            if line.waiting > 0 {
                self.finished.notify_all();
            }
            return;
        }
        drop(line);
        self.wait_for(&ticket);
    }

    fn wait_for(&self, ticket: &PublishTicket) {
        for spin in 0..SPINS + YIELDS {
            if self.visible() >= ticket.last {
                return;
            }
            if spin < SPINS {
                spin_loop();
            } else {
                yield_now();
            }
        }
        let mut line = self.line.lock();
        line.waiting += 1;
        while line.front <= ticket.place {
            self.finished.wait(&mut line);
        }
        line.waiting -= 1;
    }

    /// The end of the line, for [`Publisher::wait_through`].
    pub(crate) fn line_end(&self) -> u64 {
        let line = self.line.lock();
        line.front + line.commits.len() as u64
    }

    /// Waits until everything numbered before the call is visible.
    pub(crate) fn wait_for_all(&self) {
        self.wait_through(self.line_end());
    }

    /// Waits until the commits that were in line at `end` are visible.
    pub(crate) fn wait_through(&self, end: u64) {
        let mut line = self.line.lock();
        line.waiting += 1;
        while line.front < end {
            self.finished.wait(&mut line);
        }
        line.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_commit_waits_for_those_numbered_before_it() {
        let publisher = Arc::new(Publisher::new(SeqNo::new(10)));
        let first = publisher.join(SeqNo::new(11));
        let second = publisher.join(SeqNo::new(15));
        let waiting = {
            let publisher = Arc::clone(&publisher);
            std::thread::spawn(move || {
                publisher.finish(second);
                publisher.visible()
            })
        };
        while !publisher.line.lock().commits[1].done {
            yield_now();
        }
        assert_eq!(publisher.visible(), SeqNo::new(10));
        publisher.finish(first);
        assert_eq!(waiting.join().unwrap(), SeqNo::new(15));
        publisher.wait_for_all();
    }
}
