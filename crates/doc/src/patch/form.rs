//! The binary form of a patch; `docs/format/patch.md` draws it.

use super::model::Change;
use crate::depth::DEPTH_MAX;
use crate::encode::Encoder;
use crate::names::Names;
use crate::value::Value;
use crate::view::validate;
use flagstone_base::codec::put_varint;
use flagstone_base::{Decoder, Malformed, Result};

const VERSION: u8 = 1;
const UPSERT: u8 = 0x01;

/// The kind of a part. The numbers are stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Set = 1,
    Unset = 2,
    Inc = 3,
    Mul = 4,
    Rename = 5,
    Push = 6,
    Min = 7,
    Max = 8,
}

impl Kind {
    const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Set,
            2 => Self::Unset,
            3 => Self::Inc,
            4 => Self::Mul,
            5 => Self::Rename,
            6 => Self::Push,
            7 => Self::Min,
            8 => Self::Max,
            _ => return None,
        })
    }
}

pub(super) fn put_header(upsert: bool, out: &mut Vec<u8>) {
    out.push(VERSION << 4 | if upsert { UPSERT } else { 0 });
}

/// Appends one part. Defines the names in `names` that the part may bring into a document, but not
/// those that it only looks up or that may be array indexes.
pub(super) fn put_part(
    path: &str,
    change: &Change,
    encoder: &mut Encoder,
    names: Option<&Names>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let (kind, value) = match change {
        Change::Set(value) => (Kind::Set, Some(value)),
        Change::Unset => (Kind::Unset, None),
        Change::Inc(value) => (Kind::Inc, Some(value)),
        Change::Mul(value) => (Kind::Mul, Some(value)),
        Change::Rename(_) => (Kind::Rename, None),
        Change::Push(value) => (Kind::Push, Some(value)),
        Change::Min(value) => (Kind::Min, Some(value)),
        Change::Max(value) => (Kind::Max, Some(value)),
    };
    out.push(kind as u8);
    put_varint(out, path.split('.').count() as u64);
    let brings = !matches!(kind, Kind::Unset | Kind::Rename);
    for step in path.split('.') {
        put_step(step, brings && step.parse::<usize>().is_err(), names, out);
    }
    if let Some(value) = value {
        // The length precedes the document, but is known only after it is written.
        let at = out.len();
        encoder.encode(value, names, out)?;
        let len = out.len() - at;
        put_varint(out, len as u64);
        out[at..].rotate_left(len);
    }
    if let Change::Rename(name) = change {
        put_step(name, true, names, out);
    }
    Ok(())
}

fn put_step(name: &str, define: bool, names: Option<&Names>, out: &mut Vec<u8>) {
    let id = names.and_then(|names| if define { names.intern(name) } else { names.id(name) });
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
pub(super) struct Step<'a> {
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
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        self.left = self.left.checked_sub(1)?;
        read_step(&mut self.decoder, self.names).ok()
    }
}

impl Steps<'_> {
    /// Returns the number of steps that are left.
    pub(super) const fn left(&self) -> usize {
        self.left
    }
}

/// One part of a patch; borrows from its bytes.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    pub(super) steps: Steps<'a>,
    /// The argument, encoded as a document; empty if the kind has none.
    pub(super) argument: &'a [u8],
    /// The new name that [`Kind::Rename`] gives the field.
    pub(super) name: Option<Step<'a>>,
}

impl Part<'_> {
    /// Decodes the part to a change of values in memory.
    pub(super) fn change(&self, names: Option<&Names>) -> Result<Change, Malformed> {
        let value = || -> Result<Value, Malformed> { validate(self.argument, names)?.to_value() };
        Ok(match self.kind {
            Kind::Set => Change::Set(value()?),
            Kind::Unset => Change::Unset,
            Kind::Inc => Change::Inc(value()?),
            Kind::Mul => Change::Mul(value()?),
            Kind::Rename => {
                Change::Rename(self.name.map_or(String::new(), |step| step.name.to_owned()))
            }
            Kind::Push => Change::Push(value()?),
            Kind::Min => Change::Min(value()?),
            Kind::Max => Change::Max(value()?),
        })
    }
}

/// A reader of the parts of a patch. It ends after an error.
pub(super) struct Parts<'a> {
    decoder: Decoder<'a>,
    names: Option<&'a Names>,
    /// Whether the patch starts from an empty map if there is no document.
    pub(super) upsert: bool,
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
        let Ok(mut parts) = Parts::of(patch, None) else { return false };
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
    let kind = Kind::from_u8(decoder.u8("a kind of change")?);
    for _ in 0..decoder.varint_usize("the number of steps")? {
        skip_step(decoder)?;
    }
    match kind {
        Some(Kind::Unset) => Ok(()),
        Some(Kind::Rename) => skip_step(decoder),
        _ => decoder.bytes("the value of a change").map(drop),
    }
}

impl<'a> Parts<'a> {
    pub(super) fn of(bytes: &'a [u8], names: Option<&'a Names>) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let header = decoder.u8("a patch's first byte")?;
        if header & !UPSERT != VERSION << 4 {
            return Err(Malformed { at: 0, expected: "a patch of version 1" });
        }
        Ok(Self { decoder, names, upsert: header & UPSERT != 0 })
    }

    /// Reads and checks the next part; whether it applies to a document is not checked.
    pub(super) fn next(&mut self) -> Result<Option<Part<'a>>, Malformed> {
        let decoder = &mut self.decoder;
        if decoder.is_done() {
            return Ok(None);
        }
        let kind = Kind::from_u8(decoder.u8("a kind of change")?)
            .ok_or(decoder.refuse("a kind of change, 1 to 8"))?;
        let left = decoder.varint_usize("the number of steps")?;
        if !(1..=DEPTH_MAX).contains(&left) {
            return Err(decoder.refuse("a path of 1 to 512 steps"));
        }
        let steps = Steps { decoder: decoder.clone(), left, names: self.names };
        for _ in 0..left {
            read_step(decoder, self.names)?;
        }
        let mut part = Part { kind, steps, argument: &[], name: None };
        match kind {
            Kind::Unset => {}
            Kind::Rename => part.name = Some(read_step(decoder, self.names)?),
            _ => {
                let at = decoder.position();
                part.argument = decoder.bytes("the value of a change")?;
                validate(part.argument, self.names)
                    .map_err(|malformed| Malformed { at: at + malformed.at, ..malformed })?;
            }
        }
        Ok(Some(part))
    }
}

fn read_step<'a>(
    decoder: &mut Decoder<'a>,
    names: Option<&'a Names>,
) -> Result<Step<'a>, Malformed> {
    let at = decoder.position();
    let head = decoder.varint_usize("a step")?;
    if head & 1 == 1 {
        let bytes = decoder.take(head >> 1, "the name of a step")?;
        let name = std::str::from_utf8(bytes)
            .map_err(|_not_utf8| Malformed { at, expected: "a name in UTF-8" })?;
        return Ok(Step { id: None, name });
    }
    let expected = "the id of a defined name";
    let id = u32::try_from(head >> 1).map_err(|_too_large| Malformed { at, expected })?;
    let name = names.and_then(|names| names.lookup(id)).ok_or(Malformed { at, expected })?;
    Ok(Step { id: Some(id), name })
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
    fn a_patch_that_cannot_be_is_refused_and_appends_nothing() {
        let names = Names::new();
        let deep = vec!["x"; 513].join(".");
        for patch in [
            Patch::new(),
            Patch::new().set("a", 1).inc("a", "one"),
            Patch::new().mul("a", Value::Null),
            Patch::new().set(deep, 1),
        ] {
            let mut bytes = vec![7];
            assert!(patch.encode(&mut Encoder::new(), Some(&names), &mut bytes).is_err());
            assert_eq!(bytes, [7]);
        }
    }
}
