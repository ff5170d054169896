//! Folds: how merge operands become values, registered by name and version.
//!
//! The idea is RocksDB's merge operator; here a fold is total, so an operand that does not apply
//! changes nothing instead of failing a read later.

use flagstone_doc::{Names, Patcher};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::sync::Arc;

/// Combines a value with operands that were written without reading it.
///
/// It must be a function of its arguments alone, for ever: it runs at reads and in compactions. When
/// its meaning changes, change its version; a keyspace made with another version is refused.
pub trait Fold: Send + Sync {
    /// Its name and version, stored with each keyspace that uses it; say `"add-i64/1"`.
    fn name(&self) -> &str;

    /// The value of `key` after `operands` (oldest first) came upon `base`; `None` means absent. An
    /// operand that does not apply changes nothing.
    ///
    /// To fold some operands now and the rest later gives the same as to fold all at once.
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that does what `older` and then `newer` do; `None`, the default, when there is none.
    ///
    /// The law: on **every** base, an absent one and one of another type included,
    /// `fold(base, [older, newer])` and `fold(base, [both])` are the same bytes. In doubt return `None`:
    /// the engine does not check, and what it combines it cannot take apart again. Wrapping integers
    /// obey the law; floats do not (their sums depend on the order), nor does what saturates.
    ///
    /// With it, a key that is merged millions of times costs a get about as much as any other, and
    /// flushes keep one operand for each snapshot. Without it, every few dozen merges of a key cost a
    /// read of its value and a write of it. Called while the memtable is locked: keep it short, and
    /// do not call the database from it.
    fn partial(&self, _key: &[u8], _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

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

    /// Wrapping sums are the same in any grouping; what is no number adds nothing.
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

/// The name of the fold of patches, which every new collection has.
pub(crate) const PATCH_FOLD: &str = "patch/1";

/// Applies patches to the documents of one collection. A patch that does not apply changes nothing and
/// is counted.
pub(crate) struct PatchFold {
    names: Arc<Names>,
    refused: AtomicU64,
}

impl PatchFold {
    pub(crate) const fn new(names: Arc<Names>) -> Self {
        Self { names, refused: AtomicU64::new(0) }
    }

    /// How often a patch did not apply when it was folded.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Applies one patch; false when it does not apply.
    pub(crate) fn apply(&self, patch: &[u8], document: &mut Option<Vec<u8>>) -> bool {
        with_patcher(|patcher| patcher.apply(patch, document, Some(&self.names)))
    }
}

/// Calls `apply` with the patcher of this thread.
fn with_patcher<R>(apply: impl FnOnce(&mut Patcher) -> R) -> R {
    thread_local! {
        static PATCHER: RefCell<Patcher> = RefCell::new(Patcher::new());
    }
    PATCHER.with_borrow_mut(apply)
}

impl Fold for PatchFold {
    fn name(&self) -> &'static str {
        PATCH_FOLD
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let names = Some(&*self.names);
        let (document, refused) = with_patcher(|patcher| patcher.fold(base, operands, names));
        if refused > 0 {
            self.refused.fetch_add(refused, Ordering::Relaxed);
        }
        document
    }
}

/// The public trait, as the tree wants it.
pub(crate) struct TreeFold(pub(crate) Arc<dyn Fold>);

impl flagstone_tree::Fold for TreeFold {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.fold(key, base, operands)
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.0.partial(key, older, newer)
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

    #[test]
    fn patches_that_do_not_apply_are_counted() {
        let names = Arc::new(Names::new());
        let encoded = |patch: flagstone_doc::Patch| {
            let mut bytes = Vec::new();
            let mut encoder = flagstone_doc::Encoder::new();
            patch.encode(&mut encoder, Some(&names), &mut bytes).unwrap();
            bytes
        };
        let one = encoded(flagstone_doc::Patch::new().upsert().inc("n", 1));
        let wrong = encoded(flagstone_doc::Patch::new().push("n", 1));
        let fold = PatchFold::new(Arc::clone(&names));
        assert_eq!(fold.fold(b"k", None, &[&wrong, b"junk"]), None);
        assert_eq!(fold.refused(), 2);
        let folded = fold.fold(b"k", None, &[&one, &wrong, &one]).unwrap();
        let document = flagstone_doc::Document::from_bytes(folded, Some(names.clone())).unwrap();
        assert_eq!((document.int("n"), fold.refused()), (2, 3));
    }
}
