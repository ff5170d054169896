//! Parses expressions.

use super::call::{TEXT_END, TEXT_TOO_LONG};
use super::kind::{as_object, is_form, type_name};
use super::node::{CallNode, ListNode, Node, SwitchNode, Variable};
use super::table::{Operator, Shape, operator};
use crate::error::{Place, Result, code};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::{DEPTH_MAX as VALUE_DEPTH_MAX, decimal, extended_scalar, long};

/// The deepest nesting of an expression.
const DEPTH_MAX: usize = 100;
/// The most names of a path.
const PATH_MAX: usize = 200;

/// What an expression is parsed with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// Values are written as in texts, with the forms of Extended JSON. Those of drivers stand for
    /// themselves.
    reads_forms: bool,
    /// Those that a stage has defined around the pipeline.
    pub(crate) outer: Vec<String>,
    /// Those that operators have defined, a list for each scope.
    scopes: Vec<Vec<String>>,
    depth: usize,
}

impl Names {
    /// The variables around a pipeline.
    pub(crate) const fn around(outer: Vec<String>) -> Self {
        Self { reads_forms: false, outer, scopes: Vec::new(), depth: 0 }
    }

    /// Those of a text without variables around it.
    pub(crate) fn of_text() -> Self {
        Self { reads_forms: true, ..Self::default() }
    }

    /// The variables around a pipeline in this one.
    pub(crate) fn inner(&self, outer: Vec<String>) -> Self {
        Self { reads_forms: self.reads_forms, ..Self::around(outer) }
    }

    /// Whether values are written as in texts.
    pub(crate) const fn reads_forms(&self) -> bool {
        self.reads_forms
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        for (up, scope) in self.scopes.iter().rev().enumerate() {
            if let Some(index) = scope.iter().rposition(|known| known == name) {
                return Some(Variable::Bound { up, index });
            }
        }
        if let Some(index) = self.outer.iter().rposition(|known| known == name) {
            return Some(Variable::Outer(index));
        }
        match name {
            "ROOT" | "CURRENT" => Some(Variable::Root),
            "NOW" => Some(Variable::Now),
            "REMOVE" => Some(Variable::Remove),
            _ => None,
        }
    }
}

/// Refuses a value that is nested deeper than documents may be.
pub(crate) fn check_depth(value: &Value, place: &Place<'_>) -> Result<()> {
    if value.is_within_depth(VALUE_DEPTH_MAX) {
        return Ok(());
    }
    let text = format!("expected values nested at most {VALUE_DEPTH_MAX} deep");
    Err(place.refuse(code::OVERFLOW, text))
}

/// Parses an expression.
///
/// # Errors
/// If the value is none: the error has the code that drivers know, and the place.
pub(crate) fn parse(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    if names.depth == DEPTH_MAX {
        return Err(place.refuse(code::BAD_VALUE, format!("expected at most {DEPTH_MAX} levels")));
    }
    names.depth += 1;
    let node = parse_one(value, place, names);
    names.depth -= 1;
    node
}

fn parse_one(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    match value {
        Value::Text(text) if text.starts_with('$') => parse_path(text, place, names),
        Value::Array(items) => {
            Ok(Node::Array(parse_items(items, place, names)?, place.to_string().into()))
        }
        Value::Map(map) => parse_map(value, map, place, names),
        scalar => literal(scalar, place, names).map(Node::Literal),
    }
}

fn parse_items(items: &[Value], place: &Place<'_>, names: &mut Names) -> Result<Vec<Node>> {
    let items = items.iter().enumerate();
    items.map(|(at, item)| parse(item, &place.item(at), names)).collect()
}

/// The names of a reference to a document.
const REFERENCE: [&str; 3] = ["$ref", "$id", "$db"];

/// Splits the names of a path.
///
/// # Errors
/// If one is empty or begins with a dollar sign.
pub(crate) fn path_names(text: &str, place: &Place<'_>) -> Result<Box<[Box<str>]>> {
    let refuse = |code, expected: &str| {
        Err(place.refuse(code, format!("expected {expected}, found {text:?}")))
    };
    let names: Vec<&str> = text.split('.').collect();
    if names.len() > PATH_MAX {
        return refuse(code::OVERFLOW, "a path of at most 200 names");
    }
    if text.is_empty() {
        return refuse(40352, "a path that is not empty");
    }
    if text.ends_with('.') {
        return refuse(40353, "a path that does not end with a point");
    }
    if names.contains(&"") {
        return refuse(15998, "a path without empty names");
    }
    // Those of references to documents may begin with one.
    let is_refused = |name: &&str| name.starts_with('$') && !REFERENCE.contains(name);
    if names.iter().any(is_refused) {
        return refuse(16410, "names of fields that do not begin with '$'");
    }
    if text.contains('\0') {
        return refuse(16411, "names of fields without a zero byte");
    }
    Ok(names.into_iter().map(Box::from).collect())
}

fn parse_path(text: &str, place: &Place<'_>, names: &Names) -> Result<Node> {
    let Some(rest) = text.strip_prefix("$$") else {
        let fields = text.strip_prefix('$').unwrap_or_default();
        if fields.is_empty() {
            return Err(place.refuse(16872, "expected a path behind '$'"));
        }
        return Ok(Node::Path(Variable::Root, path_names(fields, place)?));
    };
    let (name, fields) =
        rest.split_once('.').map_or((rest, None), |(name, rest)| (name, Some(rest)));
    if name.is_empty() || name.starts_with('$') {
        return Err(
            place.refuse(code::FAILED_TO_PARSE, "expected the name of a variable behind \"$$\"")
        );
    }
    if fields == Some("") {
        return Err(place.refuse(40353, "expected a path that does not end with a point"));
    }
    let unknown = || {
        // There is no cluster whose time it could be.
        let code = if name == "CLUSTER_TIME" { 10071200 } else { 17276 };
        place.refuse(code, format!("expected a variable that is defined, found $${name}"))
    };
    let variable = names.variable(name).ok_or_else(unknown)?;
    let fields = fields.map(|fields| path_names(fields, place)).transpose()?;
    Ok(Node::Path(variable, fields.unwrap_or_default()))
}

/// Returns the value of a map that stands for one: `{"$date":..}`, or a type that documents hold as
/// a map.
///
/// # Errors
/// If it is malformed.
fn extended(value: &Value, place: &Place<'_>, names: &Names) -> Result<Option<Value>> {
    let Some(map) = value.as_map() else { return Ok(None) };
    if !names.reads_forms {
        return Ok(is_form(value).then(|| value.clone()));
    }
    let Some((name, inner)) =
        map.iter().next().and_then(|(key, inner)| Some((key.as_str()?, inner)))
    else {
        return Ok(None);
    };
    let typed = match (name, map.len()) {
        ("$numberLong", 1) => inner.as_str().and_then(|text| text.parse().ok()).map(long),
        ("$numberDecimal", 1) => inner.as_str().and_then(decimal),
        _ => None,
    };
    if typed.is_some() {
        return Ok(typed);
    }
    if let Some(read) = extended_scalar(map) {
        let refuse = |expected: &str| {
            place.field(name).refuse(code::FAILED_TO_PARSE, format!("expected {expected}"))
        };
        return read.map(Some).map_err(refuse);
    }
    Ok(is_form(value).then(|| value.clone()))
}

/// Returns a literal value, with the forms of Extended JSON in it read if texts have them.
///
/// # Errors
/// If such a form is malformed, or text is too long.
pub(crate) fn literal(value: &Value, place: &Place<'_>, names: &Names) -> Result<Value> {
    match value {
        Value::Text(text) if text.len() >= TEXT_END => {
            let text = format!("expected text below 16 MiB, found {} bytes", text.len());
            Err(place.refuse(TEXT_TOO_LONG, text))
        }
        _ if !names.reads_forms => Ok(value.clone()),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(at, item)| literal(item, &place.item(at), names))
                .collect::<Result<_>>()
                .map(Value::Array)
        }
        Value::Map(map) => match extended(value, place, names)? {
            Some(value) => Ok(value),
            None => {
                let read = |(key, value): &(Value, Value)| {
                    let name = key.as_str().unwrap_or_default();
                    Ok((key.clone(), literal(value, &place.field(name), names)?))
                };
                Ok(Value::Map(map.iter().map(read).collect::<Result<Map>>()?))
            }
        },
        scalar => Ok(scalar.clone()),
    }
}

fn parse_map(value: &Value, map: &Map, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let first = map.iter().next().and_then(|(key, value)| Some((key.as_str()?, value)));
    if let Some((name, argument)) = first
        && name.starts_with('$')
    {
        if let Some(value) = extended(value, place, names)? {
            return Ok(Node::Literal(value));
        }
        if map.len() > 1 {
            let text = format!("expected one operator in a map, found {name} and others");
            return Err(place.refuse(15983, text));
        }
        return parse_operator(name, argument, &place.field(name), names);
    }
    let mut fields = Vec::with_capacity(map.len());
    for (key, value) in map {
        let Some(name) = key.as_str() else {
            return Err(
                place.refuse(code::BAD_VALUE, format!("expected names of fields, found {key}"))
            );
        };
        check_name(name, place)?;
        fields.push((name.into(), parse(value, &place.field(name), names)?));
    }
    Ok(Node::Object(fields))
}

/// Checks the name of a field that an expression makes.
fn check_name(name: &str, place: &Place<'_>) -> Result<()> {
    let refuse = |code, expected: &str| {
        Err(place.refuse(code, format!("expected {expected}, found {name:?}")))
    };
    if name.is_empty() {
        return refuse(15998, "the name of a field");
    }
    if name.starts_with('$') {
        return refuse(16410, "an operator alone in its map, or names that do not begin with '$'");
    }
    if name.contains('.') {
        return refuse(16412, "the name of a field without a point");
    }
    Ok(())
}

type Special = fn(&Value, &Place<'_>, &mut Names) -> Result<Node>;

/// The operators that do not evaluate all their arguments, or in a scope of their own.
const SPECIAL: [(&str, Special); 18] = [
    ("$literal", |value, place, names| literal(value, place, names).map(Node::Literal)),
    ("$const", |value, place, names| literal(value, place, names).map(Node::Literal)),
    ("$expr", parse),
    ("$and", |value, place, names| arguments(value, place, names).map(Node::All)),
    ("$or", |value, place, names| arguments(value, place, names).map(Node::Any)),
    ("$rand", parse_random),
    ("$cond", parse_choice),
    ("$ifNull", parse_if_null),
    ("$switch", parse_switch),
    ("$let", parse_let),
    ("$map", parse_mapped),
    ("$filter", parse_filtered),
    ("$reduce", parse_reduced),
    ("$sortArray", parse_sorted),
    ("$getField", parse_get_field),
    ("$unsetField", |value, place, names| parse_set_field("$unsetField", value, place, names)),
    ("$setField", |value, place, names| parse_set_field("$setField", value, place, names)),
    ("$convert", |value, place, names| parse_with_error("$convert", value, place, names)),
];

/// Returns whether an expression may begin with this name.
pub(crate) fn is_known(name: &str) -> bool {
    let is_form = || {
        let map: Map = [(name, Value::Null)].into_iter().collect();
        extended_scalar(&map).is_some() || is_form(&Value::Map(map))
    };
    SPECIAL.iter().any(|(special, _)| *special == name)
        || !name.starts_with('$')
        || name == "$dateFromString"
        || operator(name).is_some()
        || is_form()
}

fn parse_operator(name: &str, value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    if let Some((_, parse)) = SPECIAL.iter().find(|(special, _)| *special == name) {
        return parse(value, place, names);
    }
    if name == "$dateFromString" {
        return parse_with_error(name, value, place, names);
    }
    match operator(name) {
        Some(operator) => parse_call(operator, value, place, names),
        None => {
            let text = format!("expected the name of an operator, found {name}");
            Err(place.refuse(code::INVALID_OPERATOR, text))
        }
    }
}

/// Parses arguments: those of an array, or a single one.
fn arguments(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Vec<Node>> {
    match value {
        Value::Array(items) => parse_items(items, place, names),
        one => Ok(vec![parse(one, place, names)?]),
    }
}

fn call(operator: &Operator, args: Vec<Option<Node>>, place: &Place<'_>) -> Node {
    let is_missing_null = matches!(operator.shape, Shape::Named(_));
    let (function, place) = (operator.function, place.to_string().into());
    Node::Call(Box::new(CallNode { function, args, is_missing_null, place }))
}

fn parse_call(
    operator: &Operator,
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<Node> {
    match operator.shape {
        Shape::Alone => {
            let arg = parse(value, place, names)?;
            Ok(call(operator, vec![Some(arg)], place))
        }
        Shape::List(least, most) => {
            let args = arguments(value, place, names)?;
            if !(least..=most).contains(&args.len()) {
                let expected = match (least, most) {
                    (1, 1) => "1 argument".to_owned(),
                    (least, most) if least == most => format!("{least} arguments"),
                    (least, usize::MAX) => format!("at least {least} arguments"),
                    (least, most) => format!("from {least} to {most} arguments"),
                };
                let code = match operator.name {
                    "$setEquals" => 17045,
                    "$toUpper" | "$toLower" => 16020,
                    name if name.starts_with("$to") => 50723,
                    _ if least == most => 16020,
                    _ => 28667,
                };
                return Err(place.refuse(
                    code,
                    format!("{} expected {expected}, found {}", operator.name, args.len()),
                ));
            }
            let is_no_array = |node: &Node| match node {
                Node::Literal(value) => value.as_array().is_none(),
                Node::Object(fields) => {
                    fields.iter().all(|(_, node)| matches!(node, Node::Literal(_)))
                }
                _ => false,
            };
            if operator.name == "$setEquals" && args.iter().any(is_no_array) {
                return Err(place.refuse(5887502, "$setEquals expected arrays"));
            }
            Ok(call(operator, args.into_iter().map(Some).collect(), place))
        }
        Shape::Named(known) | Shape::NamedWithMissing(known) => {
            let args = named(operator.name, known, value, place, names)?;
            Ok(call(operator, args, place))
        }
        Shape::DatePart => {
            let known: &[_] = &[("date", 40539), ("timezone", 0)];
            let is_named = |map: &Map| {
                let first = map.iter().next().and_then(|(key, _)| key.as_str());
                first.is_none_or(|name| !name.starts_with('$'))
            };
            let mut args = match value {
                Value::Map(map) if is_named(map) => {
                    named(operator.name, known, value, place, names)?
                }
                other => {
                    let args = arguments(other, place, names)?;
                    if args.len() != 1 {
                        let text =
                            format!("{} expected 1 argument, found {}", operator.name, args.len());
                        return Err(place.refuse(40536, text));
                    }
                    args.into_iter().map(Some).collect()
                }
            };
            args.resize(2, None);
            let mut node = call(operator, args, place);
            if let Node::Call(call) = &mut node {
                call.is_missing_null = true;
            }
            Ok(node)
        }
    }
}

/// Returns the fields of a map by the names that are known.
fn fields<'v>(
    operator: &str,
    known: &[(&str, i32)],
    value: &'v Value,
    place: &Place<'_>,
    codes: [i32; 2],
) -> Result<Vec<Option<&'v Value>>> {
    let list = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Some(map) = as_object(value) else {
        let text =
            format!("{operator} expected a map with {}, found {}", list(), type_name(Some(value)));
        return Err(place.refuse(codes[0], text));
    };
    let mut found = vec![None; known.len()];
    for (key, value) in map {
        let index = known.iter().position(|(name, _)| key.as_str() == Some(name));
        let Some(index) = index else {
            let text = format!("{operator} expected fields among {}, found {key}", list());
            return Err(place.refuse(codes[1], text));
        };
        found[index] = Some(value);
    }
    for ((name, code), value) in known.iter().zip(&found) {
        if *code != 0 && value.is_none() {
            return Err(place.refuse(*code, format!("{operator} expected a field {name}")));
        }
    }
    Ok(found)
}

/// The codes of a bad shape and of an unknown field, by operator.
fn codes(operator: &str) -> [i32; 2] {
    match operator {
        "$trim" | "$ltrim" | "$rtrim" => [50696, 50694],
        "$regexMatch" | "$regexFind" | "$regexFindAll" => [51103, 31024],
        "$replaceOne" | "$replaceAll" => [51751, 51750],
        "$convert" => [code::FAILED_TO_PARSE; 2],
        "$dateToString" => [18629, 18534],
        "$dateFromString" => [40540, 40541],
        "$dateAdd" | "$dateSubtract" => [5166400, 5166401],
        "$dateDiff" => [5166301, 5166302],
        "$dateTrunc" => [5439007, 5439008],
        "$dateToParts" => [40524, 40520],
        "$dateFromParts" => [40519, 40518],
        "$zip" => [34460, 34464],
        "$sortArray" => [2942500, 2942501],
        "$getField" => [3041701; 2],
        "$setField" | "$unsetField" => [4161100, 4161101],
        "$firstN" | "$lastN" | "$minN" | "$maxN" => [5787900, 5787901],
        "$median" | "$percentile" => [7436201, 40415],
        _ => [40539, 40535],
    }
}

fn named(
    operator: &str,
    known: &[(&str, i32)],
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<Vec<Option<Node>>> {
    let found = fields(operator, known, value, place, codes(operator))?;
    let found = known.iter().zip(found);
    let parse = |((name, _), value): (&(&str, i32), Option<&Value>)| {
        value.map(|value| parse(value, &place.field(name), names)).transpose()
    };
    found.map(parse).collect()
}

fn parse_choice(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let nodes = match value {
        Value::Map(_) => {
            let known = [("if", 17080), ("then", 17081), ("else", 17082)];
            let found = fields("$cond", &known, value, place, [17083; 2])?;
            let found = known.iter().zip(found);
            let parse = |((name, _), value): (&(&str, i32), Option<&Value>)| {
                parse(value.unwrap_or(&Value::Null), &place.field(name), names)
            };
            found.map(parse).collect::<Result<Vec<_>>>()?
        }
        other => arguments(other, place, names)?,
    };
    let count = nodes.len();
    let refuse = |_| place.refuse(16020, format!("$cond expected 3 arguments, found {count}"));
    let nodes: [Node; 3] = nodes.try_into().map_err(refuse)?;
    Ok(Node::Choice(Box::new(nodes)))
}

fn parse_random(value: &Value, place: &Place<'_>, _: &mut Names) -> Result<Node> {
    let code = match value {
        Value::Array(items) if items.is_empty() => None,
        Value::Array(_) => Some(3040501),
        other => match as_object(other) {
            Some(map) if map.is_empty() => None,
            Some(_) => Some(3040501),
            None => Some(10065),
        },
    };
    match (code, operator("$rand")) {
        (None, Some(operator)) => Ok(call(operator, Vec::new(), place)),
        (code, _) => Err(place.refuse(code.unwrap_or_default(), "$rand expected no arguments")),
    }
}

fn parse_if_null(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let nodes = arguments(value, place, names)?;
    if nodes.len() < 2 {
        let text = format!("$ifNull expected at least 2 arguments, found {}", nodes.len());
        return Err(place.refuse(1257300, text));
    }
    Ok(Node::IfNull(nodes))
}

fn parse_switch(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let known = [("branches", 40068), ("default", 0)];
    let found = fields("$switch", &known, value, place, [40060, 40067])?;
    let at = place.field("branches");
    let Some(Value::Array(items)) = found[0] else {
        return Err(at.refuse(40061, "$switch expected an array of branches"));
    };
    let mut branches = Vec::with_capacity(items.len());
    for (index, branch) in items.iter().enumerate() {
        let at = at.item(index);
        let known = [("case", 40064), ("then", 40065)];
        let parts = fields("$switch", &known, branch, &at, [40062, 40063])?;
        let mut part = |index: usize, name: &str| {
            parse(parts[index].unwrap_or(&Value::Null), &at.field(name), names)
        };
        branches.push((part(0, "case")?, part(1, "then")?));
    }
    let default =
        found[1].map(|default| parse(default, &place.field("default"), names)).transpose()?;
    if branches.is_empty() {
        return Err(at.refuse(40068, "$switch expected at least one branch"));
    }
    let place = place.to_string().into();
    Ok(Node::Switch(Box::new(SwitchNode { branches, default, place })))
}

/// Checks the name of a variable that a pipeline defines.
pub(crate) fn check_variable(name: &str, place: &Place<'_>) -> Result<()> {
    let mut chars = name.chars();
    let is_first =
        chars.next().is_some_and(|first| first.is_ascii_lowercase() || !first.is_ascii());
    let is_rest = |char: char| char.is_ascii_alphanumeric() || char == '_' || !char.is_ascii();
    if name == "CURRENT" || is_first && chars.all(is_rest) {
        return Ok(());
    }
    let text = format!(
        "expected the name of a variable that begins with a small letter and goes on with \
         letters, digits and '_', found {name:?}"
    );
    Err(place.refuse(code::FAILED_TO_PARSE, text))
}

/// Parses with new variables in scope.
fn scoped(
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
    variables: Vec<String>,
) -> Result<Node> {
    names.scopes.push(variables);
    let node = parse(value, place, names);
    names.scopes.pop();
    node
}

fn parse_let(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let known = [("vars", 16876), ("in", 16877)];
    let found = fields("$let", &known, value, place, [16874, 16875])?;
    let at = place.field("vars");
    let Some(map) = found[0].and_then(as_object) else {
        let is_array = found[0].is_some_and(|value| value.as_array().is_some());
        let code = if is_array { code::FAILED_TO_PARSE } else { 10065 };
        return Err(at.refuse(code, "$let expected a map of variables"));
    };
    let (mut values, mut variables) = (Vec::new(), Vec::new());
    for (key, value) in map {
        let name = key.as_str().unwrap_or_default();
        check_variable(name, &at)?;
        values.push(parse(value, &at.field(name), names)?);
        variables.push(name.to_owned());
    }
    let body = scoped(found[1].unwrap_or(&Value::Null), &place.field("in"), names, variables)?;
    Ok(Node::Let(Box::new((values, body))))
}

/// Returns the name of the variable of an item.
fn item_name(value: Option<&Value>, place: &Place<'_>) -> Result<String> {
    let Some(value) = value else { return Ok("this".to_owned()) };
    let at = place.field("as");
    let Some(name) = value.as_str() else {
        return Err(at.refuse(code::FAILED_TO_PARSE, "expected the name of a variable"));
    };
    check_variable(name, &at)?;
    Ok(name.to_owned())
}

fn list_node(input: Node, body: Node, extra: Option<Node>, place: &Place<'_>) -> Box<ListNode> {
    Box::new(ListNode { input, body, extra, place: place.to_string().into() })
}

fn parse_mapped(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let known = [("input", 16880), ("as", 0), ("in", 16882)];
    let found = fields("$map", &known, value, place, [16878, 16879])?;
    let input = parse(found[0].unwrap_or(&Value::Null), &place.field("input"), names)?;
    let variables = vec![item_name(found[1], place)?];
    let body = scoped(found[2].unwrap_or(&Value::Null), &place.field("in"), names, variables)?;
    Ok(Node::Map(list_node(input, body, None, place)))
}

fn parse_filtered(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let known = [("input", 28648), ("as", 0), ("cond", 28650), ("limit", 0)];
    let found = fields("$filter", &known, value, place, [28646, 28647])?;
    let input = parse(found[0].unwrap_or(&Value::Null), &place.field("input"), names)?;
    let limit = found[3].map(|limit| parse(limit, &place.field("limit"), names)).transpose()?;
    let variables = vec![item_name(found[1], place)?];
    let body = scoped(found[2].unwrap_or(&Value::Null), &place.field("cond"), names, variables)?;
    Ok(Node::Filter(list_node(input, body, limit, place)))
}

fn parse_reduced(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let known = [("input", 40077), ("initialValue", 40078), ("in", 40079)];
    let found = fields("$reduce", &known, value, place, [40075, 40076])?;
    let input = parse(found[0].unwrap_or(&Value::Null), &place.field("input"), names)?;
    let initial = found[1].unwrap_or(&Value::Null);
    let initial = parse(initial, &place.field("initialValue"), names)?;
    let variables = vec!["this".to_owned(), "value".to_owned()];
    let body = scoped(found[2].unwrap_or(&Value::Null), &place.field("in"), names, variables)?;
    Ok(Node::Reduce(list_node(input, body, Some(initial), place)))
}

fn parse_sorted(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let Some(operator) = operator("$sortArray") else { return Ok(Node::Literal(Value::Null)) };
    let known = [("input", 2942502), ("sortBy", 2942503)];
    let found = fields("$sortArray", &known, value, place, codes("$sortArray"))?;
    let input = parse(found[0].unwrap_or(&Value::Null), &place.field("input"), names)?;
    let by = literal(found[1].unwrap_or(&Value::Null), &place.field("sortBy"), names)?;
    Ok(call(operator, vec![Some(input), Some(Node::Literal(by))], place))
}

/// The name of a field is a literal, also if it begins with a dollar sign.
fn parse_name(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    parse(value, &place.field("field"), names)
}

fn parse_get_field(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    let Some(operator) = operator("$getField") else { return Ok(Node::Literal(Value::Null)) };
    let is_named = value.as_map().is_some_and(|map| {
        map.iter().all(|(key, _)| key.as_str().is_some_and(|name| !name.starts_with('$')))
    });
    let root = || Node::Path(Variable::Root, Box::default());
    if !is_named {
        let field = parse_name(value, place, names)?;
        return Ok(call(operator, vec![Some(field), Some(root())], place));
    }
    let known = [("field", 3041702), ("input", 3041703)];
    let found = fields("$getField", &known, value, place, codes("$getField"))?;
    let field = parse_name(found[0].unwrap_or(&Value::Null), place, names)?;
    let input = found[1].map(|input| parse(input, &place.field("input"), names)).transpose()?;
    Ok(call(operator, vec![Some(field), Some(input.unwrap_or_else(root))], place))
}

fn parse_set_field(
    name: &str,
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<Node> {
    let Some(operator) = operator(name) else { return Ok(Node::Literal(Value::Null)) };
    let known: &[_] = match operator.shape {
        Shape::NamedWithMissing(known) => known,
        _ => &[],
    };
    let args = named(name, known, value, place, names)?;
    let code = match args.first() {
        Some(Some(Node::Literal(Value::Text(text)))) if text.contains('\0') => Some(9534700),
        Some(Some(Node::Literal(Value::Text(_)))) => None,
        Some(Some(Node::Literal(_))) => Some(4161107),
        Some(Some(Node::Object(fields))) if fields.is_empty() => Some(4161107),
        Some(Some(Node::Path(..))) => Some(4161108),
        _ => Some(4161106),
    };
    if let Some(code) = code {
        let text = format!("{name} expected a literal name as field");
        return Err(place.field("field").refuse(code, text));
    }
    Ok(call(operator, args, place))
}

/// Parses an operator with an argument `onError`, which is evaluated only then.
fn parse_with_error(
    name: &str,
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
) -> Result<Node> {
    let Some(operator) = operator(name) else { return Ok(Node::Literal(Value::Null)) };
    let on_error = value.as_map().and_then(|map| map.get("onError"));
    let Some(on_error) = on_error else { return parse_call(operator, value, place, names) };
    let mut rest = value.as_map().cloned().unwrap_or_default();
    rest.remove("onError");
    let Node::Call(call) = parse_call(operator, &Value::Map(rest), place, names)? else {
        return Ok(Node::Literal(Value::Null));
    };
    let on_error = parse(on_error, &place.field("onError"), names)?;
    Ok(Node::OrOnError(Box::new((*call, on_error))))
}
