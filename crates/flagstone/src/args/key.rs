//! Keys.

use flagstone_base::Result;

/// A key of the space `S`.
///
/// - In a [`Keyspace`](crate::Keyspace), bytes: whatever is `AsRef<[u8]>`.
/// - In a [`Typed<K, V>`](crate::Typed), `&K`, and what [`AsKey<K>`](crate::codec::AsKey) allows:
///   `&str` for `String`.
/// - In a [`Collection`](crate::Collection), whatever converts into a [`Value`](crate::Value).
///
/// Programs use this trait and do not implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of `{S}`",
    note = "a `Keyspace` takes bytes, a `Typed<K, V>` takes `&K`, a `Collection` takes what \
            converts into a `Value`"
)]
pub trait Key<S: ?Sized>: Sized {
    /// The key as it is stored.
    #[doc(hidden)]
    type Bytes: AsRef<[u8]>;

    /// Returns the key as it is stored.
    #[doc(hidden)]
    fn key_bytes(self) -> Result<Self::Bytes>;
}
