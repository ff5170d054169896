//! The result of a read that does not wait for the disk.

/// The result of `Keyspace::try_get`, which reads only memory.
///
/// ```
/// # use flagstone_engine::TryGet;
/// let found: TryGet<&str> = TryGet::Found("7");
/// assert_eq!(found.and_then(|text| text.parse::<i32>()), Ok(TryGet::Found(7)));
/// let elsewhere: TryGet<&str> = TryGet::WouldRead;
/// assert_eq!(elsewhere.and_then(|text| text.parse::<i32>()), Ok(TryGet::WouldRead));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum TryGet<T> {
    /// The value of the key.
    Found(T),
    /// The key is absent.
    Absent,
    /// A table must be read: call `get` where waiting is allowed.
    WouldRead,
}

impl<T> TryGet<T> {
    /// Returns the same result with the value that `change` returns.
    ///
    /// # Errors
    /// The error of `change`.
    pub fn and_then<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<TryGet<U>, E> {
        Ok(match self {
            Self::Found(value) => TryGet::Found(change(value)?),
            Self::Absent => TryGet::Absent,
            Self::WouldRead => TryGet::WouldRead,
        })
    }
}
