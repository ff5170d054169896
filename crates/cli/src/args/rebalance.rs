//! Arguments of the command `rebalance`.

use super::CollectionArgs;
use clap::Args;

/// Divide a collection of a cluster into other buckets, while others read and write it
///
/// All documents are copied, and the copy takes the place of the original at once. A call that was
/// stopped is continued by the next one with the same options; one with those of the buckets that
/// the collection has gives it up. Until then indexes cannot be created or dropped.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct RebalanceArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// How many, a power of two: one for each 100 MB of documents is about right, and at least 16
    #[arg(long, value_name = "N")]
    pub(crate) buckets: u32,
    /// Divide it by ranges of keys, into any number, instead of by their hashes
    ///
    /// A short query by the order of keys then reads one or two buckets instead of all. Keys that
    /// only rise all go to the last bucket: repeat the command when it has grown.
    #[arg(long)]
    pub(crate) ranges: bool,
}
