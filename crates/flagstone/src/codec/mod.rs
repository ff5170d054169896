//! How typed keyspaces store Rust values: [`Codec`] for values, [`KeyCodec`] for keys.
//!
//! A codec is a type that encodes values of other types. [`Serde`], the default, takes every type
//! that implements serde's traits; [`Plain`] takes integers, text, bytes and tuples in the fewest
//! bytes; programs may have their own. Keys are different: their bytes must be in the order of the
//! values, so each type of key has one form, which [`KeyCodec`] gives it.

mod key;
mod value;

mod keys;
mod plain;
mod structs;

pub use flagstone_base::Decoder;
pub use key::{AsKey, KeyCodec};
pub use plain::Plain;
pub use structs::Serde;
pub use value::Codec;
