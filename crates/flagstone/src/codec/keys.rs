//! The forms of keys of built-in types. `docs/format/sort-key.md` draws them.

use super::key::{KeyCodec, corrupt, expected};
use crate::sort_keys;
use flagstone_base::{Decoder, Result};
use flagstone_doc::Value;
use flagstone_doc::sort_key::{self, Direction};

macro_rules! integers {
    ($($int:ty, $unsigned:ty, $flip:expr;)*) => {$(
        /// Big-endian; in signed types the sign bit is inverted.
        impl KeyCodec for $int {
            fn key_name() -> String {
                stringify!($int).into()
            }

            fn encode_part(&self, out: &mut Vec<u8>) -> Result<()> {
                out.extend_from_slice(&((*self as $unsigned) ^ $flip).to_be_bytes());
                Ok(())
            }

            fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
                let array = bytes.array(stringify!($int)).map_err(corrupt)?;
                Ok((<$unsigned>::from_be_bytes(array) ^ $flip) as $int)
            }

            fn key_size_hint(&self) -> usize {
                size_of::<Self>()
            }
        }
    )*};
}

integers! {
    u8, u8, 0; u16, u16, 0; u32, u32, 0; u64, u64, 0; u128, u128, 0;
    i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63; i128, u128, 1 << 127;
}

/// Appends bytes so that they show their end and keep their order: 00 becomes 00 FF, the end is
/// 00 00.
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
        let byte = bytes.u8("an escaped byte").map_err(corrupt)?;
        if byte == 0 {
            match bytes.u8("what follows a zero").map_err(corrupt)? {
                0xFF => {}
                0 => return Ok(out),
                _ => return Err(expected("00 or FF after a zero")),
            }
        }
        out.push(byte);
    }
}

/// Unchanged as a whole key; escaped in a tuple.
impl KeyCodec for Vec<u8> {
    fn key_name() -> String {
        "bytes".into()
    }

    fn encode_key(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn decode_key(bytes: &[u8]) -> Result<Self> {
        Ok(bytes.to_vec())
    }

    fn encode_part(&self, out: &mut Vec<u8>) -> Result<()> {
        put_escaped(self, out);
        Ok(())
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        take_escaped(bytes)
    }

    fn key_size_hint(&self) -> usize {
        self.len()
    }
}

/// Unchanged as a whole key; escaped in a tuple.
impl KeyCodec for String {
    fn key_name() -> String {
        "string".into()
    }

    fn encode_key(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.as_bytes());
        Ok(())
    }

    fn decode_key(bytes: &[u8]) -> Result<Self> {
        Self::from_utf8(bytes.to_vec()).map_err(|_not_utf8| expected("UTF-8 text"))
    }

    fn encode_part(&self, out: &mut Vec<u8>) -> Result<()> {
        put_escaped(self.as_bytes(), out);
        Ok(())
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        Self::from_utf8(take_escaped(bytes)?).map_err(|_not_utf8| expected("UTF-8 text"))
    }

    fn key_size_hint(&self) -> usize {
        self.len()
    }
}

/// Ends a sort key in a tuple. A longer sort key continues with FF, which is above this byte; no
/// sort key continues with this byte.
const PART_END: u8 = 1;

/// The sort key of the value.
impl KeyCodec for Value {
    fn key_name() -> String {
        "sort-key".into()
    }

    fn encode_key(&self, out: &mut Vec<u8>) -> Result<()> {
        sort_keys::append(self, out)
    }

    fn decode_key(bytes: &[u8]) -> Result<Self> {
        sort_key::decode(bytes, Direction::Ascending).map_err(corrupt)
    }

    fn encode_part(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_key(out)?;
        out.push(PART_END);
        Ok(())
    }

    fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
        let mut ahead = bytes.clone();
        let (value, len) =
            sort_key::decode_first(ahead.rest(), Direction::Ascending).map_err(corrupt)?;
        bytes.take(len, "a sort key").map_err(corrupt)?;
        match bytes.u8("the end of a sort key").map_err(corrupt)? {
            PART_END => Ok(value),
            _ => Err(expected("the end of a sort key")),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),+))*) => {$(
        /// The parts one after another: the first decides the order, then the second.
        impl<$($part: KeyCodec),+> KeyCodec for ($($part,)+) {
            fn key_name() -> String {
                let parts = [$($part::key_name()),+];
                format!("tuple({})", parts.join(","))
            }

            fn encode_part(&self, out: &mut Vec<u8>) -> Result<()> {
                $(self.$at.encode_part(out)?;)+
                Ok(())
            }

            fn decode_part(bytes: &mut Decoder<'_>) -> Result<Self> {
                Ok(($($part::decode_part(bytes)?,)+))
            }

            fn key_size_hint(&self) -> usize {
                0 $(+ self.$at.key_size_hint() + 2)+
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

    fn key<T: KeyCodec>(value: &T) -> Vec<u8> {
        let mut out = Vec::new();
        value.encode_key(&mut out).unwrap();
        out
    }

    /// All values come back from their keys, which compare as the values do.
    fn check<T: KeyCodec + Ord + Clone + Debug>(values: &[T]) {
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

    /// Parts that begin and end with the bytes of ends and escapes.
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
        Value::from(1).encode_key(&mut one).unwrap();
        number("1.0").encode_key(&mut also).unwrap();
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
