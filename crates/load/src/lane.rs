//! The queue of one writer: batches leave it in the order of the input, in whatever order parsers
//! finish them.
//!
//! Each key belongs to one lane, by its hash. So writes of one key are committed in the order of
//! the input, while those of other keys overtake them, and no table of keys is needed.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place of a batch in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    /// The number of the chunk.
    pub(crate) chunk: u64,
    /// The number of the batch in this chunk and lane.
    pub(crate) part: u32,
}

/// What a lane needs to know of the things in it.
pub(crate) trait LaneItem {
    /// Returns whether no more pieces of its chunk follow in this lane.
    fn is_last(&self) -> bool;
}

/// The queue of one writer.
pub(crate) struct Lane<P> {
    state: Mutex<State<P>>,
    /// The next piece has come, or none will come.
    ready: Condvar,
    /// A chunk has left the lane.
    left: Condvar,
    /// The pieces of this many chunks may be in the lane at once.
    chunks_max: u64,
}

struct State<P> {
    next: Slot,
    waiting: BTreeMap<Slot, P>,
    is_closed: bool,
}

impl<P: LaneItem> Lane<P> {
    pub(crate) fn new(chunks_max: u64) -> Self {
        let next = Slot { chunk: 0, part: 0 };
        let state = State { next, waiting: BTreeMap::new(), is_closed: false };
        Self { state: Mutex::new(state), ready: Condvar::new(), left: Condvar::new(), chunks_max }
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece. Waits while it is too far ahead of the writer. A closed lane drops it.
    ///
    /// Parsers take chunks in order. So the chunk that the writer waits for is with a parser that
    /// does not wait here, and ends.
    pub(crate) fn push(&self, at: Slot, piece: P) {
        let mut state = self.lock();
        while !state.is_closed && at.chunk >= state.next.chunk + self.chunks_max {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        let is_next = at == state.next;
        state.waiting.insert(at, piece);
        drop(state);
        if is_next {
            self.ready.notify_one();
        }
    }

    /// Returns the next piece in order. Waits for it; returns `None` if the lane is closed.
    pub(crate) fn pop(&self) -> Option<P> {
        let mut state = self.lock();
        loop {
            let next = state.next;
            if let Some(piece) = state.waiting.remove(&next) {
                let is_last = piece.is_last();
                state.next = if is_last {
                    Slot { chunk: next.chunk + 1, part: 0 }
                } else {
                    Slot { part: next.part + 1, ..next }
                };
                drop(state);
                if is_last {
                    self.left.notify_all();
                }
                return Some(piece);
            }
            if state.is_closed {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more pieces. The writer gets those that are there, up to the first that is missing.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.ready.notify_all();
        self.left.notify_all();
    }

    /// Takes no more pieces, and drops those that are there.
    pub(crate) fn abandon(&self) {
        let dropped = {
            let mut state = self.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(dropped);
        self.ready.notify_all();
        self.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, PartialEq)]
    struct Numbered(Slot, bool);

    impl LaneItem for Numbered {
        fn is_last(&self) -> bool {
            self.1
        }
    }

    /// Chunk c has c % 3 + 1 parts.
    fn pieces(chunks: std::ops::Range<u64>) -> impl Iterator<Item = Numbered> {
        chunks.flat_map(|chunk| {
            let parts = chunk as u32 % 3 + 1;
            (0..parts).map(move |part| Numbered(Slot { chunk, part }, part + 1 == parts))
        })
    }

    #[test]
    fn pieces_leave_in_order_whichever_parser_is_first() {
        let lane = Arc::new(Lane::new(4));
        let next = Arc::new(Mutex::new(0..300));
        let parsers: Vec<_> = (0..5)
            .map(|_| {
                let (lane, next) = (Arc::clone(&lane), Arc::clone(&next));
                std::thread::spawn(move || {
                    loop {
                        let Some(chunk) = next.lock().unwrap().next() else { return };
                        for piece in pieces(chunk..chunk + 1) {
                            std::thread::yield_now();
                            lane.push(piece.0, piece);
                        }
                    }
                })
            })
            .collect();
        for expected in pieces(0..300) {
            assert_eq!(lane.pop(), Some(expected));
        }
        parsers.into_iter().for_each(|parser| parser.join().unwrap());
        lane.close();
        assert_eq!(lane.pop(), None);
    }

    #[test]
    fn nothing_after_a_missing_piece_leaves_a_closed_lane() {
        let lane = Lane::new(10);
        for piece in pieces(0..6).filter(|piece| piece.0 != Slot { chunk: 4, part: 1 }) {
            lane.push(piece.0, piece);
        }
        lane.close();
        let left: Vec<_> = std::iter::from_fn(|| lane.pop()).collect();
        let expected: Vec<_> =
            pieces(0..6).take_while(|piece| piece.0 != Slot { chunk: 4, part: 1 }).collect();
        assert_eq!(left, expected);
        lane.abandon();
        lane.push(Slot { chunk: 4, part: 1 }, Numbered(Slot { chunk: 4, part: 1 }, true));
        assert_eq!(lane.pop(), None);
    }
}
