//! The paths that a patch may change.

use super::form::{EncodedOp, OpReader};
use super::kind::OpKind;
use crate::field_path::{FieldPath, Step};
use crate::names::Names;
use crate::view::validate;
use flagstone_base::Malformed;

/// A patch in its binary form, which was checked as a whole: what can be asked of it without a
/// document.
///
/// ```
/// use flagstone_doc::{EncodedPatch, Encoder, FieldPath, Patch};
/// let mut bytes = Vec::new();
/// Patch::new().inc("stats.score", 1).encode(&mut Encoder::new(), None, &mut bytes)?;
/// let patch = EncodedPatch::of(&bytes, None).expect("it was encoded");
/// assert!(patch.touches(&FieldPath::parse("stats")?));
/// assert!(!patch.touches(&FieldPath::parse("stats.views")?));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncodedPatch<'a> {
    bytes: &'a [u8],
    names: Option<&'a Names>,
    is_upsert: bool,
}

impl<'a> EncodedPatch<'a> {
    /// Checks the binary form of a patch. `names` is the table with which it was encoded.
    ///
    /// # Errors
    /// If the bytes are not a patch.
    pub fn of(bytes: &'a [u8], names: Option<&'a Names>) -> Result<Self, Malformed> {
        let mut parts = OpReader::of(bytes, names)?;
        if let Some(default) = parts.default {
            validate(default, names)?;
        }
        while parts.next()?.is_some() {}
        Ok(Self { bytes, names, is_upsert: parts.upsert })
    }

    /// Returns whether the patch creates a document where there is none.
    pub const fn is_upsert(&self) -> bool {
        self.is_upsert
    }

    /// Returns whether applying the patch may change what `path` reaches in a document, as
    /// [`Patch::touches`](super::Patch::touches) does.
    pub fn touches(&self, path: &FieldPath) -> bool {
        self.any(|part| {
            let steps = part.steps.clone().map(|step| step.name);
            touches(part.kind, steps, part.name.map(|step| step.name), path)
        })
    }

    fn any(&self, is_so: impl Fn(&EncodedOp<'_>) -> bool) -> bool {
        let Ok(mut parts) = OpReader::of(self.bytes, self.names) else { return true };
        loop {
            match parts.next() {
                Ok(Some(part)) if !is_so(&part) => {}
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

/// Returns whether a part of this kind at `steps` may change what `path` reaches.
pub(super) fn touches<'s>(
    kind: OpKind,
    steps: impl Iterator<Item = &'s str> + Clone,
    new_name: Option<&'s str>,
    path: &FieldPath,
) -> bool {
    changed(kind, steps, new_name, |steps| meets(steps, path.steps(), kind.brings_names()))
}

/// Calls `meets` with the steps to each place that a part changes, until it returns true.
fn changed<'s>(
    kind: OpKind,
    steps: impl Iterator<Item = &'s str> + Clone,
    new_name: Option<&'s str>,
    meets: impl Fn(&mut dyn Iterator<Item = &'s str>) -> bool,
) -> bool {
    if kind.is_condition() {
        return false;
    }
    let above = steps.clone().count().saturating_sub(1);
    // The elements after a removed one move, so the whole array changes.
    if kind == OpKind::Unset && steps.clone().last().is_some_and(is_index) {
        return meets(&mut steps.take(above));
    }
    let around = steps.clone();
    meets(&mut steps.clone())
        || new_name.is_some_and(|name| meets(&mut around.take(above).chain([name])))
}

fn is_index(step: &str) -> bool {
    step.parse::<usize>().is_ok()
}

/// Returns whether `steps` lead to a part of what a path reaches, or the reverse. The path passes
/// through arrays by itself, so a step that is an index may lead to an element that it does not
/// name. `creates` is set if what is missing on the steps is created.
fn meets(steps: &mut dyn Iterator<Item = &str>, path: &[Step], creates: bool) -> bool {
    if path.is_empty() {
        return true;
    }
    // The numbers of steps of `path` that the steps so far may have passed.
    let mut passed = vec![0];
    let mut is_in_element = false;
    for step in steps {
        let index = step.parse().ok();
        let mut next = Vec::with_capacity(passed.len() + 1);
        for &at in &passed {
            let may_be = match &path[at] {
                Step::Name(name) => name.as_str() == step,
                Step::Index(wanted) => index == Some(*wanted),
                Step::Either(wanted, name) => index == Some(*wanted) || name.as_str() == step,
                // A patch does not change the key.
                Step::Key => false,
            };
            if may_be && at + 1 == path.len() {
                return true;
            }
            if index.is_some() && next.last() != Some(&at) {
                next.push(at);
            }
            if may_be {
                next.push(at + 1);
            }
        }
        if next.is_empty() {
            // A new element lacks what the path reaches in the others. It was not missing before.
            return creates && is_in_element;
        }
        is_in_element |= index.is_some();
        passed = next;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, Patch};

    fn touched(patch: &Patch, path: &str) -> bool {
        let (names, mut bytes) = (Names::new(), Vec::new());
        patch.encode(&mut Encoder::new(), Some(&names), &mut bytes).unwrap();
        let path = FieldPath::parse(path).unwrap();
        let touches = patch.touches(&path);
        assert_eq!(EncodedPatch::of(&bytes, Some(&names)).unwrap().touches(&path), touches);
        touches
    }

    #[test]
    fn a_patch_touches_what_its_changes_begin_with_and_what_begins_with_them() {
        let patch = Patch::new().inc("a.b", 1).rename("old.x", "y").if_eq("read", 1);
        for path in ["$", "a", "a.b", "a.b.c", "$.a", "$['a'].b.c", "old", "old.x", "old.y"] {
            assert!(touched(&patch, path), "{path}");
        }
        for path in ["b", "a.c", "$['a.b']", "$.a[0]", "old.z", "read", "ol"] {
            assert!(!touched(&patch, path), "{path}");
        }
    }

    #[test]
    fn a_path_passes_through_the_elements_of_arrays() {
        let patch = Patch::new().set("items.3.price", 1);
        for path in ["items", "items.price", "items.3", "items.3.price.x", "$.items[3].price"] {
            assert!(touched(&patch, path), "{path}");
        }
        for path in ["price", "item", "item.price"] {
            assert!(!touched(&patch, path), "{path}");
        }
        let nested = Patch::new().unset("a.0.0.0.0.b");
        assert!(touched(&nested, "a.0.0.b") && touched(&nested, "a.b"));
        assert!(!touched(&nested, "a.0.0.c"));
    }

    #[test]
    fn an_element_that_may_be_new_lacks_what_a_path_reaches_in_the_others() {
        for patch in [Patch::new().set("items.3.price", 1), Patch::new().push("items.3.x.y", 1)] {
            for path in ["items.name", "items.4.name", "items.x.z", "$.items[3].name"] {
                assert!(touched(&patch, path), "{patch}: {path}");
            }
        }
        for patch in [Patch::new().unset("items.3.price"), Patch::new().pull("items.3.x", 1)] {
            assert!(!touched(&patch, "items.name"), "{patch}");
        }
    }

    #[test]
    fn elements_move_when_others_come_and_go() {
        for patch in [
            Patch::new().unset("tags.3"),
            Patch::new().push_at("tags", 0, 1),
            Patch::new().pull("tags", 1),
            Patch::new().pop_first("tags"),
            Patch::new().add_to_set("tags", 1),
        ] {
            assert!(touched(&patch, "tags.7"), "{patch}");
            assert!(!touched(&patch, "other"), "{patch}");
        }
        // The element may be a map with the field 7.
        assert!(touched(&Patch::new().set("tags.3", 1), "tags.7"));
        assert!(!touched(&Patch::new().unset("tags.3.x"), "tags.7"));
    }
}
