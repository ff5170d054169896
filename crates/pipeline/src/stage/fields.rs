//! `$project`, `$addFields` and `$unset`: fields that are kept, removed or computed.

use crate::error::{Place, Result, code};
use crate::expression::{
    EvalContext, Names, Node, as_object, is_known, is_true, parse, path_names,
};
use crate::memory::{Hold, weight};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::NumberType;
use std::borrow::Cow;
use std::collections::HashMap;

/// The most children that are searched one by one.
const FEW: usize = 16;

/// What becomes of the fields of a map.
#[derive(Clone)]
pub(crate) struct Fields {
    /// Fields that are not named stay.
    keeps_others: bool,
    children: Vec<(Box<str>, Child)>,
    /// Where each name is among the children, if there are many.
    places: HashMap<Box<str>, usize>,
    place: Box<str>,
}

#[derive(Clone)]
enum Child {
    Keep,
    Drop,
    Compute(Node),
    Inside(Fields),
}

/// What a stage makes of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldsKind {
    Include,
    Exclude,
    /// `$addFields`.
    Add,
}

impl Fields {
    fn empty(kind: FieldsKind, place: &Place<'_>) -> Self {
        let keeps_others = kind != FieldsKind::Include;
        let (children, places) = (Vec::new(), HashMap::new());
        Self { keeps_others, children, places, place: place.to_string().into() }
    }

    /// Returns where the child of this name is.
    fn position(&self, name: &str) -> Option<usize> {
        if self.places.is_empty() {
            return self.children.iter().position(|(known, _)| **known == *name);
        }
        self.places.get(name).copied()
    }

    fn push(&mut self, name: &str, child: Child) {
        self.children.push((name.into(), child));
        if self.places.is_empty() {
            if self.children.len() <= FEW {
                return;
            }
            let places = self.children.iter().enumerate();
            self.places = places.map(|(at, (name, _))| (name.clone(), at)).collect();
        } else {
            self.places.insert(name.into(), self.children.len() - 1);
        }
    }

    /// Sets what becomes of the field at a path.
    fn set(
        &mut self,
        names: &[Box<str>],
        child: Child,
        kind: FieldsKind,
        place: &Place<'_>,
    ) -> Result<()> {
        let collision = |code| {
            let text = "expected no path that is a part of another one";
            place.refuse(if kind == FieldsKind::Add { 40176 } else { code }, text)
        };
        let Some((name, rest)) = names.split_first() else { return Ok(()) };
        let known = self.position(name).map(|at| &mut self.children[at].1);
        match (known, rest.is_empty()) {
            (Some(Child::Inside(inner)), false) => inner.set(rest, child, kind, place),
            (Some(Child::Inside(_)), true) => Err(collision(31250)),
            (Some(_), true) => Err(collision(31250)),
            (Some(_), false) => Err(collision(31249)),
            (None, true) => {
                self.push(name, child);
                Ok(())
            }
            (None, false) => {
                let mut inner = Self::empty(kind, place);
                inner.set(rest, child, kind, place)?;
                self.push(name, Child::Inside(inner));
                Ok(())
            }
        }
    }

    fn computes(&self) -> bool {
        self.children.iter().any(|(_, child)| match child {
            Child::Compute(_) => true,
            Child::Inside(inner) => inner.computes(),
            Child::Keep | Child::Drop => false,
        })
    }

    /// Returns the row that a row becomes.
    ///
    /// # Errors
    /// Of the expressions.
    pub(crate) fn apply(&self, row: &Value, context: &EvalContext) -> Result<Value> {
        let empty = Map::new();
        let map = row.as_map().unwrap_or(&empty);
        self.inside(map, row, context, &mut context.memory.hold())
    }

    fn inside(
        &self,
        map: &Map,
        row: &Value,
        context: &EvalContext,
        hold: &mut Hold,
    ) -> Result<Value> {
        let mut pairs: Vec<(Value, Value)> = Vec::with_capacity(map.len());
        let mut done = vec![false; self.children.len()];
        for (key, value) in map {
            let name = key.as_str();
            let Some(at) = name.and_then(|name| self.position(name)) else {
                if self.keeps_others {
                    pairs.push((key.clone(), value.clone()));
                }
                continue;
            };
            let new = match &self.children[at].1 {
                Child::Keep => Some(value.clone()),
                Child::Drop => None,
                // A projection adds what it computes at the end.
                Child::Compute(_) if !self.keeps_others => continue,
                Child::Compute(node) => self.computed(node, row, context, hold)?,
                Child::Inside(inner) => inner.of_value(value, row, context, hold)?,
            };
            done[at] = true;
            pairs.extend(new.map(|new| (key.clone(), new)));
        }
        for ((name, child), _) in self.children.iter().zip(done).filter(|(_, done)| !done) {
            let new = match child {
                Child::Compute(node) => self.computed(node, row, context, hold)?,
                Child::Inside(inner) if inner.computes() => {
                    Some(inner.inside(&Map::new(), row, context, hold)?)
                }
                _ => None,
            };
            pairs.extend(new.map(|new| (Value::from(&**name), new)));
        }
        Ok(super::row::map_of(pairs))
    }

    fn computed(
        &self,
        node: &Node,
        row: &Value,
        context: &EvalContext,
        hold: &mut Hold,
    ) -> Result<Option<Value>> {
        let value = node.evaluate(row, context)?.map(Cow::into_owned);
        if let Some(value) = &value {
            hold.add(weight(value), &self.place)?;
        }
        Ok(value)
    }

    /// Returns what a value on the way becomes: a map, the items of an array, or a scalar.
    fn of_value(
        &self,
        value: &Value,
        row: &Value,
        context: &EvalContext,
        hold: &mut Hold,
    ) -> Result<Option<Value>> {
        match value {
            Value::Map(map) => self.inside(map, row, context, hold).map(Some),
            Value::Array(items) => {
                let mut kept = Vec::with_capacity(items.len());
                for item in items {
                    kept.extend(self.of_value(item, row, context, hold)?);
                }
                Ok(Some(Value::Array(kept)))
            }
            _ if self.computes() => self.inside(&Map::new(), row, context, hold).map(Some),
            scalar => Ok(self.keeps_others.then(|| scalar.clone())),
        }
    }

    /// Calls `found` with the name of each field that is kept, looked into, or read to compute
    /// another; with `None` for the whole row. Returns whether all others are left out.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) -> bool {
        for (name, child) in &self.children {
            match child {
                Child::Keep => found(Some(name)),
                Child::Drop => {}
                Child::Compute(node) => node.each_field(found),
                Child::Inside(inner) => {
                    found(Some(name));
                    inner.each_computed(found);
                }
            }
        }
        !self.keeps_others
    }

    fn each_computed<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        for (_, child) in &self.children {
            match child {
                Child::Compute(node) => node.each_field(found),
                Child::Inside(inner) => inner.each_computed(found),
                Child::Keep | Child::Drop => {}
            }
        }
    }
}

/// Parses `$addFields`.
pub(super) fn parse_add(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Fields> {
    let Some(map) = as_object(value) else {
        return Err(place.refuse(40272, "expected a map of fields and their expressions"));
    };
    let mut fields = Fields::empty(FieldsKind::Add, place);
    for (key, value) in map {
        add(&mut fields, &mut Vec::new(), key, value, place, names)?;
    }
    Ok(fields)
}

/// The deepest nesting of fields.
const DEPTH_MAX: usize = 100;

fn add(
    fields: &mut Fields,
    outer: &mut Vec<Box<str>>,
    key: &Value,
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<()> {
    let name = key.as_str().unwrap_or_default();
    let at = place.field(name);
    let (path, len) = (path_names(name, &at)?, outer.len());
    if path.len() > 1 && len > 0 {
        return Err(at.refuse(40183, "expected the name of a field without a point in a map"));
    }
    outer.extend(path);
    if outer.len() > DEPTH_MAX {
        return Err(at.refuse(code::BAD_VALUE, format!("expected at most {DEPTH_MAX} levels")));
    }
    let nested = value.as_map().filter(|map| !map.is_empty() && !is_operator(map));
    match nested {
        Some(map) => {
            for (key, value) in map {
                add(fields, outer, key, value, &at, names)?;
            }
        }
        None => {
            let is_form = as_object(value).is_none();
            if value.as_map().is_some_and(|map| map.len() > 1 && !is_form) {
                return Err(at.refuse(40181, "expected one operator in a map"));
            }
            let node = parse(value, &at, names)?;
            fields.set(outer, Child::Compute(node), FieldsKind::Add, &at)?;
        }
    }
    outer.truncate(len);
    Ok(())
}

/// Returns whether a map is an operator and its arguments.
fn is_operator(map: &Map) -> bool {
    map.iter().next().and_then(|(key, _)| key.as_str()).is_some_and(|name| name.starts_with('$'))
}

/// Parses `$unset`.
pub(super) fn parse_unset(value: &Value, place: &Place<'_>) -> Result<Fields> {
    let one = std::slice::from_ref(value);
    let items = match value {
        Value::Array(items) if items.is_empty() => {
            return Err(place.refuse(31119, "expected at least one path"));
        }
        Value::Array(items) => items.as_slice(),
        Value::Text(_) => one,
        _ => return Err(place.refuse(31002, "expected a path, or an array of at least one")),
    };
    let mut fields = Fields::empty(FieldsKind::Exclude, place);
    let names: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let names = names.ok_or_else(|| place.refuse(31120, "expected paths that are text"))?;
    if names.iter().any(|name| name.contains('\0')) {
        return Err(place.refuse(9527900, "expected paths without a zero byte"));
    }
    for name in names {
        let path = path_names(name, place)?;
        fields.set(&path, Child::Drop, FieldsKind::Exclude, place)?;
    }
    Ok(fields)
}

/// A field of a projection, before its kind is known.
struct Wanted {
    path: Vec<Box<str>>,
    what: What,
    /// Whether an operator computes it.
    is_operator: bool,
    place: String,
}

enum What {
    Keep,
    Drop,
    Compute(Node),
}

/// Parses `$project`.
pub(super) fn parse_project(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Fields> {
    let Some(map) = as_object(value) else {
        return Err(place.refuse(15969, "expected a map of fields"));
    };
    if map.is_empty() {
        return Err(place.refuse(51272, "expected at least one field"));
    }
    let mut wanted = Vec::new();
    for (key, value) in map {
        collect(&mut wanted, &mut Vec::new(), key, value, place, names)?;
    }
    let is_id = |one: &Wanted| one.path.len() == 1 && &*one.path[0] == "_id";
    let excludes = |one: &Wanted| matches!(one.what, What::Drop);
    // `_id` may be excluded by either kind.
    let others = || wanted.iter().filter(|one| !is_id(one));
    let is_exclusion = match others().next() {
        Some(first) => excludes(first),
        None => wanted.iter().all(excludes),
    };
    for one in others() {
        if excludes(one) != is_exclusion {
            let (code, text) = if is_exclusion {
                let code = match &one.what {
                    What::Compute(_) if one.is_operator => 31252,
                    What::Compute(_) => 31310,
                    _ => 31253,
                };
                (code, "expected only fields to remove, as the first one is")
            } else {
                (31254, "expected only fields to keep or to compute, as the first one is")
            };
            return Err(crate::PipelineError::new(code, &one.place, text));
        }
    }
    let kind = if is_exclusion { FieldsKind::Exclude } else { FieldsKind::Include };
    let mut fields = Fields::empty(kind, place);
    if kind == FieldsKind::Include && !wanted.iter().any(|one| &*one.path[0] == "_id") {
        fields.push("_id", Child::Keep);
    }
    for one in wanted {
        let child = match one.what {
            What::Keep if is_exclusion => continue,
            What::Keep => Child::Keep,
            What::Drop if is_exclusion => Child::Drop,
            What::Drop => continue,
            What::Compute(_) if is_exclusion => {
                let text = "expected only fields to keep or to compute, as this one is";
                return Err(crate::PipelineError::new(31254, &one.place, text));
            }
            What::Compute(node) => Child::Compute(node),
        };
        fields.set(&one.path, child, kind, &Place::Root(&one.place))?;
    }
    Ok(fields)
}

fn collect(
    wanted: &mut Vec<Wanted>,
    outer: &mut Vec<Box<str>>,
    key: &Value,
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<()> {
    let name = key.as_str().unwrap_or_default();
    let at = place.field(name);
    let (path, len) = (path_names(name, &at)?, outer.len());
    outer.extend(path);
    if outer.len() > DEPTH_MAX {
        return Err(at.refuse(code::BAD_VALUE, format!("expected at most {DEPTH_MAX} levels")));
    }
    let what = match value {
        Value::Map(map) if map.is_empty() => {
            return Err(at.refuse(51270, "expected a value or a map of fields"));
        }
        Value::Map(map) if !is_operator(map) => {
            for (key, value) in map {
                collect(wanted, outer, key, value, &at, names)?;
            }
            outer.truncate(len);
            return Ok(());
        }
        Value::Bool(_) => Some(is_true(Some(value))),
        number if NumberType::of(number).is_some() => Some(is_true(Some(number))),
        _ => None,
    };
    let what = match what {
        Some(true) => What::Keep,
        Some(false) => What::Drop,
        None => {
            if let Some((key, _)) = value.as_map().and_then(|map| map.iter().next())
                && let Some(name) = key.as_str().filter(|name| !is_known(name))
            {
                let text = format!("expected the name of an operator, found {name}");
                return Err(at.field(name).refuse(31325, text));
            }
            if as_object(value).is_some_and(|map| map.len() > 1) {
                return Err(at.refuse(16410, "expected an operator alone in its map"));
            }
            What::Compute(parse(value, &at, names)?)
        }
    };
    let is_operator = value.as_map().is_some();
    wanted.push(Wanted { path: outer.clone(), what, is_operator, place: at.to_string() });
    outer.truncate(len);
    Ok(())
}
