//! Applies an update to a document.

use super::action::{Action, Surroundings};
use super::parse::{Form, Operators, Pipeline, Update};
use super::path::{Name, refusal};
use super::tree::{Elements, Field, UpdateNode, conflict_of};
use crate::error::{PipelineError, Result, code};
use crate::expression;
use crate::memory::Memory;
use crate::same::is_same;
use crate::stage::row_of;
use flagstone::Value;
use flagstone::doc::{DateTime, Map};
use flagstone::internal::interrupt_check;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What an update needs to know besides the document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The position that the filter matched, in the array of [`Update::matched_array`].
    pub position: Option<usize>,
    /// Whether the document is one that an upsert inserts.
    pub is_insert: bool,
    /// The time, for `$currentDate`.
    pub now: DateTime,
}

/// How many elements an array may get at once.
const FILLED_MAX: usize = 1_500_000;

/// The memory of the expressions of an update.
const MEMORY: usize = 64 << 20;

/// The least number of changed fields for which their places in a map are looked up by a hash.
const MANY: usize = 16;

impl Update {
    /// Changes a document, a map. Returns whether anything changed, if only the type of a number.
    /// A replacement keeps the `_id`, which stays the first field.
    ///
    /// # Errors
    /// If the update does not fit the document, such as `$inc` of text, or changes the `_id`. The
    /// document is as before then.
    pub fn apply(&self, document: &mut Value, context: &Context) -> Result<bool> {
        let mut new = match &self.form {
            Form::Replacement(map) => replaced(document, map)?,
            Form::Pipeline(Pipeline(stages)) => {
                let around = expression::EvalContext::new(Memory::new(MEMORY), context.now);
                match row_of(stages, document, &around)? {
                    Some(Value::Map(map)) => replaced(document, &map)?,
                    Some(other) => other,
                    // Updates have no stage that leaves rows out.
                    None => return Ok(false),
                }
            }
            Form::Operators(operators) => {
                let mut new = document.clone();
                if !operators.apply(&mut new, context)? {
                    return Ok(false);
                }
                new
            }
        };
        keep_id(document, &mut new, self, context.is_insert)?;
        if is_same(document, &new) {
            return Ok(false);
        }
        *document = new;
        Ok(true)
    }
}

/// Returns a document that has the fields of `map`, and the `_id` of the old one.
fn replaced(document: &Value, map: &Map) -> Result<Value> {
    let mut new = Map::new();
    let old = document.get("_id");
    if let Some(id) = old.or_else(|| map.get("_id")) {
        new.insert("_id", id);
    }
    if let (Some(old), Some(id)) = (old, map.get("_id"))
        && old != id
    {
        return Err(immutable("another value"));
    }
    let others = map.iter().filter(|(name, _)| name.as_str() != Some("_id")).cloned();
    Ok(Value::Map(new.into_iter().chain(others).collect()))
}

#[cold]
fn immutable(found: &str) -> PipelineError {
    let text = format!("expected no change of this field, found {found}");
    PipelineError::new(code::IMMUTABLE_FIELD, "update._id", text)
}

/// Refuses a change of the `_id`. One that leaves it equal, such as from 1 to 1.0, is undone.
fn keep_id(old: &Value, new: &mut Value, update: &Update, is_insert: bool) -> Result<()> {
    let changed_by = || match &update.form {
        Form::Replacement(_) | Form::Pipeline(_) => "another value".to_owned(),
        Form::Operators(operators) => {
            let action = operators.tree.child("_id").and_then(UpdateNode::first);
            action.map_or_else(|| "a change".to_owned(), |action| action.operator.to_owned())
        }
    };
    match (old.get("_id"), new.get("_id")) {
        (Some(old_id), Some(new_id)) if is_same(old_id, new_id) => Ok(()),
        (Some(old_id), Some(new_id)) if old_id == new_id => {
            let old_id = old_id.clone();
            if let Value::Map(map) = new {
                map.insert("_id", old_id);
            }
            Ok(())
        }
        (None, None) => Ok(()),
        (None, Some(_)) if is_insert => Ok(()),
        _ => Err(immutable(&changed_by())),
    }
}

impl Operators {
    /// Applies the operators. If they are refused, the document may be changed in part.
    fn apply(&self, document: &mut Value, context: &Context) -> Result<bool> {
        let Context { is_insert, now, .. } = *context;
        let mut around = Surroundings { is_insert, now, renamed: Vec::new() };
        let mut is_changed = false;
        // The paths of an update do not overlap, so taking one field changes nothing for others.
        let is_many = self.renames.len() >= MANY;
        let mut early = HashMap::new();
        if is_many {
            let names = self.renames.iter().filter_map(|rename| match &*rename.from {
                [name] => Some(&**name),
                _ => None,
            });
            early = taken_at_once(document, &names.collect());
        }
        for rename in &self.renames {
            interrupt_check()?;
            let refuse = |code, path: &[Box<str>], text: &str| {
                let text = format!("{text}, found {:?}", path.join("."));
                refusal(code, "$rename", &rename.from.join("."), text)
            };
            let in_array =
                |path| refuse(code::BAD_VALUE, path, "expected fields outside of arrays");
            let found = match &*rename.from {
                [name] if is_many => Ok(early.remove(&**name)),
                path => taken(document, path),
            };
            let taken = found.map_err(|blocked| match blocked {
                Blocked::Array => in_array(&rename.from),
                Blocked::Scalar => {
                    let text = "expected a path through maps alone";
                    refuse(code::PATH_NOT_VIABLE, &rename.from, text)
                }
            })?;
            if taken.is_some() {
                if [&rename.from, &rename.to].iter().any(|path| *path[0] == *"_id") {
                    return Err(immutable("$rename"));
                }
                is_changed = true;
                if crosses_array(document, &rename.to) {
                    return Err(in_array(&rename.to));
                }
            }
            around.renamed.push(taken);
        }
        let mut slot = Some(std::mem::take(document));
        let walk = Walk { around, filters: self, position: context.position };
        let applied = walk.node(&self.tree, &mut slot);
        *document = slot.unwrap_or_else(Value::object);
        Ok(applied? || is_changed)
    }
}

/// Takes fields out of a document in the time of one pass over them.
fn taken_at_once(document: &mut Value, names: &HashSet<&str>) -> HashMap<String, Value> {
    let mut found = HashMap::with_capacity(names.len());
    if let Value::Map(map) = document {
        let mut kept = Vec::with_capacity(map.len());
        for (name, value) in std::mem::take(map) {
            match name.as_str().filter(|name| names.contains(name)) {
                Some(name) => drop(found.insert(name.to_owned(), value)),
                None => kept.push((name, value)),
            }
        }
        *map = Map::from_distinct(kept);
    }
    found
}

/// What is on the way of a field that is to be renamed.
enum Blocked {
    Array,
    Scalar,
}

/// Takes the value at a path of fields out of a document.
fn taken(document: &mut Value, path: &[Box<str>]) -> Result<Option<Value>, Blocked> {
    let Some((last, above)) = path.split_last() else { return Ok(None) };
    let mut value = document;
    for name in above {
        value = match value {
            Value::Map(map) => match map.get_mut(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Array(_) => return Err(Blocked::Array),
            _ => return Err(Blocked::Scalar),
        };
    }
    match value {
        Value::Map(map) => Ok(map.remove(last)),
        Value::Array(_) => Err(Blocked::Array),
        _ => Err(Blocked::Scalar),
    }
}

/// Returns whether a path leads into an array.
fn crosses_array(document: &Value, path: &[Box<str>]) -> bool {
    let mut value = document;
    for name in path {
        value = match value {
            Value::Array(_) => return true,
            other => match other.get(name) {
                Some(value) => value,
                None => return false,
            },
        };
    }
    false
}

/// An update that is under way.
struct Walk<'u> {
    around: Surroundings,
    filters: &'u Operators,
    position: Option<usize>,
}

type FieldNodes = BTreeMap<Field, UpdateNode>;

impl Walk<'_> {
    /// Changes the value in `slot`, which may be missing before and after.
    fn node(&self, node: &UpdateNode, slot: &mut Option<Value>) -> Result<bool> {
        match (node, slot) {
            (UpdateNode::Action(action), slot) => action.apply(slot, &self.around),
            (UpdateNode::Fields(fields), slot @ None) => self.create(fields, slot),
            (UpdateNode::Fields(fields), Some(Value::Map(map))) if fields.len() >= MANY => {
                self.many_fields(fields, map)
            }
            (UpdateNode::Fields(fields), Some(Value::Map(map))) => self.fields(fields, map),
            (UpdateNode::Fields(fields), Some(Value::Array(items))) => {
                self.positions(fields, items)
            }
            (UpdateNode::Fields(fields), Some(other)) => self.no_container(fields, other),
            (UpdateNode::Elements(parts), Some(Value::Array(items))) => self.elements(parts, items),
            (UpdateNode::Elements(parts), slot) => self.no_array(parts, slot.as_ref()),
        }
    }

    /// Returns the children by their names; of two that turn out to be the same, one after the
    /// other.
    fn named<'n>(&self, fields: &'n FieldNodes) -> Result<Vec<(Cow<'n, Name>, &'n UpdateNode)>> {
        let mut named = Vec::with_capacity(fields.len());
        for (field, child) in fields {
            match field {
                Field::Name(name) => named.push((Cow::Borrowed(name), child)),
                Field::Matched => {
                    let Some(position) = self.position else { return Err(unmatched(child)) };
                    let name = Name::new(&position.to_string());
                    if let Some(same) = fields.get(&Field::Name(name.clone()))
                        && let Some((one, other)) = same.overlap(child)
                    {
                        return Err(conflict_of(one, other));
                    }
                    named.push((Cow::Owned(name), child));
                }
            }
        }
        Ok(named)
    }

    fn create(&self, fields: &FieldNodes, slot: &mut Option<Value>) -> Result<bool> {
        let mut map = Map::new();
        let is_changed = self.fields(fields, &mut map)?;
        if !map.is_empty() {
            *slot = Some(Value::Map(map));
        }
        Ok(is_changed)
    }

    fn fields(&self, fields: &FieldNodes, map: &mut Map) -> Result<bool> {
        let mut is_changed = false;
        for (name, child) in self.named(fields)? {
            let old = map.get_mut(&name.text);
            let mut slot = old.map(std::mem::take);
            is_changed |= self.node(child, &mut slot)?;
            match (slot, map.get_mut(&name.text)) {
                (Some(new), Some(place)) => *place = new,
                (Some(new), None) => {
                    map.insert(&*name.text, new);
                }
                (None, _) => {
                    map.remove(&name.text);
                }
            }
        }
        Ok(is_changed)
    }

    /// As `fields`, in the time of one pass over the map.
    fn many_fields(&self, fields: &FieldNodes, map: &mut Map) -> Result<bool> {
        let mut is_changed = false;
        let mut pairs: Vec<(Value, Option<Value>)> =
            std::mem::take(map).into_iter().map(|(name, value)| (name, Some(value))).collect();
        let mut places: HashMap<String, usize> = HashMap::with_capacity(pairs.len());
        for (place, (name, _)) in pairs.iter().enumerate() {
            if let Some(name) = name.as_str() {
                places.insert(name.to_owned(), place);
            }
        }
        for (name, child) in self.named(fields)? {
            interrupt_check()?;
            let text = &*name.text;
            match places.get(text) {
                Some(place) => is_changed |= self.node(child, &mut pairs[*place].1)?,
                None => {
                    let mut slot = None;
                    is_changed |= self.node(child, &mut slot)?;
                    if slot.is_some() {
                        places.insert(text.to_owned(), pairs.len());
                        pairs.push((text.into(), slot));
                    }
                }
            }
        }
        let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
        *map = pairs.collect();
        Ok(is_changed)
    }

    /// Changes elements of an array by their positions. Elements that are missing in between
    /// become null, and so does one that is removed.
    fn positions(&self, fields: &FieldNodes, items: &mut Vec<Value>) -> Result<bool> {
        let mut is_changed = false;
        for (name, child) in self.named(fields)? {
            interrupt_check()?;
            let Some(index) = name.index else {
                match self.refusing(child) {
                    None => continue,
                    Some(action) => {
                        let text =
                            format!("expected a position in an array, found {:?}", name.text);
                        return action.refuse(code::PATH_NOT_VIABLE, &text);
                    }
                }
            };
            if let Some(item) = items.get_mut(index) {
                let mut slot = Some(std::mem::take(item));
                is_changed |= self.node(child, &mut slot)?;
                *item = slot.unwrap_or_default();
                continue;
            }
            if index - items.len() > FILLED_MAX
                && let Some(action) = child.find(&|action| action.creates(&self.around))
            {
                let most = items.len() + FILLED_MAX;
                let text = format!("expected a position up to {most} in this array, found {index}");
                return action.refuse(code::BAD_VALUE, &text);
            }
            let mut slot = None;
            is_changed |= self.node(child, &mut slot)?;
            if let Some(new) = slot {
                items.resize(index, Value::Null);
                items.push(new);
            }
        }
        Ok(is_changed)
    }

    fn elements(
        &self,
        parts: &BTreeMap<Elements, UpdateNode>,
        items: &mut [Value],
    ) -> Result<bool> {
        let mut is_changed = false;
        for item in items {
            interrupt_check()?;
            let mut changes: Vec<&UpdateNode> = Vec::new();
            for (which, child) in parts {
                let is_one = match which {
                    Elements::All => true,
                    Elements::Filtered(filter) => match self.filters.filters.get(*filter) {
                        Some(filter) => filter.condition.holds(item)?,
                        None => false,
                    },
                };
                if !is_one {
                    continue;
                }
                if let Some((one, other)) = changes.iter().find_map(|other| other.overlap(child)) {
                    return Err(conflict_of(one, other));
                }
                changes.push(child);
            }
            for child in changes {
                let mut slot = Some(std::mem::take(item));
                let applied = self.node(child, &mut slot);
                *item = slot.unwrap_or_default();
                is_changed |= applied?;
            }
        }
        Ok(is_changed)
    }

    /// Returns an action of the tree that is refused where its path cannot be.
    fn refusing<'n>(&self, node: &'n UpdateNode) -> Option<&'n Action> {
        node.find(&|action| action.needs_path(&self.around))
    }

    /// A path leads through a value that is neither a map nor an array.
    fn no_container(&self, fields: &FieldNodes, value: &Value) -> Result<bool> {
        for (name, child) in self.named(fields)? {
            if let Some(action) = self.refusing(child) {
                let found = value.type_name();
                let text =
                    format!("expected a map or an array that has {:?}, found {found}", name.text);
                return action.refuse(code::PATH_NOT_VIABLE, &text);
            }
        }
        Ok(false)
    }

    /// A path names elements of what is no array.
    fn no_array(
        &self,
        parts: &BTreeMap<Elements, UpdateNode>,
        value: Option<&Value>,
    ) -> Result<bool> {
        let found = value.map_or("nothing", Value::type_name);
        match parts.values().find_map(UpdateNode::first) {
            Some(action) => action
                .refuse(code::BAD_VALUE, &format!("expected an array of elements, found {found}")),
            None => Ok(false),
        }
    }
}

/// The error of a `$` where no position is known.
#[cold]
fn unmatched(node: &UpdateNode) -> PipelineError {
    let text = "expected a filter that matches an element of the array, whose position is $";
    match node.first().map(|action| action.refuse::<()>(code::BAD_VALUE, text)) {
        Some(Err(fault)) => fault,
        _ => PipelineError::new(code::BAD_VALUE, "update", text),
    }
}
