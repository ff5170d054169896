//! The binary form of a patch; `docs/format/patch.md` draws it.

use super::condition::Condition;
use super::kind::{Argument, OpKind};
use super::model::PatchChange;
use crate::depth::DEPTH_MAX;
use crate::encode::Encoder;
use crate::layout::{VERSION, form, tag};
use crate::names::Names;
use crate::value::Value;
use crate::view::validate;
use flagstone_base::codec::put_varint;
use flagstone_base::{Decoder, Malformed, Result};

const UPSERT: u8 = 0x01;
const HAS_DEFAULT: u8 = 0x02;
const VERSION_MAX: u8 = 2;

/// The binary form of an empty map.
pub(super) const EMPTY: [u8; 2] = [VERSION << 4 | form::BARE, tag::EMPTY_MAP];

/// The part of a patch before its parts.
#[derive(Clone, Copy)]
pub(super) struct Header<'a> {
    pub(super) version: u8,
    pub(super) upsert: bool,
    /// The document from which the patch starts where there is none.
    pub(super) default: Option<&'a Value>,
}

/// Appends the header, and defines the names in the default document.
pub(super) fn put_header(
    header: Header<'_>,
    encoder: &mut Encoder,
    names: Option<&Names>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Header { version, upsert, default } = header;
    let upsert = if upsert || default.is_some() { UPSERT } else { 0 };
    out.push(version << 4 | upsert | if default.is_some() { HAS_DEFAULT } else { 0 });
    default.map_or(Ok(()), |value| put_document(value, encoder, names, out))
}

/// Appends a document after its length, which is known only when the document is written.
fn put_document(
    value: &Value,
    encoder: &mut Encoder,
    names: Option<&Names>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let at = out.len();
    encoder.encode(value, names, out)?;
    let len = out.len() - at;
    put_varint(out, len as u64);
    out[at..].rotate_left(len);
    Ok(())
}

/// Appends one part. Defines the names in `names` that the part may bring into a document, but not
/// those that it only looks up or that may be array indexes.
pub(super) fn put_part(
    path: &str,
    change: &PatchChange,
    encoder: &mut Encoder,
    names: Option<&Names>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let kind = change.kind();
    out.push(kind as u8);
    put_varint(out, path.split('.').count() as u64);
    for step in path.split('.') {
        let defines = kind.brings_names() && step.parse::<usize>().is_err();
        let id = |names: &Names| if defines { names.intern(step) } else { names.id(step) };
        put_step(step, names.and_then(id), out);
    }
    match change {
        PatchChange::Rename(name) => {
            put_step(name, names.and_then(|names| names.intern(name)), out)
        }
        PatchChange::Pull(values) => {
            put_compared(&Value::Array(values.clone()), encoder, names, out)?
        }
        PatchChange::If(condition) => {
            if let Some(value) = condition.value() {
                put_compared(value, encoder, names, out)?;
            }
        }
        PatchChange::PushAt(position, _) => {
            put_varint(out, (position.wrapping_shl(1) ^ (position >> 63)) as u64);
        }
        _ => {}
    }
    change.value().map_or(Ok(()), |value| put_document(value, encoder, names, out))
}

/// Appends a value that is only compared with parts of documents, so its names are not defined.
fn put_compared(
    value: &Value,
    encoder: &mut Encoder,
    names: Option<&Names>,
    out: &mut Vec<u8>,
) -> Result<()> {
    fn has_map(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(has_map),
            value => matches!(value, Value::Map(_)),
        }
    }
    if has_map(value) {
        return put_document(value, &mut Encoder::of_known_names(), names, out);
    }
    put_document(value, encoder, names, out)
}

/// Appends a step of a path: its `id`, if it has one, or its name.
fn put_step(name: &str, id: Option<u32>, out: &mut Vec<u8>) {
    match id {
        Some(id) => put_varint(out, u64::from(id) << 1),
        None => {
            put_varint(out, (name.len() as u64) << 1 | 1);
            out.extend_from_slice(name.as_bytes());
        }
    }
}

/// A step of a path: the name of a field, or an index of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathSegment<'a> {
    /// The id of the name, if the patch stores the id.
    pub(super) id: Option<u32>,
    pub(super) name: &'a str,
}

/// The validated steps of a path.
#[derive(Clone, Debug)]
pub(super) struct Steps<'a> {
    decoder: Decoder<'a>,
    left: usize,
    names: Option<&'a Names>,
}

impl<'a> Iterator for Steps<'a> {
    type Item = PathSegment<'a>;

    fn next(&mut self) -> Option<PathSegment<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_step(&mut self.decoder, self.names).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// All steps were read once, so each comes.
impl ExactSizeIterator for Steps<'_> {}

/// One part of a patch; borrows from its bytes.
#[derive(Clone, Debug)]
pub(super) struct EncodedOp<'a> {
    pub(super) kind: OpKind,
    pub(super) steps: Steps<'a>,
    /// The argument, encoded as a document; empty if the kind has none.
    pub(super) argument: &'a [u8],
    /// The new name that [`Kind::Rename`] gives the field.
    pub(super) name: Option<PathSegment<'a>>,
    /// The position at which [`Kind::PushAt`] inserts.
    pub(super) position: i64,
}

impl EncodedOp<'_> {
    /// Decodes the part to a change of values in memory.
    pub(super) fn change(&self, names: Option<&Names>) -> Result<PatchChange, Malformed> {
        let value = || -> Result<Value, Malformed> { validate(self.argument, names)?.to_value() };
        Ok(match self.kind {
            OpKind::Set => PatchChange::Set(value()?),
            OpKind::Unset => PatchChange::Unset,
            OpKind::Inc => PatchChange::Inc(value()?),
            OpKind::Mul => PatchChange::Mul(value()?),
            OpKind::Rename => {
                PatchChange::Rename(self.name.map_or(String::new(), |step| step.name.to_owned()))
            }
            OpKind::Push => PatchChange::Push(value()?),
            OpKind::Min => PatchChange::Min(value()?),
            OpKind::Max => PatchChange::Max(value()?),
            OpKind::AddToSet => PatchChange::AddToSet(value()?),
            OpKind::Pull => match value()? {
                Value::Array(values) => PatchChange::Pull(values),
                _ => return Err(NO_LIST),
            },
            OpKind::PopFirst => PatchChange::PopFirst,
            OpKind::PopLast => PatchChange::PopLast,
            OpKind::PushAt => PatchChange::PushAt(self.position, value()?),
            condition => {
                let value = match condition.argument() {
                    Argument::Nothing => Value::Null,
                    _ => value()?,
                };
                let expected = "the kind of a condition";
                let found = Condition::of(condition, value);
                PatchChange::If(found.ok_or(Malformed { at: 0, expected })?)
            }
        })
    }
}

const NO_LIST: Malformed = Malformed { at: 0, expected: "an array of the values to remove" };

/// A reader of the parts of a patch. It ends after an error.
pub(super) struct OpReader<'a> {
    decoder: Decoder<'a>,
    names: Option<&'a Names>,
    version: u8,
    /// Whether the patch creates a document if there is none.
    pub(super) upsert: bool,
    /// The document from which it starts then; `None` means an empty map. Not validated.
    pub(super) default: Option<&'a [u8]>,
}

/// Returns whether `patches` have more than `most` parts in total, counting until an error.
pub(super) fn are_more_parts(patches: &[&[u8]], most: usize) -> bool {
    /// The length of the shortest part: a kind, a number of steps and a step.
    const PART_BYTES: usize = 3;
    if patches.iter().map(|patch| patch.len()).sum::<usize>() / PART_BYTES <= most {
        return false;
    }
    let mut left = most.saturating_add(1);
    let exceed = |patch: &&[u8]| {
        let Ok(mut parts) = OpReader::of(patch, None) else { return false };
        while left > 0 && !parts.decoder.is_done() && skip_part(&mut parts.decoder).is_ok() {
            left -= 1;
        }
        left == 0
    };
    patches.iter().any(exceed)
}

/// Skips a part without looking at its content.
fn skip_part(decoder: &mut Decoder<'_>) -> Result<(), Malformed> {
    fn skip_step(decoder: &mut Decoder<'_>) -> Result<(), Malformed> {
        match decoder.varint_usize("a step")? {
            head if head & 1 == 1 => decoder.take(head >> 1, "the name of a step").map(drop),
            _ => Ok(()),
        }
    }
    let kind = OpKind::from_u8(decoder.u8(KIND)?, VERSION_MAX).ok_or(decoder.refuse(KIND))?;
    for _ in 0..decoder.varint_usize("the number of steps")? {
        skip_step(decoder)?;
    }
    match kind.argument() {
        Argument::Nothing => return Ok(()),
        Argument::Name => return skip_step(decoder),
        Argument::Place => drop(decoder.varint(POSITION)?),
        Argument::Document | Argument::Array => {}
    }
    decoder.bytes(VALUE).map(drop)
}

const KIND: &str = "a kind of change that this version of patches has";
const POSITION: &str = "a position in an array";
const VALUE: &str = "the value of a change";

impl<'a> OpReader<'a> {
    pub(super) fn of(bytes: &'a [u8], names: Option<&'a Names>) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let header = decoder.u8("a patch's first byte")?;
        let (version, flags) = (header >> 4, header & 0x0F);
        let default = match (version, flags) {
            (1 | 2, 0 | UPSERT) => None,
            (2, flags) if flags == UPSERT | HAS_DEFAULT => {
                Some(decoder.bytes("the document of an upsert")?)
            }
            _ => return Err(Malformed { at: 0, expected: "a patch of version 1 or 2" }),
        };
        Ok(Self { decoder, names, version, upsert: flags & UPSERT != 0, default })
    }

    /// Reads and checks the next part; whether it applies to a document is not checked.
    pub(super) fn next(&mut self) -> Result<Option<EncodedOp<'a>>, Malformed> {
        let decoder = &mut self.decoder;
        if decoder.is_done() {
            return Ok(None);
        }
        let kind = OpKind::from_u8(decoder.u8(KIND)?, self.version).ok_or(decoder.refuse(KIND))?;
        let left = decoder.varint_usize("the number of steps")?;
        if !(1..=DEPTH_MAX).contains(&left) {
            return Err(decoder.refuse("a path of 1 to 512 steps"));
        }
        let steps = Steps { decoder: decoder.clone(), left, names: self.names };
        for _ in 0..left {
            read_step(decoder, self.names)?;
        }
        let mut part = EncodedOp { kind, steps, argument: &[], name: None, position: 0 };
        match kind.argument() {
            Argument::Nothing => return Ok(Some(part)),
            Argument::Name => {
                part.name = Some(read_step(decoder, self.names)?);
                return Ok(Some(part));
            }
            Argument::Place => {
                let zigzag = decoder.varint(POSITION)?;
                part.position = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            }
            Argument::Document | Argument::Array => {}
        }
        let at = decoder.position();
        part.argument = decoder.bytes(VALUE)?;
        let argument = validate(part.argument, self.names)
            .map_err(|malformed| Malformed { at: at + malformed.at, ..malformed })?;
        if kind.argument() == Argument::Array && !argument.is_array() {
            return Err(Malformed { at, ..NO_LIST });
        }
        Ok(Some(part))
    }
}

fn read_step<'a>(
    decoder: &mut Decoder<'a>,
    names: Option<&'a Names>,
) -> Result<PathSegment<'a>, Malformed> {
    let at = decoder.position();
    let head = decoder.varint_usize("a step")?;
    if head & 1 == 1 {
        let bytes = decoder.take(head >> 1, "the name of a step")?;
        let name = std::str::from_utf8(bytes)
            .map_err(|_not_utf8| Malformed { at, expected: "a name in UTF-8" })?;
        return Ok(PathSegment { id: None, name });
    }
    let expected = "the id of a defined name";
    let id = u32::try_from(head >> 1).map_err(|_too_large| Malformed { at, expected })?;
    let name = names.and_then(|names| names.lookup(id)).ok_or(Malformed { at, expected })?;
    Ok(PathSegment { id: Some(id), name })
}

#[cfg(test)]
mod tests {
    use super::super::Patch;
    use super::*;
    use crate::doc;

    fn encoded(patch: &Patch, names: &Names) -> Vec<u8> {
        let mut bytes = Vec::new();
        patch.encode(&mut Encoder::new(), Some(names), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_patch_has_golden_bytes() {
        let names = Names::new();
        let patch = Patch::new()
            .upsert()
            .inc("score", 1)
            .set("a.0", "x")
            .unset("gone")
            .rename("a.b", "c")
            .push("score", doc!({ "a": 300 }));
        let golden = [
            &[0x11][..],
            // inc, one step: name 0; the document 1.
            &[3, 1, 0, 2, 0x17, 0x25],
            // set, name 1 and the text "0"; the document "x".
            &[1, 2, 2, 3, b'0', 3, 0x17, 0x41, b'x'],
            // unset only looks the name up, so it stores the name itself.
            &[2, 1, 9, b'g', b'o', b'n', b'e'],
            // rename a.b to name 2.
            &[5, 2, 2, 3, b'b', 4],
            // push, name 0; a map of name 1.
            &[6, 1, 0, 6, 0x1B, 1, 1, 6, 0x2C, 1],
        ];
        assert_eq!(encoded(&patch, &names), golden.concat());
        assert_eq!(names.since(0).map(|(_, name)| name).collect::<Vec<_>>(), ["score", "a", "c"]);
    }

    #[test]
    fn a_patch_of_version_2_has_golden_bytes() {
        let names = Names::new();
        let patch = Patch::new()
            .upsert_from(doc!({ "n": 1 }))
            .if_gte("n", 0)
            .if_missing("gone")
            .add_to_set("tags", "x")
            .push_at("tags", -2, 7)
            .pull_all("tags", ["y", "x"])
            .pop_last("tags");
        let golden = [
            // Upsert, and the default document {"n":1}, where n is name 0.
            &[0x23, 4, 0x1B, 1, 0, 0x25][..],
            &[21, 1, 0, 2, 0x17, 0x24],
            &[15, 1, 9, b'g', b'o', b'n', b'e'],
            // add_to_set defines name 1.
            &[9, 1, 2, 3, 0x17, 0x41, b'x'],
            // The position -2 is 3.
            &[13, 1, 2, 3, 2, 0x17, 0x2B],
            &[10, 1, 2, 5, 0x11, 2, 0x41, b'y', b'x'],
            &[12, 1, 2],
        ];
        assert_eq!(encoded(&patch, &names), golden.concat());
        assert_eq!((patch.version(), names.len()), (2, 2));
        assert_eq!(Patch::new().upsert().inc("n", 1).version(), 1);
    }

    #[test]
    fn a_patch_that_cannot_be_is_refused_and_appends_nothing() {
        let names = Names::new();
        let deep = vec!["x"; 513].join(".");
        for patch in [
            Patch::new(),
            Patch::new().set("a", 1).inc("a", "one"),
            Patch::new().mul("a", Value::Null),
            Patch::new().set(deep, 1),
            Patch::new().set("a", 1).unset("$"),
            Patch::new().set("$['a.b']", 1),
            Patch::new().set("$.tags[0]", 1),
            Patch::new().push("$..tags", 1),
            Patch::new().set("/a", 1),
            Patch::new().rename("a", "/b"),
            Patch::new().if_eq("$.*", 1).set("a", 1),
        ] {
            let mut bytes = vec![7];
            assert!(patch.encode(&mut Encoder::new(), Some(&names), &mut bytes).is_err());
            assert_eq!(bytes, [7]);
        }
    }

    /// From Rust, `$.x` was the field `x` of a field named `$`. Patches of that kind are in logs
    /// and tables, and mean what they meant.
    #[test]
    fn a_json_path_of_names_is_a_dotted_path_and_a_stored_patch_stays_what_it_is() {
        let patch = Patch::new().set("$.a.b", 1).inc("$./z", 2).rename("$.x", "$.y").set("$r", 3);
        let plain = Patch::new().set("a.b", 1).inc("/z", 2);
        assert_eq!(patch.to_string(), r#"set a.b 1, inc /z 2, rename x "y", set $r 3"#);
        assert!(plain.encode(&mut Encoder::new(), None, &mut Vec::new()).is_err());
        let mut value = crate::doc!({ "x": 0 });
        assert!(patch.apply_to(&mut value) && !plain.apply_to(&mut value));
        assert_eq!(value, crate::doc!({ "y": 0, "a": { "b": 1 }, "/z": 2, "$r": 3 }));

        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        Patch::new().set("q.x", 1).encode(&mut Encoder::new(), None, &mut bytes).unwrap();
        let at = bytes.iter().position(|byte| *byte == b'q').unwrap();
        bytes[at] = b'$';
        let stored = Patch::decode(&bytes, None).unwrap();
        stored.encode(&mut Encoder::new(), None, &mut again).unwrap();
        assert_eq!(again, bytes);
        let mut value = Value::object();
        assert!(stored.apply_to(&mut value));
        assert_eq!(value, crate::doc!({ "$": { "x": 1 } }));
    }
}
