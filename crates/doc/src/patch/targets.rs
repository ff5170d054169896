//! Applies JSON Patches and JSON Merge Patches to encoded documents: on the bytes if possible.

use super::apply::{Patcher, depth_of};
use super::edits::{ContainerValue, NotSpliced, Open};
use super::follow::{ContainerLayout, End, enter, follow};
use super::form::PathSegment;
use super::json::merge::{MergePatch, has_more_fields, without_nulls};
use super::json::patch::{Action, JsonPatch, Operation};
use super::json::places::{self, NO_INDEX, NO_PARENT, NO_PLACE, NO_VALUE, WHOLE};
use super::json::refusal::{Refusal, TOO_LARGE};
use crate::depth::DEPTH_MAX;
use crate::layout::form;
use crate::map::Map;
use crate::names::Names;
use crate::pointer::{Pointer, index};
use crate::value::Value;
use crate::view::{Body, View};
use crate::view_order::same;
use flagstone_base::key::VALUE_BYTES_MAX;
use flagstone_base::{Error, Malformed, Result};

/// A change at one place; a document is its argument.
#[derive(Clone, Copy)]
enum TargetChange<'a> {
    /// Inserts into an array, or sets a field.
    Add(&'a [u8]),
    Replace(&'a [u8]),
    Remove,
}

/// A document that is being changed.
struct PatchTarget<'n> {
    bytes: Vec<u8>,
    names: Option<&'n Names>,
    /// The document may not become longer than this.
    bytes_max: usize,
}

impl PatchTarget<'_> {
    fn root(&self) -> Result<View<'_>, Malformed> {
        View::of(&self.bytes, self.names)
    }

    fn check_size(&self) -> Result<(), Refusal> {
        if self.bytes.len() > self.bytes_max { Err(TOO_LARGE.into()) } else { Ok(()) }
    }

    /// Returns the value at the place of `tokens`.
    fn at(&self, tokens: &[&str]) -> Result<Option<View<'_>>, Malformed> {
        tokens.iter().copied().collect::<Pointer>().get(&self.root()?)
    }
}

impl Patcher {
    /// Applies the operations of `patch` to `document` and returns the new document. Both use the
    /// names table `names`. A [`Patcher::defining`] defines the names of new fields.
    ///
    /// On the bytes, each operation costs a copy of the document and a walk to its place; for many
    /// operations the document is decoded once, and may be longer than `bytes_max` between two of
    /// them.
    ///
    /// # Errors
    /// ConditionFailed if a `test` fails, InvalidInput if another operation is impossible, or would
    /// make the document nested deeper than 512 or longer than `bytes_max` and than it is, or if
    /// the copies of many operations take more than 64 MiB in total. The text names the operation.
    /// Corruption if the bytes read are not a document.
    pub fn apply_json_patch(
        &mut self,
        patch: &JsonPatch,
        document: &[u8],
        names: Option<&Names>,
        bytes_max: usize,
    ) -> Result<Vec<u8>> {
        let bytes_max = bytes_max.max(document.len());
        if patch.len() > self.parts_max(Some(document)) {
            let bytes = self.decode_and_change(document, names, |value| patch.apply_to(value))?;
            return if bytes.len() <= bytes_max {
                Ok(bytes)
            } else {
                Err(Error::invalid(format!("JSON Patch: {TOO_LARGE}")))
            };
        }
        let mut target = PatchTarget { bytes: document.to_vec(), names, bytes_max };
        for (at, operation) in patch.operations.iter().enumerate() {
            let done = self.operate(operation, &mut target);
            done.map_err(|refusal| refusal.error(|why| patch.refusal(at, why)))?;
        }
        self.rest();
        Ok(target.bytes)
    }

    /// Merges `patch` into `document` and returns the new document; without a document, returns
    /// what merging it into nothing gives. As [`Patcher::apply_json_patch`] in cost.
    ///
    /// # Errors
    /// InvalidInput if the result would be nested deeper than 512 or larger than 512 MiB;
    /// Corruption if the bytes read are not a document.
    pub fn apply_merge_patch(
        &mut self,
        patch: &MergePatch,
        document: Option<&[u8]>,
        names: Option<&Names>,
    ) -> Result<Vec<u8>> {
        let refused = |refusal: Refusal| refusal.error(|why| format!("JSON Merge Patch: {why}"));
        let (Some(document), Value::Map(fields)) = (document, &patch.value) else {
            return self.encoded(&without_nulls(&patch.value), names);
        };
        let root = View::of(document, names).map_err(|malformed| refused(malformed.into()))?;
        if !root.is_full_container() || !root.is_map() {
            return self.encoded(&without_nulls(&patch.value), names);
        }
        if has_more_fields(fields, self.parts_max(Some(document))) {
            return self.decode_and_change(document, names, |value| {
                patch.apply_to(value);
                Ok(())
            });
        }
        let mut target =
            PatchTarget { bytes: document.to_vec(), names, bytes_max: VALUE_BYTES_MAX };
        self.merge(fields, &mut Vec::new(), &mut target).map_err(refused)?;
        self.rest();
        Ok(target.bytes)
    }

    fn encoded(&mut self, value: &Value, names: Option<&Names>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encoder.encode(value, names, &mut bytes)?;
        Ok(bytes)
    }

    fn decode_and_change(
        &mut self,
        document: &[u8],
        names: Option<&Names>,
        change: impl FnOnce(&mut Value) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let value = View::of(document, names).and_then(|view| view.to_value());
        let mut value = value.map_err(|malformed| malformed.in_file("a document", 0))?;
        change(&mut value)?;
        self.encoded(&value, names)
    }

    fn operate(
        &mut self,
        operation: &Operation,
        target: &mut PatchTarget<'_>,
    ) -> Result<(), Refusal> {
        let path: Vec<&str> = operation.path.tokens().collect();
        match &operation.action {
            Action::Add(value) => {
                let argument = self.encoded(value, target.names)?;
                self.change_at(&path, TargetChange::Add(&argument), target)
            }
            Action::Replace(value) => {
                let argument = self.encoded(value, target.names)?;
                self.change_at(&path, TargetChange::Replace(&argument), target)
            }
            Action::Remove => self.change_at(&path, TargetChange::Remove, target),
            Action::Test(value) => {
                let argument = self.encoded(value, None)?;
                let found = target.at(&path)?.ok_or(NO_VALUE)?;
                let is_same = same(&found, &View::of(&argument, None)?, DEPTH_MAX)?;
                if is_same { Ok(()) } else { Err(Refusal::Test) }
            }
            Action::Move(from) | Action::Copy(from) => {
                let from: Vec<&str> = from.tokens().collect();
                let found = target.at(&from)?.ok_or(NO_VALUE)?;
                if from == path && matches!(operation.action, Action::Move(_)) {
                    return Ok(());
                }
                let mut argument = Vec::new();
                self.encoder.encode_view(&found, target.names, &mut argument)?;
                if matches!(operation.action, Action::Move(_)) {
                    self.change_at(&from, TargetChange::Remove, target)?;
                }
                self.change_at(&path, TargetChange::Add(&argument), target)
            }
        }
    }

    /// Merges `fields` into the map at `place`.
    fn merge<'p>(
        &mut self,
        fields: &'p Map,
        place: &mut Vec<&'p str>,
        target: &mut PatchTarget<'_>,
    ) -> Result<(), Refusal> {
        for (key, value) in fields {
            place.push(key.as_str().unwrap_or_default());
            let found = target.at(place)?;
            let is_map = found.is_some_and(|view| view.is_map() && view.is_full_container());
            match value {
                Value::Null if found.is_none() => {}
                Value::Null => self.change_at(place, TargetChange::Remove, target)?,
                Value::Map(inner) if is_map => self.merge(inner, place, target)?,
                value => {
                    let argument = self.encoded(&without_nulls(value), target.names)?;
                    self.change_at(place, TargetChange::Add(&argument), target)?;
                }
            }
            place.pop();
        }
        Ok(())
    }

    /// Makes one change at one place: splices the bytes, or decodes the document.
    fn change_at(
        &mut self,
        place: &[&str],
        change: TargetChange<'_>,
        target: &mut PatchTarget<'_>,
    ) -> Result<(), Refusal> {
        let Some((last, above)) = place.split_last() else {
            let (TargetChange::Add(document) | TargetChange::Replace(document)) = change else {
                return Err(WHOLE.into());
            };
            target.bytes = document.to_vec();
            return target.check_size();
        };
        match self.splice_at(above, last, change, target)? {
            Ok(()) => {
                if self.edits.perform(&mut target.bytes, &mut self.next) {
                    return target.check_size();
                }
                Err(TOO_LARGE.into())
            }
            Err(NotSpliced) => {
                let mut root = target.root()?.to_value()?;
                let argument = |document| View::of(document, target.names)?.to_value();
                match change {
                    TargetChange::Add(document) => {
                        places::add(&mut root, place, argument(document)?)?
                    }
                    TargetChange::Replace(document) => {
                        places::replace(&mut root, place, argument(document)?)?;
                    }
                    TargetChange::Remove => drop(places::remove(&mut root, place)?),
                }
                target.bytes = self.encoded(&root, target.names)?;
                target.check_size()
            }
        }
    }

    /// Prepares the edits of the bytes for a change of `last` in the container at `above`.
    fn splice_at(
        &mut self,
        above: &[&str],
        last: &str,
        change: TargetChange<'_>,
        target: &PatchTarget<'_>,
    ) -> Result<Result<(), NotSpliced>, Refusal> {
        let (bytes, names) = (target.bytes.as_slice(), target.names);
        let steps = above.iter().map(|name| PathSegment { id: None, name });
        let parent = match follow(bytes, names, steps, index, &mut self.levels)? {
            End::Value(parent) => parent,
            End::Other => return Ok(Err(NotSpliced)),
            End::Missing { .. } | End::Blocked => return Err(NO_PARENT.into()),
        };
        if !parent.is_full_container() {
            // An empty container has no bytes to be spliced.
            let is_container = parent.is_map() || parent.is_array();
            return if is_container { Ok(Err(NotSpliced)) } else { Err(NO_PARENT.into()) };
        }
        let body = Body::open(&parent)?;
        let adds = matches!(change, TargetChange::Add(_));
        let found = match body.form {
            form::PAIRS => return Ok(Err(NotSpliced)),
            form::ARRAY | form::ARRAY_OF_ONE_TAG => match (index(last), last) {
                (Some(index), _) if index < body.count => Some(index),
                (Some(index), _) if adds && index == body.count => None,
                (None, "-") if adds => None,
                _ if adds => return Err(NO_PLACE.into()),
                (None, _) => return Err(NO_INDEX.into()),
                _ => return Err(NO_VALUE.into()),
            },
            _ => body.find(last)?,
        };
        let around = self.levels.len() + 1;
        if let Some(index) = found {
            enter(&body, index, &mut self.levels)?;
        }
        let Self { levels, edits, defines, .. } = self;
        edits.begin(bytes.first().copied().unwrap_or_default());
        let (TargetChange::Add(document) | TargetChange::Replace(document)) = change else {
            return found.map(|_| edits.remove(bytes, levels)).ok_or(NO_VALUE.into());
        };
        let fits = around + depth_of(&View::of(document, names)?) <= DEPTH_MAX;
        let Some(piece) = ContainerValue::of(document).filter(|_| fits) else {
            return Ok(Err(NotSpliced));
        };
        Ok(match found {
            Some(_) if adds && parent.is_array() => edits.insert(bytes, levels, &piece),
            Some(_) => edits.put(bytes, levels, &piece),
            None if adds => {
                let container = ContainerLayout::of(&body);
                let has_ids = container.id_width() > 0;
                let id = names.filter(|_| has_ids && *defines).and_then(|names| names.intern(last));
                let name = parent.is_map().then_some(PathSegment { id, name: last });
                edits.add(bytes, levels, &Open { container: &container, name, names }, &piece)
            }
            None => return Err(NO_VALUE.into()),
        })
    }
}
