//! The result of a read that does not wait for the disk.

/// The result of [`Keyspace::try_get`](crate::Keyspace::try_get), which reads memory alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum TryGet<T> {
    /// The value of the key.
    Found(T),
    /// There is no such key.
    Absent,
    /// A table would have to be read: call `get` where waiting is allowed.
    WouldRead,
}

impl<T> TryGet<T> {
    /// The same result with another value.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn and_then<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<TryGet<U>, E> {
        Ok(match self {
            Self::Found(value) => TryGet::Found(change(value)?),
            Self::Absent => TryGet::Absent,
            Self::WouldRead => TryGet::WouldRead,
        })
    }
}
