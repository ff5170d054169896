//! Evaluates expressions.

use super::call::{Arg, Call, EvalContext};
use super::kind::{is_true, type_name};
use super::node::{CallNode, ListNode, Node, SwitchNode, Variable};
use crate::error::{PipelineError, Result, code};
use crate::memory::{Hold, SLOT, weight};
use crate::number::as_whole;
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::interrupt_check;
use std::borrow::Cow;

/// Variables of an expression, around others.
#[derive(Clone, Copy)]
struct Scope<'v> {
    values: &'v [Arg<'v>],
    outside: Option<&'v Scope<'v>>,
}

/// What an expression is evaluated in.
#[derive(Clone, Copy)]
struct EvalFrame<'v> {
    context: &'v EvalContext,
    root: &'v Value,
    scope: Option<&'v Scope<'v>>,
}

impl Node {
    /// Evaluates the expression over a document. `None` is missing.
    ///
    /// # Errors
    /// If an operator meets a value that it does not take, or needs too much memory.
    pub(crate) fn evaluate<'v>(
        &'v self,
        root: &'v Value,
        context: &'v EvalContext,
    ) -> Result<Arg<'v>> {
        self.eval(EvalFrame { context, root, scope: None })
    }

    fn eval<'v>(&'v self, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
        match self {
            Self::Literal(value) => Ok(Some(Cow::Borrowed(value))),
            Self::Path(variable, names) => {
                Ok(frame.variable(*variable).and_then(|v| path(v, names)))
            }
            Self::Object(fields) => object(fields, frame),
            Self::Array(items, place) => array(items, place, frame),
            Self::Call(call) => called(call, frame),
            Self::All(nodes) => all(nodes, frame),
            Self::Any(nodes) => any(nodes, frame),
            Self::Choice(choice) => {
                let [condition, yes, no] = &**choice;
                if is_true(condition.eval(frame)?.as_deref()) {
                    yes.eval(frame)
                } else {
                    no.eval(frame)
                }
            }
            Self::IfNull(nodes) => {
                let mut last = None;
                for node in nodes {
                    last = node.eval(frame)?;
                    if !super::call::is_nullish(&last) {
                        break;
                    }
                }
                Ok(last)
            }
            Self::Switch(switch) => chosen(switch, frame),
            Self::Let(parts) => with_variables(&parts.0, &parts.1, frame),
            Self::Map(list) => mapped(list, frame),
            Self::Filter(list) => filtered(list, frame),
            Self::Reduce(list) => reduced(list, frame),
            Self::OrOnError(both) => converted(&both.0, &both.1, frame),
        }
    }
}

impl<'v> EvalFrame<'v> {
    fn variable(&self, variable: Variable) -> Option<&'v Value> {
        match variable {
            Variable::Root => Some(self.root),
            Variable::Now => Some(&self.context.now),
            Variable::Remove => None,
            Variable::Outer(index) => self.context.outer.get(index)?.as_ref(),
            Variable::Bound { up, index } => {
                let mut scope = self.scope?;
                for _ in 0..up {
                    scope = scope.outside?;
                }
                scope.values.get(index)?.as_deref()
            }
        }
    }

    /// The same with variables around.
    const fn inside<'s>(&self, scope: &'s Scope<'s>) -> EvalFrame<'s>
    where
        'v: 's,
    {
        EvalFrame { context: self.context, root: self.root, scope: Some(scope) }
    }
}

/// Returns the value at a path. A path through an array gives the array of the values that it
/// reaches.
pub(crate) fn path<'v>(value: &'v Value, names: &[Box<str>]) -> Arg<'v> {
    let mut value = value;
    for (at, name) in names.iter().enumerate() {
        match value {
            Value::Map(map) => value = map.get(name)?,
            Value::Array(items) => {
                let maps = items.iter().filter(|item| matches!(item, Value::Map(_)));
                let reached = maps.filter_map(|item| path(item, &names[at..]));
                return Some(Cow::Owned(Value::Array(reached.map(Cow::into_owned).collect())));
            }
            _ => return None,
        }
    }
    Some(Cow::Borrowed(value))
}

fn owned(value: Value) -> Result<Arg<'static>> {
    Ok(Some(Cow::Owned(value)))
}

fn object<'v>(fields: &'v [(Box<str>, Node)], frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let (mut hold, mut pairs) = (frame.context.memory.hold(), Vec::with_capacity(fields.len()));
    for (name, node) in fields {
        if let Some(value) = node.eval(frame)? {
            hold.add(weight(&value), name)?;
            pairs.push((Value::from(&**name), value.into_owned()));
        }
    }
    owned(Value::Map(Map::from_distinct(pairs)))
}

fn array<'v>(nodes: &'v [Node], place: &str, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let (mut hold, mut items) = (frame.context.memory.hold(), Vec::with_capacity(nodes.len()));
    for node in nodes {
        let value = node.eval(frame)?.map_or(Value::Null, Cow::into_owned);
        hold.add(weight(&value), place)?;
        items.push(value);
    }
    owned(Value::Array(items))
}

fn called<'v>(node: &'v CallNode, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let (args, _held) = arguments(node, frame)?;
    applied(node, &args, frame)
}

/// Evaluates the arguments of an operator. Also returns the memory that they hold.
fn arguments<'v>(node: &'v CallNode, frame: EvalFrame<'v>) -> Result<(Vec<Arg<'v>>, Hold)> {
    let mut hold = frame.context.memory.hold();
    let mut args = Vec::with_capacity(node.args.len());
    for arg in &node.args {
        let value = match arg {
            Some(arg) => {
                let value = arg.eval(frame)?;
                let is_null = value.is_none() && node.is_missing_null;
                if is_null { Some(Cow::Owned(Value::Null)) } else { value }
            }
            None => None,
        };
        if let Some(Cow::Owned(value)) = &value {
            hold.add(weight(value), &node.place)?;
        }
        args.push(value);
    }
    Ok((args, hold))
}

fn applied<'v>(node: &CallNode, args: &[Arg<'_>], frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let call = Call { place: &node.place, context: frame.context };
    let found = (node.function)(&call, args)?;
    if let Some(Value::Text(text)) = &found {
        call.check_text(text.len())?;
    }
    Ok(found.map(Cow::Owned))
}

/// Evaluates an operator, and `on_error` if it cannot convert its arguments.
fn converted<'v>(call: &'v CallNode, on_error: &'v Node, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let (args, _held) = arguments(call, frame)?;
    match applied(call, &args, frame) {
        Err(error) if error.code() == code::CONVERSION_FAILURE => on_error.eval(frame),
        other => other,
    }
}

/// Returns whether all nodes count as true.
fn all<'v>(nodes: &'v [Node], frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    for node in nodes {
        if !is_true(node.eval(frame)?.as_deref()) {
            return owned(false.into());
        }
    }
    owned(true.into())
}

/// Returns whether one of the nodes counts as true.
fn any<'v>(nodes: &'v [Node], frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    for node in nodes {
        if is_true(node.eval(frame)?.as_deref()) {
            return owned(true.into());
        }
    }
    owned(false.into())
}

fn chosen<'v>(switch: &'v SwitchNode, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    for (case, then) in &switch.branches {
        if is_true(case.eval(frame)?.as_deref()) {
            return then.eval(frame);
        }
    }
    match &switch.default {
        Some(default) => default.eval(frame),
        None => {
            let text = "$switch expected a branch that holds, or a default";
            Err(PipelineError::new(40069, &switch.place, text))
        }
    }
}

fn with_variables<'v>(values: &'v [Node], body: &'v Node, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let mut hold = frame.context.memory.hold();
    let mut found = Vec::with_capacity(values.len());
    for node in values {
        let value = node.eval(frame)?;
        if let Some(Cow::Owned(value)) = &value {
            hold.add(weight(value), "$let")?;
        }
        found.push(value);
    }
    let scope = Scope { values: &found, outside: frame.scope };
    let value = body.eval(frame.inside(&scope))?;
    Ok(value.map(|value| Cow::Owned(value.into_owned())))
}

/// Returns the list that an operator goes through; `None` if it is missing or null.
fn input<'v>(
    node: &'v ListNode,
    frame: EvalFrame<'v>,
    code: i32,
) -> Result<Option<Cow<'v, [Value]>>> {
    match node.input.eval(frame)? {
        None => Ok(None),
        Some(Cow::Borrowed(Value::Null)) | Some(Cow::Owned(Value::Null)) => Ok(None),
        Some(Cow::Borrowed(Value::Array(items))) => Ok(Some(Cow::Borrowed(items))),
        Some(Cow::Owned(Value::Array(items))) => Ok(Some(Cow::Owned(items))),
        Some(other) => {
            let name = node.place.rsplit('.').next().unwrap_or_default();
            let found = type_name(Some(&other));
            let text = format!("{name} expected an array as input, found {found}");
            Err(PipelineError::new(code, &node.place, text))
        }
    }
}

fn mapped<'v>(node: &'v ListNode, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let Some(items) = input(node, frame, 16883)? else { return owned(Value::Null) };
    let mut hold = frame.context.memory.hold();
    if let Cow::Owned(items) = &items {
        hold.add(items.iter().map(weight).sum(), &node.place)?;
    }
    let mut out = Vec::new();
    for item in items.iter() {
        interrupt_check()?;
        let values = [Some(Cow::Borrowed(item))];
        let scope = Scope { values: &values, outside: frame.scope };
        let value = node.body.eval(frame.inside(&scope))?;
        let value = value.map_or(Value::Null, Cow::into_owned);
        hold.add(weight(&value), &node.place)?;
        out.push(value);
    }
    owned(Value::Array(out))
}

fn filtered<'v>(node: &'v ListNode, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let most = match &node.extra {
        None => usize::MAX,
        Some(limit) => match limit.eval(frame)?.as_deref() {
            None | Some(Value::Null) => usize::MAX,
            Some(limit) => {
                let whole = as_whole(limit);
                let text = "$filter expected a limit that is a whole number from 1 on";
                match whole.and_then(|whole| usize::try_from(whole).ok()) {
                    Some(limit) if limit > 0 => limit,
                    _ => {
                        let code = if whole.is_some() { 327392 } else { 327391 };
                        return Err(PipelineError::new(code, &node.place, text));
                    }
                }
            }
        },
    };
    let Some(items) = input(node, frame, 28651)? else { return owned(Value::Null) };
    let mut hold = frame.context.memory.hold();
    if let Cow::Owned(items) = &items {
        hold.add(items.iter().map(weight).sum(), &node.place)?;
    }
    let mut out = Vec::new();
    for item in items.iter() {
        interrupt_check()?;
        let values = [Some(Cow::Borrowed(item))];
        let scope = Scope { values: &values, outside: frame.scope };
        if is_true(node.body.eval(frame.inside(&scope))?.as_deref()) {
            hold.add(weight(item), &node.place)?;
            out.push(item.clone());
            if out.len() == most {
                break;
            }
        }
    }
    owned(Value::Array(out))
}

fn reduced<'v>(node: &'v ListNode, frame: EvalFrame<'v>) -> Result<Arg<'v>> {
    let Some(items) = input(node, frame, 40080)? else { return owned(Value::Null) };
    let mut hold = frame.context.memory.hold();
    if let Cow::Owned(items) = &items {
        hold.add(items.iter().map(weight).sum(), &node.place)?;
    }
    let initial = node.extra.as_ref().map(|initial| initial.eval(frame)).transpose()?.flatten();
    let mut value: Option<Value> = initial.map(Cow::into_owned);
    for item in items.iter() {
        interrupt_check()?;
        let mut held = frame.context.memory.hold();
        held.add(value.as_ref().map_or(SLOT, weight), &node.place)?;
        let next = {
            let values = [Some(Cow::Borrowed(item)), value.as_ref().map(Cow::Borrowed)];
            let scope = Scope { values: &values, outside: frame.scope };
            node.body.eval(frame.inside(&scope))?.map(Cow::into_owned)
        };
        value = next;
    }
    Ok(value.map(Cow::Owned))
}
