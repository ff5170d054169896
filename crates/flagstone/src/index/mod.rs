//! Secondary indexes: what an index holds of a document, and how that is stored.
//!
//! ```text
//! Index --checked--> Definition --with a document--> Entries --of two states--> differences
//! ```
//! The modules are listed from the ground up. They know no collection: what reads and writes
//! documents is in `collection/index`.

mod field;

mod definition;
mod entry;

mod entries;

mod note;
mod statistics;

mod state;

mod expiry;
mod pending;

pub(crate) use definition::Definition;
pub use definition::Index;
pub(crate) use entries::{
    DocumentEntries, DocumentState, EntryDifference, Refusal, Seen, differences, value_of,
};
pub(crate) use entry::{
    Ends, EntryParts, Flags, above, component_len, decode_component, parts, parts_inlined,
    put_component, range_end, range_start,
};
pub(crate) use expiry::{by_date, decides as dates_decide, moment_by};
pub(crate) use field::{Computed, IndexField};
pub(crate) use note::{Built, Status, encode as encode_note};
pub(crate) use pending::{Claim, DocumentKey, Pending};
pub(crate) use state::{CONTENT, IndexState, index_of};
pub(crate) use statistics::{Statistics, prefix};
