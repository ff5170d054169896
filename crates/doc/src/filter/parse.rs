//! Parses the document form of a filter.

use super::build::{FILTER_NESTING_MAX, Filter};
use super::cursor::{Cursor, parse_json};
use super::error::FilterError;
use super::literal;
use super::model::{Comparison, Node, Operand, Test, TypeSet, all, any, not, one_of};
use super::pattern::Pattern;
use crate::field_path::FieldPath;
use crate::map::Map;
use crate::value::Value;
use crate::value_type::ValueType;
use std::str::FromStr;

const OPERATORS: [&str; 19] = [
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$exists",
    "$type",
    "$prefix",
    "$contains",
    "$regex",
    "$options",
    "$mod",
    "$all",
    "$size",
    "$elemMatch",
    "$not",
];

const OPERATOR: &str = "one of the operators $eq $ne $gt $gte $lt $lte $in $nin $exists $type \
     $prefix $contains $regex $options $mod $all $size $elemMatch $not";

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
        match name {
            "$and" => self.nested(cursor, |parser, cursor| parser.list(cursor).map(all)),
            "$or" => self.nested(cursor, |parser, cursor| parser.list(cursor).map(any)),
            "$nor" => {
                self.nested(cursor, |parser, cursor| parser.list(cursor).map(|list| not(any(list))))
            }
            "$key" if self.elements == 0 => self.condition(cursor, &FieldPath::primary_key()),
            "$key" => Err(cursor.refuse_name("a path, since an element has no key")),
            _ if name.starts_with('$') && !is_path(name) => {
                Err(cursor.refuse_name("a path, $key, $and, $or or $nor"))
            }
            _ => {
                let path = FieldPath::parse(name)
                    .map_err(|error| cursor.refuse_name(format!("a path ({error})")))?;
                self.condition(cursor, &path)
            }
        }
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
        let options = map.get("$options");
        let mut parts = Vec::new();
        for i in 0..map.len() {
            let name = name(cursor, map, i)?;
            if name == "$options" && map.get("$regex").is_some() {
                continue;
            }
            parts.push(cursor.inside_field(i, |cursor| match (name, options) {
                ("$regex", Some(options)) => self.pattern(cursor, path, options),
                _ => self.operator(cursor, name, path),
            })?);
        }
        Ok(all(parts))
    }

    fn operator(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: &str,
        path: &FieldPath,
    ) -> Result<Node, FilterError> {
        self.count(cursor)?;
        let field = |test| Node::Field(path.clone(), test);
        let compare = |cursor: &mut Cursor<'_>, comparison| {
            operand(cursor).map(|operand| field(Test::Compare(comparison, operand)))
        };
        match name {
            "$eq" => compare(cursor, Comparison::Equal),
            "$lt" => compare(cursor, Comparison::Less),
            "$lte" => compare(cursor, Comparison::LessOrEqual),
            "$gt" => compare(cursor, Comparison::Greater),
            "$gte" => compare(cursor, Comparison::GreaterOrEqual),
            "$ne" => self.nested(cursor, |_, cursor| compare(cursor, Comparison::Equal).map(not)),
            "$in" => operands(cursor).map(|list| field(one_of(list))),
            "$nin" => self.nested(cursor, |_, cursor| Ok(not(field(one_of(operands(cursor)?))))),
            "$all" => Ok(every(&operands(cursor)?, path)),
            "$exists" => match cursor.value() {
                Value::Bool(true) => Ok(field(Test::Exists)),
                Value::Bool(false) => self.nested(cursor, |_, _| Ok(not(field(Test::Exists)))),
                _ => Err(cursor.refuse("true or false")),
            },
            "$type" => types(cursor).map(|types| field(Test::Type(types))),
            "$prefix" => text(cursor).map(|text| field(Test::Prefix(text.into()))),
            "$contains" => text(cursor).map(|text| field(Test::Contains(text.into()))),
            "$regex" => self.pattern(cursor, path, &Value::from("")),
            "$mod" => remainder(cursor).map(field),
            "$size" => match cursor.value().as_u64() {
                Some(elements) => Ok(field(Test::Size(elements))),
                None => Err(cursor.refuse("an integer from 0 on")),
            },
            "$elemMatch" => {
                self.elements += 1;
                let node = self.nested(cursor, Self::element);
                self.elements -= 1;
                let node = node?;
                Ok(field(Test::element(node)))
            }
            "$not" => match cursor.value() {
                Value::Map(map) if literal::has_dollar(map) && !literal::is_special(map) => self
                    .nested(cursor, |parser, cursor| parser.operators(cursor, map, path).map(not)),
                _ => Err(cursor.refuse("a map of operators")),
            },
            _ => Err(cursor.refuse_name(OPERATOR)),
        }
    }

    fn pattern(
        &mut self,
        cursor: &Cursor<'_>,
        path: &FieldPath,
        options: &Value,
    ) -> Result<Node, FilterError> {
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(cursor.refuse(format!("at most {PATTERNS_MAX} patterns in a filter")));
        }
        regex(cursor, path, options)
    }

    /// Parses the condition on an element: operators for the element itself, or a document of
    /// conditions on its fields.
    fn element(&mut self, cursor: &mut Cursor<'_>) -> Result<Node, FilterError> {
        match cursor.value() {
            Value::Map(map) => {
                let first = map.iter().next().and_then(|(key, _)| key.as_str());
                if first.is_some_and(|name| OPERATORS.contains(&name)) {
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

fn text<'v>(cursor: &Cursor<'v>) -> Result<&'v str, FilterError> {
    cursor.value().as_str().ok_or_else(|| cursor.refuse("text"))
}

fn regex(cursor: &Cursor<'_>, path: &FieldPath, options: &Value) -> Result<Node, FilterError> {
    let pattern = text(cursor)?;
    let Some(options) = options.as_str() else {
        return Err(cursor.refuse("options of text: letters among imsx"));
    };
    let pattern = Pattern::new(pattern, options).map_err(|expected| cursor.refuse(expected))?;
    Ok(Node::Field(path.clone(), Test::Matches(pattern)))
}

fn types(cursor: &mut Cursor<'_>) -> Result<TypeSet, FilterError> {
    let one = |cursor: &mut Cursor<'_>| {
        let name = cursor.value().as_str();
        name.and_then(ValueType::of_name).ok_or_else(|| {
            cursor.refuse("a type: null, bool, number, text, bytes, datetime, uuid, array or map")
        })
    };
    match cursor.value() {
        Value::Array(items) if !items.is_empty() => (0..items.len())
            .try_fold(TypeSet::default(), |types, i| Ok(types.with(cursor.inside_item(i, one)?))),
        _ => one(cursor).map(|one| TypeSet::default().with(one)),
    }
}

fn remainder(cursor: &Cursor<'_>) -> Result<Test, FilterError> {
    if let Value::Array(items) = cursor.value()
        && let [divisor, remainder] = &**items
        && let (Some(divisor), Some(remainder)) = (divisor.as_i64(), remainder.as_i64())
        && divisor != 0
    {
        return Ok(Test::Remainder { divisor, remainder });
    }
    Err(cursor.refuse("[divisor, remainder]: two integers of 64 bits, the divisor not 0"))
}
