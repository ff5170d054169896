//! Parses the document form of a filter.

use super::build::{FILTER_NESTING_MAX, Filter};
use super::cursor::{Cursor, parse_json};
use super::error::FilterError;
use super::literal;
use super::model::{Comparison, Node, Operand, Test, all, any, not, one_of};
use super::value_test::ValueTest;
use crate::field_path::FieldPath;
use crate::map::Map;
use crate::value::Value;
use std::str::FromStr;

/// The members of a filter besides paths.
const MEMBERS: &[(&str, ParseMember)] = &[
    ("$key", |parser, cursor| match parser.elements {
        0 => parser.condition(cursor, &FieldPath::primary_key()),
        _ => Err(cursor.refuse_name("a path, since an element has no key")),
    }),
    ("$and", |parser, cursor| parser.nested(cursor, |parser, cursor| parser.list(cursor).map(all))),
    ("$or", |parser, cursor| parser.nested(cursor, |parser, cursor| parser.list(cursor).map(any))),
    ("$nor", |parser, cursor| {
        parser.nested(cursor, |parser, cursor| parser.list(cursor).map(|list| not(any(list))))
    }),
];

/// Parses the value of a member, at the cursor.
type ParseMember = fn(&mut Parser, &mut Cursor<'_>) -> Result<Node, FilterError>;

/// The operators of a field, apart from those that test each value by itself, which
/// [`ValueTest::OPERATORS`] lists.
const OPERATORS: &[(&str, ParseOperator)] = &[
    ("$eq", |_, cursor, field| field.compare(cursor, Comparison::Equal)),
    ("$ne", |parser, cursor, field| {
        parser.nested(cursor, |_, cursor| field.compare(cursor, Comparison::Equal).map(not))
    }),
    ("$gt", |_, cursor, field| field.compare(cursor, Comparison::Greater)),
    ("$gte", |_, cursor, field| field.compare(cursor, Comparison::GreaterOrEqual)),
    ("$lt", |_, cursor, field| field.compare(cursor, Comparison::Less)),
    ("$lte", |_, cursor, field| field.compare(cursor, Comparison::LessOrEqual)),
    ("$in", |_, cursor, field| Ok(field.test(one_of(operands(cursor)?)))),
    ("$nin", |parser, cursor, field| {
        parser.nested(cursor, |_, cursor| Ok(not(field.test(one_of(operands(cursor)?)))))
    }),
    ("$all", |_, cursor, field| Ok(every(&operands(cursor)?, field.path))),
    ("$exists", |parser, cursor, field| match cursor.value() {
        Value::Bool(true) => Ok(field.test(Test::Exists)),
        Value::Bool(false) => parser.nested(cursor, |_, _| Ok(not(field.test(Test::Exists)))),
        _ => Err(cursor.refuse("true or false")),
    }),
    ("$size", |_, cursor, field| match cursor.value().as_u64() {
        Some(elements) => Ok(field.test(Test::Size(elements))),
        None => Err(cursor.refuse("an integer from 0 on")),
    }),
    ("$elemMatch", |parser, cursor, field| {
        parser.elements += 1;
        let node = parser.nested(cursor, Parser::element);
        parser.elements -= 1;
        Ok(field.test(Test::element(node?)))
    }),
    ("$not", |parser, cursor, field| match cursor.value() {
        Value::Map(map) if literal::has_dollar(map) && !literal::is_special(map) => parser
            .nested(cursor, |parser, cursor| parser.operators(cursor, map, field.path).map(not)),
        _ => Err(cursor.refuse("a map of operators")),
    }),
    // `$regex` reads them.
    ("$options", |_, cursor, field| match field.operators.get("$regex") {
        Some(_) => Ok(Node::everything()),
        None => Err(cursor.refuse_name("$regex beside $options")),
    }),
];

/// Parses the operand of an operator, at the cursor.
type ParseOperator =
    fn(&mut Parser, &mut Cursor<'_>, FieldOperators<'_>) -> Result<Node, FilterError>;

/// Where an operator is: in the map of operators of a path.
#[derive(Clone, Copy)]
struct FieldOperators<'a> {
    path: &'a FieldPath,
    operators: &'a Map,
}

impl FieldOperators<'_> {
    fn test(self, test: Test) -> Node {
        Node::Field(self.path.clone(), test)
    }

    fn compare(self, cursor: &mut Cursor<'_>, comparison: Comparison) -> Result<Node, FilterError> {
        operand(cursor).map(|operand| self.test(Test::Compare(comparison, operand)))
    }
}

/// Returns the names of all operators of a field.
fn operator_names() -> impl Iterator<Item = &'static str> {
    let of_values = ValueTest::OPERATORS.iter().map(|(name, _)| *name);
    OPERATORS.iter().map(|(name, _)| *name).chain(of_values)
}

/// Returns the row of a name.
fn row<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(row, _)| *row == name).map(|(_, parse)| *parse)
}

impl Filter {
    /// Parses a filter from JSON: a subset of MongoDB's filter documents.
    ///
    /// ```
    /// use flagstone_doc::{Filter, Value};
    /// let filter = Filter::parse(r#"{"score":{"$gte":10},"$or":[{"tags":"rust"},{"n":null}]}"#)?;
    /// let built = Filter::field("tags").eq("rust").or(Filter::field("n").eq(Value::Null));
    /// assert_eq!(filter, Filter::field("score").gte(10).and(built));
    /// let error = Filter::parse(r#"{"score":{"$gte":1,"$size":"x"}}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "filter, byte 27, at score.$size: expected an integer from 0 on, found \"x\""
    /// );
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    ///
    /// # Errors
    /// If `json` is not JSON, has a name twice in one map, or is no filter. The error names the
    /// place and what was expected there.
    pub fn parse(json: &str) -> Result<Self, FilterError> {
        let value = parse_json("filter", json)?;
        Self::read(&mut Cursor::new("filter", Some(json), &value))
    }

    /// Reads a filter from a value of the same form.
    ///
    /// ```
    /// use flagstone_doc::{Filter, doc};
    /// let least = 10;
    /// let filter = Filter::from_value(&doc!({ "score": { "$gte": least } }))?;
    /// assert_eq!(filter, Filter::field("score").gte(10));
    /// let error = Filter::from_value(&doc!({ "score": { "$above": 10 } })).unwrap_err();
    /// assert!(error.to_string().contains("score"), "{error}");
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    ///
    /// # Errors
    /// If the value is no filter. The error names the place in it.
    pub fn from_value(value: &Value) -> Result<Self, FilterError> {
        Self::read(&mut Cursor::new("filter", None, value))
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, FilterError> {
        let mut parser = Parser { conditions: 0, patterns: 0, depth: 0, deepest: 0, elements: 0 };
        let node = parser.document(cursor)?;
        Ok(Self::of(node, parser.deepest))
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(json: &str) -> Result<Self, FilterError> {
        Self::parse(json)
    }
}

/// The most conditions in a filter. Lists of values do not count.
const CONDITIONS_MAX: usize = 10_000;
/// The most regular expressions in a filter: each may take 1 MiB.
const PATTERNS_MAX: usize = 100;

struct Parser {
    /// The number of conditions so far.
    conditions: usize,
    /// The number of regular expressions among them.
    patterns: usize,
    /// The number of negations, alternatives and elements around the current place.
    depth: usize,
    deepest: usize,
    /// The number of elements around the current place.
    elements: usize,
}

impl Parser {
    /// Parses what `inside` parses, one level deeper.
    fn nested<'v>(
        &mut self,
        cursor: &mut Cursor<'v>,
        inside: impl FnOnce(&mut Self, &mut Cursor<'v>) -> Result<Node, FilterError>,
    ) -> Result<Node, FilterError> {
        if self.depth == FILTER_NESTING_MAX {
            return Err(cursor.refuse(format!("conditions at most {FILTER_NESTING_MAX} deep")));
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let node = inside(self, cursor);
        self.depth -= 1;
        node
    }

    fn count(&mut self, cursor: &Cursor<'_>) -> Result<(), FilterError> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(cursor.refuse(format!("at most {CONDITIONS_MAX} conditions in a filter")));
        }
        Ok(())
    }

    /// Parses a map of paths and conditions.
    fn document(&mut self, cursor: &mut Cursor<'_>) -> Result<Node, FilterError> {
        let Value::Map(map) = cursor.value() else {
            return Err(cursor.refuse("a map of paths and conditions"));
        };
        let mut parts = Vec::new();
        for i in 0..map.len() {
            let name = name(cursor, map, i)?;
            self.count(cursor)?;
            parts.push(cursor.inside_field(i, |cursor| self.member(cursor, name))?);
        }
        Ok(all(parts))
    }

    fn member(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Result<Node, FilterError> {
        if let Some(parse) = row(MEMBERS, name) {
            return parse(self, cursor);
        }
        if name.starts_with('$') && !is_path(name) {
            let names: Vec<_> = MEMBERS.iter().map(|(name, _)| *name).collect();
            return Err(cursor.refuse_name(format!("a path or one of {}", names.join(" "))));
        }
        let path = FieldPath::parse(name)
            .map_err(|error| cursor.refuse_name(format!("a path ({error})")))?;
        self.condition(cursor, &path)
    }

    fn list(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Node>, FilterError> {
        match cursor.value() {
            Value::Array(items) if !items.is_empty() => (0..items.len())
                .map(|i| {
                    self.count(cursor)?;
                    cursor.inside_item(i, |cursor| self.document(cursor))
                })
                .collect(),
            _ => Err(cursor.refuse("an array of one filter or more")),
        }
    }

    /// Parses what a path is mapped to: operators, or a value.
    fn condition(
        &mut self,
        cursor: &mut Cursor<'_>,
        path: &FieldPath,
    ) -> Result<Node, FilterError> {
        match cursor.value() {
            Value::Map(map) if literal::has_dollar(map) && !literal::is_special(map) => {
                self.operators(cursor, map, path)
            }
            _ => {
                let operand = operand(cursor)?;
                Ok(Node::Field(path.clone(), Test::Compare(Comparison::Equal, operand)))
            }
        }
    }

    fn operators(
        &mut self,
        cursor: &mut Cursor<'_>,
        map: &Map,
        path: &FieldPath,
    ) -> Result<Node, FilterError> {
        let mut parts = Vec::new();
        for i in 0..map.len() {
            let name = name(cursor, map, i)?;
            let field = FieldOperators { path, operators: map };
            parts.push(cursor.inside_field(i, |cursor| self.operator(cursor, name, field))?);
        }
        Ok(all(parts))
    }

    fn operator(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: &str,
        field: FieldOperators<'_>,
    ) -> Result<Node, FilterError> {
        self.count(cursor)?;
        if let Some(parse) = row(OPERATORS, name) {
            return parse(self, cursor, field);
        }
        let Some(parse) = row(ValueTest::OPERATORS, name) else {
            let names: Vec<_> = operator_names().collect();
            return Err(cursor.refuse_name(format!("one of the operators {}", names.join(" "))));
        };
        let test = parse(cursor, field.operators)?;
        self.patterns += usize::from(matches!(test, ValueTest::Regex(_)));
        if self.patterns > PATTERNS_MAX {
            return Err(cursor.refuse(format!("at most {PATTERNS_MAX} patterns in a filter")));
        }
        Ok(field.test(Test::Value(test)))
    }

    /// Parses the condition on an element: operators for the element itself, or a document of
    /// conditions on its fields.
    fn element(&mut self, cursor: &mut Cursor<'_>) -> Result<Node, FilterError> {
        match cursor.value() {
            Value::Map(map) => {
                let first = map.iter().next().and_then(|(key, _)| key.as_str());
                if first.is_some_and(|first| operator_names().any(|name| name == first)) {
                    self.operators(cursor, map, &FieldPath::root())
                } else {
                    self.document(cursor)
                }
            }
            _ => Err(cursor.refuse("a map of operators or of paths and conditions")),
        }
    }
}

/// Returns whether a name that begins with a dollar sign is a JSONPath.
pub(super) fn is_path(name: &str) -> bool {
    name == "$" || name.starts_with("$.") || name.starts_with("$[")
}

/// Returns the name of pair `index`.
fn name<'v>(cursor: &Cursor<'_>, map: &'v Map, index: usize) -> Result<&'v str, FilterError> {
    let key = map.iter().nth(index).and_then(|(key, _)| key.as_str());
    key.ok_or_else(|| cursor.refuse("a map of names"))
}

fn operand(cursor: &mut Cursor<'_>) -> Result<Operand, FilterError> {
    let value = literal::read(cursor)?;
    Operand::new(value).map_err(|expected| cursor.refuse(expected))
}

fn operands(cursor: &mut Cursor<'_>) -> Result<Vec<Operand>, FilterError> {
    match cursor.value() {
        Value::Array(items) => (0..items.len()).map(|i| cursor.inside_item(i, operand)).collect(),
        _ => Err(cursor.refuse("an array of values")),
    }
}

/// The condition that each operand equals something. Of no operands it never holds.
fn every(operands: &[Operand], path: &FieldPath) -> Node {
    let equal = |operand: &Operand| {
        Node::Field(path.clone(), Test::Compare(Comparison::Equal, operand.clone()))
    };
    match operands {
        [] => Node::Field(path.clone(), Test::never()),
        _ => all(operands.iter().map(equal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table says how an operator is parsed, and its test how it is written.
    #[test]
    fn each_operator_is_written_as_it_is_parsed() {
        let operand = |name| match name {
            "$in" | "$nin" | "$all" | "$mod" => "[1,2]",
            "$size" => "1",
            "$exists" => "true",
            "$elemMatch" | "$not" => r#"{"$gt":1}"#,
            "$regex" => r#""x","$options":"i""#,
            "$type" | "$prefix" | "$contains" => r#""text""#,
            _ => r#"{"x":1}"#,
        };
        for name in operator_names().filter(|name| *name != "$options") {
            let text = format!(r#"{{"a":{{"{name}":{}}}}}"#, operand(name));
            assert_eq!(Filter::parse(&text).unwrap().to_string(), text);
        }
    }
}
