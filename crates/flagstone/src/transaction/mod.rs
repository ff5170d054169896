//! Transactions over keyspaces, typed keyspaces and collections. The engine has the transaction of
//! bytes; here bytes get their meaning.

mod options;

mod handle;

mod documents;
mod queries;

mod run;

pub use flagstone_engine::Isolation;
pub use handle::Transaction;
pub use options::TransactionOptions;
pub(crate) use run::run;
