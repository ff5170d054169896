//! Transactions over keyspaces, typed keyspaces and collections. The engine has the transaction of
//! bytes; here bytes get their meaning.

mod options;

mod scans;

mod handle;

mod documents;
mod queries;
mod typed;

mod run;

pub use flagstone_engine::{Isolation, TransactionScan};
pub use handle::Transaction;
pub use options::TransactionOptions;
pub(crate) use run::run;
pub use scans::{TransactionDocumentScan, TransactionTypedScan};
