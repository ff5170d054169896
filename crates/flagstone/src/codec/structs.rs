//! The codec of serde: Rust values as self-contained documents.

#[cfg(feature = "serde")]
use super::{key::corrupt, plain::DOCUMENT, value::Codec};

/// The default codec of typed keyspaces: any type that implements serde's `Serialize` and
/// `DeserializeOwned`, most often by `#[derive(Serialize, Deserialize)]`.
///
/// A value is stored as a [document](crate::Document) that holds its field names, so the stored
/// form describes itself: fields may be reordered, a field added later with `#[serde(default)]`
/// reads old values, and fields that a type lacks are skipped. The catalog has the name `document`
/// for it, whatever the type is. docs/guide/serde.md has the form of each Rust type, and the
/// limits.
///
/// Cost: the names are stored with every value. Where that counts, use a
/// [`Collection`](crate::Collection), which stores each name once, or a
/// [`Codec`](crate::codec::Codec) of your own. `Vec<u8>` is an array of numbers to serde, of up to
/// two bytes each: use `serde_bytes`, or [`Plain`](crate::Plain).
///
/// Without the feature `serde` this type implements no codec.
#[derive(Clone, Copy, Debug)]
pub struct Serde;

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Codec<T> for Serde {
    fn name() -> String {
        DOCUMENT.into()
    }

    fn encode(value: &T, out: &mut Vec<u8>) -> flagstone_base::Result<()> {
        crate::encoders::self_contained(|encoder| encoder.encode_serialize(value, None, out))?;
        Ok(())
    }

    fn decode(bytes: &[u8]) -> flagstone_base::Result<T> {
        flagstone_doc::View::of(bytes, None).map_err(corrupt)?.to()
    }
}
