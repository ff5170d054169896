//! The compiled form of conditions, and their evaluation on stored documents.

use super::intervals::KeySet;
use super::joined::{Join, Joined};
use super::marks::Marks;
use super::model::{FilterNode, Operand, Scope, Test};
use super::probe::{Probe, place_among};
use super::sets::Sets;
use super::test_keys;
use crate::encode::Encoder;
use crate::field_path::{FieldPath, Reached};
use crate::sort_key::{self, Direction};
use crate::view::View;
use flagstone_base::Malformed;
use flagstone_base::sorted::sort_by;
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
    /// Each of many values equals something that the path reaches: one walk for all.
    Each {
        path: FieldPath,
        operands: Operands,
        opens_arrays: bool,
    },
    /// The same of an element of an array, and what a path reaches in it: for each value there is
    /// an element, maybe another one.
    EachElement {
        path: FieldPath,
        inside: FieldPath,
        operands: Operands,
    },
    /// A test of the primary key.
    Key(KeyCheck),
}

/// Values in ascending order, each once.
#[derive(Debug)]
pub(super) struct Operands {
    list: Box<[Operand]>,
    /// Where null is, which equals what is missing.
    null: Option<usize>,
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
    pub(super) fn of(node: &FilterNode, scope: Scope) -> Self {
        match node {
            FilterNode::All(parts) => Self::joined(Join::All, parts.iter(), scope),
            FilterNode::Any(parts) => Self::joined(Join::Any, parts.iter(), scope),
            FilterNode::Not(part) => Self::Not(Box::new(Self::of(part, scope))),
            FilterNode::Field(path, test) if path.is_primary_key() => Self::Key(KeyCheck::of(test)),
            FilterNode::Field(path, test) => Self::field(path, FieldCheck::of(test), scope),
        }
    }

    fn field(path: &FieldPath, test: FieldCheck, scope: Scope) -> Self {
        let opens_arrays = opens_arrays(path, scope);
        Self::Field { path: path.clone(), test, opens_arrays }
    }

    /// Compiles conditions that are joined. Many of one path become one that walks it once.
    fn joined<'n>(join: Join, parts: impl Iterator<Item = &'n FilterNode>, scope: Scope) -> Self {
        let Joined { equal, elements_equal, elements, negated, others } = Joined::of(join, parts);
        let mut checks: Vec<Self> = others.into_iter().map(|part| Self::of(part, scope)).collect();
        for (path, operands) in equal {
            let operands = Operands::of(operands);
            checks.push(match join {
                Join::Any => {
                    let test = FieldCheck::Probe(Probe::one_of(&operands.list));
                    Self::field(path, test, scope)
                }
                Join::All => {
                    let opens_arrays = opens_arrays(path, scope);
                    Self::Each { path: path.clone(), operands, opens_arrays }
                }
            });
        }
        for ((path, inside), operands) in elements_equal {
            let (path, inside) = (path.clone(), inside.clone());
            checks.push(Self::EachElement { path, inside, operands: Operands::of(operands) });
        }
        // One element meets one of several conditions.
        for ((path, needs_map), nodes) in elements {
            let check = Box::new(Self::joined(Join::Any, nodes.into_iter(), Scope::Element));
            checks.push(Self::field(path, FieldCheck::Element { needs_map, check }, scope));
        }
        if !negated.is_empty() {
            let inner = Self::joined(join.other(), negated.into_iter(), scope);
            checks.push(Self::Not(Box::new(inner)));
        }
        checks.sort_by_cached_key(Self::cost);
        match join {
            Join::All => Self::All(checks.into()),
            Join::Any => Self::Any(checks.into()),
        }
    }

    /// Estimates the time of an evaluation; only the order of estimates matters.
    fn cost(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().map(Self::cost).fold(0, usize::saturating_add)
            }
            Self::Not(part) => part.cost(),
            Self::Field { path, test, .. } => test.cost().saturating_add(10 * path.len()),
            Self::Each { path, operands, .. } => {
                operands.list.len().saturating_add(10 * path.len())
            }
            Self::EachElement { operands, .. } => operands.list.len().saturating_mul(8),
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
            Self::Each { path, operands, opens_arrays } => {
                let mut found = Marks::new(operands.list.len());
                path.reach(root, |reached| {
                    operands.mark(&reached, *opens_arrays, &mut found)?;
                    let is_done = found.is_full();
                    Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Ok(found.is_full())
            }
            Self::EachElement { path, inside, operands } => {
                let mut found = Marks::new(operands.list.len());
                path.reach(root, |reached| {
                    let Reached::Value(array) = reached else {
                        return Ok(ControlFlow::Continue(()));
                    };
                    for item in array.items()? {
                        let item = item?;
                        if !inside.is_root() && !item.is_map() {
                            continue;
                        }
                        inside.reach(&item, |reached| {
                            operands.mark(&reached, !inside.is_root(), &mut found)?;
                            Ok(ControlFlow::Continue(()))
                        })?;
                        if found.is_full() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(found.is_full())
            }
        }
    }
}

impl Check {
    /// Returns the position of the first element of the array at the path `array` for which a
    /// condition on it holds. Without a path it is the first array on the path of a condition.
    /// Alternatives have no position, unless all of them are of one path.
    pub(super) fn position(
        &self,
        root: &View<'_>,
        array: Option<&FieldPath>,
    ) -> Result<Option<usize>, Malformed> {
        match self {
            // As in MongoDB the last condition decides. Costly ones, as `$elemMatch`, are last.
            Self::All(parts) => {
                for part in parts.iter().rev() {
                    if let Some(position) = part.position(root, array)? {
                        return Ok(Some(position));
                    }
                }
                Ok(None)
            }
            Self::Any(parts) => {
                let path = |part: &Self| match part {
                    Self::Field { path, .. } => Some(path.clone()),
                    _ => None,
                };
                let Some(Some(first)) = parts.first().map(path) else { return Ok(None) };
                if !parts.iter().all(|part| path(part).as_ref() == Some(&first)) {
                    return Ok(None);
                }
                first_element(&first, root, array, |rest, item| {
                    for part in parts {
                        if let Self::Field { test, .. } = part
                            && test.holds_for(rest, item)?
                        {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                })
            }
            Self::Not(_) | Self::Key(_) => Ok(None),
            Self::Field { path, test, .. } => {
                first_element(path, root, array, |rest, item| test.holds_for(rest, item))
            }
            Self::Each { path, operands, .. } => {
                let test = FieldCheck::Probe(Probe::one_of(&operands.list));
                first_element(path, root, array, |rest, item| test.holds_for(rest, item))
            }
            Self::EachElement { path, inside, operands } => {
                let test = FieldCheck::Probe(Probe::one_of(&operands.list));
                first_element(path, root, array, |rest, item| {
                    let may_hold = rest.is_root() && (inside.is_root() || item.is_map());
                    Ok(may_hold && test.holds_for(inside, item)?)
                })
            }
        }
    }
}

/// Returns the first position in an array of an element for which `holds` is true with the rest of
/// `path`. The array is at the path `array`, or the first one on `path`.
fn first_element(
    path: &FieldPath,
    root: &View<'_>,
    array: Option<&FieldPath>,
    mut holds: impl FnMut(&FieldPath, &View<'_>) -> Result<bool, Malformed>,
) -> Result<Option<usize>, Malformed> {
    let (items, rest) = match array {
        Some(array) => (array.get(root)?, path.after(array)),
        None => match path.first_array(root)? {
            Some((items, rest)) => (Some(items), Some(rest)),
            None => (None, None),
        },
    };
    let Some((items, rest)) = items.filter(View::is_array).zip(rest) else { return Ok(None) };
    for (position, item) in items.items()?.enumerate() {
        let item = item?;
        if (rest.is_root() || item.is_map()) && holds(&rest, &item)? {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Returns whether the elements of an array at the end of the path count, too.
fn opens_arrays(path: &FieldPath, scope: Scope) -> bool {
    scope == Scope::Document || !path.is_root()
}

impl Operands {
    fn of(mut list: Vec<&Operand>) -> Self {
        sort_by(&mut list, |a, b| a.value.cmp(&b.value));
        list.dedup();
        let null = list.iter().position(|operand| operand.value.is_null());
        Self { list: list.into_iter().cloned().collect(), null }
    }

    /// Marks the operands that what was reached, or an element of it, equals.
    fn mark(
        &self,
        reached: &Reached<'_>,
        opens_arrays: bool,
        found: &mut Marks,
    ) -> Result<(), Malformed> {
        let Reached::Value(value) = reached else {
            found.mark(self.null);
            return Ok(());
        };
        found.mark(place_among(value, &self.list)?);
        if !opens_arrays {
            return Ok(());
        }
        // Only an array has elements.
        for item in value.items()? {
            if found.is_full() {
                return Ok(());
            }
            found.mark(place_among(&item?, &self.list)?);
        }
        Ok(())
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
        let opens_arrays = false;
        self.test.holds(&Reached::Value(View::of(&bytes, None)?), opens_arrays)
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

    /// Returns whether the test holds for what a path reaches in an element of an array. The empty
    /// path is the element itself, to which a test of arrays as a whole does not apply.
    fn holds_for(&self, rest: &FieldPath, item: &View<'_>) -> Result<bool, Malformed> {
        match self {
            Self::Exists | Self::Size(_) if rest.is_root() => Ok(false),
            Self::Element { needs_map, check } if rest.is_root() => {
                Ok((!needs_map || item.is_map()) && check.holds(item, &[])?)
            }
            _ => {
                let mut found = false;
                rest.reach(item, |reached| {
                    found = self.holds(&reached, !rest.is_root())?;
                    Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Ok(found)
            }
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
