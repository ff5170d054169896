//! Reads an update.

use super::action::{Action, BitChange, CurrentDate, ValueChange, is_integer};
use super::condition::{ArrayFilter, ElementCondition};
use super::path::{self, Step, refusal};
use super::push::Push;
use super::tree::{TreeStep, UpdateNode};
use crate::error::{self, PipelineError, Result, code};
use crate::expression::{Names, as_object, check_depth};
use crate::stage::{self, Stages};
use flagstone::Value;
use flagstone::doc::{Map, ValueType};
use std::fmt;

/// A change of documents: operators, a document that replaces another one, or stages of a pipeline.
///
/// ```
/// use flagstone::doc;
/// use flagstone_pipeline::update::{Context, Update};
/// let update = Update::parse(&doc!({"$inc": {"n": 2}, "$push": {"tags": "new"}}), &[])?;
/// let mut document = doc!({"_id": 1, "n": 5});
/// assert!(update.apply(&mut document, &Context::default())?);
/// assert_eq!(document, doc!({"_id": 1, "n": 7, "tags": ["new"]}));
///
/// let error = Update::parse(&doc!({"$set": {"a": 1, "a.b": 2}}), &[]).unwrap_err();
/// assert_eq!(error.code(), 40);
/// # Ok::<(), flagstone_pipeline::PipelineError>(())
/// ```
#[derive(Debug)]
pub struct Update {
    pub(super) form: Form,
    pub(super) is_upsert: bool,
}

#[derive(Debug)]
pub(super) enum Form {
    Replacement(Map),
    Operators(Operators),
    Pipeline(Pipeline),
}

/// Stages that make a document of a document.
pub(super) struct Pipeline(pub(super) Stages);

/// The stages of updates.
const STAGES: [&str; 6] =
    ["$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith"];

impl Pipeline {
    fn parse(update: &Value, stages: &[Value], array_filters: &[Value]) -> Result<Self> {
        let place = error::Place::Root("update");
        if !array_filters.is_empty() {
            let text = "expected no array filters beside a pipeline";
            return Err(PipelineError::new(code::FAILED_TO_PARSE, "arrayFilters", text));
        }
        for (index, stage) in stages.iter().enumerate() {
            let first = stage.as_map().and_then(|map| map.iter().next());
            let name = first.and_then(|(name, _)| name.as_str()).unwrap_or_default();
            if first.is_some() && !STAGES.contains(&name) {
                let text = format!("expected one of {}, found {name:?}", STAGES.join(" "));
                return Err(place.item(index).refuse(code::INVALID_OPTIONS, text));
            }
        }
        check_depth(update, &place)?;
        stage::parse(update, &place, &mut Names::default()).map(Self)
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pipeline({} stages)", self.0.len())
    }
}

/// Operators, which change places of a document.
#[derive(Debug)]
pub(super) struct Operators {
    pub(super) tree: UpdateNode,
    pub(super) filters: Vec<ArrayFilter>,
    pub(super) renames: Vec<Rename>,
    /// The path before the first `$`.
    pub(super) matched: Option<String>,
}

/// A field that gets another path.
#[derive(Debug)]
pub(super) struct Rename {
    pub(super) from: Box<[Box<str>]>,
    pub(super) to: Box<[Box<str>]>,
}

/// Makes the change of an operator from its operand.
type ParseChange = fn(&'static str, &str, &Value) -> Result<ValueChange>;

/// All operators.
const OPERATORS: &[(&str, ParseChange)] = &[
    ("$set", |_, _, value| Ok(ValueChange::Set(value.clone()))),
    ("$unset", |_, _, _| Ok(ValueChange::Unset)),
    ("$inc", |name, path, value| numeric(name, path, value).map(ValueChange::Increment)),
    ("$mul", |name, path, value| numeric(name, path, value).map(ValueChange::Multiply)),
    ("$min", |_, _, value| Ok(ValueChange::Least(value.clone()))),
    ("$max", |_, _, value| Ok(ValueChange::Greatest(value.clone()))),
    ("$setOnInsert", |_, _, value| Ok(ValueChange::SetOnInsert(value.clone()))),
    ("$currentDate", current_date),
    ("$push", |_, path, value| Push::parse(value, path).map(ValueChange::Push)),
    ("$addToSet", add_to_set),
    ("$pop", |name, path, value| match value.as_i64() {
        Some(1) => Ok(ValueChange::PopLast),
        Some(-1) => Ok(ValueChange::PopFirst),
        _ => refuse(code::FAILED_TO_PARSE, name, path, "1 for the last element, or -1", value),
    }),
    ("$pull", |_, path, value| ElementCondition::of_pull(value, path).map(ValueChange::Pull)),
    ("$pullAll", |name, path, value| match value {
        Value::Array(items) => Ok(ValueChange::PullAll(items.clone())),
        _ => refuse(code::BAD_VALUE, name, path, "an array of values", value),
    }),
    ("$bit", bits),
    // Its operand is a path: `Operators::add_rename` reads it.
    ("$rename", |name, path, value| refuse(code::BAD_VALUE, name, path, "a path", value)),
];

#[cold]
fn refuse<T>(code: i32, operator: &str, path: &str, expected: &str, found: &Value) -> Result<T> {
    let found = match found.value_type() {
        ValueType::Null | ValueType::Bool | ValueType::Number => found.to_string(),
        _ => found.type_name().to_owned(),
    };
    Err(refusal(code, operator, path, format!("expected {expected}, found {found}")))
}

fn numeric(operator: &str, path: &str, value: &Value) -> Result<Value> {
    if value.value_type() == ValueType::Number {
        return Ok(value.clone());
    }
    refuse(code::TYPE_MISMATCH, operator, path, "a number", value)
}

fn current_date(operator: &'static str, path: &str, value: &Value) -> Result<ValueChange> {
    let form = match value {
        Value::Bool(_) => Some(CurrentDate::Date),
        Value::Map(map) if map.len() == 1 => match map.get("$type").and_then(Value::as_str) {
            Some("date") => Some(CurrentDate::Date),
            Some("timestamp") => Some(CurrentDate::Timestamp),
            _ => None,
        },
        _ => None,
    };
    let expected = "true, {\"$type\":\"date\"} or {\"$type\":\"timestamp\"}";
    match form {
        Some(form) => Ok(ValueChange::CurrentDate(form)),
        None => refuse(code::BAD_VALUE, operator, path, expected, value),
    }
}

fn add_to_set(operator: &'static str, path: &str, value: &Value) -> Result<ValueChange> {
    let each = value.as_map().and_then(|map| Some((map, map.get("$each")?)));
    match each {
        None => Ok(ValueChange::AddToSet(vec![value.clone()])),
        Some((map, _)) if map.len() > 1 => {
            refuse(code::BAD_VALUE, operator, path, "no other clause beside $each", value)
        }
        Some((_, Value::Array(items))) => Ok(ValueChange::AddToSet(items.clone())),
        Some((_, other)) => refuse(code::TYPE_MISMATCH, operator, path, "an array as $each", other),
    }
}

fn bits(operator: &'static str, path: &str, value: &Value) -> Result<ValueChange> {
    let expected = "a map of and, or, xor to integers";
    let Value::Map(map) = value else {
        return refuse(code::BAD_VALUE, operator, path, expected, value);
    };
    let mut changes = Vec::new();
    for (name, operand) in map {
        let operation: fn(i64, i64) -> i64 = match name.as_str() {
            Some("and") => |a, b| a & b,
            Some("or") => |a, b| a | b,
            Some("xor") => |a, b| a ^ b,
            _ => return refuse(code::BAD_VALUE, operator, path, expected, name),
        };
        if !is_integer(operand) {
            return refuse(code::BAD_VALUE, operator, path, expected, operand);
        }
        changes.push(BitChange { operation, operand: operand.clone() });
    }
    if changes.is_empty() {
        return refuse(code::BAD_VALUE, operator, path, expected, value);
    }
    Ok(ValueChange::Bits(changes))
}

impl Update {
    /// Reads an update: a map of operators, a replacement, or an array of stages: `$set`, `$unset`,
    /// `$project`, `$replaceWith` and their other names. `array_filters` are the filters that
    /// the steps `$[x]` of its paths name.
    ///
    /// # Errors
    /// The code and the message of what is wrong: an operator that there is not, an operand of a
    /// wrong type, a path that is none, two operators that change one place, an array filter that
    /// is missing or not used.
    pub fn parse(update: &Value, array_filters: &[Value]) -> Result<Self> {
        if let Value::Array(stages) = update {
            let form = Form::Pipeline(Pipeline::parse(update, stages, array_filters)?);
            return Ok(Self { form, is_upsert: false });
        }
        let Value::Map(map) = update else {
            let found = update.type_name();
            let text = format!("expected operators, a replacement or stages, found {found}");
            return Err(PipelineError::new(code::FAILED_TO_PARSE, "update", text));
        };
        let filters = ArrayFilter::parse_all(array_filters)?;
        let first = map.iter().next().and_then(|(name, _)| name.as_str()).unwrap_or_default();
        let form = if first.starts_with('$') {
            Form::Operators(Operators::parse(map, filters)?)
        } else {
            Form::Replacement(replacement(map, &filters)?)
        };
        Ok(Self { form, is_upsert: false })
    }

    /// Returns whether the update replaces whole documents.
    pub const fn is_replacement(&self) -> bool {
        matches!(self.form, Form::Replacement(_))
    }

    /// Returns the path of the array whose matched element the update changes: that before the
    /// first `$` in a path. `None` if no path has one.
    pub fn matched_array(&self) -> Option<&str> {
        match &self.form {
            Form::Operators(operators) => operators.matched.as_deref(),
            Form::Replacement(_) | Form::Pipeline(_) => None,
        }
    }
}

fn replacement(map: &Map, filters: &[ArrayFilter]) -> Result<Map> {
    let names = || map.iter().filter_map(|(name, _)| name.as_str());
    if let Some(name) = names().find(|name| name.starts_with('$')) {
        let text = format!("expected names without $ in a replacement, found {name:?}");
        return Err(PipelineError::new(code::DOLLAR_PREFIXED_FIELD_NAME, "update", text));
    }
    if let Some(filter) = filters.first() {
        return Err(unused(filter));
    }
    Ok(map.clone())
}

#[cold]
fn unused(filter: &ArrayFilter) -> PipelineError {
    let text = format!("expected $[{}] in a path of the update", filter.identifier);
    PipelineError::new(code::FAILED_TO_PARSE, "arrayFilters", text)
}

impl Operators {
    fn parse(map: &Map, filters: Vec<ArrayFilter>) -> Result<Self> {
        let mut used = vec![false; filters.len()];
        let mut operators =
            Self { tree: UpdateNode::default(), filters, renames: Vec::new(), matched: None };
        for (name, operands) in map {
            let text = name.as_str().unwrap_or_default();
            let Some((name, parse)) = OPERATORS.iter().find(|(name, _)| *name == text) else {
                let names: Vec<_> = OPERATORS.iter().map(|(name, _)| *name).collect();
                let text = format!("expected one of {}, found {text:?}", names.join(" "));
                return Err(PipelineError::new(code::FAILED_TO_PARSE, "update", text));
            };
            let Some(operands) = as_object(operands) else {
                let text = format!("expected a map of paths, found {}", operands.type_name());
                let place = format_args!("update.{name}");
                return Err(PipelineError::new(code::FAILED_TO_PARSE, place, text));
            };
            for (path, operand) in operands {
                let path = path.as_str().unwrap_or_default();
                match (*name, operand) {
                    ("$rename", Value::Text(to)) => operators.add_rename(name, path, to)?,
                    _ => {
                        let change = parse(name, path, operand)?;
                        operators.add(name, path, change, &mut used)?;
                    }
                }
            }
        }
        match operators.filters.iter().zip(used).find(|(_, is_used)| !is_used) {
            Some((filter, _)) => Err(unused(filter)),
            None => Ok(operators),
        }
    }

    fn add(
        &mut self,
        operator: &'static str,
        text: &str,
        change: ValueChange,
        used: &mut [bool],
    ) -> Result<()> {
        let steps = path::parse(operator, text)?;
        if self.matched.is_none()
            && let Some(at) = steps.iter().position(|step| *step == Step::Matched)
        {
            self.matched = Some(text.split('.').take(at).collect::<Vec<_>>().join("."));
        }
        let filters = &self.filters;
        let mut place = |step: &Step| {
            TreeStep::of(step, |identifier| {
                match filters.iter().position(|filter| *filter.identifier == *identifier) {
                    Some(index) => {
                        used[index] = true;
                        Ok(index)
                    }
                    None => {
                        let expected = format!("expected an array filter for {identifier:?}");
                        Err(refusal(code::BAD_VALUE, operator, text, expected))
                    }
                }
            })
        };
        let places = steps.iter().map(&mut place).collect::<Result<_, _>>()?;
        self.tree.add(places, Action { operator, path: text.into(), change })
    }

    fn add_rename(&mut self, operator: &'static str, from: &str, to: &str) -> Result<()> {
        let names = |text: &str| {
            let steps = path::parse(operator, text)?;
            let name = |step: Step| match step {
                Step::Name(name) => Ok(name.text),
                _ => {
                    let text = format!("expected a path of names alone, found {text:?}");
                    Err(refusal(code::BAD_VALUE, operator, from, text))
                }
            };
            steps.into_iter().map(name).collect::<Result<Box<[Box<str>]>>>()
        };
        let rename = Rename { from: names(from)?, to: names(to)? };
        if rename.from.starts_with(&rename.to) || rename.to.starts_with(&rename.from) {
            let text = format!("expected another path, and neither in the other, found {to:?}");
            return Err(refusal(code::BAD_VALUE, operator, from, text));
        }
        let index = self.renames.len();
        self.renames.push(rename);
        self.add(operator, from, ValueChange::Renamed, &mut [])?;
        self.add(operator, to, ValueChange::Rename(index), &mut [])
    }
}
