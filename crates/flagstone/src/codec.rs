//! Rust values to bytes and back: what a typed keyspace is made of.

use flagstone_base::{Decoder, Error, ErrorKind, Malformed, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{Encoder, Value, View};

/// How a type is stored. Implement it for your own types to use them in
/// [`Database::typed`](crate::Database::typed).
///
/// ```
/// use flagstone::{Codec, Error, ErrorKind, Result};
///
/// struct User { age: u8, name: String }
///
/// impl Codec for User {
///     fn name() -> String {
///         "example.user/1".into()
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         out.push(self.age);
///         out.extend_from_slice(self.name.as_bytes());
///     }
///     fn decode(bytes: &[u8]) -> Result<Self> {
///         let wrong = || Error::new(ErrorKind::Corruption, "not a user");
///         let (age, name) = bytes.split_first().ok_or_else(wrong)?;
///         let name = String::from_utf8(name.to_vec()).map_err(|_| wrong())?;
///         Ok(User { age: *age, name })
///     }
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let users = db.typed::<u64, User>("users")?;
/// users.put(&7, &User { age: 40, name: "Ada".into() })?;
/// assert_eq!(users.get(&7)?.map(|user| user.name), Some("Ada".into()));
/// # Ok::<(), flagstone::Error>(())
/// ```
pub trait Codec: Sized {
    /// Its name and version, stored with the keyspace: another one is refused when it is opened.
    fn name() -> String;

    /// Appends the bytes of the value.
    fn encode(&self, out: &mut Vec<u8>);

    /// The value of `bytes`, which may be anything.
    ///
    /// # Errors
    /// Corruption when the bytes are no such value.
    fn decode(bytes: &[u8]) -> Result<Self>;

    /// About how many bytes [`Codec::encode`] will append.
    fn size_hint(&self) -> usize {
        0
    }
}

/// A codec whose bytes compare as its values do, so that it can be a key; and whose bytes tell where
/// they end, so that several make a tuple.
pub trait KeyCodec: Codec {
    /// Appends the bytes of the value as a part of a tuple.
    fn encode_part(&self, out: &mut Vec<u8>);

    /// Takes the value's bytes off the front of a tuple's.
    ///
    /// # Errors
    /// Corruption when the bytes do not begin with such a value.
    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self>;
}

fn wrong(malformed: Malformed) -> Error {
    Error::new(ErrorKind::Corruption, malformed.to_string())
}

fn corrupt(expected: &'static str) -> Error {
    Error::new(ErrorKind::Corruption, format!("expected {expected}"))
}

/// Decodes a part that must take all of `bytes`.
fn decode_whole<T: KeyCodec>(bytes: &[u8]) -> Result<T> {
    let mut decoder = Decoder::new(bytes);
    let value = T::decode_part(&mut decoder)?;
    decoder.finish("the end of the value").map_err(wrong)?;
    Ok(value)
}

macro_rules! integers {
    ($($int:ty, $unsigned:ty, $flip:expr;)*) => {$(
        impl Codec for $int {
            fn name() -> String {
                stringify!($int).into()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                self.encode_part(out);
            }

            fn decode(bytes: &[u8]) -> Result<Self> {
                decode_whole(bytes)
            }

            fn size_hint(&self) -> usize {
                size_of::<Self>()
            }
        }

        /// Big-endian, the sign bit flipped where there is one.
        impl KeyCodec for $int {
            fn encode_part(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&((*self as $unsigned) ^ $flip).to_be_bytes());
            }

            fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
                let array = bytes.array(stringify!($int)).map_err(wrong)?;
                Ok((<$unsigned>::from_be_bytes(array) ^ $flip) as $int)
            }
        }
    )*};
}

integers! {
    u8, u8, 0; u16, u16, 0; u32, u32, 0; u64, u64, 0; u128, u128, 0;
    i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63; i128, u128, 1 << 127;
}

/// Appends bytes so that they tell their end and keep their order: 00 becomes 00 FF, the end is 00.
fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.push(0);
}

fn take_escaped(bytes: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let byte = bytes.u8("an escaped byte").map_err(wrong)?;
        if byte == 0 {
            // A 00 that ends the value is followed by another part or by nothing, never by FF: no
            // part begins with FF but an integer, and then the byte before it was its own.
            let mut ahead = bytes.clone();
            if ahead.u8("") != Ok(0xFF) {
                return Ok(out);
            }
            *bytes = ahead;
        }
        out.push(byte);
    }
}

impl Codec for Vec<u8> {
    fn name() -> String {
        "bytes".into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(bytes.to_vec())
    }

    fn size_hint(&self) -> usize {
        self.len()
    }
}

impl KeyCodec for Vec<u8> {
    fn encode_part(&self, out: &mut Vec<u8>) {
        put_escaped(self, out);
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        take_escaped(bytes)
    }
}

impl Codec for String {
    fn name() -> String {
        "string".into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_not_utf8| corrupt("UTF-8 text"))
    }

    fn size_hint(&self) -> usize {
        self.len()
    }
}

impl KeyCodec for String {
    fn encode_part(&self, out: &mut Vec<u8>) {
        put_escaped(self.as_bytes(), out);
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        String::from_utf8(take_escaped(bytes)?).map_err(|_not_utf8| corrupt("UTF-8 text"))
    }
}

/// Nothing: a keyspace of `()` is a set of keys.
impl Codec for () {
    fn name() -> String {
        "unit".into()
    }

    fn encode(&self, _out: &mut Vec<u8>) {}

    fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() { Ok(()) } else { Err(corrupt("no bytes")) }
    }
}

/// A document value: self-contained binary form.
impl Codec for Value {
    fn name() -> String {
        "document".into()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        // A value nested too deep to be encoded is stored as nothing, and refused when it is read:
        // nothing that came in through JSON or the builders of the crate is.
        let _too_deep = Encoder::new().encode(self, None, out);
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        flagstone_doc::validate(bytes, None)
            .and_then(|view: View<'_>| view.to_value())
            .map_err(wrong)
    }
}

impl KeyCodec for Value {
    fn encode_part(&self, out: &mut Vec<u8>) {
        sort_key::encode(self, Direction::Ascending, out);
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        let mut ahead = bytes.clone();
        let (value, len) =
            sort_key::decode_first(ahead.rest(), Direction::Ascending).map_err(wrong)?;
        bytes.take(len, "a sort key").map_err(wrong)?;
        Ok(value)
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),+))*) => {$(
        impl<$($part: KeyCodec),+> Codec for ($($part,)+) {
            fn name() -> String {
                let parts = [$($part::name()),+];
                format!("({})", parts.join(","))
            }

            fn encode(&self, out: &mut Vec<u8>) {
                self.encode_part(out);
            }

            fn decode(bytes: &[u8]) -> Result<Self> {
                decode_whole(bytes)
            }

            fn size_hint(&self) -> usize {
                0 $(+ self.$at.size_hint() + 1)+
            }
        }

        /// The parts one after another: the first decides the order, then the second.
        impl<$($part: KeyCodec),+> KeyCodec for ($($part,)+) {
            fn encode_part(&self, out: &mut Vec<u8>) {
                $(self.$at.encode_part(out);)+
            }

            fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
                Ok(($($part::decode_part(bytes)?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3)
}
