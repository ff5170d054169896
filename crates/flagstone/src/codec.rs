//! Rust values to bytes and back: what a typed keyspace is made of.

use flagstone_base::{Decoder, Error, ErrorKind, Malformed, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{DEPTH_MAX, Encoder, Value, View};

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

/// A codec whose bytes compare as its values do, so that it can be a key; and, as part of a tuple, tell where
/// they end.
pub trait KeyCodec: Codec {
    /// The name and version of the form of keys.
    fn key_name() -> String {
        Self::name()
    }

    /// Refuses a value whose key could not be read again.
    ///
    /// # Errors
    /// InvalidInput.
    fn check_key(&self) -> Result<()> {
        Ok(())
    }

    /// Appends the bytes of the value as a whole key.
    fn encode_key(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    /// The value of a whole key.
    ///
    /// # Errors
    /// Corruption when the bytes are no such key.
    fn decode_key(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes)
    }

    /// Appends the bytes of the value as a part of a tuple: they compare as the values do whatever follows them, and
    /// none are the beginning of another's.
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

/// Refuses a key that is nested deeper than one can be read.
pub(crate) fn check_depth(key: &Value) -> Result<()> {
    if key.is_within_depth(DEPTH_MAX) {
        return Ok(());
    }
    Err(Error::invalid(format!("a key is nested deeper than {DEPTH_MAX} arrays and maps")))
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

/// Appends bytes so that they tell their end and keep their order: 00 becomes 00 FF, the end is 00 00.
fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn take_escaped(bytes: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let byte = bytes.u8("an escaped byte").map_err(wrong)?;
        if byte == 0 {
            match bytes.u8("what follows a zero").map_err(wrong)? {
                0xFF => {}
                0 => return Ok(out),
                _ => return Err(corrupt("00 or FF behind a zero")),
            }
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

/// Stands behind a sort key in a tuple: below FF, which a sort key may go on with, and never taken for a part of it.
const PART_END: u8 = 1;

/// Refuses a sort key that scans could not read.
pub(crate) fn check_readable(key: &[u8]) -> Result<()> {
    if sort_key::is_readable(key) {
        return Ok(());
    }
    Err(Error::invalid("a key with a number that only a literal of many megabytes can say"))
}

/// A document value: its sort key.
impl KeyCodec for Value {
    fn key_name() -> String {
        "sort-key".into()
    }

    fn check_key(&self) -> Result<()> {
        check_depth(self)?;
        let mut key = Vec::new();
        self.encode_key(&mut key);
        check_readable(&key)
    }

    fn encode_key(&self, out: &mut Vec<u8>) {
        sort_key::encode(self, Direction::Ascending, out);
    }

    fn decode_key(bytes: &[u8]) -> Result<Self> {
        sort_key::decode(bytes, Direction::Ascending).map_err(wrong)
    }

    fn encode_part(&self, out: &mut Vec<u8>) {
        self.encode_key(out);
        out.push(PART_END);
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        let mut ahead = bytes.clone();
        let (value, len) =
            sort_key::decode_first(ahead.rest(), Direction::Ascending).map_err(wrong)?;
        bytes.take(len, "a sort key").map_err(wrong)?;
        match bytes.u8("the end of a sort key").map_err(wrong)? {
            PART_END => Ok(value),
            _ => Err(corrupt("the end of a sort key")),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),+))*) => {$(
        impl<$($part: KeyCodec),+> Codec for ($($part,)+) {
            fn name() -> String {
                let parts = [$($part::key_name()),+];
                format!("tuple({})", parts.join(","))
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
            fn check_key(&self) -> Result<()> {
                $(self.$at.check_key()?;)+
                Ok(())
            }

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// All of them come back from their keys, which compare as they do.
    fn check<T: KeyCodec + Ord + Clone + Debug>(values: &[T]) {
        let key = |value: &T| {
            let mut out = Vec::new();
            value.encode_key(&mut out);
            out
        };
        for a in values {
            assert_eq!(&T::decode_key(&key(a)).unwrap(), a);
            for b in values {
                assert_eq!(key(a).cmp(&key(b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    fn pairs<A: Clone, B: Clone>(a: &[A], b: &[B]) -> Vec<(A, B)> {
        a.iter().flat_map(|a| b.iter().map(|b| (a.clone(), b.clone()))).collect()
    }

    /// The parts begin and end with what ends and escapes are made of.
    const ENDS: [&[u8]; 12] = [
        b"", b"\0", b"\0\0", b"\0\xFF", b"\xFF", b"\xFF\0", b"\x01", b"a", b"a\0", b"a\0x",
        b"a\xFF", b"\xFFx\0",
    ];

    #[test]
    fn tuples_of_bytes_and_text_keep_their_parts_apart() {
        let bytes: Vec<Vec<u8>> = ENDS.iter().map(|end| end.to_vec()).collect();
        check(&bytes);
        check(&pairs(&bytes, &bytes));
        check(&pairs(&bytes, &[0_u8, 1, 0xFE, 0xFF]));
        check(&pairs(&bytes, &[i64::MIN, -1, 0, i64::MAX]));
        let text: Vec<String> = ["", "\0", "a", "a\0", "a\u{1}", "\u{FF}"].map(String::from).into();
        let triples: Vec<(String, u8, String)> = pairs(&pairs(&text, &[0_u8, 255]), &text)
            .into_iter()
            .map(|((a, b), c)| (a, b, c))
            .collect();
        check(&triples);
    }

    #[test]
    fn document_values_come_in_their_order_alone_and_in_tuples() {
        let number = |text: &str| Value::number(text).unwrap();
        let values = [
            Value::Null,
            Value::from(-300),
            number("-7.5"),
            Value::from(5),
            Value::from(7),
            number("7.5"),
            Value::from(300),
            Value::from(""),
            Value::from("a"),
            Value::from("a\0"),
            Value::from("b".repeat(300)),
            Value::Array(vec![Value::from(7)]),
            Value::Array(vec![Value::from(7), Value::from("")]),
        ];
        check(&values);
        check(&pairs(&values, &[0_u8, 1, 2, 255]));
        check(&pairs(&values, &values));
        let (mut one, mut also) = (Vec::new(), Vec::new());
        Value::from(1).encode_key(&mut one);
        number("1.0").encode_key(&mut also);
        assert_eq!(one, also, "equal values are one key");
    }

    #[test]
    fn bytes_that_are_no_tuple_are_refused() {
        for bytes in [&b"a"[..], b"a\0", b"a\0\x01", b"a\0\0", b"a\0\0\x07\x07"] {
            <(Vec<u8>, u8)>::decode_key(bytes).unwrap_err();
        }
        <(Value, u8)>::decode_key(b"\x43\x07\x02\x02").unwrap_err();
    }
}
