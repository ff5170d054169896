//! The change feed: what was committed, in order, for readers that follow.
//!
//! The engine delivers commits as bytes; [`Change`] gives them a meaning.

mod change;
#[cfg(feature = "documents")]
mod documents;

mod feed;

pub use change::{Change, ChangeBatch, ChangeKind};
pub use feed::{Changes, Delivery, Happened};
pub use flagstone_base::SeqNo;
pub use flagstone_engine::{ChangeRetention, ChangeToken, ChangesFrom};
