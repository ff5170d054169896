//! Words, their successors and subreddits, ready to be drawn from: built once a process, about 3
//! MB.
//!
//! Names and words are fixed data: the same for every seed.

use std::sync::OnceLock;

use crate::alias::{self, Slot};
use crate::math::{self, NormalTail};
use crate::unpack::{Unpacked, unpack};
use crate::{escape, params};

/// Built from the tables of counts by `examples/pack_tables.rs`.
pub(crate) static PACKED: &[u8] = include_bytes!("../data/comments.tables.zst");

/// The bytes that are copied for every short word; the arena has as many spare bytes at its end.
const SHORT: usize = 16;

/// A word as JSON has it: the place of its bytes, and the numbers of bytes and characters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Word {
    start: u32,
    len: u16,
    pub(crate) chars: u16,
}

/// The successors of a word: their slots, and how often (in 65,536) they are used.
#[derive(Clone, Copy, Debug, Default)]
struct Follow {
    first: u32,
    len: u16,
    share: u16,
}

/// A subreddit: its name and its fullname (`t5_..`).
#[derive(Debug)]
pub(crate) struct Subreddit {
    pub(crate) name: Box<str>,
    pub(crate) fullname: Box<str>,
}

/// The tables that comments are drawn from.
pub(crate) struct Tables {
    arena: Vec<u8>,
    words: Vec<Word>,
    follows: Vec<Follow>,
    tail: Vec<Word>,
    successors: Vec<Slot>,
    any_word: Vec<Slot>,
    starts: Vec<Slot>,
    subreddits: Vec<Subreddit>,
    by_size: Vec<Slot>,
    pub(crate) normal_tail: NormalTail,
}

/// Returns the tables. The first call of a process builds them, in about 13 ms.
pub(crate) fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    #[expect(clippy::expect_used, reason = "part of the program; a test unpacks them")]
    TABLES.get_or_init(|| Tables::new(unpack(PACKED).expect("the built-in tables are whole")))
}

impl Tables {
    fn new(unpacked: Unpacked) -> Self {
        let mut arena = Vec::with_capacity(512 << 10);
        let mut word = |text: &String| {
            let start = arena.len();
            escape::push_str(text, &mut arena);
            let len = (arena.len() - start) as u16;
            Word { start: start as u32, len, chars: escape::count(&arena[start..]) as u16 }
        };
        let words: Vec<Word> = unpacked.words.iter().map(&mut word).collect();
        let tail = unpacked.tail.iter().map(&mut word).collect();
        let mut successors = Vec::new();
        let follows = unpacked.successors.iter().zip(&unpacked.totals).map(|(listed, &total)| {
            let first = successors.len() as u32;
            let seen: u64 = listed.iter().map(|s| s.1).sum();
            if seen == 0 {
                return Follow::default();
            }
            alias::build(listed, &mut successors);
            let share = seen as f64 * params::BIGRAM_STRETCH / total as f64 * 65_536.0;
            Follow { first, len: listed.len() as u16, share: share.min(65_535.0) as u16 }
        });
        let follows = follows.collect();
        arena.extend_from_slice(&[0; SHORT]);
        let number = |(k, &weight): (usize, &u64)| (k as u16, weight);
        let weights: Vec<u64> = unpacked.subreddits.iter().map(|s| subreddit_weight(s.2)).collect();
        let subreddits = unpacked.subreddits.into_iter();
        Self {
            words,
            follows,
            tail,
            successors,
            any_word: table(unpacked.counts.iter().enumerate().map(number)),
            starts: table(unpacked.starts.into_iter()),
            by_size: table(weights.iter().enumerate().map(number)),
            subreddits: subreddits
                .map(|(name, fullname, _)| Subreddit {
                    name: name.into(),
                    fullname: fullname.into(),
                })
                .collect(),
            normal_tail: NormalTail::new(),
            arena,
        }
    }

    /// The bytes of `word`, escaped for JSON.
    #[inline]
    pub(crate) fn bytes(&self, word: Word) -> &[u8] {
        let start = word.start as usize;
        &self.arena[start..start + usize::from(word.len)]
    }

    /// Appends `word`. Nearly all words have at most [`SHORT`] bytes: copying always this many and
    /// truncating needs no call.
    #[inline]
    pub(crate) fn push(&self, word: Word, out: &mut Vec<u8>) {
        let (start, len) = (word.start as usize, usize::from(word.len));
        if len > SHORT {
            out.extend_from_slice(self.bytes(word));
            return;
        }
        let end = out.len() + len;
        out.extend_from_slice(&self.arena[start..start + SHORT]);
        out.truncate(end);
    }

    /// The word with this number.
    #[inline]
    pub(crate) fn word(&self, id: u16) -> Word {
        self.words[usize::from(id)]
    }

    /// The number of words with statistics.
    pub(crate) fn word_count(&self) -> u16 {
        self.words.len() as u16
    }

    /// A word that a text starts with.
    #[inline]
    pub(crate) fn start(&self, bits: u32) -> u16 {
        alias::draw(&self.starts, bits)
    }

    /// A word that follows `previous`: a listed successor, or any word. `chance` decides which.
    #[inline]
    pub(crate) fn next(&self, previous: u16, chance: u16, bits: u32) -> u16 {
        let follow = self.follows[usize::from(previous)];
        if chance < follow.share {
            let first = follow.first as usize;
            alias::draw(&self.successors[first..first + usize::from(follow.len)], bits)
        } else {
            alias::draw(&self.any_word, bits)
        }
    }

    /// A word too rare for statistics.
    #[inline]
    pub(crate) fn tail_word(&self, bits: u32) -> Word {
        self.tail[((u64::from(bits) * self.tail.len() as u64) >> 32) as usize]
    }

    /// The number of a subreddit, the large ones more often.
    #[inline]
    pub(crate) fn subreddit_by_size(&self, bits: u32) -> u16 {
        alias::draw(&self.by_size, bits)
    }

    /// The subreddit with this number.
    #[inline]
    pub(crate) fn subreddit(&self, id: u16) -> &Subreddit {
        &self.subreddits[usize::from(id)]
    }
}

/// The weight of a subreddit that had `comments`, in fixed point with 12 binary places.
fn subreddit_weight(comments: u64) -> u64 {
    (math::pow(comments.max(1) as f64, params::SUBREDDIT_EXPONENT) * 4096.0) as u64
}

fn table(weights: impl Iterator<Item = (u16, u64)>) -> Vec<Slot> {
    let weights: Vec<_> = weights.collect();
    let mut slots = Vec::with_capacity(weights.len());
    alias::build(&weights, &mut slots);
    slots
}
