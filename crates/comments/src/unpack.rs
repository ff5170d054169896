//! Reading the packed tables: counts and words, exactly as `examples/pack_tables.rs` wrote them.
//!
//! ```text
//!   "fsct" 01
//!   words       list of strings
//!   counts      varint for each word: how often it occurs
//!   totals      varint for each word: how often a word follows it
//!   successors  byte for each word: how many of its successors are listed, most frequent first
//!   ids         low bytes of all listed successors, then their high bytes
//!   pairs       varint for each: the count, or how much less than the one before it
//!   starts      varint n, then n low bytes, n high bytes, n varints: first words and their counts
//!   names       list of strings, t5 ids: list of strings, counts: varint each: subreddits
//!   tail words  list of strings
//!
//!   list of strings = varint n, n length bytes, all their UTF-8
//!   varint = 7 bits a byte, lowest first, the high bit says that more follow
//! ```
//! All of it is one zstd frame.

/// The contents of the packed tables.
pub(crate) struct Unpacked {
    pub(crate) words: Vec<String>,
    pub(crate) counts: Vec<u64>,
    pub(crate) totals: Vec<u64>,
    /// The successors of each word, and their counts.
    pub(crate) successors: Vec<Vec<(u16, u64)>>,
    pub(crate) starts: Vec<(u16, u64)>,
    /// Name, fullname (`t5_..`) and comments of each subreddit, the largest first.
    pub(crate) subreddits: Vec<(String, String, u64)>,
    pub(crate) tail: Vec<String>,
}

/// Reads the tables; `None` if the bytes are not such tables.
pub(crate) fn unpack(packed: &[u8]) -> Option<Unpacked> {
    let bytes = zstd::decode_all(packed).ok()?;
    let mut reader = Reader(bytes.strip_prefix(b"fsct\x01")?);
    let words = reader.strings()?;
    let n = words.len();
    let counts = reader.varints(n)?;
    let totals = reader.varints(n)?;
    let lengths = reader.take(n)?;
    let ids = reader.ids(lengths.iter().map(|&l| usize::from(l)).sum())?;
    let mut ids = ids.into_iter();
    let mut successors = Vec::with_capacity(n);
    for &length in lengths {
        let mut count = 0_u64;
        let mut of_word = Vec::with_capacity(usize::from(length));
        for k in 0..length {
            let number = reader.varint()?;
            count = if k == 0 { number } else { count.checked_sub(number)? };
            of_word.push((ids.next().filter(|&id| usize::from(id) < n)?, count));
        }
        successors.push(of_word);
    }
    let n_starts = usize::try_from(reader.varint()?).ok()?;
    let ids = reader.ids(n_starts)?;
    let counts_of_starts = reader.varints(n_starts)?;
    if ids.iter().any(|&id| usize::from(id) >= n) {
        return None;
    }
    let starts = ids.into_iter().zip(counts_of_starts).collect();
    let (names, t5) = (reader.strings()?, reader.strings()?);
    let sizes = reader.varints(names.len())?;
    if names.len() != t5.len() {
        return None;
    }
    let subreddits = names.into_iter().zip(t5).zip(sizes).map(|((n, t), s)| (n, t, s)).collect();
    let tail = reader.strings()?;
    reader.0.is_empty().then_some(Unpacked {
        words,
        counts,
        totals,
        successors,
        starts,
        subreddits,
        tail,
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn varints(&mut self, n: usize) -> Option<Vec<u64>> {
        (0..n).map(|_| self.varint()).collect()
    }

    fn ids(&mut self, n: usize) -> Option<Vec<u16>> {
        let (low, high) = (self.take(n)?, self.take(n)?);
        Some(low.iter().zip(high).map(|(&l, &h)| u16::from_le_bytes([l, h])).collect())
    }

    fn strings(&mut self) -> Option<Vec<String>> {
        let n = usize::try_from(self.varint()?).ok()?;
        let lengths = self.take(n)?;
        let string = |&length: &u8| String::from_utf8(self.take(length.into())?.to_vec()).ok();
        lengths.iter().map(string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::tables::PACKED;

    #[test]
    fn the_built_in_tables_hold_what_was_counted() {
        let tables = unpack(PACKED).unwrap();
        assert_eq!((tables.words.len(), tables.words[0].as_str()), (11_929, "."));
        assert_eq!((tables.counts[0], tables.totals[0]), (397_490, 327_487));
        assert_eq!(tables.successors[0][..2], [(0, 34_938), (31, 28_734)]);
        assert_eq!(tables.successors.iter().map(Vec::len).sum::<usize>(), 144_424);
        assert_eq!(tables.words[usize::from(tables.starts[1].0)], ",");
        let (name, t5, size) = &tables.subreddits[0];
        assert_eq!((name.as_str(), t5.as_str(), *size), ("AskReddit", "t5_2qh1i", 2_491_887));
        assert_eq!((tables.subreddits.len(), tables.tail.len()), (16_200, 29_793));
        assert_eq!(tables.tail[0], "productivity");
    }

    #[test]
    fn damaged_tables_are_refused_or_read_but_never_panic() {
        let good = zstd::decode_all(PACKED).unwrap();
        let mut random = Random::new(9);
        for round in 0..30 {
            let mut bad = good.clone();
            bad.truncate(if round % 3 == 0 {
                random.below(good.len() as u64) as usize
            } else {
                good.len()
            });
            for _ in 0..random.below(4) {
                if !bad.is_empty() {
                    let at = random.below(bad.len() as u64) as usize;
                    bad[at] ^= random.between(1, 255) as u8;
                }
            }
            let _ = unpack(&zstd::encode_all(&bad[..], 1).unwrap());
        }
        assert!(unpack(b"no frame").is_none());
    }
}
