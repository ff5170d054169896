//! Merge operands: their meaning is up to the user, who registers a fold.

/// Combines a value with operands that were written without reading it.
///
/// A fold must depend on its arguments alone and never change: it runs at reads and in compactions.
/// A fold with another meaning gets another version; a keyspace that was created with another
/// version is refused.
pub trait Fold: Send + Sync {
    /// The name and version of the fold, for example `"add-i64/1"`. Each keyspace that uses the
    /// fold stores it.
    fn name(&self) -> &str;

    /// Returns the value of `key` after `operands`, oldest first, are applied to `base`. `None` is
    /// an absent value on both sides. An operand that does not apply changes nothing.
    ///
    /// Folding some operands now and the rest later must give the same value as folding all at
    /// once.
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// Returns one operand that has the effect of `older` and then `newer`, or `None`, the default,
    /// if there is none.
    ///
    /// The law: on **every** base, an absent one and one of another type included, `fold(base,
    /// [older, newer])` and `fold(base, [both])` must be the same bytes. In doubt return `None`:
    /// the engine does not check the law, and cannot take combined operands apart again. Wrapping
    /// integers obey the law. Floats do not, because their sums depend on the order, and neither do
    /// saturating numbers.
    ///
    /// With this function, a get of a key with millions of merges costs about as much as any other,
    /// and flushes keep one operand for each snapshot. Without it, every few dozen merges of a key
    /// cost a read and a write of its value. The memtable is locked during the call: keep it short,
    /// and do not call the database from it.
    fn partial(&self, _key: &[u8], _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// The number of operands that did not apply, for statistics. 0, the default, if the fold does
    /// not count them.
    fn refused(&self) -> u64 {
        0
    }
}
