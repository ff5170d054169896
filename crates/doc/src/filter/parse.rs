//! Parses the document form of a filter.

use super::build::{FILTER_NESTING_MAX, Filter};
use super::cursor::{Cursor, Form, parse_json};
use super::error::FilterError;
use super::literal;
use super::model::{Comparison, FilterNode, Operand, Test, all, any, not, one_of};
use super::operator;
use super::pattern::Pattern;
use super::value_test::{REGEX_FORM, ValueTest, regex_parts};
use crate::field_path::FieldPath;
use crate::map::Map;
use crate::value::Value;
use std::cmp::Ordering;
use std::str::FromStr;

/// The members of a filter besides paths.
const MEMBERS: &[(&str, ParseMember)] = &[
    ("$key", |parser, cursor| match parser.elements {
        0 => parser.condition(cursor, &FieldPath::primary_key()),
        _ => Err(cursor.refuse_name("a path, since an element has no key")),
    }),
    (operator::AND, |parser, cursor| {
        parser.nested(cursor, |parser, cursor| parser.list(cursor).map(all))
    }),
    (operator::OR, |parser, cursor| {
        parser.nested(cursor, |parser, cursor| parser.list(cursor).map(any))
    }),
    (operator::NOR, |parser, cursor| {
        parser.nested(cursor, |parser, cursor| parser.list(cursor).map(|list| not(any(list))))
    }),
    // Any value, for people who read logs.
    ("$comment", |_, _| Ok(FilterNode::everything())),
];

/// Parses the value of a member, at the cursor.
type ParseMember = fn(&mut FilterParser, &mut Cursor<'_>) -> Result<FilterNode, FilterError>;

/// The operators of a field, apart from those that test each value by itself, which
/// [`ValueTest::OPERATORS`] lists.
const OPERATORS: &[(&str, ParseOperator)] = &[
    (operator::EQUAL, |_, cursor, field| field.compare(cursor, Comparison::Equal)),
    (operator::NOT_EQUAL, |parser, cursor, field| {
        refuse_pattern(cursor)?;
        parser.nested(cursor, |_, cursor| field.compare(cursor, Comparison::Equal).map(not))
    }),
    (operator::GREATER, |_, cursor, field| field.compare(cursor, Comparison::Greater)),
    (operator::GREATER_OR_EQUAL, |_, cursor, field| {
        field.compare(cursor, Comparison::GreaterOrEqual)
    }),
    (operator::LESS, |_, cursor, field| field.compare(cursor, Comparison::Less)),
    (operator::LESS_OR_EQUAL, |_, cursor, field| field.compare(cursor, Comparison::LessOrEqual)),
    (operator::IN, |parser, cursor, field| parser.one_of(cursor, field)),
    (operator::NOT_IN, |parser, cursor, field| {
        parser.nested(cursor, |parser, cursor| parser.one_of(cursor, field).map(not))
    }),
    (operator::ALL, |parser, cursor, field| parser.every(cursor, field)),
    (operator::EXISTS, |parser, cursor, field| {
        let exists = match &*cursor.plain() {
            Value::Bool(exists) => Some(*exists),
            number => number.as_f64().map(|number| number != 0.0),
        };
        match exists {
            Some(true) => Ok(field.test(Test::Exists)),
            Some(false) => parser.nested(cursor, |_, _| Ok(not(field.test(Test::Exists)))),
            None => Err(cursor.refuse("true or false, or a number")),
        }
    }),
    (operator::SIZE, |_, cursor, field| match cursor.plain().as_u64() {
        Some(elements) => Ok(field.test(Test::Size(elements))),
        None => Err(cursor.refuse("an integer from 0 on")),
    }),
    (operator::ELEMENT, |parser, cursor, field| {
        parser.elements += 1;
        let node = parser.nested(cursor, FilterParser::element);
        parser.elements -= 1;
        Ok(field.test(Test::element(node?)))
    }),
    (operator::NOT, |parser, cursor, field| match cursor.value() {
        Value::Map(map) if literal::has_operators(map, cursor.form()) => parser
            .nested(cursor, |parser, cursor| parser.operators(cursor, map, field.path).map(not)),
        _ => Err(cursor.refuse("a map of operators")),
    }),
    // What drivers make of their regular expressions: it stands for `$regex`.
    (REGEX_FORM, |parser, cursor, field| {
        let Some((pattern, options)) = regex_parts(cursor.value()) else {
            return Err(cursor.refuse("a map of pattern and options, both text"));
        };
        let pattern = Pattern::new(pattern, options).map_err(|expected| cursor.refuse(expected))?;
        parser.value_test(cursor, field, ValueTest::Regex(pattern))
    }),
    // `$regex` reads them.
    ("$options", |_, cursor, field| match field.operators.get("$regex") {
        Some(_) => Ok(FilterNode::everything()),
        None => Err(cursor.refuse_name("$regex beside $options")),
    }),
];

/// Parses the operand of an operator, at the cursor.
type ParseOperator =
    fn(&mut FilterParser, &mut Cursor<'_>, FieldOperators<'_>) -> Result<FilterNode, FilterError>;

/// Where an operator is: in the map of operators of a path.
#[derive(Clone, Copy)]
struct FieldOperators<'a> {
    path: &'a FieldPath,
    operators: &'a Map,
}

impl FieldOperators<'_> {
    fn test(self, test: Test) -> FilterNode {
        FilterNode::Field(self.path.clone(), test)
    }

    fn compare(
        self,
        cursor: &mut Cursor<'_>,
        comparison: Comparison,
    ) -> Result<FilterNode, FilterError> {
        if comparison != Comparison::Equal {
            refuse_pattern(cursor)?;
        }
        let operand = operand(cursor)?;
        Ok(self.test(limit(comparison, &operand).unwrap_or(Test::Compare(comparison, operand))))
    }
}

/// The members and the operators that MongoDB lacks.
const OWN: [&str; 3] = ["$key", "$prefix", "$contains"];

/// Returns whether a name is a member or an operator in filters of this form.
fn is_known(form: Form, name: &str) -> bool {
    form == Form::Text || !OWN.contains(&name)
}

/// Returns the names of all operators of a field.
fn operator_names(form: Form) -> impl Iterator<Item = &'static str> {
    let of_values = ValueTest::OPERATORS.iter().map(|(name, _)| *name);
    let names = OPERATORS.iter().map(|(name, _)| *name).chain(of_values);
    names.filter(move |name| is_known(form, name))
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

    /// Reads a filter in the form that drivers send. Values are not Extended JSON: `{"$oid":..}` is
    /// a map. Operators that MongoDB lacks are unknown. `key` is the field of the primary key.
    ///
    /// # Errors
    /// As [`Filter::from_value`].
    #[doc(hidden)]
    pub fn of_driver(value: &Value, key: Option<&'static str>) -> Result<Self, FilterError> {
        Self::read(&mut Cursor::of_driver("filter", value, key))
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, FilterError> {
        let mut parser =
            FilterParser { conditions: 0, patterns: 0, depth: 0, deepest: 0, elements: 0 };
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

struct FilterParser {
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

impl FilterParser {
    /// Parses what `inside` parses, one level deeper.
    fn nested<'v>(
        &mut self,
        cursor: &mut Cursor<'v>,
        inside: impl FnOnce(&mut Self, &mut Cursor<'v>) -> Result<FilterNode, FilterError>,
    ) -> Result<FilterNode, FilterError> {
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
    fn document(&mut self, cursor: &mut Cursor<'_>) -> Result<FilterNode, FilterError> {
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

    fn member(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Result<FilterNode, FilterError> {
        let form = cursor.form();
        if let Some(parse) = row(MEMBERS, name).filter(|_| is_known(form, name)) {
            return parse(self, cursor);
        }
        let is_key = matches!(form, Form::Driver(Some(key)) if key == name);
        if is_key && self.elements == 0 {
            return self.condition(cursor, &FieldPath::primary_key());
        }
        if self.elements > 0 && literal::is_of_reference(name) {
            return self.condition(cursor, &FieldPath::of_names(name.split('.')));
        }
        if name.starts_with('$') && !(form == Form::Text && is_path(name)) {
            let names = MEMBERS.iter().map(|(name, _)| *name);
            let names: Vec<_> = names.filter(|name| is_known(form, name)).collect();
            return Err(cursor.refuse_name(format!("a path or one of {}", names.join(" "))));
        }
        let path = FieldPath::parse(name)
            .map_err(|error| cursor.refuse_name(format!("a path ({error})")))?;
        self.condition(cursor, &path)
    }

    fn list(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<FilterNode>, FilterError> {
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
    ) -> Result<FilterNode, FilterError> {
        match cursor.value() {
            Value::Map(map) if literal::has_operators(map, cursor.form()) => {
                self.operators(cursor, map, path)
            }
            _ => {
                let operand = operand(cursor)?;
                Ok(FilterNode::Field(path.clone(), Test::Compare(Comparison::Equal, operand)))
            }
        }
    }

    fn operators(
        &mut self,
        cursor: &mut Cursor<'_>,
        map: &Map,
        path: &FieldPath,
    ) -> Result<FilterNode, FilterError> {
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
    ) -> Result<FilterNode, FilterError> {
        self.count(cursor)?;
        if let Some(parse) = row(OPERATORS, name) {
            return parse(self, cursor, field);
        }
        let form = cursor.form();
        let parse = row(ValueTest::OPERATORS, name).filter(|_| is_known(form, name));
        let Some(parse) = parse else {
            let names: Vec<_> = operator_names(form).collect();
            return Err(cursor.refuse_name(format!("one of the operators {}", names.join(" "))));
        };
        let test = parse(cursor, field.operators)?;
        self.value_test(cursor, field, test)
    }

    fn value_test(
        &mut self,
        cursor: &Cursor<'_>,
        field: FieldOperators<'_>,
        test: ValueTest,
    ) -> Result<FilterNode, FilterError> {
        self.patterns += usize::from(matches!(test, ValueTest::Regex(_)));
        if self.patterns > PATTERNS_MAX {
            return Err(cursor.refuse(format!("at most {PATTERNS_MAX} patterns in a filter")));
        }
        Ok(field.test(Test::Value(test)))
    }

    /// Parses the list of `$in`: values, and regular expressions.
    fn one_of(
        &mut self,
        cursor: &mut Cursor<'_>,
        field: FieldOperators<'_>,
    ) -> Result<FilterNode, FilterError> {
        let count = items(cursor)?;
        let (mut operands, mut patterns) = (Vec::new(), Vec::new());
        for i in 0..count {
            cursor.inside_item(i, |cursor| match cursor.value() {
                Value::Map(map) if first_name(map) == Some(REGEX_FORM) => {
                    self.count(cursor)?;
                    patterns.push(self.operators(cursor, map, field.path)?);
                    Ok(())
                }
                _ => {
                    operands.push(listed(cursor)?);
                    Ok(())
                }
            })?;
        }
        if patterns.is_empty() {
            return Ok(field.test(one_of(operands)));
        }
        self.nested(cursor, |_, _| {
            let values = (!operands.is_empty()).then(|| field.test(one_of(operands)));
            Ok(any(values.into_iter().chain(patterns)))
        })
    }

    /// Parses the list of `$all`: values, regular expressions, and conditions on elements. Of an
    /// empty list it never holds.
    fn every(
        &mut self,
        cursor: &mut Cursor<'_>,
        field: FieldOperators<'_>,
    ) -> Result<FilterNode, FilterError> {
        let count = items(cursor)?;
        let mut parts = Vec::with_capacity(count);
        for i in 0..count {
            parts.push(cursor.inside_item(i, |cursor| match cursor.value() {
                Value::Map(map)
                    if matches!(first_name(map), Some(REGEX_FORM | operator::ELEMENT)) =>
                {
                    self.operators(cursor, map, field.path)
                }
                _ => listed(cursor).map(|it| field.test(Test::Compare(Comparison::Equal, it))),
            })?);
        }
        Ok(if parts.is_empty() { field.test(Test::never()) } else { all(parts) })
    }

    /// Parses the condition on an element: operators for the element itself, or a document of
    /// conditions on its fields.
    fn element(&mut self, cursor: &mut Cursor<'_>) -> Result<FilterNode, FilterError> {
        match cursor.value() {
            Value::Map(map) => {
                let first = map.iter().next().and_then(|(key, _)| key.as_str());
                let mut names = operator_names(cursor.form());
                if first.is_some_and(|first| names.any(|name| name == first)) {
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

/// Reads a value in a list of values, which has no operators.
fn listed(cursor: &mut Cursor<'_>) -> Result<Operand, FilterError> {
    match cursor.value() {
        Value::Map(map)
            if cursor.form() != Form::Text && literal::has_operators(map, cursor.form()) =>
        {
            Err(cursor.refuse("a value: a list of values has no operators"))
        }
        _ => operand(cursor),
    }
}

/// Refuses a regular expression where it would be compared as a value: whoever writes
/// `{"$ne":/x/}` means `$not`.
fn refuse_pattern(cursor: &Cursor<'_>) -> Result<(), FilterError> {
    match cursor.value() {
        Value::Map(map) if first_name(map) == Some(REGEX_FORM) => {
            Err(cursor.refuse("a value; a regular expression stands alone, or in $not"))
        }
        _ => Ok(()),
    }
}

/// Returns the test that compares with MongoDB's least or greatest value, which are less or greater
/// than values of all types.
fn limit(comparison: Comparison, operand: &Operand) -> Option<Test> {
    let order = match first_name(operand.value.as_map()?)? {
        "$minKey" => Ordering::Greater,
        "$maxKey" => Ordering::Less,
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => return None,
        _ if comparison.takes(order) => Test::Exists,
        _ if comparison.takes_equal() => Test::Compare(Comparison::Equal, operand.clone()),
        _ => Test::never(),
    })
}

/// Returns the length of the list at the cursor.
fn items(cursor: &Cursor<'_>) -> Result<usize, FilterError> {
    let items = cursor.value().as_array();
    items.map(<[Value]>::len).ok_or_else(|| cursor.refuse("an array of values"))
}

/// Returns the first name of a map.
fn first_name(map: &Map) -> Option<&str> {
    map.iter().next().and_then(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table says how an operator is parsed, and its test how it is written.
    #[test]
    fn each_operator_is_written_as_it_is_parsed() {
        let operand = |name: &str| match name {
            "$in" | "$nin" | "$all" | "$mod" => "[1,2]",
            bits if bits.starts_with("$bits") => "[0,7]",
            "$size" => "1",
            "$exists" => "true",
            "$elemMatch" | "$not" => r#"{"$gt":1}"#,
            "$regex" => r#""x","$options":"i""#,
            "$type" | "$prefix" | "$contains" => r#""text""#,
            _ => r#"{"x":1}"#,
        };
        let written = |name: &&str| !matches!(*name, "$options" | REGEX_FORM);
        for name in operator_names(Form::Text).filter(written) {
            let text = format!(r#"{{"a":{{"{name}":{}}}}}"#, operand(name));
            assert_eq!(Filter::parse(&text).unwrap().to_string(), text);
        }
    }

    /// What operators take was refused as canonical Extended JSON writes it.
    #[test]
    fn operators_take_numbers_in_their_canonical_form() {
        let one = r#"{"$numberInt":"1"}"#;
        let long = r#"{"$numberLong":"3"}"#;
        for (canonical, plain) in [
            (format!(r#"{{"a":{{"$size":{one}}}}}"#), r#"{"a":{"$size":1}}"#),
            (format!(r#"{{"a":{{"$exists":{one}}}}}"#), r#"{"a":{"$exists":1}}"#),
            (format!(r#"{{"a":{{"$mod":[{long},{one}]}}}}"#), r#"{"a":{"$mod":[3,1]}}"#),
            (format!(r#"{{"a":{{"$type":{one}}}}}"#), r#"{"a":{"$type":1}}"#),
            (format!(r#"{{"a":{{"$type":[{long},"text"]}}}}"#), r#"{"a":{"$type":[3,"text"]}}"#),
        ] {
            let [canonical, plain] =
                [&canonical[..], plain].map(|text| Filter::parse(text).unwrap());
            assert_eq!(canonical, plain);
        }
        assert!(Filter::parse(r#"{"a":{"$size":{"$numberInt":"x"}}}"#).is_err());
        assert!(Filter::parse(r#"{"a":{"$size":{"$date":{"$numberLong":"1"}}}}"#).is_err());
    }

    /// A driver's `{"a":{"$oid":".."}}` found the identifier, a stored map of this name could not
    /// be found at all, and `$prefix` and `$key` could be reached.
    #[test]
    fn what_a_driver_sends_is_not_read_again_as_a_text() {
        let parsed = |text: &str| {
            let value = parse_json("filter", text).unwrap();
            Filter::of_driver(&value, Some("_id")).map(|filter| filter.to_string())
        };
        let refused = [
            r#"{"a":{"$oid":"0123456789abcdef01234567"}}"#,
            r#"{"a":{"$numberLong":"5"}}"#,
            r#"{"a":{"$date":"2020-01-01T00:00:00Z"}}"#,
            r#"{"a":{"$literal":{"b":1}}}"#,
            r#"{"a":{"$pairs":[]}}"#,
            r#"{"a":{"$prefix":"x"}}"#,
            r#"{"a":{"$contains":"x"}}"#,
            r#"{"a":{"$not":{"$prefix":"x"}}}"#,
            r#"{"a":{"$elemMatch":{"$prefix":"x"}}}"#,
            r#"{"a":{"$in":[{"$oid":"0123456789abcdef01234567"}]}}"#,
            r#"{"a":{"$all":[{"$gt":1}]}}"#,
            r#"{"$key":1}"#,
            r#"{"a":{"$key":1}}"#,
            r#"{"$['a']":1}"#,
            r#"{"$.a":1}"#,
            r#"{"$id":1}"#,
            r#"{"a":{"$id":1}}"#,
            r#"{"a":{"$elemMatch":{"$idx":1}}}"#,
            r#"{"$or":[{"$key":1}]}"#,
        ];
        for text in refused {
            assert!(parsed(text).is_err(), "{text}");
        }
        let same = [
            r#"{"a":{"$timestamp":{"t":1,"i":2}}}"#,
            r#"{"a":{"$ref":"x","$id":1}}"#,
            r#"{"a":{"$gt":1},"b":{"$in":[1,{"c":1}]}}"#,
        ];
        for text in same {
            assert_eq!(parsed(text).unwrap(), Filter::parse(text).unwrap().to_string(), "{text}");
        }
        let written = [
            (r#"{"_id":1}"#, r#"{"$key":1}"#),
            (r#"{"$nor":[{"_id":{"$gt":1}}]}"#, r#"{"$nor":[{"$key":{"$gt":1}}]}"#),
            (r#"{"a":{"$elemMatch":{"_id":1}}}"#, r#"{"a":{"$elemMatch":{"_id":1}}}"#),
            (
                r#"{"a":{"$elemMatch":{"$ref":"x","$id":{"$gt":1}}}}"#,
                r#"{"a":{"$elemMatch":{"$['$ref']":"x","$['$id']":{"$gt":1}}}}"#,
            ),
            (r#"{"a":{"$eq":{"$oid":"x"}}}"#, r#"{"a":{"$literal":{"$oid":"x"}}}"#),
            (r#"{"a":{"b":{"$oid":"x"}}}"#, r#"{"a":{"b":{"$literal":{"$oid":"x"}}}}"#),
            (r#"{"a":{"b":1,"$c":2}}"#, r#"{"a":{"$literal":{"b":1,"$c":2}}}"#),
        ];
        for (text, expected) in written {
            let found = Filter::parse(&parsed(text).unwrap()).unwrap().to_string();
            assert_eq!(found, Filter::parse(expected).unwrap().to_string(), "{text}");
        }
    }
}
