//! Which parts of the chunks of a heap are free.
//!
//! Every chunk is divided into ranges, each free or taken; no two neighbours are both free. Free
//! ranges are kept in lists by length, eight lists between a power of two and the next, and a bit
//! for each list tells whether it is empty. So a range is found and given back in constant time,
//! with little memory lost between ranges: this is TLSF (Masmano, Ripoll, Crespo and Real, "TLSF: a
//! new dynamic memory allocator for real-time systems", 2004), with its bookkeeping outside of the
//! chunks: a search touches no free memory.

/// No range.
const NONE: u32 = u32::MAX;
/// The number of lists between a power of two and the next.
const STEPS_LOG2: u32 = 3;
const LISTS: usize = 128;
/// The number of ranges looked at in the list where some, but not all, are long enough.
const LOOKS: usize = 8;

/// Units from `start` on in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) chunk: u32,
    pub(super) start: u32,
    pub(super) units: u32,
}

/// A range, in the order of its chunk and in the list of its length if it is free.
#[derive(Clone, Copy)]
struct Range {
    span: Span,
    /// The neighbours in the chunk.
    before: u32,
    after: u32,
    /// The neighbours in the list.
    earlier: u32,
    later: u32,
    is_free: bool,
}

/// The ranges of all chunks. A range is known by its number.
pub(super) struct Ranges {
    /// The length of a chunk.
    units: u32,
    ranges: Vec<Range>,
    /// Numbers that no range has.
    vacant: Vec<u32>,
    /// The first free range of each list.
    lists: [u32; LISTS],
    /// A bit for each list that is not empty.
    filled: u128,
}

impl Ranges {
    /// Creates the ranges of no chunks, each of which will have `units`, at most 2^15.
    pub(super) const fn new(units: u32) -> Self {
        assert!(units <= 1 << 15, "the lists end there");
        Self { units, ranges: Vec::new(), vacant: Vec::new(), lists: [NONE; LISTS], filled: 0 }
    }

    /// Adds the chunk of this number, wholly free.
    pub(super) fn add_chunk(&mut self, chunk: u32) {
        let span = Span { chunk, start: 0, units: self.units };
        let number = self.add(Range {
            span,
            before: NONE,
            after: NONE,
            earlier: NONE,
            later: NONE,
            is_free: true,
        });
        self.enlist(number);
    }

    /// Takes a range of `units`, at least one. Returns its number, or `None` if no free range is
    /// long enough.
    pub(super) fn take(&mut self, units: u32) -> Option<u32> {
        let number = self.fitting(units)?;
        self.delist(number);
        let range = self.ranges[number as usize];
        let rest = range.span.units - units;
        if rest > 0 {
            let Span { chunk, start, .. } = range.span;
            let rest = self.add(Range {
                span: Span { chunk, start: start + units, units: rest },
                before: number,
                ..range
            });
            self.ranges[number as usize].span.units = units;
            self.ranges[number as usize].after = rest;
            if range.after != NONE {
                self.ranges[range.after as usize].before = rest;
            }
            self.enlist(rest);
        }
        Some(number)
    }

    /// Gives back the range of this number, and unites it with its free neighbours. The caller uses
    /// the number no longer.
    pub(super) fn give_back(&mut self, number: u32) {
        let mut range = self.ranges[number as usize];
        debug_assert!(!range.is_free, "a range is given back once");
        for (neighbour, is_before) in [(range.before, true), (range.after, false)] {
            if neighbour == NONE || !self.ranges[neighbour as usize].is_free {
                continue;
            }
            self.delist(neighbour);
            let other = self.ranges[neighbour as usize];
            self.vacant.push(neighbour);
            range.span.units += other.span.units;
            if is_before {
                (range.span.start, range.before) = (other.span.start, other.before);
            } else {
                range.after = other.after;
            }
        }
        for (neighbour, is_before) in [(range.before, true), (range.after, false)] {
            if neighbour != NONE {
                let other = &mut self.ranges[neighbour as usize];
                *if is_before { &mut other.after } else { &mut other.before } = number;
            }
        }
        self.ranges[number as usize] = range;
        self.enlist(number);
    }

    /// Removes every chunk that is wholly free, except `kept` of them. Returns their numbers.
    pub(super) fn remove_chunks(&mut self, kept: usize) -> Vec<u32> {
        let list = list_of(self.units);
        let mut removed = Vec::new();
        let (mut number, mut seen) = (self.lists[list], 0);
        while number != NONE {
            let Range { span, later, .. } = self.ranges[number as usize];
            if span.units == self.units {
                seen += 1;
                if seen > kept {
                    self.delist(number);
                    self.vacant.push(number);
                    removed.push(span.chunk);
                }
            }
            number = later;
        }
        removed
    }

    /// The place of the range of this number.
    pub(super) fn span(&self, number: u32) -> Span {
        self.ranges[number as usize].span
    }

    /// Finds a free range of at least `units`.
    fn fitting(&self, units: u32) -> Option<u32> {
        // A range of just this length is best: blocks of a cache often have the same lengths.
        let list = list_of(units);
        let mut number = self.lists[list];
        for _look in 0..LOOKS {
            if number == NONE {
                break;
            }
            let range = &self.ranges[number as usize];
            if range.span.units >= units {
                return Some(number);
            }
            number = range.later;
        }
        let longer = self.filled & (u128::MAX << list << 1);
        (longer != 0).then(|| self.lists[longer.trailing_zeros() as usize])
    }

    fn add(&mut self, range: Range) -> u32 {
        if let Some(number) = self.vacant.pop() {
            self.ranges[number as usize] = range;
            return number;
        }
        self.ranges.push(range);
        (self.ranges.len() - 1) as u32
    }

    fn enlist(&mut self, number: u32) {
        let list = list_of(self.ranges[number as usize].span.units);
        let later = std::mem::replace(&mut self.lists[list], number);
        self.filled |= 1 << list;
        let range = &mut self.ranges[number as usize];
        (range.earlier, range.later, range.is_free) = (NONE, later, true);
        if later != NONE {
            self.ranges[later as usize].earlier = number;
        }
    }

    fn delist(&mut self, number: u32) {
        let Range { span, earlier, later, .. } = self.ranges[number as usize];
        self.ranges[number as usize].is_free = false;
        if later != NONE {
            self.ranges[later as usize].earlier = earlier;
        }
        if earlier != NONE {
            self.ranges[earlier as usize].later = later;
            return;
        }
        let list = list_of(span.units);
        self.lists[list] = later;
        if later == NONE {
            self.filled &= !(1 << list);
        }
    }
}

/// The list of free ranges of `units`.
const fn list_of(units: u32) -> usize {
    let log2 = units.ilog2();
    if log2 < STEPS_LOG2 {
        return units as usize;
    }
    let step = (units >> (log2 - STEPS_LOG2)) - (1 << STEPS_LOG2);
    (((log2 - STEPS_LOG2 + 1) << STEPS_LOG2) + step) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: u32 = 1 << 10;

    /// Checks every link, and returns the free units.
    fn check(ranges: &Ranges, chunks: u32) -> u32 {
        let is_used = |number: &u32| !ranges.vacant.contains(number);
        let firsts = (0..ranges.ranges.len() as u32).filter(is_used);
        let firsts = firsts.filter(|number| ranges.ranges[*number as usize].before == NONE);
        let (mut covered, mut free, mut frees) = (0, 0, 0);
        for first in firsts {
            let (mut number, mut at, mut before, mut was_free) = (first, 0, NONE, false);
            while number != NONE {
                let range = &ranges.ranges[number as usize];
                assert_eq!((range.span.start, range.before), (at, before));
                assert!(!(was_free && range.is_free), "neighbours are both free");
                at += range.span.units;
                (free, frees) = if range.is_free {
                    (free + range.span.units, frees + 1)
                } else {
                    (free, frees)
                };
                (before, was_free, number) = (number, range.is_free, range.after);
            }
            assert_eq!(at, UNITS);
            covered += 1;
        }
        assert_eq!(covered, chunks);
        let mut listed = 0;
        for (list, first) in ranges.lists.iter().enumerate() {
            assert_eq!(*first != NONE, ranges.filled >> list & 1 == 1);
            let (mut number, mut earlier) = (*first, NONE);
            while number != NONE {
                let range = &ranges.ranges[number as usize];
                assert_eq!((list_of(range.span.units), range.earlier), (list, earlier));
                assert!(range.is_free);
                (earlier, number, listed) = (number, range.later, listed + 1);
            }
        }
        assert_eq!(listed, frees);
        free
    }

    #[test]
    fn lists_are_ordered_by_length() {
        let lists: Vec<usize> = (1..=1 << 15).map(list_of).collect();
        assert!(lists.is_sorted() && lists.iter().all(|list| *list < LISTS));
        assert!(lists[(1 << 14) - 1] > lists[(1 << 14) - 2], "a power of two begins a list");
    }

    #[test]
    fn ranges_are_cut_and_united() {
        let mut ranges = Ranges::new(UNITS);
        assert_eq!(ranges.take(1), None);
        ranges.add_chunk(7);
        let [a, b, c] = [100, 200, 300].map(|units| ranges.take(units).unwrap());
        let span = |start, units| Span { chunk: 7, start, units };
        let spans = [span(0, 100), span(100, 200), span(300, 300)];
        assert_eq!([a, b, c].map(|number| ranges.span(number)), spans);
        assert_eq!(check(&ranges, 1), UNITS - 600);
        ranges.give_back(b);
        let longer = ranges.take(201).unwrap();
        assert_eq!(ranges.span(longer), span(600, 201), "200 units are free before it");
        let again = ranges.take(200).unwrap();
        assert_eq!(ranges.span(again), span(100, 200));
        ranges.give_back(again);
        ranges.give_back(a);
        let united = ranges.take(224).unwrap();
        assert_eq!(ranges.span(united), span(0, 224));
        assert_eq!(check(&ranges, 1), UNITS - 224 - 300 - 201);
        ranges.give_back(united);
        ranges.give_back(c);
        ranges.give_back(longer);
        assert_eq!(check(&ranges, 1), UNITS);
    }

    #[test]
    fn a_chunk_that_is_wholly_free_can_be_removed() {
        let mut ranges = Ranges::new(UNITS);
        (0..3).for_each(|chunk| ranges.add_chunk(chunk));
        let taken: Vec<u32> = (0..3).map(|_| ranges.take(UNITS).unwrap()).collect();
        assert_eq!((ranges.take(1), check(&ranges, 3)), (None, 0));
        let chunk = ranges.span(taken[1]).chunk;
        ranges.give_back(taken[1]);
        assert_eq!(ranges.remove_chunks(1), []);
        assert_eq!(ranges.remove_chunks(0), [chunk]);
        check(&ranges, 2);
        ranges.give_back(taken[0]);
        ranges.give_back(taken[2]);
        assert_eq!(ranges.remove_chunks(1).len(), 1);
        assert_eq!(check(&ranges, 1), UNITS);
    }

    #[test]
    fn many_lengths_lose_little_space() {
        let mut draw = 1_u64;
        let mut random = |below: u32| {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (draw >> 33) as u32 % below
        };
        let mut ranges = Ranges::new(UNITS);
        let (mut chunks, mut held, mut held_units) = (0, Vec::new(), 0);
        for turn in 0..20_000 {
            let units = 1 + random(100);
            let number = ranges.take(units).unwrap_or_else(|| {
                ranges.add_chunk(chunks);
                chunks += 1;
                ranges.take(units).unwrap()
            });
            assert_eq!(ranges.span(number).units, units);
            held.push(number);
            held_units += units;
            while held_units > 20 * UNITS {
                let at = random(held.len() as u32) as usize;
                held_units -= ranges.span(held[at]).units;
                ranges.give_back(held.swap_remove(at));
            }
            if turn % 1_000 == 0 {
                assert_eq!(check(&ranges, chunks), chunks * UNITS - held_units);
            }
        }
        assert!(chunks <= 23, "{chunks} chunks for what fills 20");
        for number in held {
            ranges.give_back(number);
        }
        assert_eq!(check(&ranges, chunks), chunks * UNITS);
        assert_eq!(ranges.remove_chunks(0).len(), chunks as usize);
    }
}
