//! Decides whether a table gets a dictionary, and which one, by a sample of its blocks.
//!
//! ```text
//! the first blocks, held in memory --> without a dictionary, joined to blocks of the full length
//!                                  --> with the dictionary of an older table
//!                                  --> with a new one, if that one got worse or there is none
//! ```

use crate::block::{Block, unreadable};
use crate::format::BLOCK_TRAILER_BYTES;
use flagstone_base::compress::Packing;
use flagstone_base::dictionary::Packer;
use flagstone_base::{Compression, EntryCheck, EntryRef, Result, SeqNo};
use std::sync::Arc;

/// The longest dictionary. For a dictionary of up to 16 KiB, with its own tables, zstd 1 searches
/// for shorter matches than for a longer one, and compresses better.
const DICTIONARY_BYTES: usize = 15 << 10;
/// A dictionary takes at most this part of the sample.
const PART_OF_SAMPLE: usize = 8;
/// With a dictionary, blocks have this part of their length. So many blocks of the sample, joined,
/// are one block without a dictionary.
pub(crate) const BLOCK_PART: usize = 4;
/// Blocks with a dictionary are not made shorter than this.
const BLOCK_BYTES_MIN: usize = 1 << 10;
/// One joined block in this many is compressed to compare; the others are trained on.
const TEST_EVERY: usize = 8;
/// A dictionary is used if it needs at most this part more than long blocks without one.
const WORSE_THAN_ALONE: usize = 16;
/// A new dictionary is trained if an old one needs more than this part more than it first did.
const WORSE_THAN_FIRST: u32 = 16;
/// The new dictionary replaces the old one if it saves more than this part.
const BETTER_THAN_OLD: usize = 32;
/// Shares are counted in this many parts of the raw bytes.
const SHARE_ONE: usize = 1024;

/// What the tables before, of the same keys, have taught about dictionaries. Passed from one
/// builder to the next, it saves training.
#[derive(Clone, Debug, Default)]
pub enum Learned {
    /// Nothing yet.
    #[default]
    Nothing,
    /// This dictionary was of use.
    Dictionary(Arc<Dictionary>),
    /// No dictionary was of use: the next table does not try one.
    Unhelpful,
}

impl Learned {
    /// The dictionary `bytes` of an open table, and its
    /// [share](crate::Properties::dictionary_share), for tables written with `compression`. Nothing
    /// if that is not zstd, or if the bytes are no dictionary.
    pub fn of_table(bytes: Vec<u8>, share: u32, compression: Compression) -> Self {
        let Compression::Zstd(level) = compression else { return Self::Nothing };
        match Packer::new(bytes, level) {
            Some(packer) => Self::Dictionary(Arc::new(Dictionary { packer, share })),
            None => Self::Nothing,
        }
    }
}

/// A dictionary, and how well it did when it was trained.
#[derive(Debug)]
pub struct Dictionary {
    packer: Packer,
    /// What it left of [`SHARE_ONE`] bytes.
    share: u32,
}

impl Dictionary {
    pub(crate) const fn packer(&self) -> &Packer {
        &self.packer
    }

    pub(crate) const fn share(&self) -> u32 {
        self.share
    }
}

/// The length of blocks with a dictionary, where it is `block_bytes` without one.
pub(crate) fn short_block_bytes(block_bytes: usize) -> usize {
    (block_bytes / BLOCK_PART).max(BLOCK_BYTES_MIN).min(block_bytes)
}

/// A finished block that is not written yet.
pub(crate) struct HeldBlock {
    pub(crate) raw: Vec<u8>,
    /// The checks of its entries; empty if there are none.
    pub(crate) checks: Vec<EntryCheck>,
    /// Its first key and SeqNo.
    pub(crate) first: (Vec<u8>, SeqNo),
    /// Its last key.
    pub(crate) last: Vec<u8>,
}

impl HeldBlock {
    /// Calls `visit` with each entry, its fingerprint and its check.
    ///
    /// # Errors
    /// Those of `visit`; Corruption if the block changed in memory so that it cannot be read.
    pub(crate) fn visit(
        &self,
        mut visit: impl FnMut(EntryRef<'_>, u8, Option<EntryCheck>) -> Result<()>,
    ) -> Result<()> {
        let block = Block::new(self.raw.as_slice(), None).map_err(unreadable)?;
        let mut key = Vec::new();
        for index in 0..block.count() {
            let parsed = block.parse(index).map_err(unreadable)?;
            block.read_key(index, &parsed, &mut key).map_err(unreadable)?;
            let value = &self.raw[parsed.value()];
            let entry = EntryRef { key: &key, trailer: parsed.trailer, value };
            visit(entry, block.fingerprint_at(index), self.checks.get(index).copied())?;
        }
        Ok(())
    }
}

/// Chooses the dictionary for a table by `sample`, its first blocks. `known` is what the tables
/// before have taught. Returns what this one teaches.
pub(crate) fn choose(sample: &[HeldBlock], known: &Learned, level: u8) -> Learned {
    let trial = Trial::new(sample);
    let alone = trial.alone(level);
    if alone > trial.raw - trial.raw / 8 {
        return Learned::Unhelpful;
    }
    let is_small = |len: usize| len <= alone + alone / WORSE_THAN_ALONE;
    let old = match known {
        Learned::Dictionary(old) if old.packer.level() == level => Some(old),
        _ => None,
    };
    let old = old.map(|old| (old, trial.with(&old.packer)));
    if let Some((old, len)) = old
        && is_small(len)
        && trial.share(len) <= old.share + old.share / WORSE_THAN_FIRST
    {
        return Learned::Dictionary(Arc::clone(old));
    }
    let new = trial.train(sample, level).map(|packer| (trial.with(&packer), packer));
    let is_better = |new: usize| old.is_none_or(|(_, len)| new < len - len / BETTER_THAN_OLD);
    match (new, old) {
        (Some((len, packer)), _) if is_small(len) && is_better(len) => {
            let share = trial.share(len);
            Learned::Dictionary(Arc::new(Dictionary { packer, share }))
        }
        // What is written now compresses worse, with any dictionary.
        (_, Some((old, len))) if is_small(len) => {
            match Packer::new(old.packer.bytes().to_vec(), level) {
                Some(packer) => {
                    let share = trial.share(len);
                    Learned::Dictionary(Arc::new(Dictionary { packer, share }))
                }
                None => Learned::Unhelpful,
            }
        }
        _ => Learned::Unhelpful,
    }
}

/// The blocks of a sample that are compressed to compare.
struct Trial<'a> {
    /// Blocks that are one block if no dictionary is used.
    runs: Vec<&'a [HeldBlock]>,
    raw: usize,
}

impl<'a> Trial<'a> {
    fn new(sample: &'a [HeldBlock]) -> Self {
        let runs: Vec<_> = sample.chunks(BLOCK_PART).step_by(TEST_EVERY).collect();
        let raw = runs.iter().copied().flatten().map(|block| block.raw.len()).sum();
        Self { runs, raw }
    }

    /// Stored bytes without a dictionary.
    fn alone(&self, level: u8) -> usize {
        let (mut joined, mut out) = (Vec::new(), Vec::new());
        let stored = |run: &&[HeldBlock]| {
            joined.clear();
            run.iter().for_each(|block| joined.extend_from_slice(&block.raw));
            stored_len(Compression::Zstd(level).into(), &joined, &mut out)
        };
        self.runs.iter().map(stored).sum()
    }

    /// Stored bytes with a dictionary.
    fn with(&self, packer: &Packer) -> usize {
        let mut out = Vec::new();
        let blocks = self.runs.iter().copied().flatten();
        blocks.map(|block| stored_len(Packing::With(packer), &block.raw, &mut out)).sum()
    }

    fn share(&self, stored: usize) -> u32 {
        (stored * SHARE_ONE / self.raw.max(1)) as u32
    }

    /// Trains a dictionary on the blocks of `sample` that are not compressed to compare.
    fn train(&self, sample: &[HeldBlock], level: u8) -> Option<Packer> {
        let (mut bytes, mut lens) = (Vec::new(), Vec::new());
        for (number, run) in sample.chunks(BLOCK_PART).enumerate() {
            if !number.is_multiple_of(TEST_EVERY) {
                run.iter().for_each(|block| bytes.extend_from_slice(&block.raw));
                lens.extend(run.iter().map(|block| block.raw.len()));
            }
        }
        let bytes_max = DICTIONARY_BYTES.min(bytes.len() / PART_OF_SAMPLE);
        Packer::train(&bytes, &lens, bytes_max, level)
    }
}

/// Returns the bytes that a block takes in the file. Overwrites `out`.
fn stored_len(packing: Packing<'_>, raw: &[u8], out: &mut Vec<u8>) -> usize {
    out.clear();
    let payload = if packing.compress(raw, out) { out.len() } else { raw.len() };
    payload + BLOCK_TRAILER_BYTES
}
