//! The types of values, by the names that drivers know.

use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::NumberType;

/// The types that documents hold as maps, by the names of these maps.
const FORMS: [(&str, &str); 9] = [
    ("$timestamp", "timestamp"),
    ("$regularExpression", "regex"),
    ("$code", "javascript"),
    ("$symbol", "symbol"),
    ("$dbPointer", "dbPointer"),
    ("$undefined", "undefined"),
    ("$minKey", "minKey"),
    ("$maxKey", "maxKey"),
    ("$binary", "binData"),
];

/// Returns the type that a map stands for, if it is in the form of one.
fn form(value: &Value) -> Option<&'static str> {
    let map = value.as_map()?;
    let (key, _) = map.iter().next()?;
    let name = key.as_str().filter(|name| name.starts_with('$'))?;
    let is_form = map.len() == 1 || name == "$code" && map.get("$scope").is_some();
    if name == "$code" && map.len() > 1 && is_form {
        return Some("javascriptWithScope");
    }
    FORMS.iter().find(|(form, _)| *form == name && is_form).map(|(_, kind)| *kind)
}

/// Returns whether a map stands for a value of another type.
pub(crate) fn is_form(value: &Value) -> bool {
    form(value).is_some()
}

/// Returns a map. `None` if the value is no map, or the map form of another type.
pub(crate) fn as_object(value: &Value) -> Option<&Map> {
    value.as_map().filter(|_| !is_form(value))
}

/// Returns the name of a type, as `$type` gives it.
pub(crate) fn type_name(value: Option<&Value>) -> &'static str {
    let Some(value) = value else { return "missing" };
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Number(_) | Value::Float(_) => match NumberType::of(value) {
            Some(NumberType::Int) => "int",
            Some(NumberType::Long) => "long",
            Some(NumberType::Decimal) => "decimal",
            _ => "double",
        },
        Value::Text(_) => "string",
        Value::Bytes(_) | Value::Uuid(_) => "binData",
        Value::ObjectId(_) => "objectId",
        Value::DateTime(_) => "date",
        Value::Array(_) => "array",
        Value::Map(_) => form(value).unwrap_or("object"),
    }
}

/// Returns whether a value counts as true.
pub(crate) fn is_true(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(bool)) => *bool,
        Some(number @ (Value::Int(_) | Value::Number(_) | Value::Float(_))) => {
            *number != Value::Int(0)
        }
        Some(map @ Value::Map(_)) => form(map) != Some("undefined"),
        Some(_) => true,
    }
}
