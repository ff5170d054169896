//! A merge of trees: the next key of all, in either direction, by a tournament of cursors.
//!
//! ```text
//!            0: the winner             match p is played by the winners of 2p and 2p + 1, and
//!            1: b d                    stores the loser. Scan s plays first at (s + 4) / 2
//!        2: a b      3: c d
//! scans    0  1        2  3            after a step of scan 1: plays at 2, then at 1
//! ```
//! Partitions take turns at random, so a processor mispredicts which child of a heap comes first.
//! Here each step plays the same number of matches, and no branch depends on the winner.

use flagstone_base::bytes::order;
use flagstone_base::key::key_front;
use flagstone_base::{Result, Slice};
use flagstone_tree::{Direction, TreeScan};
use std::hint::select_unpredictable;

/// Scans of trees that share no key, merged to one order.
pub(crate) struct Merge {
    scans: Vec<TreeScan>,
    /// The winner of all, then the loser of each match. Empty before the first step; then its
    /// length is a power of two.
    matches: Vec<Contender>,
    direction: Direction,
}

/// A scan and the first bytes of its current key, which decide most matches.
#[derive(Clone, Copy)]
struct Contender {
    /// For a reverse scan all bits are inverted, so the smaller front always wins.
    front: u64,
    /// [`NONE`]'s when the scan has ended.
    scan: usize,
}

/// Loses against every scan.
const NONE: Contender = Contender { front: u64::MAX, scan: usize::MAX };

impl Merge {
    pub(crate) const fn new(scans: Vec<TreeScan>, direction: Direction) -> Self {
        Self { scans, matches: Vec::new(), direction }
    }

    /// Moves to the next key. Returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let last = self.winner();
        let next = if self.matches.is_empty() {
            let size = self.scans.len().next_power_of_two();
            self.matches = vec![NONE; size];
            self.play_all(1)?
        } else if last < self.scans.len() {
            let contender = self.step(last)?;
            self.play(last, contender)
        } else {
            NONE
        };
        self.matches[0] = next;
        match self.scans.get_mut(next.scan) {
            Some(scan) => scan.show().map(|()| true),
            None => Ok(false),
        }
    }

    /// Moves scan `at` to its next key.
    #[inline]
    fn step(&mut self, at: usize) -> Result<Contender> {
        let Some(scan) = self.scans.get_mut(at) else { return Ok(NONE) };
        if !scan.advance()? {
            return Ok(NONE);
        }
        let front = key_front(scan.key());
        let front = if self.direction == Direction::Forward { front } else { !front };
        Ok(Contender { front, scan: at })
    }

    /// Steps all scans below `place` and plays their matches. Returns the winner.
    fn play_all(&mut self, place: usize) -> Result<Contender> {
        if let Some(scan) = place.checked_sub(self.matches.len()) {
            return self.step(scan);
        }
        let (left, right) = (self.play_all(2 * place)?, self.play_all(2 * place + 1)?);
        let (winner, loser) =
            if self.is_before(&right, &left) { (right, left) } else { (left, right) };
        self.matches[place] = loser;
        Ok(winner)
    }

    /// Plays the matches of scan `at`, which has moved to `contender`. Returns the winner of all.
    #[inline]
    fn play(&mut self, at: usize, contender: Contender) -> Contender {
        let (mut winner, mut place) = (contender, (at + self.matches.len()) / 2);
        while place > 0 {
            let other = self.matches[place];
            let wins = self.is_before(&other, &winner);
            self.matches[place] = Contender {
                front: select_unpredictable(wins, winner.front, other.front),
                scan: select_unpredictable(wins, winner.scan, other.scan),
            };
            winner = Contender {
                front: select_unpredictable(wins, other.front, winner.front),
                scan: select_unpredictable(wins, other.scan, winner.scan),
            };
            place /= 2;
        }
        winner
    }

    #[inline]
    fn is_before(&self, a: &Contender, b: &Contender) -> bool {
        if a.front == b.front { self.has_key_before(a, b) } else { a.front < b.front }
    }

    fn has_key_before(&self, a: &Contender, b: &Contender) -> bool {
        match (self.scans.get(a.scan), self.scans.get(b.scan), self.direction) {
            (Some(a), Some(b), Direction::Forward) => order(a.key(), b.key()).is_lt(),
            (Some(a), Some(b), Direction::Reverse) => order(a.key(), b.key()).is_gt(),
            (a, _, _) => a.is_some(),
        }
    }

    /// The scan whose entry is the current one.
    #[inline]
    fn winner(&self) -> usize {
        self.matches.first().unwrap_or(&NONE).scan
    }

    /// Releases what the scans read, and keeps their positions.
    pub(crate) fn park(&mut self) {
        self.scans.iter_mut().for_each(TreeScan::park);
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.scans.get(self.winner()).map_or(&[], TreeScan::key)
    }

    #[inline]
    pub(crate) fn value(&self) -> Slice {
        self.scans.get(self.winner()).map_or_else(Slice::default, TreeScan::value)
    }

    #[inline]
    pub(crate) fn value_bytes(&self) -> &[u8] {
        self.scans.get(self.winner()).map_or(&[], TreeScan::value_bytes)
    }
}
