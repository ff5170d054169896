//! Decides how a part of a patch changes the bytes of a document, or whether a condition holds.

use super::condition::Condition;
use super::follow::{ContainerLayout, ContainerOnPath, End, enter, follow};
use super::form::{EMPTY, EncodedOp};
use super::kind::OpKind;
use super::list;
use crate::arithmetic::{product, sum};
use crate::depth::DEPTH_MAX;
use crate::encode::Encoder;
use crate::layout::{form, tag};
use crate::names::Names;
use crate::value::Value;
use crate::view::{Body, View};
use crate::view_order::same;
use flagstone_base::Malformed;

/// How a part of a patch changes the bytes.
pub(super) enum Plan {
    /// Put the computed value at the end of the path.
    PutComputed,
    /// Put the argument at the end of the path.
    PutArgument,
    /// Add the argument or the computed value as the last one of the container at the path's end.
    Add {
        container: ContainerLayout,
        computed: bool,
    },
    /// Insert the argument before the element that the last level leads to.
    Insert,
    /// Remove the value that the last level leads to.
    Remove,
    Rename,
    /// Change nothing.
    Nothing,
    /// Refuse the patch: the part does not apply.
    Refuse,
    /// Decode the document: the bytes cannot be spliced.
    Decode,
}

/// Plans the parts of a patch, in the memory of its patcher.
pub(super) struct OpPlanner<'p> {
    pub(super) encoder: &'p mut Encoder,
    /// The containers on the path of the part.
    pub(super) levels: &'p mut Vec<ContainerOnPath>,
    /// A computed value, encoded as a document.
    pub(super) computed: &'p mut Vec<u8>,
}

impl OpPlanner<'_> {
    /// Follows the path of a part and decides what to do at its end.
    pub(super) fn plan(
        &mut self,
        part: &EncodedOp<'_>,
        bytes: &[u8],
        names: Option<&Names>,
    ) -> Result<Plan, Malformed> {
        let index_of = |step: &str| step.parse().ok();
        let end = follow(bytes, names, part.steps.clone(), index_of, self.levels)?;
        if part.kind.is_condition() {
            return test(part, &end, names);
        }
        Ok(match (part.kind, end) {
            (
                OpKind::Unset | OpKind::Rename | OpKind::Pull | OpKind::PopFirst | OpKind::PopLast,
                End::Missing { .. } | End::Blocked,
            ) => Plan::Nothing,
            (OpKind::Unset, End::Value(_)) => Plan::Remove,
            (OpKind::Rename, End::Value(_)) if self.is_in_array() => Plan::Refuse,
            (OpKind::Rename, End::Value(_)) => Plan::Rename,
            (_, End::Blocked) => Plan::Refuse,
            (OpKind::Set, End::Value(_)) => Plan::PutArgument,
            (
                OpKind::Push
                | OpKind::PushAt
                | OpKind::AddToSet
                | OpKind::Pull
                | OpKind::PopFirst
                | OpKind::PopLast,
                End::Value(view),
            ) => self.change_array(part, &view, names)?,
            (kind, End::Value(view)) => self.compute(kind, &view, part.argument, names)?,
            (
                OpKind::Set | OpKind::Inc | OpKind::Min | OpKind::Max | OpKind::Mul,
                End::Missing { container, is_last: true },
            ) => {
                let computed = part.kind == OpKind::Mul;
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

    /// Plans a change of the elements of the value at the end of the path.
    fn change_array(
        &mut self,
        part: &EncodedOp<'_>,
        view: &View<'_>,
        names: Option<&Names>,
    ) -> Result<Plan, Malformed> {
        if !view.is_array() {
            return Ok(Plan::Refuse);
        }
        let adds = matches!(part.kind, OpKind::Push | OpKind::PushAt | OpKind::AddToSet);
        if !view.is_full_container() {
            return Ok(if adds { Plan::Decode } else { Plan::Nothing });
        }
        let body = Body::open(view)?;
        if body.count == 0 {
            return Ok(Plan::Decode);
        }
        let found = match part.kind {
            OpKind::PushAt => match list::index_of(part.position, body.count) {
                index if index == body.count => None,
                index => Some(index),
            },
            OpKind::AddToSet => {
                let argument = View::of(part.argument, names)?;
                for item in view.items()? {
                    if same(&item?, &argument, DEPTH_MAX)? {
                        return Ok(Plan::Nothing);
                    }
                }
                None
            }
            OpKind::PopFirst => Some(0),
            OpKind::PopLast => Some(body.count - 1),
            OpKind::Pull => match pulled(view, &View::of(part.argument, names)?)? {
                Pulled::Nothing => return Ok(Plan::Nothing),
                Pulled::One(index) => Some(index),
                Pulled::Many => return Ok(Plan::Decode),
            },
            _ => None,
        };
        let Some(index) = found else {
            return Ok(Plan::Add { container: ContainerLayout::of(&body), computed: false });
        };
        enter(&body, index, self.levels)?;
        Ok(if adds { Plan::Insert } else { Plan::Remove })
    }

    /// Computes the new value from the old one and the argument.
    fn compute(
        &mut self,
        kind: OpKind,
        old: &View<'_>,
        argument: &[u8],
        names: Option<&Names>,
    ) -> Result<Plan, Malformed> {
        let argument = View::of(argument, names)?;
        if matches!(kind, OpKind::Min | OpKind::Max) {
            let (old, new) = (old.to_value()?, argument.to_value()?);
            let wins = if kind == OpKind::Min { new < old } else { new > old };
            return Ok(if wins { Plan::PutArgument } else { Plan::Nothing });
        }
        if !old.is_number() || !argument.is_number() {
            return Ok(Plan::Refuse);
        }
        let (old, by) = (old.to_value()?, argument.to_value()?);
        let new = if kind == OpKind::Inc { sum(&old, &by) } else { product(&old, &by) };
        let Some(new) = new else { return Ok(Plan::Refuse) };
        self.computed.clear();
        let encoded = self.encoder.encode(&new, names, self.computed);
        Ok(if encoded.is_ok() { Plan::PutComputed } else { Plan::Refuse })
    }
}

/// Tests the condition of a part at the end of its path.
fn test(part: &EncodedOp<'_>, end: &End<'_>, names: Option<&Names>) -> Result<Plan, Malformed> {
    let found = match (part.kind, end) {
        // The map may have the key.
        (_, End::Other) => return Ok(Plan::Decode),
        (OpKind::Exists | OpKind::Missing, End::Value(_)) => Some(Value::Null),
        (_, End::Value(view)) => Some(view.to_value()?),
        _ => None,
    };
    let argument = match part.argument {
        [] => Value::Null,
        argument => View::of(argument, names)?.to_value()?,
    };
    let condition = Condition::of(part.kind, argument);
    let holds = condition.is_some_and(|condition| condition.holds(found.as_ref()));
    Ok(if holds { Plan::Nothing } else { Plan::Refuse })
}

/// How many elements of an array are removed.
enum Pulled {
    Nothing,
    /// The element at this index.
    One(usize),
    /// Several, or it is cheaper to decode the array than to count.
    Many,
}

/// Returns how many elements of `array` are equal to an element of `values`.
fn pulled(array: &View<'_>, values: &View<'_>) -> Result<Pulled, Malformed> {
    if values.len()? > list::FEW {
        return Ok(Pulled::Many);
    }
    let mut found = Pulled::Nothing;
    for (at, item) in array.items()?.enumerate() {
        let item = item?;
        let mut goes = false;
        for value in values.items()? {
            goes |= same(&item, &value?, DEPTH_MAX)?;
        }
        match found {
            _ if !goes => {}
            Pulled::Nothing => found = Pulled::One(at),
            _ => return Ok(Pulled::Many),
        }
    }
    Ok(found)
}
