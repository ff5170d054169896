//! Merge operands: what they do to a value is the business of whoever writes them.

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

    /// How often an operand did not apply, for statistics; 0, the default, when nobody counts.
    fn refused(&self) -> u64 {
        0
    }
}
