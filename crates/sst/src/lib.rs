//! The sorted table: an immutable file of sorted entries, its writer, its reader and the block
//! cache.
//!
//! ```text
//! TableBuilder --add, add_range_delete, attach--> finish --> file + TableMeta
//! Table::open --> get (filter -> index -> cache -> block), cursor, verify_stored, verify
//! inspect: describes any file        Salvage: reads a damaged table
//! ```
//!
//! `docs/format/sst.md` draws the bytes. A module uses only modules that are listed above it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod expiries;
mod on_miss;
mod options;
mod prefetch;

mod meta;
mod properties;

mod allowance;
mod buffers;
mod dictionaries;
mod format;

mod block;
mod filter;
mod parts;
mod ranges;
mod sample;
mod separators;

mod index;
mod index_builder;
mod index_parts;

mod cache;
mod compressibility;
mod learned;
mod output;

mod builder;
mod open;
mod table;

mod lookup;

mod cursor;
mod inspect;
mod salvage;
mod stored;
mod verify;

#[cfg(test)]
mod crafted;

pub use allowance::Allowance;
pub use block::StoredValue;
pub use builder::TableBuilder;
pub use cache::{BlockCache, CacheStats};
pub use cursor::{CursorOptions, Near, TableCursor};
pub use expiries::Expiries;
pub use flagstone_base::Compression;
pub use inspect::{InspectOptions, identify, inspect};
pub use learned::{Dictionary, Learned};
pub use meta::TableMeta;
pub use on_miss::{LookupStop, OnMiss, ReadOnMiss, StopOnMiss};
pub use options::{BuilderOptions, FilterKey, TableIdent, TableOptions};
pub use properties::Properties;
pub use ranges::{RangeDelete, RangeDeletes};
pub use salvage::{LostPart, Salvage, SalvageCursor};
pub use sample::{SAMPLED_ENTRY_BYTES, Sample, SampledEntry};
pub use table::Table;
pub use verify::VerifiedTable;
