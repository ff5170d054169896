//! `$fill`: gives fields that are null or missing a value.

use super::fields::parse_add;
use super::row::map_of;
use super::spec::Stage;
use super::window::Window;
use crate::error::{Place, Result, code};
use crate::expression::{Names, as_object, path_names};
use flagstone::Value;
use flagstone::doc::Map;
use std::sync::Arc;

/// Parses a `$fill` to the stages that it is: a `$setWindowFields` for what comes from other rows,
/// and an `$addFields` for the rest.
pub(super) fn parse_fill(
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<Vec<Stage>> {
    let Some(map) = as_object(value) else {
        return Err(place.refuse(code::FAILED_TO_PARSE, "expected a map with output"));
    };
    let (mut window, mut outputs) = (Map::new(), None);
    for (key, value) in map {
        let name = key.as_str().unwrap_or_default();
        let at = place.field(name);
        let refuse = |text: &str| Err(at.refuse(code::TYPE_MISMATCH, text));
        let is_again = window.get("partitionBy").is_some();
        match (name, value) {
            ("partitionBy" | "partitionByFields", _) if is_again => {
                let text = "expected only one of partitionBy and partitionByFields";
                return Err(place.refuse(6050204, text));
            }
            ("partitionBy", Value::Text(_) | Value::Map(_)) => {
                window.insert("partitionBy", value.clone());
            }
            ("partitionBy", _) => return refuse("expected a path or a map"),
            ("partitionByFields", Value::Array(fields)) => {
                window.insert("partitionBy", partition(fields, &at)?);
            }
            ("partitionByFields", _) => return refuse("expected a list of paths"),
            ("sortBy", Value::Map(_)) => drop(window.insert("sortBy", value.clone())),
            ("sortBy", _) => return refuse("expected a map"),
            ("output", Value::Map(map)) => outputs = Some(map),
            ("output", _) => return refuse("expected a map"),
            (other, _) => {
                let text = format!(
                    "expected partitionBy, partitionByFields, sortBy or output, found {other:?}"
                );
                return Err(place.refuse(40415, text));
            }
        }
    }
    let outputs = outputs.ok_or_else(|| place.refuse(40414, "expected output"))?;
    if outputs.is_empty() {
        return Err(place.field("output").refuse(6050203, "expected at least one field"));
    }
    let (mut functions, mut constants) = (Map::new(), Map::new());
    for (key, value) in outputs {
        let name = key.as_str().unwrap_or_default();
        let at = place.field(name);
        let Some((how, value)) = as_object(value).filter(|map| map.len() == 1).and_then(|map| {
            map.iter().next().and_then(|(how, value)| Some((how.as_str()?, value)))
        }) else {
            let is_both = as_object(value).is_some_and(|map| map.len() > 1);
            let code = if is_both { 6050201 } else { 6050200 };
            return Err(at.refuse(code, "expected either method or value"));
        };
        let field = Value::from(format!("${name}"));
        match (how, value.as_str()) {
            ("value", _) => {
                let either = Value::Array(vec![field, value.clone()]);
                constants.insert(name, map_of(vec![(Value::from("$ifNull"), either)]));
            }
            ("method", Some("locf")) => {
                functions.insert(name, map_of(vec![(Value::from("$locf"), field)]));
            }
            ("method", Some("linear")) => {
                functions.insert(name, map_of(vec![(Value::from("$linearFill"), field)]));
            }
            ("method", _) => return Err(at.refuse(6050202, "expected locf or linear")),
            (other, _) => {
                let text = format!("expected method or value, found {other:?}");
                return Err(at.refuse(40415, text));
            }
        }
    }
    let mut stages = Vec::new();
    if !functions.is_empty() {
        window.insert("output", Value::Map(functions));
        let window = Window::parse(&Value::Map(window), place, names)?;
        stages.push(Stage::Window(Arc::new(window)));
    }
    if !constants.is_empty() {
        let fields = parse_add(&Value::Map(constants), &place.field("output"), names)?;
        stages.push(Stage::Fields(Arc::new(fields)));
    }
    Ok(stages)
}

/// Returns the expression of the values of fields.
fn partition(fields: &[Value], at: &Place<'_>) -> Result<Value> {
    let mut pairs = Map::new();
    for field in fields {
        let Some(name) = field.as_str() else {
            return Err(at.refuse(code::TYPE_MISMATCH, "expected a list of paths"));
        };
        path_names(name, at)?;
        // A name of the map has no point.
        pairs.insert(pairs.len().to_string(), format!("${name}"));
    }
    Ok(Value::Map(pairs))
}
