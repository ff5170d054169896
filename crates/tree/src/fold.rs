//! Merge operands: what they do to a value is the business of whoever writes them.

/// Turns a value and the merge operands above it into a value.
///
/// It is registered by name; a database that holds operands of one fold is not opened without it.
pub trait Fold: Send + Sync {
    /// The value of `key` after `operands`, oldest first, were applied to `base`; `None` stands for
    /// an absent value on both sides.
    ///
    /// Total and pure: an operand that does not apply changes nothing, and folding some operands
    /// now and the rest later gives the same as folding all at once.
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>>;

    /// One operand that does what `older` and then `newer` do, to every base, an absent one included;
    /// `None` when there is none or when in doubt.
    ///
    /// The law: `fold(key, base, [.., older, newer, ..])` equals `fold(key, base, [.., both, ..])` in
    /// every byte. Flushes and compactions combine what nobody reads apart, and memtables keep combined
    /// operands beside the chain. Without it they keep operands, and writers fold long chains.
    fn partial(&self, _key: &[u8], _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Its name in the catalog.
    fn name(&self) -> &str;
}
