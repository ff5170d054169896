//! Applies an encoded patch to an encoded document: on its bytes if possible, else decoded.

use super::chain::{Decoded, one_by_one_max};
use super::edits::{Edits, NotSpliced, Open, Piece};
use super::follow::{Container, End, Level, follow};
use super::form::{Kind, Part, Parts, are_more_parts};
use super::model;
use crate::arithmetic::{product, sum};
use crate::depth::DEPTH_MAX;
use crate::encode::{Encoder, forget_large};
use crate::layout::{VERSION, form, tag};
use crate::names::Names;
use crate::view::{Body, FieldKey, View};
use flagstone_base::Malformed;

/// The binary form of an empty map.
const EMPTY: [u8; 2] = [VERSION << 4 | form::BARE, tag::EMPTY_MAP];

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
    encoder: Encoder,
    levels: Vec<Level>,
    edits: Edits,
    /// A computed value, encoded as a document.
    computed: Vec<u8>,
    /// The next version of the document while it is built.
    next: Vec<u8>,
    /// [`Patcher::fold`] decodes the document for more parts than this; `None` means the number
    /// from which on decoding is faster.
    one_by_one_max: Option<usize>,
}

impl Default for Patcher {
    fn default() -> Self {
        Self::new()
    }
}

/// How a part of a patch changes the bytes.
enum Plan {
    /// Put the computed value at the end of the path.
    PutComputed,
    /// Put the argument at the end of the path.
    PutArgument,
    /// Add the argument or the computed value as the last one of the container at the path's end.
    Add {
        container: Container,
        computed: bool,
    },
    Remove,
    Rename,
    /// Change nothing.
    Nothing,
    /// Refuse the patch: the part does not apply.
    Refuse,
    /// Decode the document: the bytes cannot be spliced.
    Decode,
}

impl Patcher {
    /// Creates a patcher with empty buffers.
    pub fn new() -> Self {
        Self {
            encoder: Encoder::of_known_names(),
            levels: Vec::new(),
            edits: Edits::default(),
            computed: Vec::new(),
            next: Vec::new(),
            one_by_one_max: None,
        }
    }

    /// Applies `patch` to `document`; both use the names table `names`. A `document` of `None`
    /// means that there is no document.
    ///
    /// Returns false, and changes nothing, if the patch does not apply: a part of it is impossible,
    /// there is no document and the patch is no upsert, the result would be nested deeper than 512
    /// or larger than 512 MiB, or the bytes read are malformed.
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

    /// Sets the number of parts up to which a fold works on the bytes; for tests.
    #[doc(hidden)]
    #[must_use]
    pub const fn with_one_by_one_max(mut self, parts: usize) -> Self {
        self.one_by_one_max = Some(parts);
        self
    }

    /// Returns the number of parts up to which patches of `base` are applied one by one.
    fn parts_max(&self, base: Option<&[u8]>) -> usize {
        self.one_by_one_max.unwrap_or_else(|| one_by_one_max(base.map_or(0, <[u8]>::len)))
    }

    /// Returns what a fold on the decoded document uses.
    pub(super) const fn decoded(&mut self) -> Decoded<'_> {
        Decoded { encoder: &mut self.encoder, buffer: &mut self.next }
    }

    /// Frees the memory that a large document took, because a patcher lives as long as its thread.
    fn rest(&mut self) {
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
        let Ok(mut parts) = Parts::of(patch, names) else { return false };
        let mut made = None;
        let bytes = match document {
            Some(bytes) => bytes,
            None if parts.upsert => made.insert(EMPTY.to_vec()),
            None => return false,
        };
        let mut before = None;
        let mut next = parts.next();
        while let Ok(Some(part)) = next {
            next = parts.next();
            if before.is_none() && !matches!(next, Ok(None)) {
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

    fn apply_part(&mut self, part: &Part<'_>, bytes: &mut Vec<u8>, names: Option<&Names>) -> bool {
        let Ok(plan) = self.plan(part, bytes, names) else { return false };
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

    /// Follows the path of a part and decides what to do at its end.
    fn plan(
        &mut self,
        part: &Part<'_>,
        bytes: &[u8],
        names: Option<&Names>,
    ) -> Result<Plan, Malformed> {
        let end = follow(bytes, names, part.steps.clone(), &mut self.levels)?;
        Ok(match (part.kind, end) {
            (Kind::Unset | Kind::Rename, End::Missing { .. } | End::Blocked) => Plan::Nothing,
            (Kind::Unset, End::Value(_)) => Plan::Remove,
            (Kind::Rename, End::Value(_)) if self.is_in_array() => Plan::Refuse,
            (Kind::Rename, End::Value(_)) => Plan::Rename,
            (_, End::Blocked) => Plan::Refuse,
            (Kind::Set, End::Value(_)) => Plan::PutArgument,
            (Kind::Push, End::Value(view)) => append_to(&view)?,
            (kind, End::Value(view)) => self.compute(kind, &view, part.argument, names)?,
            (
                Kind::Set | Kind::Inc | Kind::Min | Kind::Max | Kind::Mul,
                End::Missing { container, is_last: true },
            ) => {
                let computed = part.kind == Kind::Mul;
                if computed {
                    self.computed.clear();
                    self.computed.extend([EMPTY[0], tag::SMALL_INT_ZERO]);
                }
                Plan::Add { container, computed }
            }
            (_, End::Missing { .. } | End::Other) => Plan::Decode,
        })
    }

    fn is_in_array(&self) -> bool {
        let last = self.levels.last();
        last.is_some_and(|level| level.container.form <= form::ARRAY_OF_ONE_TAG)
    }

    /// Computes the new value from the old one and the argument.
    fn compute(
        &mut self,
        kind: Kind,
        old: &View<'_>,
        argument: &[u8],
        names: Option<&Names>,
    ) -> Result<Plan, Malformed> {
        let argument = View::of(argument, names)?;
        if matches!(kind, Kind::Min | Kind::Max) {
            let (old, new) = (old.to_value()?, argument.to_value()?);
            let wins = if kind == Kind::Min { new < old } else { new > old };
            return Ok(if wins { Plan::PutArgument } else { Plan::Nothing });
        }
        if !old.is_number() || !argument.is_number() {
            return Ok(Plan::Refuse);
        }
        let (old, by) = (old.to_value()?, argument.to_value()?);
        let new = if kind == Kind::Inc { sum(&old, &by) } else { product(&old, &by) };
        let Some(new) = new else { return Ok(Plan::Refuse) };
        self.computed.clear();
        let encoded = self.encoder.encode(&new, names, &mut self.computed);
        Ok(if encoded.is_ok() { Plan::PutComputed } else { Plan::Refuse })
    }

    fn splice(
        &mut self,
        part: &Part<'_>,
        plan: Plan,
        bytes: &[u8],
        names: Option<&Names>,
    ) -> Result<(), NotSpliced> {
        let Self { levels, edits, computed, .. } = self;
        edits.begin(bytes.first().copied().unwrap_or_default());
        let argument = || {
            let depth = View::of(part.argument, names).map_or(DEPTH_MAX, |view| depth_of(&view));
            let fits = levels.len() + 1 + depth <= DEPTH_MAX;
            Piece::of(part.argument).filter(|_| fits).ok_or(NotSpliced)
        };
        match plan {
            Plan::PutComputed => edits.put(bytes, levels, &Piece::of(computed).ok_or(NotSpliced)?),
            Plan::PutArgument => edits.put(bytes, levels, &argument()?),
            Plan::Add { container, computed: is_computed } => {
                let piece = match is_computed {
                    true => Piece::of(computed).ok_or(NotSpliced)?,
                    false => argument()?,
                };
                let is_map = container.form > form::ARRAY_OF_ONE_TAG;
                let name = part.steps.clone().last().filter(|_| is_map);
                edits.add(bytes, levels, &Open { container: &container, name, names }, &piece)
            }
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
        part: &Part<'_>,
        bytes: &mut Vec<u8>,
        names: Option<&Names>,
    ) -> bool {
        let decoded = View::of(bytes, names).and_then(|view| view.to_value());
        let (Ok(mut value), Ok(change)) = (decoded, part.change(names)) else { return false };
        let steps = part.steps.clone().map(|step| step.name);
        if model::apply(&mut value, steps, change).is_none() {
            return false;
        }
        self.next.clear();
        if self.encoder.encode(&value, names, &mut self.next).is_err() {
            return false;
        }
        std::mem::swap(bytes, &mut self.next);
        true
    }
}

/// Plans appending to the value at the end of the path.
fn append_to(view: &View<'_>) -> Result<Plan, Malformed> {
    if !view.is_array() {
        return Ok(Plan::Refuse);
    }
    if !view.is_full_container() {
        return Ok(Plan::Decode);
    }
    let body = Body::open(view)?;
    if body.count == 0 {
        return Ok(Plan::Decode);
    }
    Ok(Plan::Add { container: Container::of(&body), computed: false })
}

/// Returns how deep arrays and maps nest in a value; [`DEPTH_MAX`] for a malformed one.
fn depth_of(view: &View<'_>) -> usize {
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
