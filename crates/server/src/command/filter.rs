//! Filters, sorts, projections and hints of drivers in the library's terms: `_id` is the primary
//! key.

use super::args::{Args, is_document};
use super::id::ID;
use super::variables::Variables;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, FieldKey, FieldPath, Map};
use flagstone::query::{Direction, Hint, Matcher, Projection, SortSpec};
use flagstone::{Collection, Filter, Value, View};
use flagstone_pipeline::{Condition, FindProjection};

/// The name of the primary key in filters of the library.
const KEY: &str = "$key";

/// Returns the filter that a document is. Expressions are refused.
pub(crate) fn filter(view: Option<&View<'_>>) -> Outcome<Filter> {
    match split(view, &Variables::default())? {
        (filter, None) => Ok(filter),
        (_, Some(_)) => Err(Failure::unsupported("$expr in this filter")),
    }
}

/// Returns the filter that a document is, and the conditions in it that are expressions.
pub(super) fn split(
    view: Option<&View<'_>>,
    variables: &Variables,
) -> Outcome<(Filter, Option<Condition>)> {
    let Some(view) = view else { return Ok((Filter::everything(), None)) };
    let (plain, condition) = Condition::split(&variables.in_filter(view.to_value()?)?)?;
    Ok((Filter::from_value(&by_key(plain)?)?, condition))
}

/// Returns whether a filter has conditions that are expressions.
pub(crate) fn has_expression(view: Option<&View<'_>>) -> Outcome<bool> {
    let Some(view) = view.filter(|view| view.is_map()) else { return Ok(false) };
    for field in view.fields()? {
        let (FieldKey::Name(name), value) = field? else { continue };
        let has = match name {
            "$expr" | "$sampleRate" => true,
            "$and" | "$or" | "$nor" if value.is_array() => {
                let mut has = false;
                for part in value.items()? {
                    has = has || has_expression(Some(&part?))?;
                }
                has
            }
            _ => false,
        };
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Replaces `_id` by the primary key, in the filter and in those it consists of.
fn by_key(filter: Value) -> Outcome<Value> {
    let Value::Map(map) = filter else { return Ok(filter) };
    let mut out = Map::default();
    for (name, value) in map {
        let Value::Text(text) = &name else {
            return Err(Failure::new(Code::BadValue, "a filter with a name that is no text"));
        };
        match text.as_str() {
            ID => {
                out.insert(KEY, value);
            }
            "$and" | "$or" | "$nor" => {
                let value = match value {
                    Value::Array(parts) => {
                        Value::Array(parts.into_iter().map(by_key).collect::<Outcome<_>>()?)
                    }
                    other => other,
                };
                out.insert(name, value);
            }
            "$where" | "$text" | "$jsonSchema" => {
                return Err(Failure::unsupported(format_args!("the operator {text}")));
            }
            "$comment" => {}
            _ => {
                out.insert(name, value);
            }
        }
    }
    Ok(Value::Map(out))
}

/// Returns the order that a document is; `None` for no order.
pub(crate) fn sort(args: &Args<'_>) -> Outcome<Option<SortSpec>> {
    let Some(sort) = args.filled_map("sort")? else { return Ok(None) };
    let mut parts = Vec::new();
    for field in sort.fields()? {
        let (FieldKey::Name(name), direction) = field? else {
            return Err(Failure::new(Code::BadValue, "a sort with a name that is no text"));
        };
        let direction = match direction.as_f64() {
            Some(1.0) => Direction::Ascending,
            Some(-1.0) => Direction::Descending,
            _ if direction.is_map() => {
                return Err(Failure::unsupported(format_args!("sort.{name}: $meta")));
            }
            _ => {
                let text = format!("sort.{name}: expected 1 or -1, found {direction}");
                return Err(Failure::new(Code::BadValue, text));
            }
        };
        if name == "$natural" {
            // The order of documents is that of their keys.
            parts.push((FieldPath::primary_key(), direction));
        } else {
            parts.push((path(name)?, direction));
        }
    }
    Ok(Some(SortSpec::new(parts)?))
}

/// Returns the path of a field; `_id` is the primary key.
pub(crate) fn path(name: &str) -> Outcome<FieldPath> {
    if name == ID {
        return Ok(FieldPath::primary_key());
    }
    if name.is_empty() || name.starts_with('$') {
        let text = format!("expected the path of a field, found {name:?}");
        return Err(Failure::new(Code::BadValue, text));
    }
    FieldPath::parse(name).map_err(|error| Failure::new(Code::BadValue, error.to_string()))
}

/// What a find returns of each document.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// `None` for everything.
    projection: Option<FindProjection>,
}

impl Fields {
    /// Returns the fields that the argument `name` asks for.
    pub(super) fn parse(args: &Args<'_>, name: &str, variables: &Variables) -> Outcome<Self> {
        let projection = match args.filled_map(name)? {
            Some(spec) => Some(FindProjection::parse(&variables.in_fields(spec.to_value()?)?)?),
            None => None,
        };
        Ok(Self { projection })
    }

    /// Returns the projection that the library does while it reads.
    pub(crate) fn plain(&self) -> Option<Projection> {
        self.projection.as_ref().and_then(FindProjection::plain)
    }

    /// Returns whether the key is returned.
    pub(crate) fn has_key(&self) -> bool {
        self.projection.as_ref().is_none_or(FindProjection::keeps_id)
    }

    /// Returns whether fields are computed, or chosen within arrays: the library cannot do that.
    pub(crate) fn is_computed(&self) -> bool {
        self.projection.is_some() && self.plain().is_none()
    }

    /// Returns the projection of a document as drivers see it. `matched` is the filter that it
    /// matched, and the stored document.
    pub(crate) fn project(
        &self,
        document: &Value,
        matched: Option<(&Matcher, &View<'_>)>,
    ) -> Outcome<Value> {
        let Some(projection) = &self.projection else { return Ok(document.clone()) };
        let position = match (projection.matched_array(), matched) {
            (Some(array), Some((matcher, root))) => matcher.position(root, &path(array)?)?,
            _ => None,
        };
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        Ok(projection.apply(document, position, now)?)
    }
}

/// Returns the index that a hint names, or a scan.
pub(crate) fn hint(args: &Args<'_>, collection: &Collection) -> Outcome<Option<Hint>> {
    let Some(hint) = args.get("hint")? else { return Ok(None) };
    if let Some(name) = hint.as_str() {
        return match name {
            "_id_" => Ok(Some(Hint::Scan)),
            name if collection.indexes().iter().any(|index| index.name == name) => {
                Ok(Some(Hint::index(name)))
            }
            name => Err(no_index(name)),
        };
    }
    if !is_document(&hint)? {
        let text = format!("hint: expected the name or the keys of an index, found {hint}");
        return Err(Failure::new(Code::FailedToParse, text));
    }
    if hint.is_empty()? {
        return Ok(None);
    }
    let fields = super::index::fields_of(&hint).map_err(|_wrong| no_index(&hint.to_string()))?;
    if fields == ["$natural"] || fields == ["-$natural"] {
        let direction = hint.get("$natural")?.and_then(|direction| direction.as_f64());
        if direction.is_none_or(|direction| direction.abs() != 1.0) {
            let text = format!("hint.$natural: expected 1 or -1, found {hint}");
            return Err(Failure::new(Code::BadValue, text));
        }
        return Ok(Some(Hint::Scan));
    }
    if fields == [ID] {
        return Ok(Some(Hint::Scan));
    }
    match collection.indexes().iter().find(|index| index.fields == fields) {
        Some(index) => Ok(Some(Hint::index(index.name.clone()))),
        None => Err(no_index(&hint.to_string())),
    }
}

fn no_index(hint: &str) -> Failure {
    let text = format!("hint {hint} does not correspond to an existing index");
    Failure::new(Code::BadValue, text)
}
