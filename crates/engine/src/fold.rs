//! Folds: how merge operands become values, registered by name and version.
//!
//! The idea is RocksDB's merge operator. Here a fold is total: an operand that does not apply
//! changes nothing, instead of making a later read fail.

pub use flagstone_tree::Fold;

/// Adds little-endian 64-bit integers, wrapping; an absent value counts as 0. Operands and values
/// that are not 8 bytes long change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddI64;

impl Fold for AddI64 {
    fn name(&self) -> &'static str {
        "add-i64/1"
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let start = match base {
            None => 0,
            Some(bytes) => match number(bytes) {
                Some(value) => value,
                None => return Some(bytes.to_vec()),
            },
        };
        let numbers = operands.iter().filter_map(|operand| number(operand));
        Some(numbers.fold(start, i64::wrapping_add).to_le_bytes().to_vec())
    }

    /// Wrapping sums are the same in any grouping. Operands that are no number add nothing.
    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let sum = number(older).unwrap_or(0).wrapping_add(number(newer).unwrap_or(0));
        Some(sum.to_le_bytes().to_vec())
    }
}

fn number(bytes: &[u8]) -> Option<i64> {
    bytes.try_into().ok().map(i64::from_le_bytes)
}

/// Appends the bytes of each operand to the value; an absent value counts as empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

impl Fold for Append {
    fn name(&self) -> &'static str {
        "append/1"
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut value = base.unwrap_or_default().to_vec();
        operands.iter().for_each(|operand| value.extend_from_slice(operand));
        Some(value)
    }

    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_that_does_not_apply_changes_nothing() {
        let one = 1_i64.to_le_bytes();
        let sum = AddI64.fold(b"k", None, &[&one, b"junk", &one]);
        assert_eq!(sum, Some(2_i64.to_le_bytes().to_vec()));
        assert_eq!(AddI64.fold(b"k", Some(b"text"), &[&one]), Some(b"text".to_vec()));
        assert_eq!(Append.fold(b"k", Some(b"a"), &[b"b", b"c"]), Some(b"abc".to_vec()));
    }

    /// The law of [`Fold::partial`] over every base and every pair and triple of some operands.
    fn obeys_the_law(fold: &dyn Fold, bases: &[&[u8]], operands: &[&[u8]]) {
        let bases: Vec<Option<&[u8]>> =
            bases.iter().map(|base| Some(*base)).chain([None]).collect();
        for (a, b) in operands.iter().flat_map(|a| operands.iter().map(move |b| (*a, *b))) {
            let Some(both) = fold.partial(b"k", a, b) else { continue };
            for base in &bases {
                let apart = fold.fold(b"k", *base, &[a, b]);
                assert_eq!(fold.fold(b"k", *base, &[&both]), apart, "{base:?} {a:?} {b:?}");
            }
            for c in operands {
                let left = fold.partial(b"k", &both, c);
                let right = fold.partial(b"k", b, c).and_then(|bc| fold.partial(b"k", a, &bc));
                for combined in left.iter().chain(&right) {
                    for base in &bases {
                        let apart = fold.fold(b"k", *base, &[a, b, c]);
                        let together = fold.fold(b"k", *base, &[combined]);
                        assert_eq!(together, apart, "{base:?} {a:?} {b:?} {c:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_combined_operand_does_what_its_operands_do_on_every_base() {
        let numbers = [0_i64, 1, -1, 7, i64::MAX, i64::MIN, i64::MIN + 1].map(i64::to_le_bytes);
        let others: [&[u8]; 4] = [b"", b"text", b"1234567", b"123456789"];
        let all: Vec<&[u8]> = numbers.iter().map(|n| &n[..]).chain(others).collect();
        obeys_the_law(&AddI64, &all, &all);
        obeys_the_law(&Append, &all, &all);
        assert!(AddI64.partial(b"k", &numbers[1], &numbers[2]).is_some());
    }
}
