//! The compiled form of conditions, and their evaluation on stored documents.

use super::model::{Node, Scope, Test};
use super::probe::Probe;
use crate::field_path::{FieldPath, Reached};
use crate::view::View;
use flagstone_base::Malformed;
use std::ops::ControlFlow;

/// A condition, with its parts in the order of their costs.
#[derive(Debug)]
pub(super) enum Check {
    All(Box<[Check]>),
    Any(Box<[Check]>),
    Not(Box<Check>),
    Field { path: FieldPath, test: FieldCheck, opens_arrays: bool },
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
        }
    }

    /// Returns whether the condition holds for the value of `root`.
    pub(super) fn holds(&self, root: &View<'_>) -> Result<bool, Malformed> {
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(root)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => {
                for part in parts {
                    if part.holds(root)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(part) => part.holds(root).map(|holds| !holds),
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
                    if (!needs_map || item.is_map()) && check.holds(&item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}
