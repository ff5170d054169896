//! A merge of runs.

use super::read::RunReader;
use super::write::Run;
use flagstone_base::Result;
use flagstone_base::bytes::{assign, order, same};
use flagstone_base::heap::{heapify, replace_first, sift_down};
use flagstone_base::key::key_front;
use std::cmp::Ordering;

/// The entries of several runs in one order: by key, those with one key in the order of the runs.
pub(super) struct Merge {
    readers: Vec<RunReader>,
    /// The readers that have an entry, the smallest first.
    heap: Vec<Contender>,
    state: MergeState,
    /// Returns only the first entry of each key.
    distinct: bool,
    last_key: Vec<u8>,
    /// How many more entries are returned at most.
    left: usize,
    is_parked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeState {
    Unstarted,
    /// The first reader is at the current entry.
    Started,
    /// Nothing is left, or reading failed.
    Ended,
}

/// A reader, and the first bytes of its key.
#[derive(Clone, Copy)]
struct Contender {
    front: u64,
    reader: u32,
}

impl Merge {
    pub(super) fn new(runs: Vec<Run>, distinct: bool, limit: usize) -> Self {
        let readers: Vec<RunReader> = runs.into_iter().map(RunReader::new).collect();
        let heap = Vec::with_capacity(readers.len());
        let state = MergeState::Unstarted;
        let (last_key, left) = (Vec::new(), limit);
        Self { readers, heap, state, distinct, last_key, left, is_parked: false }
    }

    /// Gives up all blocks but that of the current entry until the next advance.
    pub(super) fn park(&mut self) {
        let current = self.heap.first().map(|first| first.reader as usize);
        let readers = self.readers.iter_mut().enumerate();
        readers.filter(|(at, _)| Some(*at) != current).for_each(|(_, reader)| reader.park());
        self.is_parked = true;
    }

    /// Returns whether blocks are given up.
    pub(super) const fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Moves to the next entry. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.left == 0 {
            self.end();
        }
        if std::mem::take(&mut self.is_parked)
            && let Err(error) = self.readers.iter_mut().try_for_each(RunReader::resume)
        {
            self.end();
            return Err(error);
        }
        let advanced = self.try_advance();
        match advanced {
            Ok(true) => self.left -= 1,
            Ok(false) | Err(_) => self.end(),
        }
        advanced
    }

    /// Closes the readers. A file whose last run is closed is removed.
    fn end(&mut self) {
        (self.readers, self.heap, self.state) = (Vec::new(), Vec::new(), MergeState::Ended);
    }

    fn try_advance(&mut self) -> Result<bool> {
        let is_first = match self.state {
            MergeState::Ended => return Ok(false),
            MergeState::Unstarted => {
                self.start()?;
                true
            }
            MergeState::Started => {
                self.step()?;
                false
            }
        };
        if self.distinct && !is_first {
            while self.heap.first().is_some_and(|first| same(self.key_of(first), &self.last_key)) {
                self.step()?;
            }
        }
        let Some(first) = self.heap.first() else { return Ok(false) };
        if self.distinct {
            assign(&mut self.last_key, self.readers[first.reader as usize].key());
        }
        Ok(true)
    }

    fn start(&mut self) -> Result<()> {
        for (at, reader) in self.readers.iter_mut().enumerate() {
            if reader.advance()? {
                self.heap.push(Contender { front: key_front(reader.key()), reader: at as u32 });
            }
        }
        let readers = &self.readers;
        heapify(&mut self.heap, |a, b| is_before(readers, a, b));
        self.state = MergeState::Started;
        Ok(())
    }

    /// Moves the first reader to its next entry.
    fn step(&mut self) -> Result<()> {
        let Some(first) = self.heap.first().copied() else { return Ok(()) };
        let reader = &mut self.readers[first.reader as usize];
        let has_more = reader.advance()?;
        let front = key_front(reader.key());
        let readers = &self.readers;
        if has_more {
            let moved = Contender { front, ..first };
            replace_first(&mut self.heap, moved, |a, b| is_before(readers, a, b));
        } else {
            self.heap.swap_remove(0);
            sift_down(&mut self.heap, 0, |a, b| is_before(readers, a, b));
        }
        Ok(())
    }

    fn key_of(&self, contender: &Contender) -> &[u8] {
        self.readers[contender.reader as usize].key()
    }

    pub(super) fn key(&self) -> &[u8] {
        self.heap.first().map_or(&[], |first| self.key_of(first))
    }

    pub(super) fn value(&self) -> &[u8] {
        self.heap.first().map_or(&[], |first| self.readers[first.reader as usize].value())
    }
}

fn is_before(readers: &[RunReader], a: &Contender, b: &Contender) -> bool {
    let key = |contender: &Contender| readers[contender.reader as usize].key();
    let by_key = a.front.cmp(&b.front).then_with(|| order(key(a), key(b)));
    by_key.then_with(|| a.reader.cmp(&b.reader)) == Ordering::Less
}
