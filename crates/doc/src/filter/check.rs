//! The compiled form of conditions, and their evaluation on stored documents.

use super::intervals::KeySet;
use super::model::{Node, Scope, Test};
use super::probe::Probe;
use super::sets::Sets;
use super::test_keys;
use crate::encode::Encoder;
use crate::field_path::{FieldPath, Reached};
use crate::sort_key::{self, Direction};
use crate::view::View;
use flagstone_base::Malformed;
use std::ops::ControlFlow;

/// A condition, with its parts in the order of their costs.
#[derive(Debug)]
pub(super) enum Check {
    All(Box<[Check]>),
    Any(Box<[Check]>),
    Not(Box<Check>),
    Field {
        path: FieldPath,
        test: FieldCheck,
        opens_arrays: bool,
    },
    /// A test of the primary key.
    Key(KeyCheck),
}

/// A test of the primary key, which is given by its sort key.
#[derive(Debug)]
pub(super) struct KeyCheck {
    /// The test holds for no other keys.
    over: KeySet,
    /// It holds for all of them.
    is_exact: bool,
    test: FieldCheck,
}

/// The test of what a path reaches.
#[derive(Debug)]
pub(super) enum FieldCheck {
    Exists,
    /// The test holds for a value, or for an element if the value is an array.
    Probe(Probe),
    /// The value is an array of this length.
    Size(u64),
    /// The condition holds for an element of an array.
    Element {
        needs_map: bool,
        check: Box<Check>,
    },
}

impl Check {
    /// Compiles a condition.
    pub(super) fn of(node: &Node, scope: Scope) -> Self {
        match node {
            Node::All(parts) => Self::All(Self::sorted(parts, scope)),
            Node::Any(parts) => Self::Any(Self::sorted(parts, scope)),
            Node::Not(part) => Self::Not(Box::new(Self::of(part, scope))),
            Node::Field(path, test) if path.is_primary_key() => Self::Key(KeyCheck::of(test)),
            Node::Field(path, test) => Self::Field {
                path: path.clone(),
                test: FieldCheck::of(test),
                opens_arrays: scope == Scope::Document || !path.is_root(),
            },
        }
    }

    fn sorted(parts: &[Node], scope: Scope) -> Box<[Self]> {
        let mut checks: Vec<Self> = parts.iter().map(|part| Self::of(part, scope)).collect();
        checks.sort_by_cached_key(Self::cost);
        checks.into()
    }

    /// Estimates the time of an evaluation; only the order of estimates matters.
    fn cost(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().map(Self::cost).fold(0, usize::saturating_add)
            }
            Self::Not(part) => part.cost(),
            Self::Field { path, test, .. } => test.cost().saturating_add(10 * path.len()),
            Self::Key(key) if key.is_exact => 1,
            Self::Key(key) => key.test.cost().saturating_add(50),
        }
    }

    /// Returns whether the condition holds for the value of `root`, the document of `key`.
    pub(super) fn holds(&self, root: &View<'_>, key: &[u8]) -> Result<bool, Malformed> {
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(root, key)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(root, key)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(part) => part.holds(root, key).map(|holds| !holds),
            Self::Key(check) => check.holds(key),
            Self::Field { path, test, opens_arrays } => {
                let mut found = false;
                path.reach(root, |reached| {
                    found = test.holds(&reached, *opens_arrays)?;
                    Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Ok(found)
            }
        }
    }
}

impl KeyCheck {
    fn of(test: &Test) -> Self {
        let Sets { over, under } = test_keys::of_single(test);
        Self { is_exact: over == under, over, test: FieldCheck::of(test) }
    }

    fn holds(&self, key: &[u8]) -> Result<bool, Malformed> {
        if !self.over.contains(key) {
            return Ok(false);
        }
        if self.is_exact {
            return Ok(true);
        }
        let value = sort_key::decode(key, Direction::Ascending)?;
        let mut bytes = Vec::new();
        let encoded = Encoder::new().encode(&value, None, &mut bytes);
        encoded.map_err(|_refused| Malformed { at: 0, expected: "a primary key" })?;
        self.test.holds(&Reached::Value(View::of(&bytes, None)?), false)
    }
}

impl FieldCheck {
    fn of(test: &Test) -> Self {
        match test {
            Test::Exists => Self::Exists,
            Test::Size(elements) => Self::Size(*elements),
            Test::Element(node) => Self::Element {
                needs_map: node.names_a_field(),
                check: Box::new(Check::of(node, Scope::Element)),
            },
            other => Self::Probe(Probe::of(other)),
        }
    }

    fn cost(&self) -> usize {
        match self {
            Self::Exists => 1,
            Self::Size(_) => 2,
            Self::Probe(probe) => probe.cost(),
            Self::Element { check, .. } => check.cost().saturating_mul(8),
        }
    }

    #[inline]
    fn holds(&self, reached: &Reached<'_>, opens_arrays: bool) -> Result<bool, Malformed> {
        let Reached::Value(value) = reached else {
            return Ok(matches!(self, Self::Probe(probe) if probe.takes_missing()));
        };
        match self {
            Self::Exists => Ok(true),
            Self::Size(elements) => Ok(value.is_array() && value.len()? as u64 == *elements),
            Self::Probe(probe) => {
                if probe.holds(value)? {
                    return Ok(true);
                }
                if !opens_arrays {
                    return Ok(false);
                }
                // Only an array has elements.
                for item in value.items()? {
                    if probe.holds(&item?)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Element { needs_map, check } => {
                for item in value.items()? {
                    let item = item?;
                    if (!needs_map || item.is_map()) && check.holds(&item, &[])? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}
