//! Merge operands of one key that no reader distinguishes, combined while they stream by.
//!
//! ```text
//! newest .. oldest    64 KiB | 64 KiB | 9 KiB | 4 KiB | 70 | 30   <- the next older one
//! ```
//!
//! Neighbours of similar size are combined at once. So a chain of counters is one operand at any
//! time, and a chain of texts is copied a logarithmic number of times, not once for each operand.

use crate::fold::Fold;
use flagstone_base::{SeqNo, Slice};

/// The limit on the length of a combined operand: larger ones gain nothing.
const COMBINED_MAX: usize = 64 << 10;
/// The bytes counted for an operand in addition to its value.
const PART_BYTES: usize = 64;

/// A chain of operands, newest first.
#[derive(Default)]
pub(crate) struct Chain {
    parts: Vec<(SeqNo, Slice)>,
    bytes: usize,
    is_combined: bool,
}

impl Chain {
    /// Adds the next older operand.
    pub(crate) fn push(&mut self, fold: Option<&dyn Fold>, key: &[u8], seqno: SeqNo, value: Slice) {
        self.bytes += value.len() + PART_BYTES;
        self.parts.push((seqno, value));
        let Some(fold) = fold else { return };
        while let [.., (_, newer), (_, older)] = &self.parts[..]
            && newer.len() <= 2 * older.len() + PART_BYTES
            && self.join(fold, key, self.parts.len() - 1)
        {}
    }

    /// Combines all neighbours that can be combined, whatever their sizes.
    pub(crate) fn settle(&mut self, fold: Option<&dyn Fold>, key: &[u8]) {
        let Some(fold) = fold else { return };
        for older in (1..self.parts.len()).rev() {
            self.join(fold, key, older);
        }
    }

    /// Combines the operand at `older` with the newer one before it. Returns false if that is not
    /// possible.
    fn join(&mut self, fold: &dyn Fold, key: &[u8], older: usize) -> bool {
        let ((_, new), (_, old)) = (&self.parts[older - 1], &self.parts[older]);
        let before = new.len() + old.len();
        if before > COMBINED_MAX {
            return false;
        }
        let Some(both) = fold.partial(key, old, new) else { return false };
        self.bytes = self.bytes - before - PART_BYTES + both.len();
        self.parts[older - 1].1 = Slice::from(both);
        self.parts.remove(older);
        self.is_combined = true;
        true
    }

    /// The operands, newest first, each with the SeqNo of the newest operand combined into it.
    pub(crate) fn parts(&self) -> &[(SeqNo, Slice)] {
        &self.parts
    }

    /// The operands in the order in which a fold takes them.
    pub(crate) fn oldest_first(&self) -> Vec<&[u8]> {
        self.parts.iter().rev().map(|(_, value)| &**value).collect()
    }

    /// The approximate bytes that the chain takes in memory.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether operands were combined.
    pub(crate) const fn is_combined(&self) -> bool {
        self.is_combined
    }

    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Concatenates texts. A text that ends with `!` cannot be combined with a newer one.
    struct Concat;

    impl Fold for Concat {
        fn fold(&self, _key: &[u8], _base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            Some(operands.concat())
        }

        fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
            (older.last() != Some(&b'!')).then(|| [older, newer].concat())
        }

        fn name(&self) -> &str {
            "concat"
        }
    }

    fn chain(operands: &[&[u8]]) -> Chain {
        let mut chain = Chain::default();
        for (at, operand) in operands.iter().enumerate().rev() {
            let seqno = SeqNo::new(at as u64 + 1);
            chain.push(Some(&Concat), b"k", seqno, Slice::copy_of(operand));
        }
        chain.settle(Some(&Concat), b"k");
        let parts = chain.parts().iter();
        let bytes: usize = parts.map(|(_, value)| value.len() + PART_BYTES).sum();
        assert_eq!(chain.bytes(), bytes);
        chain
    }

    #[test]
    fn operands_are_combined_as_far_as_the_fold_allows() {
        let chain = chain(&[b"a", b"b!", b"c", b"d", b"e!", b"f"]);
        let parts: Vec<(u64, &[u8])> =
            chain.parts().iter().map(|(seqno, value)| (seqno.get(), &**value)).collect();
        assert_eq!(parts, [(6, &b"f"[..]), (5, b"cde!"), (2, b"ab!")]);
        assert_eq!(chain.oldest_first(), [&b"ab!"[..], b"cde!", b"f"]);
        assert!(chain.is_combined());
    }

    #[test]
    fn a_long_chain_of_small_operands_is_one() {
        let operands: Vec<[u8; 2]> = (0..20_000_u16).map(u16::to_be_bytes).collect();
        // No byte is a `!`, which would prevent combining.
        let operands: Vec<[u8; 2]> = operands.into_iter().map(|o| o.map(|b| b | 0x80)).collect();
        let all: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
        let chain = chain(&all);
        assert_eq!(chain.parts().len(), 1);
        assert_eq!(*chain.parts()[0].1, *operands.concat());
    }

    #[test]
    fn large_operands_stay_apart() {
        let large = vec![b'x'; COMBINED_MAX / 2 + 1];
        let chain = chain(&[&large, &large, &large]);
        assert_eq!(chain.parts().len(), 3);
        assert!(!chain.is_combined());
    }
}
