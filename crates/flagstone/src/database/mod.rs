//! The database: its handle, and the builder that opens it. The methods of the handle are divided
//! by what they are for.

mod handle;

mod keyspaces;

#[cfg(feature = "documents")]
mod documents;
mod transaction_options;
mod transactions;
mod upkeep;

mod open;

pub use handle::Database;
pub use keyspaces::OpenSpace;
pub use open::Builder;
pub use transaction_options::TransactionOptions;
