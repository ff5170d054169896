//! Documents: loading them, getting them by sampled keys, changing them; flagstone alone.

mod get;
mod keys;
mod load;
mod source;
mod trial;
mod update;

pub use get::{GetHow, run_document_get};
pub use keys::read_keys;
pub use load::{LoadInput, LoadOptions, run_load};
pub use source::{DocumentSource, DocumentStore, describe_comments};
pub use trial::{DocumentTrial, TrialOptions};
pub use update::{UpdateHow, run_document_update};
