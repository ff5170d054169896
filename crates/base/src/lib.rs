//! Types that two or more crates of flagstone share: errors, numbers, checksums, entries, keys,
//! hashes, compression.
//!
//! Modules are listed from the ground up; a module uses only modules listed above it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod error;

pub mod bytes;
pub mod checksum;
pub mod codec;
#[cfg(feature = "zstd")]
pub mod dictionary;
#[cfg(not(feature = "zstd"))]
#[path = "no_dictionary.rs"]
pub mod dictionary;
pub mod interrupt;

pub mod compress;

pub mod hash;
pub mod heap;
pub mod number;

pub mod entry;

pub mod check;
pub mod fields;
#[doc(hidden)]
pub mod flip;
pub mod key;
pub mod label;
pub mod large_buffer;
pub mod slice;
pub mod sorted;

pub use check::EntryCheck;
pub use codec::{Decoder, Malformed, Undecoded};
pub use compress::Compression;
pub use entry::{EntryRef, Kind, Tag, Trailer};
pub use error::{Error, ErrorKind, Result};
pub use key::KeyRange;
pub use label::{FileFormat, Label};
pub use number::{DatabaseId, FileNumber, KeyspaceId, Moment, SeqNo, TreeId};
pub use slice::Slice;
