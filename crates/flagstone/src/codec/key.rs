//! The traits of keys.

use flagstone_base::{Decoder, Error, ErrorKind, Malformed, Result};

/// A type whose values are keys of typed keyspaces: its bytes compare as its values do, and as a
/// part of a tuple they show where they end.
///
/// Integers of all widths, `String`, `Vec<u8>`, `Value` and tuples of up to four of them are keys.
/// Another type can be one through them:
///
/// ```
/// use flagstone::{Result, Space};
/// use flagstone::codec::{Decoder, KeyCodec};
///
/// #[derive(Debug, PartialEq)]
/// struct UserId(u64);
///
/// impl KeyCodec for UserId {
///     fn key_name() -> String {
///         "example.user-id".into()
///     }
///     fn encode_part(&self, out: &mut Vec<u8>) -> Result<()> {
///         self.0.encode_part(out)
///     }
///     fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
///         u64::decode_part(bytes).map(UserId)
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// let logins = db.typed::<(UserId, i64), String>("logins")?;
/// logins.put(&(UserId(7), 1_700_000_000), &"from home".into())?;
/// let first = logins.scan(..).next().expect("one was put")?;
/// assert_eq!(first.0, (UserId(7), 1_700_000_000));
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
pub trait KeyCodec: Sized {
    /// Returns the name and version of the form of keys. The catalog keeps it with the keyspace,
    /// and a keyspace is not opened with keys of another name.
    fn key_name() -> String;

    /// Appends the bytes of a whole key. The default is the form of a part.
    ///
    /// # Errors
    /// InvalidInput for a value that cannot be a key. What was appended is dropped then.
    fn encode_key(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_part(out)
    }

    /// Returns the value of a whole key.
    ///
    /// # Errors
    /// Corruption if the bytes are not such a key.
    fn decode_key(bytes: &[u8]) -> Result<Self> {
        let mut decoder = Decoder::new(bytes);
        let value = Self::decode_part(&mut decoder)?;
        decoder.finish("the end of the value").map_err(corrupt)?;
        Ok(value)
    }

    /// Appends the bytes of a part of a tuple. They must compare as the values do, whatever bytes
    /// follow, and the bytes of one value must not begin with those of another.
    ///
    /// # Errors
    /// As [`KeyCodec::encode_key`].
    fn encode_part(&self, out: &mut Vec<u8>) -> Result<()>;

    /// Takes the bytes of a part off the front of `bytes` and returns its value.
    ///
    /// # Errors
    /// Corruption if `bytes` do not begin with such a part.
    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self>;

    /// Returns about how many bytes [`KeyCodec::encode_key`] will append; 0 if that is not known.
    fn key_size_hint(&self) -> usize {
        0
    }
}

/// A form in which functions take a key of type `K`: `K` itself; `str` for `String`; `[u8]` and
/// arrays of bytes for `Vec<u8>`. So `users.get("ada")` needs no `String`.
pub trait AsKey<K> {
    /// Appends the bytes of the whole key.
    ///
    /// # Errors
    /// As [`KeyCodec::encode_key`].
    fn append_key(&self, out: &mut Vec<u8>) -> Result<()>;

    /// Returns about how many bytes [`AsKey::append_key`] will append; 0 if that is not known.
    fn append_hint(&self) -> usize;
}

impl<K: KeyCodec> AsKey<K> for K {
    fn append_key(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_key(out)
    }

    fn append_hint(&self) -> usize {
        self.key_size_hint()
    }
}

impl AsKey<String> for str {
    fn append_key(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.as_bytes());
        Ok(())
    }

    fn append_hint(&self) -> usize {
        self.len()
    }
}

impl AsKey<Vec<u8>> for [u8] {
    fn append_key(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn append_hint(&self) -> usize {
        self.len()
    }
}

impl<const N: usize> AsKey<Vec<u8>> for [u8; N] {
    fn append_key(&self, out: &mut Vec<u8>) -> Result<()> {
        self.as_slice().append_key(out)
    }

    fn append_hint(&self) -> usize {
        N
    }
}

/// Returns the Corruption error of bytes that a codec cannot decode.
pub(super) fn corrupt(malformed: Malformed) -> Error {
    Error::new(ErrorKind::Corruption, malformed.to_string())
}

/// Returns a Corruption error that says what was expected.
pub(super) fn expected(what: &'static str) -> Error {
    Error::new(ErrorKind::Corruption, format!("expected {what}"))
}
