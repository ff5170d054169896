//! The plain codec: built-in types in the fewest bytes.

use super::key::{KeyCodec, corrupt, expected};
use super::value::Codec;
use crate::encoders;
use flagstone_base::Result;
use flagstone_doc::{Value, View, validate};

/// The codec of built-in types in the fewest bytes: integers in their width, big-endian; `String`
/// and `Vec<u8>` unchanged; `()` as nothing, for a set of keys; tuples of up to four keys as their
/// key; a document [`Value`](crate::Value) in its self-contained binary form.
///
/// ```
/// use flagstone::{Plain, Space, Typed};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let hits: Typed<String, u64, Plain> = db.space("hits").typed_codec()?;     // 8 bytes a value
/// hits.update("/index.html", |old| Some(old.unwrap_or(0) + 1))?;
/// assert_eq!(hits.get("/index.html")?, Some(1));
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Plain;

macro_rules! as_keys {
    ($([$($part:ident)*] $type:ty;)*) => {$(
        impl<$($part: KeyCodec),*> Codec<$type> for Plain {
            fn name() -> String {
                <$type>::key_name()
            }

            fn encode(value: &$type, out: &mut Vec<u8>) -> Result<()> {
                value.encode_key(out)
            }

            fn decode(bytes: &[u8]) -> Result<$type> {
                <$type>::decode_key(bytes)
            }

            fn size_hint(value: &$type) -> usize {
                value.key_size_hint()
            }
        }
    )*};
}

as_keys! {
    [] u8; [] u16; [] u32; [] u64; [] u128;
    [] i8; [] i16; [] i32; [] i64; [] i128;
    [] Vec<u8>; [] String;
    [A] (A,); [A B] (A, B); [A B C] (A, B, C); [A B C D] (A, B, C, D);
}

impl Codec<()> for Plain {
    fn name() -> String {
        "unit".into()
    }

    fn encode(_value: &(), _out: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { Err(expected("no bytes")) }
    }
}

/// The name of self-contained documents in the catalog.
pub(super) const DOCUMENT: &str = "document";

impl Codec<Value> for Plain {
    fn name() -> String {
        DOCUMENT.into()
    }

    fn encode(value: &Value, out: &mut Vec<u8>) -> Result<()> {
        encoders::self_contained(|encoder| encoder.encode(value, None, out))?;
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Value> {
        validate(bytes, None).and_then(|view: View<'_>| view.to_value()).map_err(corrupt)
    }
}
