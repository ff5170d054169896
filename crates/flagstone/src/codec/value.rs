//! The trait of codecs of values.

use flagstone_base::Result;

/// Encodes and decodes the values of a typed keyspace. `T` is the type of the values; the
/// implementing type is the codec, and has no values of its own.
///
/// Most programs need no codec of their own: with [`Serde`](crate::codec::Serde), the default,
/// types derive serde's traits. Write one for a form of your own, such as one that other programs
/// read:
///
/// ```
/// use flagstone::{Error, ErrorKind, Result, Space, Typed};
/// use flagstone::codec::Codec;
///
/// struct User { age: u8, name: String }
/// struct UserCodec;
///
/// impl Codec<User> for UserCodec {
///     fn name() -> String {
///         "example.user/1".into()
///     }
///     fn encode(user: &User, out: &mut Vec<u8>) -> Result<()> {
///         if user.name.len() > 100 {
///             return Err(Error::invalid("a name of more than 100 bytes"));
///         }
///         out.push(user.age);
///         out.extend_from_slice(user.name.as_bytes());
///         Ok(())
///     }
///     fn decode(bytes: &[u8]) -> Result<User> {
///         let damaged = || Error::new(ErrorKind::Corruption, "not a user");
///         let (age, name) = bytes.split_first().ok_or_else(damaged)?;
///         let name = String::from_utf8(name.to_vec()).map_err(|_| damaged())?;
///         Ok(User { age: *age, name })
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let users: Typed<u64, User, UserCodec> = db.space("users").typed_codec()?;
/// users.put(&7, &User { age: 40, name: "Ada".into() })?;
/// assert_eq!(users.get(&7)?.map(|user| user.name), Some("Ada".into()));
/// # Ok::<(), flagstone::Error>(())
/// ```
pub trait Codec<T> {
    /// Returns the name and version of the stored form. The catalog keeps it with the keyspace, and
    /// a keyspace is not opened with a codec of another name. Change it whenever the new code
    /// cannot read what the old code wrote.
    fn name() -> String;

    /// Appends the bytes of `value` to `out`, which may hold other bytes.
    ///
    /// # Errors
    /// Any error, best of kind InvalidInput, for a value that cannot be stored. Nothing is written
    /// to the database then; what was appended to `out` is dropped.
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<()>;

    /// Returns the value of `bytes`. The bytes come from disk, so they may be anything.
    ///
    /// # Errors
    /// Corruption if `bytes` are not in the form of this codec.
    fn decode(bytes: &[u8]) -> Result<T>;

    /// Returns about how many bytes [`Codec::encode`] will append, to allocate them at once. 0, the
    /// default, if that is not known.
    fn size_hint(_value: &T) -> usize {
        0
    }
}
