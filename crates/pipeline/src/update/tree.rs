//! The changes of an update as a tree of paths.

use super::action::Action;
use super::path::{Name, Step, refusal};
use crate::error::{PipelineError, Result, code};
use std::collections::BTreeMap;

/// What is changed at a place and inside of it.
#[derive(Debug)]
pub(super) enum UpdateNode {
    /// Fields of a map, or elements of an array, in their order.
    Fields(BTreeMap<Field, UpdateNode>),
    /// Many elements of an array.
    Elements(BTreeMap<Elements, UpdateNode>),
    Action(Box<Action>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Name(Name),
    /// The position that the filter matched.
    Matched,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Elements {
    All,
    /// Those that the array filter of this number matches.
    Filtered(usize),
}

impl Default for UpdateNode {
    fn default() -> Self {
        Self::Fields(BTreeMap::new())
    }
}

/// A step of a path in the tree.
pub(super) enum TreeStep {
    Field(Field),
    Elements(Elements),
}

impl TreeStep {
    /// `filter` finds the number of an array filter.
    pub(super) fn of(step: &Step, filter: impl FnOnce(&str) -> Result<usize>) -> Result<Self> {
        Ok(match step {
            Step::Name(name) => Self::Field(Field::Name(name.clone())),
            Step::Matched => Self::Field(Field::Matched),
            Step::All => Self::Elements(Elements::All),
            Step::Filtered(identifier) => Self::Elements(Elements::Filtered(filter(identifier)?)),
        })
    }
}

impl UpdateNode {
    /// Adds an action, whose path has these places. Two actions of one value, or of a value and a
    /// part of it, are refused.
    pub(super) fn add(&mut self, places: Vec<TreeStep>, action: Action) -> Result<()> {
        let mut node = self;
        let count = places.len();
        for (depth, place) in places.into_iter().enumerate() {
            let is_last = depth + 1 == count;
            // The kind of an inner node is that of the step that leads out of it, so a new one has
            // no kind before its first child.
            if let Self::Fields(children) = &*node
                && children.is_empty()
                && matches!(place, TreeStep::Elements(_))
            {
                *node = Self::Elements(BTreeMap::new());
            }
            let next = match (node, place) {
                (Self::Fields(children), TreeStep::Field(field)) => {
                    let is_new = !children.contains_key(&field);
                    let child = children.entry(field).or_default();
                    (child, is_new)
                }
                (Self::Elements(children), TreeStep::Elements(elements)) => {
                    let is_new = !children.contains_key(&elements);
                    let child = children.entry(elements).or_default();
                    (child, is_new)
                }
                (other, _) => return Err(conflict(&action, other)),
            };
            let (child, is_new) = next;
            if is_last {
                if !is_new {
                    return Err(conflict(&action, child));
                }
                *child = Self::Action(Box::new(action));
                return Ok(());
            }
            node = child;
        }
        Ok(())
    }

    /// Returns an action in the tree for which `holds` is true.
    pub(super) fn find(&self, holds: &dyn Fn(&Action) -> bool) -> Option<&Action> {
        match self {
            Self::Fields(children) => children.values().find_map(|child| child.find(holds)),
            Self::Elements(children) => children.values().find_map(|child| child.find(holds)),
            Self::Action(action) => holds(action).then_some(action),
        }
    }

    /// Returns the changes of a field of the document.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Fields(children) => children.get(&Field::Name(Name::new(name))),
            _ => None,
        }
    }

    /// Returns any action in the tree.
    pub(super) fn first(&self) -> Option<&Action> {
        match self {
            Self::Fields(children) => children.values().find_map(Self::first),
            Self::Elements(children) => children.values().find_map(Self::first),
            Self::Action(action) => Some(action),
        }
    }

    /// Returns two actions of both trees that change one value, or a value and a part of it.
    pub(super) fn overlap<'n>(&'n self, other: &'n Self) -> Option<(&'n Action, &'n Action)> {
        match (self, other) {
            (Self::Fields(a), Self::Fields(b)) => {
                a.iter().find_map(|(field, a)| b.get(field).and_then(|b| a.overlap(b)))
            }
            (Self::Elements(a), Self::Elements(b)) => {
                a.iter().find_map(|(elements, a)| b.get(elements).and_then(|b| a.overlap(b)))
            }
            (a, b) => a.first().zip(b.first()),
        }
    }
}

#[cold]
fn conflict(action: &Action, other: &UpdateNode) -> PipelineError {
    match other.first() {
        Some(other) => conflict_of(other, action),
        None => conflict_of(action, action),
    }
}

/// The error of two actions that change one value, or a value and a part of it.
#[cold]
pub(super) fn conflict_of(one: &Action, other: &Action) -> PipelineError {
    let text = format!(
        "expected a path that nothing else changes, found {} of {:?}",
        one.operator, &*one.path
    );
    refusal(code::CONFLICTING_UPDATE_OPERATORS, other.operator, &other.path, text)
}
