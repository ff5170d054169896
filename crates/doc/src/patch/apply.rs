//! Applies an encoded patch to an encoded document: on its bytes if possible, else decoded.

use super::chain::{Decoded, one_by_one_max};
use super::edits::{ContainerValue, Edits, NotSpliced, Open};
use super::follow::ContainerOnPath;
use super::form::{EMPTY, EncodedOp, OpReader, are_more_parts};
use super::model::{self, Undo};
use super::plan::{OpPlanner, Plan};
use crate::depth::DEPTH_MAX;
use crate::encode::{Encoder, forget_large};
use crate::layout::form;
use crate::names::Names;
use crate::value::Value;
use crate::view::{FieldKey, View, validate};
use flagstone_base::Malformed;

/// Applies encoded patches to encoded documents. Keep one patcher for each thread: it reuses its
/// memory, of which it keeps at most a few MiB.
///
/// A patcher defines no names: encoding a patch has defined the names that it can bring in.
///
/// ```
/// use flagstone_doc::{Document, Encoder, Patch, Patcher};
/// let mut patch = Vec::new();
/// Patch::new().inc("score", 1).encode(&mut Encoder::new(), None, &mut patch)?;
/// let document = Document::from_json(r#"{"score":7}"#)?;
/// let mut bytes = Some(document.as_bytes().to_vec());
/// assert!(Patcher::new().apply(&patch, &mut bytes, None));
/// let document = Document::from_bytes(bytes.unwrap(), None)?;
/// assert_eq!(document.to_json()?, r#"{"score":8}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Patcher {
    pub(super) encoder: Encoder,
    /// Whether new names are defined.
    pub(super) defines: bool,
    pub(super) levels: Vec<ContainerOnPath>,
    pub(super) edits: Edits,
    /// A computed value, encoded as a document.
    pub(super) computed: Vec<u8>,
    /// The next version of the document while it is built.
    pub(super) next: Vec<u8>,
    /// [`Patcher::fold`] decodes the document for more parts than this; `None` means the number
    /// from which on decoding is faster.
    one_by_one_max: Option<usize>,
}

impl Default for Patcher {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns what the steps lead to in a value, or the scalar or the array that they end at.
#[cold]
fn found_at<'p>(value: &Value, steps: impl Iterator<Item = &'p str>) -> String {
    let (mut at, mut path) = (value, String::new());
    for step in steps {
        let next = match at {
            Value::Map(map) => map.get(step),
            Value::Array(items) => step.parse().ok().and_then(|at: usize| items.get(at)),
            _ => None,
        };
        let Some(next) = next else { break };
        at = next;
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(step);
    }
    match at {
        Value::Array(items) => format!("an array (length {}) at {path:?}", items.len()),
        other => format!("{} at {path:?}", other.type_name()),
    }
}

/// The reason why a patch does not apply to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotApplied {
    /// The number of the part that does not apply, from 0; `None` if all do, but the result would
    /// be too large.
    pub part: Option<usize>,
    /// Whether the part is a condition.
    pub is_condition: bool,
    /// What the path of the part leads to, or where it ends: `text at "s"`. Empty without a part.
    pub found: String,
}

impl Patcher {
    /// Creates a patcher for folds, with empty buffers.
    pub fn new() -> Self {
        Self {
            encoder: Encoder::of_known_names(),
            defines: false,
            levels: Vec::new(),
            edits: Edits::default(),
            computed: Vec::new(),
            next: Vec::new(),
            one_by_one_max: None,
        }
    }

    /// Creates a patcher for writers: JSON Patches and Merge Patches define the names of new fields
    /// in the names table, so log the definitions before the document.
    pub fn defining() -> Self {
        Self { encoder: Encoder::new(), defines: true, ..Self::new() }
    }

    /// Applies `patch` to `document`; both use the names table `names`. A `document` of `None`
    /// means that there is no document.
    ///
    /// Returns false, and changes nothing, if the patch does not apply: a part of it is impossible,
    /// a condition of it does not hold, there is no document and the patch is no upsert, the result
    /// would be nested deeper than 512 or larger than 512 MiB, or the bytes read are malformed.
    ///
    /// On the bytes, each part costs a copy of the document and a walk along its path. With many
    /// parts the document is decoded [once for all](Patcher::fold). A document in normal form (the
    /// bytes that encoding its value gives) stays in normal form.
    pub fn apply(
        &mut self,
        patch: &[u8],
        document: &mut Option<Vec<u8>>,
        names: Option<&Names>,
    ) -> bool {
        let is_long = are_more_parts(&[patch], self.parts_max(document.as_deref()));
        let folded = is_long.then(|| self.decoded().fold(document.as_deref(), &[patch], names));
        let applies = match folded.flatten() {
            Some((folded, 0)) => {
                *document = folded;
                true
            }
            Some(_) => false,
            None => self.apply_parts(patch, document, names),
        };
        self.rest();
        applies
    }

    /// Applies `patches`, the oldest first, as a call of [`Patcher::apply`] for each would. Returns
    /// the document and the number of patches that did not apply.
    ///
    /// For more parts than a limit (64 for a small document, up to 512 for a large one) the cost is
    /// one decoding and encoding of the document and a walk along each path, not a copy of the
    /// document for each part.
    pub fn fold(
        &mut self,
        base: Option<&[u8]>,
        patches: &[&[u8]],
        names: Option<&Names>,
    ) -> (Option<Vec<u8>>, u64) {
        let one_by_one_max = self.parts_max(base);
        if are_more_parts(patches, one_by_one_max) {
            let folded = self.decoded().fold(base, patches, names);
            self.rest();
            if let Some(folded) = folded {
                return folded;
            }
        }
        let mut document = base.map(<[u8]>::to_vec);
        let apply = |patch: &&&[u8]| !self.apply_parts(patch, &mut document, names);
        let refused = patches.iter().filter(apply).count();
        self.rest();
        (document, refused as u64)
    }

    /// Returns why `patch` does not apply to `document`, which [`Patcher::apply`] has found out.
    /// Decodes the document.
    #[cold]
    pub fn explain(patch: &[u8], document: Option<&[u8]>, names: Option<&Names>) -> NotApplied {
        let why = NotApplied { part: None, is_condition: false, found: String::new() };
        let Ok(mut parts) = OpReader::of(patch, names) else { return why };
        let start = document.or(parts.default.filter(|_| parts.upsert)).unwrap_or(&EMPTY);
        let decoded = validate(start, names).and_then(|view| view.to_value());
        let mut value = decoded.unwrap_or_else(|_malformed| Value::object());
        for at in 0.. {
            let Ok(Some(part)) = parts.next() else { return why };
            let steps = part.steps.clone().map(|step| step.name);
            let is_condition = part.kind.is_condition();
            let found = found_at(&value, steps.clone());
            let applied = part.change(names).map(|change| model::apply(&mut value, steps, change));
            if !matches!(applied, Ok(Some(_))) {
                return NotApplied { part: Some(at), is_condition, found };
            }
        }
        why
    }

    /// Sets the number of parts up to which a fold works on the bytes; for tests.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_one_by_one_max(mut self, parts: usize) -> Self {
        self.one_by_one_max = Some(parts);
        self
    }

    /// Returns the number of parts up to which patches of `base` are applied one by one.
    pub(super) fn parts_max(&self, base: Option<&[u8]>) -> usize {
        self.one_by_one_max.unwrap_or_else(|| one_by_one_max(base.map_or(0, <[u8]>::len)))
    }

    /// Returns what a fold on the decoded document uses.
    pub(super) const fn decoded(&mut self) -> Decoded<'_> {
        Decoded { encoder: &mut self.encoder, buffer: &mut self.next }
    }

    /// Frees the memory that a large document took, because a patcher lives as long as its thread.
    pub(super) fn rest(&mut self) {
        self.edits.rest();
        forget_large(&mut self.computed);
        forget_large(&mut self.next);
    }

    /// Returns the number of bytes that the patcher keeps, not counting names.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        let own = self.computed.capacity() + self.next.capacity();
        own + self.edits.kept_bytes() + self.encoder.kept_bytes()
    }

    fn apply_parts(
        &mut self,
        patch: &[u8],
        document: &mut Option<Vec<u8>>,
        names: Option<&Names>,
    ) -> bool {
        let Ok(mut parts) = OpReader::of(patch, names) else { return false };
        let mut made = None;
        let bytes = match document {
            Some(bytes) => bytes,
            None if parts.upsert => {
                let default = parts.default.unwrap_or(&EMPTY);
                if validate(default, names).is_err() {
                    return false;
                }
                made.insert(default.to_vec())
            }
            None => return false,
        };
        let mut before = None;
        let mut next = parts.next();
        while let Ok(Some(part)) = next {
            next = parts.next();
            let changes = !part.kind.is_condition();
            if before.is_none() && changes && !matches!(next, Ok(None)) {
                before = Some(bytes.clone());
            }
            if !self.apply_part(&part, bytes, names) {
                next = Err(Malformed { at: 0, expected: "a part that applies" });
            }
        }
        if next.is_err() {
            if let Some(before) = before {
                *bytes = before;
            }
            return false;
        }
        if made.is_some() {
            *document = made;
        }
        true
    }

    fn apply_part(
        &mut self,
        part: &EncodedOp<'_>,
        bytes: &mut Vec<u8>,
        names: Option<&Names>,
    ) -> bool {
        let Self { encoder, levels, computed, .. } = self;
        let planned = OpPlanner { encoder, levels, computed }.plan(part, bytes, names);
        let Ok(plan) = planned else { return false };
        let spliced = match plan {
            Plan::Nothing => return true,
            Plan::Refuse => return false,
            Plan::Decode => Err(NotSpliced),
            plan => self.splice(part, plan, bytes, names),
        };
        match spliced {
            Ok(()) => self.edits.perform(bytes, &mut self.next),
            Err(NotSpliced) => self.decode_and_apply(part, bytes, names),
        }
    }

    fn splice(
        &mut self,
        part: &EncodedOp<'_>,
        plan: Plan,
        bytes: &[u8],
        names: Option<&Names>,
    ) -> Result<(), NotSpliced> {
        let Self { levels, edits, computed, .. } = self;
        edits.begin(bytes.first().copied().unwrap_or_default());
        let argument = || {
            let depth = View::of(part.argument, names).map_or(DEPTH_MAX, |view| depth_of(&view));
            let fits = levels.len() + 1 + depth <= DEPTH_MAX;
            ContainerValue::of(part.argument).filter(|_| fits).ok_or(NotSpliced)
        };
        match plan {
            Plan::PutComputed => {
                edits.put(bytes, levels, &ContainerValue::of(computed).ok_or(NotSpliced)?)
            }
            Plan::PutArgument => edits.put(bytes, levels, &argument()?),
            Plan::Add { container, computed: is_computed } => {
                let piece = if is_computed {
                    ContainerValue::of(computed).ok_or(NotSpliced)?
                } else {
                    argument()?
                };
                let is_map = container.form > form::ARRAY_OF_ONE_TAG;
                let name = part.steps.clone().last().filter(|_| is_map);
                edits.add(bytes, levels, &Open { container: &container, name, names }, &piece)
            }
            Plan::Insert => edits.insert(bytes, levels, &argument()?),
            Plan::Remove => edits.remove(bytes, levels),
            Plan::Rename => {
                let name = part.name.ok_or(NotSpliced)?;
                edits.rename(bytes, levels, name, names)
            }
            Plan::Nothing | Plan::Refuse | Plan::Decode => Err(NotSpliced),
        }
    }

    fn decode_and_apply(
        &mut self,
        part: &EncodedOp<'_>,
        bytes: &mut Vec<u8>,
        names: Option<&Names>,
    ) -> bool {
        let decoded = View::of(bytes, names).and_then(|view| view.to_value());
        let (Ok(mut value), Ok(change)) = (decoded, part.change(names)) else { return false };
        let steps = part.steps.clone().map(|step| step.name);
        match model::apply(&mut value, steps, change) {
            None => return false,
            Some(Undo::Nothing) => return true,
            Some(_) => {}
        }
        self.next.clear();
        if self.encoder.encode(&value, names, &mut self.next).is_err() {
            return false;
        }
        std::mem::swap(bytes, &mut self.next);
        true
    }
}

/// Returns how deep arrays and maps nest in a value; [`DEPTH_MAX`] for a malformed one.
pub(super) fn depth_of(view: &View<'_>) -> usize {
    if !view.is_full_container() {
        return usize::from(view.is_array() || view.is_map());
    }
    let inner =
        |found: Result<View<'_>, Malformed>| found.map_or(DEPTH_MAX, |view| depth_of(&view));
    let deepest = if view.is_array() {
        view.items().map_or(Some(DEPTH_MAX), |items| items.map(inner).max())
    } else {
        view.fields().map_or(Some(DEPTH_MAX), |fields| {
            let depth = |field: Result<(FieldKey<'_>, View<'_>), Malformed>| match field {
                Ok((FieldKey::Value(key), value)) => depth_of(&key).max(depth_of(&value)),
                Ok((FieldKey::Name(_), value)) => depth_of(&value),
                Err(_malformed) => DEPTH_MAX,
            };
            fields.map(depth).max()
        })
    };
    deepest.unwrap_or(0).saturating_add(1)
}
