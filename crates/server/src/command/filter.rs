//! Filters, sorts, projections and hints of drivers in the library's terms: `_id` is the primary
//! key.

use super::args::Args;
use super::id::ID;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{FieldKey, FieldPath, Map};
use flagstone::query::{Hint, Projection, SortSpec};
use flagstone::{Collection, Filter, Value, View};

/// The name of the primary key in filters of the library.
const KEY: &str = "$key";

/// Returns the filter that a document is.
pub(crate) fn filter(view: Option<&View<'_>>) -> Outcome<Filter> {
    let value = match view {
        Some(view) => view.to_value()?,
        None => return Ok(Filter::everything()),
    };
    filter_of(value)
}

/// As [`filter`], of a value.
pub(crate) fn filter_of(value: Value) -> Outcome<Filter> {
    Ok(Filter::from_value(&by_key(value)?)?)
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
            Some(1.0) => flagstone::internal::document::sort_key::Direction::Ascending,
            Some(-1.0) => flagstone::internal::document::sort_key::Direction::Descending,
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
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) projection: Option<Projection>,
    pub(crate) with_key: bool,
}

/// Returns the fields that a projection of plain inclusions or exclusions names.
pub(crate) fn fields(args: &Args<'_>) -> Outcome<Fields> {
    let Some(spec) = args.filled_map("projection")? else {
        return Ok(Fields { projection: None, with_key: true });
    };
    let (mut with_key, mut included, mut excluded) = (None, Vec::new(), Vec::new());
    for field in spec.fields()? {
        let (FieldKey::Name(name), value) = field? else {
            return Err(Failure::new(Code::BadValue, "a projection with a name that is no text"));
        };
        let is_in = match (value.as_bool(), value.as_f64()) {
            (Some(is_in), _) => is_in,
            (None, Some(number)) => number != 0.0,
            _ => {
                let text = format_args!("projection.{name}: {value}").to_string();
                return Err(Failure::unsupported(text));
            }
        };
        if name == ID {
            with_key = Some(is_in);
        } else if is_in {
            included.push(path(name)?);
        } else {
            excluded.push(path(name)?);
        }
    }
    if !included.is_empty() && !excluded.is_empty() {
        let text = "a projection either includes fields or excludes some, other than _id";
        return Err(Failure::new(Code::BadValue, text));
    }
    let shown = with_key.unwrap_or(true);
    // Kept beside the key, if the key alone loses its type.
    let kept = FieldPath::of_names([ID]);
    let projection = if !included.is_empty() || with_key == Some(true) && excluded.is_empty() {
        if shown {
            included.push(kept);
        }
        Some(Projection::include(included)?)
    } else if excluded.is_empty() {
        None
    } else {
        Some(Projection::exclude(excluded)?)
    };
    Ok(Fields { projection, with_key: shown })
}

/// Returns the index that a hint names, or a scan.
pub(crate) fn hint(args: &Args<'_>, collection: &Collection) -> Outcome<Option<Hint>> {
    let Some(hint) = args.get("hint")? else { return Ok(None) };
    if let Some(name) = hint.as_str() {
        return Ok(match name {
            "" => None,
            "_id_" => Some(Hint::Scan),
            name if collection.indexes().iter().any(|index| index.name == name) => {
                Some(Hint::index(name))
            }
            name => return Err(no_index(name)),
        });
    }
    if !hint.is_map() || hint.is_empty()? {
        return Ok(None);
    }
    let fields = super::index::fields_of(&hint)?;
    if fields == [ID] || fields == ["$natural"] || fields == ["-$natural"] {
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
