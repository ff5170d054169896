//! Values to put.

use flagstone_base::{Moment, Result};
use std::borrow::Cow;

/// A value that can be put into the space `S`.
///
/// - In a [`Keyspace`](crate::Keyspace), bytes: whatever is `AsRef<[u8]>`.
/// - In a [`Typed<K, V>`](crate::Typed), `&V`.
/// - In a [`Collection`](crate::Collection), a `&Document`, a `Value` or `&Value`,
///   [`Json`](crate::Json)`(text)`, or [`As`](crate::As)`(&struct)`.
///
/// Each of them may have an expiry: [`Expires::expires`]. Programs use this trait and do not
/// implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value of `{S}`",
    note = "a `Keyspace` takes bytes, a `Typed<K, V>` takes `&V`, a `Collection` takes \
            `&Document`, `Value`, `&Value`, `Json(text)` and `As(&struct)`"
)]
pub trait NewValue<S: ?Sized>: Sized {
    /// Returns about how many bytes the value takes, if that is known before it is encoded.
    #[doc(hidden)]
    fn bytes_hint(&self) -> Option<usize> {
        None
    }

    /// Returns the moment from which on the value is absent.
    #[doc(hidden)]
    fn expiry(&self) -> Option<Moment> {
        None
    }

    /// Returns the value as it is stored: the bytes themselves, or a buffer that was encoded for
    /// this call.
    #[doc(hidden)]
    fn value_bytes(&self, space: &S) -> Result<Cow<'_, [u8]>>;
}

/// A value with the moment from which on its key is absent: [`Expires::expires`] returns it.
#[derive(Clone, Copy, Debug)]
pub struct Expiring<T> {
    value: T,
    at: Option<Moment>,
}

/// Gives a value an expiry: bytes, typed values and documents alike.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Expires, Json, Space};
/// use std::time::Duration;
///
/// let in_an_hour = db.now().after(Duration::from_secs(3600));
/// let sessions = db.keyspace("sessions")?;
/// sessions.put("alice", "logged in".expires(in_an_hour))?;
/// assert_eq!(sessions.expiry("alice")?, Some(in_an_hour));
///
/// let carts = db.collection("carts")?;
/// carts.put("alice", Json(r#"{"items":2}"#).expires(in_an_hour))?;
/// carts.put("bob", Json(r#"{"items":1}"#).expires(None))?;
/// assert_eq!((carts.expiry("alice")?, carts.expiry("bob")?), (Some(in_an_hour), None));
/// # Ok::<(), flagstone::Error>(())
/// ```
pub trait Expires: Sized {
    /// Sets the moment from which on the key is absent, as if it had been deleted; `None` is no
    /// expiry. A later put of a plain value has no expiry; updates, patches and merges keep the
    /// expiry of the value that they change.
    ///
    /// The first such write of a keyspace costs a sync of the manifest. From then on merges and
    /// patches of this keyspace read the value that they change and write the result, and the limit
    /// of a batch counts the results.
    fn expires(self, at: impl Into<Option<Moment>>) -> Expiring<Self> {
        Expiring { value: self, at: at.into() }
    }
}

impl<T> Expires for T {}

impl<S: ?Sized, T: NewValue<S>> NewValue<S> for Expiring<T> {
    #[inline]
    fn bytes_hint(&self) -> Option<usize> {
        self.value.bytes_hint()
    }

    #[inline]
    fn expiry(&self) -> Option<Moment> {
        self.at
    }

    #[inline]
    fn value_bytes(&self, space: &S) -> Result<Cow<'_, [u8]>> {
        self.value.value_bytes(space)
    }
}
