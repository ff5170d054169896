//! Ranges of keys.

use flagstone_base::{Result, key};
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys of the space `S`: `..`, `a..b`, `a..=b`, `a..`, `..b`, `..=b`, a pair of
/// [`Bound`]s, or [`Prefix`].
///
/// The ends are keys: bytes in a [`Keyspace`](crate::Keyspace), `K` in a
/// [`Typed<K, V>`](crate::Typed), what converts into a [`Value`](crate::Value) in a
/// [`Collection`](crate::Collection). Programs use this trait and do not implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of keys of `{S}`",
    note = "a range is `..`, `a..b`, `a..=b`, `a..`, `..b`, `..=b`, a pair of `Bound`s or \
            `Prefix(p)`; its ends are bytes in a `Keyspace`, `K` in a `Typed<K, V>`, what \
            converts into a `Value` in a `Collection`"
)]
pub trait KeyRange<S: ?Sized>: Sized {
    /// Returns the range of stored keys.
    #[doc(hidden)]
    fn key_range(self) -> Result<key::KeyRange>;
}

/// An end of a range of keys of the space `S`. See [`KeyRange`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an end of a range of keys of `{S}`",
    note = "the ends are bytes in a `Keyspace`, `K` in a `Typed<K, V>`, what converts into a \
            `Value` in a `Collection`"
)]
pub trait KeyBound<S: ?Sized>: Sized {
    /// Returns the key as it is stored.
    #[doc(hidden)]
    fn bound_bytes(self) -> Result<Vec<u8>>;
}

/// The beginning of keys of the space `S`. See [`Prefix`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the beginning of keys of `{S}`",
    note = "keys have a common beginning in a `Keyspace` (bytes), in a `Typed<String, V>` and a \
            `Collection` (text), and in a `Typed<Vec<u8>, V>` (bytes)"
)]
pub trait KeyPrefix<S: ?Sized>: Sized {
    /// Returns the bytes with which these keys begin, and no others.
    #[doc(hidden)]
    fn prefix_bytes(self) -> Vec<u8>;
}

/// The keys that begin with bytes or, in a [`Collection`](crate::Collection) and in a
/// [`Typed<String, V>`](crate::Typed), with text.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Prefix, Space, doc};
/// let kv = db.keyspace("kv")?;
/// let pages = db.collection("pages")?;
/// for key in ["a", "ab", "abc", "b"] {
///     kv.put(key, "")?;
///     pages.put(key, doc!({}))?;
/// }
/// assert_eq!(kv.scan(Prefix("ab")).count(), 2);
/// pages.delete_range(Prefix("ab"))?;
/// assert_eq!(pages.count()?, 2);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prefix<P>(
    /// The bytes or the text.
    pub P,
);

impl<S: ?Sized, P: KeyPrefix<S>> KeyRange<S> for Prefix<P> {
    #[inline]
    fn key_range(self) -> Result<key::KeyRange> {
        Ok(key::KeyRange::prefix(&self.0.prefix_bytes()))
    }
}

impl<S: ?Sized> KeyRange<S> for RangeFull {
    #[inline]
    fn key_range(self) -> Result<key::KeyRange> {
        Ok(key::KeyRange::ALL)
    }
}

impl<S: ?Sized, B: KeyBound<S>> KeyRange<S> for (Bound<B>, Bound<B>) {
    #[inline]
    fn key_range(self) -> Result<key::KeyRange> {
        let stored = |bound: Bound<B>| -> Result<Bound<Vec<u8>>> {
            Ok(match bound {
                Bound::Included(key) => Bound::Included(KeyBound::<S>::bound_bytes(key)?),
                Bound::Excluded(key) => Bound::Excluded(KeyBound::<S>::bound_bytes(key)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok(key::KeyRange { start: stored(self.0)?, end: stored(self.1)? })
    }
}

macro_rules! ranges {
    ($($range:ident $taken:ident => $bounds:expr;)*) => {$(
        impl<S: ?Sized, B: KeyBound<S>> KeyRange<S> for $range<B> {
            #[inline]
            fn key_range(self) -> Result<key::KeyRange> {
                let $taken = self;
                KeyRange::<S>::key_range($bounds)
            }
        }
    )*};
}

ranges! {
    Range range => (Bound::Included(range.start), Bound::Excluded(range.end));
    RangeFrom range => (Bound::Included(range.start), Bound::Unbounded);
    RangeTo range => (Bound::Unbounded, Bound::Excluded(range.end));
    RangeToInclusive range => (Bound::Unbounded, Bound::Included(range.end));
}

impl<S: ?Sized, B: KeyBound<S>> KeyRange<S> for RangeInclusive<B> {
    #[inline]
    fn key_range(self) -> Result<key::KeyRange> {
        let (start, end) = self.into_inner();
        KeyRange::<S>::key_range((Bound::Included(start), Bound::Included(end)))
    }
}
