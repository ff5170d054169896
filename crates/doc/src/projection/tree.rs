//! The fields that a projection names, as a tree.

use crate::field_path::FieldPath;

/// The named fields of one map, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldTree {
    fields: Vec<(Box<str>, FieldSelection)>,
}

/// What is named of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldSelection {
    /// All of it.
    Whole,
    /// Fields of the map there, or of the maps in the array there.
    Parts(FieldTree),
}

impl FieldTree {
    pub(super) const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    pub(super) fn get(&self, name: &str) -> Option<&FieldSelection> {
        let found = self.fields.binary_search_by(|(other, _)| (**other).cmp(name));
        found.ok().map(|place| &self.fields[place].1)
    }

    /// Adds a path; the error says what was expected of it.
    pub(super) fn add(&mut self, path: &FieldPath) -> Result<(), &'static str> {
        const NAMES: &str = "a path of names, which passes through arrays by itself";
        let Some((last, above)) = path.steps().split_last() else { return Err(NAMES) };
        let mut level = self;
        for step in above {
            let named = level.entry(step.name().ok_or(NAMES)?.as_str(), || {
                FieldSelection::Parts(Self::default())
            });
            level = match named {
                (FieldSelection::Parts(inner), _) => inner,
                (FieldSelection::Whole, _) => return Err(ONCE),
            };
        }
        match level.entry(last.name().ok_or(NAMES)?.as_str(), || FieldSelection::Whole) {
            (_, true) => Ok(()),
            (_, false) => Err(ONCE),
        }
    }

    /// Returns what is named of a field, and whether it is new.
    fn entry(
        &mut self,
        name: &str,
        new: impl FnOnce() -> FieldSelection,
    ) -> (&mut FieldSelection, bool) {
        let found = self.fields.binary_search_by(|(other, _)| (**other).cmp(name));
        let place = found.unwrap_or_else(|place| {
            self.fields.insert(place, (name.into(), new()));
            place
        });
        (&mut self.fields[place].1, found.is_err())
    }
}

const ONCE: &str = "each path once, and no path together with a part of it";
