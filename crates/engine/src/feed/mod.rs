//! The change feed: the log as readers of changes see it.
//!
//! ```text
//! wal::LogCursor --records--> batch (operations of keyspaces that exist) --> the layer above
//! ```
//! Only what is synced and visible is delivered, in the order of the SeqNos, and a batch is whole.

mod token;

mod batch;

mod cursor;

pub use batch::{At, FeedBatch, FeedChange, FeedItem};
pub use cursor::{Changes, ChangesFrom};
pub use token::ChangeToken;
