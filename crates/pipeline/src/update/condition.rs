//! Conditions on elements of arrays: array filters, and what `$pull` removes.

use super::path::refusal;
use crate::error::{PipelineError, Result, code};
use flagstone::doc::Map;
use flagstone::query::Matcher;
use flagstone::{Document, Filter, Value};

/// A condition on an element of an array.
#[derive(Debug)]
pub(super) enum ElementCondition {
    /// The element equals a value.
    Equal(Value),
    /// The element is a map that matches.
    Map(Matcher),
    /// A document whose only field, of this name, is the element matches.
    Field(Box<str>, Matcher),
    /// The element is a map, and a document matches whose only field is an array of it.
    Reference(Matcher),
}

impl ElementCondition {
    /// Reads what `$pull` removes: a value, operators, or a filter of maps.
    pub(super) fn of_pull(value: &Value, path: &str) -> Result<Self> {
        let Value::Map(map) = value else { return Ok(Self::Equal(value.clone())) };
        let first = map.iter().next().and_then(|(name, _)| name.as_str()).unwrap_or_default();
        // Fields of a reference to another document are no operators: a filter has such names
        // inside of elements.
        let of_reference = |(name, _): &(Value, Value)| {
            let first = name.as_str().and_then(|name| name.split('.').next());
            matches!(first, Some("$ref" | "$id" | "$db"))
        };
        let is_of_reference = map.iter().any(of_reference);
        let is_of_document = !is_of_reference
            && (!first.starts_with('$') || matches!(first, "$and" | "$or" | "$nor"));
        let refuse = |error: &dyn std::fmt::Display| {
            refusal(code::BAD_VALUE, "$pull", path, error.to_string())
        };
        if is_of_document {
            return matcher(value).map(Self::Map).map_err(|error| refuse(&error));
        }
        let one = |name, value| Value::Map([(name, value)].into_iter().collect());
        let compiled = |value| matcher(&one(FIELD, value)).map_err(|error| refuse(&error));
        if is_of_reference {
            return compiled(one("$elemMatch", value.clone())).map(Self::Reference);
        }
        Ok(Self::Field(FIELD.into(), compiled(value.clone())?))
    }

    /// Returns whether the condition holds for an element, which is as before afterwards.
    pub(super) fn holds(&self, element: &mut Value) -> Result<bool> {
        match self {
            Self::Equal(value) => Ok(element == value),
            Self::Map(matcher) => Ok(element.as_map().is_some() && matches(matcher, element)?),
            Self::Field(name, matcher) => {
                let mut map = Map::new();
                map.insert(&**name, std::mem::take(element));
                let mut document = Value::Map(map);
                let matches = matches(matcher, &document);
                if let Value::Map(map) = &mut document {
                    *element = map.remove(name).unwrap_or_default();
                }
                matches
            }
            // As it is: a condition on a field looks into arrays of arrays.
            Self::Reference(_) if element.as_map().is_none() => Ok(false),
            Self::Reference(matcher) => {
                let list = Value::Array(vec![std::mem::take(element)]);
                let mut document = Value::Map([(FIELD, list)].into_iter().collect());
                let matches = matches(matcher, &document);
                if let Value::Map(map) = &mut document
                    && let Some(Value::Array(mut list)) = map.remove(FIELD)
                {
                    *element = list.pop().unwrap_or_default();
                }
                matches
            }
        }
    }
}

/// The name of an element in a document of its own.
const FIELD: &str = "element";

fn matcher(filter: &Value) -> Result<Matcher, flagstone::query::FilterError> {
    Filter::of_driver(filter, None)?.compile()
}

fn matches(matcher: &Matcher, value: &Value) -> Result<bool> {
    let document = Document::from_value(value)
        .map_err(|error| PipelineError::new(code::BAD_VALUE, "element", error.to_string()))?;
    Ok(document.matches(matcher))
}

/// An array filter, which `$[x]` in a path names.
#[derive(Debug)]
pub(super) struct ArrayFilter {
    pub(super) identifier: Box<str>,
    pub(super) condition: ElementCondition,
}

impl ArrayFilter {
    /// Reads the array filters of an update.
    pub(super) fn parse_all(filters: &[Value]) -> Result<Vec<Self>> {
        let mut out: Vec<Self> = Vec::new();
        for (index, filter) in filters.iter().enumerate() {
            let refuse = |code, text: String| {
                Err(PipelineError::new(code, format_args!("arrayFilters[{index}]"), text))
            };
            let mut found = None;
            if let Err(text) = identifier(filter, &mut found) {
                return refuse(code::FAILED_TO_PARSE, text);
            }
            let Some(identifier) = found else {
                let text = "expected a condition on an identifier, such as {\"x\":{\"$gt\":1}}";
                return refuse(code::FAILED_TO_PARSE, text.to_owned());
            };
            let is_word = identifier.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_word || !identifier.starts_with(|first: char| first.is_ascii_lowercase()) {
                let text = format!(
                    "expected an identifier of letters and digits that begins with a lowercase \
                     letter, found {identifier:?}"
                );
                return refuse(code::BAD_VALUE, text);
            }
            if out.iter().any(|other| *other.identifier == *identifier) {
                let text = format!("expected one array filter for {identifier:?}, found a second");
                return refuse(code::FAILED_TO_PARSE, text);
            }
            match matcher(filter) {
                Ok(matcher) => {
                    let identifier: Box<str> = identifier.into();
                    let condition = ElementCondition::Field(identifier.clone(), matcher);
                    out.push(Self { identifier, condition });
                }
                Err(error) => return refuse(code::BAD_VALUE, error.to_string()),
            }
        }
        Ok(out)
    }
}

/// Finds the one name with which all paths of a filter begin.
fn identifier<'f>(filter: &'f Value, found: &mut Option<&'f str>) -> Result<(), String> {
    let Value::Map(map) = filter else {
        return Err(format!("expected a filter, found {}", filter.type_name()));
    };
    for (name, value) in map {
        let name = name.as_str().unwrap_or_default();
        match (name, value) {
            ("$and" | "$or" | "$nor", Value::Array(parts)) => {
                // One level of calls a level of filters, of which there are few.
                parts.iter().try_for_each(|part| identifier(part, found))?;
            }
            _ => {
                let first = name.split('.').next().unwrap_or_default();
                match *found {
                    Some(other) if other != first => {
                        return Err(format!(
                            "expected conditions on one identifier, found {other:?} and {first:?}"
                        ));
                    }
                    _ => *found = Some(first),
                }
            }
        }
    }
    Ok(())
}
