//! Transactions over keyspaces, typed keyspaces and collections. The engine has the transaction of
//! bytes; here bytes get their meaning.

mod handle;

#[cfg(feature = "documents")]
mod documents;
#[cfg(feature = "documents")]
mod queries;

pub use flagstone_engine::Isolation;
pub use handle::Transaction;
