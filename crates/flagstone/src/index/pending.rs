//! What a transaction notes for the indexes of the documents that it writes.

use super::entries::Seen;
use flagstone_base::SeqNo;
use flagstone_engine::KeyspaceCore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The keyspace and the key of a document, or of a unique entry.
pub(crate) type DocumentKey = (u32, Vec<u8>);

/// What the commit of a transaction checks and does for indexes.
#[derive(Default)]
pub(crate) struct Pending {
    /// The indexed collections that were written, with the number of changes of their indexes.
    pub(crate) sets: Vec<(Arc<KeyspaceCore>, u64)>,
    /// The unique values that were given or taken.
    pub(crate) claims: BTreeMap<DocumentKey, Claim>,
    /// The documents that were written where those with unique values may expire.
    pub(crate) documents: BTreeMap<DocumentKey, Claim>,
    /// What the catalog must know of indexes before the commit.
    pub(crate) unseen: Vec<(Arc<KeyspaceCore>, Seen)>,
    /// The documents that are patched without a look at them.
    pub(crate) blind: BTreeSet<DocumentKey>,
}

/// What the commit locks and looks at again. A unique value that the transaction has given to a
/// document, or taken from one: another commit may have given it to another document, which may
/// have expired since. Or a document: if it has expired, another commit may have removed it for a
/// document that has got its unique value, without the lock of its key.
pub(crate) struct Claim {
    pub(crate) core: Arc<KeyspaceCore>,
    /// The newest write, if a put was stored in the transaction's snapshot.
    pub(crate) before: Option<SeqNo>,
}
