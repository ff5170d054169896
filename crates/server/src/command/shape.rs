//! The shape of a query: what is left without its values. Queries of one shape have the same hash,
//! by which those who watch a server count them together.

use super::args::FORMS;
use flagstone::Value;
use flagstone::doc::Map;
use sha2::{Digest, Sha256};

/// What a shape is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShapeKind {
    /// Queries that say the same in the same order, whatever the values.
    Query,
    /// Queries that a planner treats alike: the order of conditions and of fields has no meaning,
    /// nor has the argument of most operators; the number of values has one.
    Plan,
}

/// The stages of a pipeline that say which fields, or which documents in which order, are read.
const READ_FOR: &[&str] = &[
    "$bucket",
    "$count",
    "$densify",
    "$group",
    "$lookup",
    "$project",
    "$replaceRoot",
    "$setWindowFields",
    "$sort",
    "$sortByCount",
];

/// The stages whose texts are no names, unless they begin with `$`.
const WITH_EXPRESSIONS: &[&str] = &[
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$group",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$sortByCount",
];

/// What a hash is made of.
#[derive(Default)]
pub(super) struct Shape {
    query: String,
    plan: String,
}

impl Shape {
    /// Adds what the command is, and its collection.
    pub(super) fn complete(&mut self, command: &str, namespace: &str) {
        self.add(command, [namespace.to_owned(), String::new()]);
    }

    pub(super) fn filter(&mut self, filter: &Value) {
        self.add(
            "filter",
            [ShapeKind::Query, ShapeKind::Plan].map(|kind| conditions(filter, kind)),
        );
    }

    /// Adds an order: its values are part of the shape.
    pub(super) fn sort(&mut self, sort: &Value) {
        self.add("sort", [sort.to_string(), sort.to_string()]);
    }

    pub(super) fn projection(&mut self, projection: &Value) {
        let mut parts = fields_of(projection);
        let query = parts.join(",");
        parts.sort();
        self.add("projection", [query, parts.join(",")]);
    }

    /// Adds a stage of a pipeline.
    pub(super) fn stage(&mut self, stage: &Value) {
        let Some((name, value)) = stage.as_map().and_then(|stage| stage.iter().next()) else {
            return;
        };
        let name = name.as_str().unwrap_or_default();
        match name {
            "$match" => self.filter(value),
            "$sort" => self.sort(value),
            _ => {
                let query = expression(value, !WITH_EXPRESSIONS.contains(&name));
                let plan = if READ_FOR.contains(&name) { query.clone() } else { String::new() };
                self.add(name, [query, plan]);
            }
        }
    }

    fn add(&mut self, name: &str, [query, plan]: [String; 2]) {
        self.query.push_str(&format!(" {name}:{query}"));
        if !plan.is_empty() {
            self.plan.push_str(&format!(" {name}:{plan}"));
        }
    }

    /// Returns the hash of queries of this shape.
    pub(super) fn query_hash(&self) -> String {
        hexadecimal(&Sha256::digest(&self.query))
    }

    /// Returns the hash of queries that are planned alike.
    pub(super) fn plan_hash(&self) -> String {
        hexadecimal(&Sha256::digest(&self.plan)[..4])
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Returns the operators of a map that is not a value itself.
fn operators(value: &Value) -> Option<&Map> {
    let map = value.as_map()?;
    let first = map.iter().next()?.0.as_str()?;
    (first.starts_with('$') && !FORMS.contains(&first)).then_some(map)
}

/// Returns the shape of a filter.
fn conditions(filter: &Value, kind: ShapeKind) -> String {
    let mut parts = Vec::new();
    add_conditions(filter, kind, &mut parts);
    joined(parts, kind)
}

fn joined(mut parts: Vec<String>, kind: ShapeKind) -> String {
    if kind == ShapeKind::Plan {
        parts.sort();
    }
    parts.join(" ")
}

fn add_conditions(filter: &Value, kind: ShapeKind, parts: &mut Vec<String>) {
    for (name, value) in filter.as_map().into_iter().flat_map(Map::iter) {
        let name = name.as_str().unwrap_or_default();
        match (name, value) {
            ("$and", Value::Array(all)) => {
                all.iter().for_each(|part| add_conditions(part, kind, parts));
            }
            ("$or" | "$nor", Value::Array(all)) => {
                let inner = all.iter().map(|part| format!("({})", conditions(part, kind)));
                parts.push(format!("{name}[{}]", joined(inner.collect(), kind)));
            }
            ("$comment", _) => {}
            ("$expr", value) if kind == ShapeKind::Query => {
                let has_names = false;
                parts.push(format!("$expr {}", expression(value, has_names)));
            }
            (name, _) if name.starts_with('$') => parts.push(name.to_owned()),
            (path, value) => match operators(value) {
                Some(operators) => add_operators(path, operators, kind, parts),
                None => parts.push(operator(path, "$eq", value, kind)),
            },
        }
    }
}

fn add_operators(path: &str, operators: &Map, kind: ShapeKind, parts: &mut Vec<String>) {
    for (name, value) in operators {
        // Options belong to the pattern beside them.
        if let Some(name) = name.as_str().filter(|name| *name != "$options") {
            parts.push(operator(path, name, value, kind));
        }
    }
}

fn operator(path: &str, name: &str, value: &Value, kind: ShapeKind) -> String {
    let argument = match (name, value, kind) {
        ("$not", value, _) => match operators(value) {
            Some(inner) => all_of(inner, kind),
            None => String::new(),
        },
        ("$elemMatch", value, _) => match operators(value) {
            Some(inner) => all_of(inner, kind),
            None => conditions(value, kind),
        },
        ("$all", Value::Array(values), _) => {
            let parts = values.iter().map(|value| match operators(value) {
                Some(inner) => all_of(inner, kind),
                None => literal(value, kind),
            });
            joined(parts.collect(), kind)
        }
        ("$exists", value, _) => {
            let is = value.as_bool().unwrap_or_else(|| value.as_f64() != Some(0.0));
            is.to_string()
        }
        ("$in" | "$nin", Value::Array(values), ShapeKind::Plan) => values.len().to_string(),
        ("$type", Value::Array(types), ShapeKind::Query) => {
            types.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
        }
        ("$type", one, ShapeKind::Query) => one.to_string(),
        (_, value, kind) => literal(value, kind),
    };
    format!("{path:?} {name}({argument})")
}

/// Returns the shape of several operators of one field.
fn all_of(operators: &Map, kind: ShapeKind) -> String {
    let mut parts = Vec::new();
    add_operators("", operators, kind, &mut parts);
    joined(parts, kind)
}

/// Returns what is left of a value.
fn literal(value: &Value, kind: ShapeKind) -> String {
    match kind {
        ShapeKind::Query => format!("?{}", value.type_name()),
        ShapeKind::Plan => String::new(),
    }
}

/// Returns the shape of an expression, or of a stage's argument whose texts are names.
fn expression(value: &Value, has_names: bool) -> String {
    match value {
        Value::Text(text) if has_names || text.starts_with('$') => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| expression(item, has_names)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Map(map) => {
            let fields: Vec<_> = map
                .iter()
                .map(|(name, value)| match (name.as_str(), value) {
                    (Some("$literal"), value) => literal(value, ShapeKind::Query),
                    (Some("pipeline"), Value::Array(stages)) => {
                        let mut inner = Shape::default();
                        stages.iter().for_each(|stage| inner.stage(stage));
                        format!("pipeline:[{}]", inner.query)
                    }
                    (name, value) => format!("{name:?}:{}", expression(value, has_names)),
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        other => literal(other, ShapeKind::Query),
    }
}

/// Returns the fields of a projection: which are kept, left out, or computed.
fn fields_of(projection: &Value) -> Vec<String> {
    let (fields, has_names) = (projection.as_map().into_iter().flat_map(Map::iter), false);
    fields
        .map(|(name, value)| match (value.as_bool(), value.as_f64()) {
            (Some(is), _) => format!("{name}:{is}"),
            (_, Some(number)) => format!("{name}:{}", number != 0.0),
            _ => format!("{name}:{}", expression(value, has_names)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(filter: &str) -> (String, String) {
        let mut shape = Shape::default();
        shape.filter(&flagstone::doc::json::parse(filter).unwrap());
        (shape.query_hash(), shape.plan_hash())
    }

    /// Asserts whether the hashes of two filters are the same: for queries, and for plans.
    fn compare(one: &str, other: &str, same: (bool, bool)) {
        let (one_has, other_has) = (of(one), of(other));
        let found = (one_has.0 == other_has.0, one_has.1 == other_has.1);
        assert_eq!(found, same, "{one} and {other}");
    }

    #[test]
    fn queries_that_differ_in_values_have_one_shape() {
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"a":{"$eq":2}}"#),
            (r#"{"a":1,"b":2}"#, r#"{"$and":[{"a":3},{"b":4}]}"#),
            (r#"{"a":{"$in":[1,2]}}"#, r#"{"a":{"$in":[4,3]}}"#),
            (r#"{"a":{"$not":{"$gt":1}}}"#, r#"{"a":{"$not":{"$gt":2}}}"#),
            (r#"{"a":{"$elemMatch":{"b":1}}}"#, r#"{"a":{"$elemMatch":{"b":2}}}"#),
            (r#"{"a":{"$regex":"x"}}"#, r#"{"a":{"$regex":"y","$options":"i"}}"#),
            (r#"{"a":{"$type":"int"}}"#, r#"{"a":{"$type":["int"]}}"#),
            (r#"{"$expr":{"$gt":["$a",1]}}"#, r#"{"$expr":{"$gt":["$a",2]}}"#),
            (r#"{"a":1}"#, r#"{"a":2,"$comment":"why"}"#),
        ] {
            compare(one, other, (true, true));
        }
    }

    #[test]
    fn the_order_of_conditions_and_the_number_of_values_tell_queries_from_plans() {
        compare(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, (false, true));
        compare(r#"{"$or":[{"a":1},{"b":1}]}"#, r#"{"$or":[{"b":1},{"a":1}]}"#, (false, true));
        compare(r#"{"a":{"$type":"int"}}"#, r#"{"a":{"$type":"string"}}"#, (false, true));
        compare(r#"{"a":1}"#, r#"{"a":"1"}"#, (false, true));
        compare(r#"{"a":{"$in":[1]}}"#, r#"{"a":{"$in":[1,2]}}"#, (true, false));
    }

    #[test]
    fn fields_operators_and_their_places_are_part_of_a_shape() {
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a":1}"#, r#"{"a.b":1}"#),
            (r#"{"a":1}"#, r#"{"a":{"$ne":1}}"#),
            (r#"{"a":{"$in":[1]}}"#, r#"{"a":{"$nin":[1]}}"#),
            (r#"{"a":{"$in":[1]}}"#, r#"{"a":{"$all":[1]}}"#),
            (r#"{"a":{"$all":[1]}}"#, r#"{"a":{"$all":[1,2]}}"#),
            (r#"{"a":{"$exists":true}}"#, r#"{"a":{"$exists":0}}"#),
            (r#"{"$or":[{"a":1}]}"#, r#"{"$nor":[{"a":1}]}"#),
            (r#"{"$or":[{"a":1,"b":1}]}"#, r#"{"$or":[{"a":1},{"b":1}]}"#),
            (r#"{"a":{"$gt":1}}"#, r#"{"a":{"$not":{"$gt":1}}}"#),
        ] {
            compare(one, other, (false, false));
        }
    }
}
