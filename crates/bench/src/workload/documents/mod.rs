//! Documents: loading them, getting them by sampled keys, changing them; flagstone alone.

mod get;
mod load;
mod source;
mod trial;
mod update;

pub use get::{GetHow, run_document_get};
pub use load::{LoadOptions, run_load};
pub use source::{DocumentStore, Source};
pub use trial::{DocumentTrial, TrialOptions};
pub use update::{UpdateHow, run_document_update};
