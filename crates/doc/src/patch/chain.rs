//! Folds many patches of one document, or one patch of many parts, on the decoded document, so that
//! it is not copied for each part. A [`Patcher`](super::Patcher) applies a few parts one by one on
//! the bytes.
//!
//! Both ways give the same bytes, because [`Patcher::apply`](super::Patcher::apply) keeps normal
//! form: if encoding the document and the patch again would give their bytes, the same is true of
//! the result. Patches of any number are applied one by one in three cases: the document or a patch
//! is not in normal form (a name was defined after it was written), the result might reach the
//! limit of a document's size, or the decoded document would take too much memory.

use super::form::{EncodedOp, OpReader, Steps};
use super::model::{self, Changes, PatchChange, Undo};
use crate::encode::Encoder;
use crate::names::Names;
use crate::value::Value;
use crate::view::{FieldKey, View, validate};
use flagstone_base::key::VALUE_BYTES_MAX;

/// The number of parts at which decoding and encoding a document of `bytes` once costs about as
/// much as copying it for each part (example `patch_chain`).
pub(super) fn one_by_one_max(bytes: usize) -> usize {
    (64 + bytes / 64).min(512)
}

/// The limit of memory for a decoded document. A value takes many times its bytes, and folds run at
/// the same time as everything else.
const DECODED_MAX: usize = 64 << 20;

/// The longest sum or product in bytes, rounded up: it has at most 1,000 digits.
const COMPUTED_MAX: usize = 2048;

/// What a fold on decoded documents uses: the encoder of the patcher, and a buffer.
pub(super) struct Decoded<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) buffer: &'a mut Vec<u8>,
}

impl Decoded<'_> {
    /// Folds the patches on the decoded document. Returns `None` if the bytes might differ from the
    /// result of applying the patches one by one.
    pub(super) fn fold(
        &mut self,
        base: Option<&[u8]>,
        patches: &[&[u8]],
        names: Option<&Names>,
    ) -> Option<(Option<Vec<u8>>, u64)> {
        let mut bytes_max = 0;
        let mut document = None;
        if let Some(base) = base {
            let value = self.decoded(base, names)?;
            bytes_max += inline_bytes(&value);
            document = Some(value);
        }
        let mut refused = 0;
        for patch in patches {
            let applies = match OpReader::of(patch, names) {
                Ok(parts) => self.apply_decoded(parts, &mut document, &mut bytes_max, names)?,
                Err(_malformed) => false,
            };
            refused += u64::from(!applies);
        }
        let Some(document) = document else { return Some((None, refused)) };
        let mut bytes = Vec::with_capacity(base.map_or(64, <[u8]>::len));
        self.encoder.encode(&document, names, &mut bytes).ok()?;
        Some((Some(bytes), refused))
    }

    /// Decodes a document; `None` if encoding its value would not give the same bytes.
    fn decoded(&mut self, bytes: &[u8], names: Option<&Names>) -> Option<Value> {
        let view = validate(bytes, names).ok()?;
        decoded_room(&view, DECODED_MAX.checked_sub(bytes.len())?)?;
        let value = view.to_value().ok()?;
        self.buffer.clear();
        self.encoder.encode(&value, names, self.buffer).ok()?;
        (self.buffer == bytes).then_some(value)
    }

    /// Applies one patch; returns false, and changes nothing, if the patch does not apply.
    fn apply_decoded<'a>(
        &mut self,
        mut parts: OpReader<'a>,
        document: &mut Option<Value>,
        bytes_max: &mut usize,
        names: Option<&Names>,
    ) -> Option<bool> {
        let is_new = document.is_none();
        if is_new && !parts.upsert {
            return Some(false);
        }
        if let Some(default) = parts.default.filter(|_| is_new) {
            if validate(default, names).is_err() {
                return Some(false);
            }
            let made = self.decoded(default, names)?;
            *bytes_max += inline_bytes(&made);
            *document = Some(made);
        }
        let value = document.get_or_insert(Value::object());
        let mut done: Vec<(Steps<'a>, Undo)> = Vec::new();
        let mut changes = Changes::default();
        let applies = loop {
            let part = match parts.next() {
                Ok(Some(part)) => part,
                Ok(None) => break true,
                Err(_malformed) => break false,
            };
            let change = self.change(&part, names)?;
            *bytes_max += growth(&part, &change);
            if *bytes_max > VALUE_BYTES_MAX {
                // The bound is above the limit: compute a closer one from the value. Give up above
                // three quarters of the limit, because this would be repeated too often.
                *bytes_max = inline_bytes(value) + growth(&part, &change);
                if *bytes_max > VALUE_BYTES_MAX / 4 * 3 {
                    return None;
                }
            }
            let steps = part.steps.clone().map(|step| step.name);
            match changes.apply(value, steps, change) {
                Some(undo) => done.push((part.steps, undo)),
                None => break false,
            }
        };
        if !applies {
            for (steps, undo) in done.into_iter().rev() {
                model::take_back(value, steps.map(|step| step.name), undo);
            }
            if is_new {
                *document = None;
            }
        }
        Some(applies)
    }

    /// Returns what `part` does; `None` if encoding the value that it may bring into the document
    /// would not give the same bytes.
    fn change(&mut self, part: &EncodedOp<'_>, names: Option<&Names>) -> Option<PatchChange> {
        let change = part.change(names).ok()?;
        if let Some(value) = change.value() {
            self.buffer.clear();
            self.encoder.encode(value, names, self.buffer).ok()?;
            if self.buffer != part.argument {
                return None;
            }
        }
        Some(change)
    }
}

/// Returns what is left of `room` bytes of memory, roughly, after decoding the value of `view`;
/// `None` if the value does not fit.
fn decoded_room(view: &View<'_>, room: usize) -> Option<usize> {
    /// The memory of a value beyond its bytes: its own size, and as much for the spare capacity of
    /// vectors.
    const EACH: usize = 2 * size_of::<Value>();
    let mut room = room.checked_sub(EACH)?;
    if view.is_array() {
        for item in view.items().ok()? {
            room = decoded_room(&item.ok()?, room)?;
        }
    } else if view.is_map() {
        for field in view.fields().ok()? {
            let (key, value) = field.ok()?;
            room = match key {
                FieldKey::Value(key) => decoded_room(&key, room)?,
                FieldKey::Name(name) => room.checked_sub(EACH + name.len())?,
            };
            room = decoded_room(&value, room)?;
        }
    }
    Some(room)
}

/// Returns an upper bound of the bytes by which `part` makes a document longer.
fn growth(part: &EncodedOp<'_>, change: &PatchChange) -> usize {
    let steps: usize = part.steps.clone().map(|step| 32 + step.name.len()).sum();
    let argument = change.value().map_or(0, inline_bytes);
    let computed =
        if matches!(change, PatchChange::Inc(_) | PatchChange::Mul(_)) { COMPUTED_MAX } else { 0 };
    steps + argument + computed + part.name.map_or(0, |step| step.name.len())
}

/// Returns an upper bound of the bytes of `value` in any encoding, whatever names are known.
pub(super) fn inline_bytes(value: &Value) -> usize {
    16 + match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Number(number) => number.as_str().len(),
        Value::Array(items) => items.iter().map(inline_bytes).sum(),
        Value::Map(map) => {
            map.iter().map(|(key, value)| inline_bytes(key) + inline_bytes(value)).sum()
        }
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Patch, Patcher, doc};

    fn encoded(patch: &Patch, names: &Names) -> Vec<u8> {
        let mut bytes = Vec::new();
        patch.encode(&mut Encoder::new(), Some(names), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn many_patches_of_a_document_in_normal_form_are_folded_decoded() {
        let names = Names::new();
        let mut base = Vec::new();
        let value = doc!({ "n": 0, "tags": ["a"], "deep": { "x": "y" } });
        Encoder::new().encode(&value, Some(&names), &mut base).unwrap();
        let patches = [
            encoded(&Patch::new().push("tags", "b").inc("n", 1).unset("deep.x"), &names),
            encoded(&Patch::new().set("deep.x", 1).push("n", 1), &names),
            encoded(&Patch::new().rename("deep", "n").push("tags.x", 1), &names),
        ];
        let patches: Vec<&[u8]> = patches.iter().map(Vec::as_slice).cycle().take(3 * 700).collect();
        let mut patcher = Patcher::new();
        let (bytes, refused) = patcher.decoded().fold(Some(&base), &patches, Some(&names)).unwrap();
        assert_eq!(refused, 2 * 700);
        let mut one_by_one = Some(base.clone());
        for patch in &patches {
            patcher.apply(patch, &mut one_by_one, Some(&names));
        }
        assert_eq!(bytes, one_by_one);
        let document = View::of(bytes.as_ref().unwrap(), Some(&names)).unwrap();
        assert_eq!(document.path("n").unwrap().unwrap().as_i64(), Some(700));
    }

    #[test]
    fn a_document_that_would_take_much_memory_decoded_is_folded_one_by_one() {
        let fits = |value: &Value| {
            let mut bytes = Vec::new();
            Encoder::new().encode(value, None, &mut bytes).unwrap();
            let room = decoded_room(&View::of(&bytes, None).unwrap(), 1 << 20);
            room.map(|room| (1 << 20) - room)
        };
        assert!(fits(&doc!({ "text": ("x".repeat(2 << 20)) })).is_some(), "its bytes count apart");
        let pairs = |count: usize| doc!({ "tags": (vec![doc!({ "a": 1 }); count]) });
        let taken = fits(&pairs(100)).unwrap();
        assert!((100 * 2 * size_of::<Value>()..100 * 12 * size_of::<Value>()).contains(&taken));
        assert_eq!(fits(&pairs(100_000)), None);
    }

    #[test]
    fn a_patcher_does_not_keep_the_memory_of_a_large_document() {
        let large = Document::from_value(&doc!({ "text": ("x".repeat(3 << 20)), "n": [1, "x"] }));
        let mut bytes = Some(large.unwrap().as_bytes().to_vec());
        let mut patcher = Patcher::new().with_one_by_one_max(5);
        let mut patch = Vec::new();
        let change = Patch::new().unset("n.1").set("n.0", "y".repeat(2 << 20));
        change.encode(&mut Encoder::new(), None, &mut patch).unwrap();
        assert!(patcher.apply(&patch, &mut bytes, None));
        assert!(patcher.kept_bytes() < 3 << 20, "{}", patcher.kept_bytes());
        let patches = vec![patch.as_slice(); 10];
        assert_eq!(patcher.fold(bytes.as_deref(), &patches, None).1, 0);
        assert!(patcher.kept_bytes() < 3 << 20, "{}", patcher.kept_bytes());
    }
}
