//! Writes a filter as the document that parses back to it.

use super::build::Filter;
use super::literal::ValueLiteral;
use super::model::{Comparison, FilterNode, Test};
use super::operator;
use crate::field_path::FieldPath;
use crate::show::quoted;
use crate::value::Value;
use std::collections::HashMap;
use std::fmt::{self, Display, Write};

impl fmt::Display for Filter {
    /// Writes the filter as JSON without spaces, which [`Filter::parse`] parses to an equal filter.
    /// A filter with an error in it is written as the filter that nothing matches.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NodeAsMap(&self.node).fmt(f)
    }
}

/// Writes a condition as a map of paths and conditions.
struct NodeAsMap<'a>(&'a FilterNode);

/// One member of such a map.
enum Member<'a> {
    /// A path, and operators with their operands.
    Field(&'a FieldPath, Vec<Operator<'a>>),
    /// `$or` or `$nor` and its conditions.
    List(&'static str, Vec<&'a FilterNode>),
}

/// An operator of a field.
struct Operator<'a> {
    name: &'static str,
    test: &'a Test,
    /// Further tests for equality, which `$all` lists.
    more: Vec<&'a Test>,
    is_negated: bool,
}

impl<'a> Operator<'a> {
    /// Returns the operator that expresses the condition, if one does.
    fn of(node: &'a FilterNode) -> Option<(&'a FieldPath, Self)> {
        let (is_negated, node) = match node {
            FilterNode::Not(part) => (true, &**part),
            other => (false, other),
        };
        let FilterNode::Field(path, test) = node else { return None };
        let name = match (test, is_negated) {
            (Test::Compare(Comparison::Equal, _), true) => operator::NOT_EQUAL,
            (Test::In(_), true) => operator::NOT_IN,
            (Test::Exists, _) => operator::EXISTS,
            (_, true) => operator::NOT,
            (test, false) => test.operator(),
        };
        Some((path, Self { name, test, more: Vec::new(), is_negated }))
    }

    fn is_plain_equality(&self) -> bool {
        self.name == operator::EQUAL && self.more.is_empty()
    }
}

/// Distributes conditions on as few maps as possible: each name comes once in a map.
fn documents(parts: &[FilterNode]) -> Vec<Vec<Member<'_>>> {
    let mut out =
        Documents { maps: vec![Vec::new()], taken: HashMap::new(), fields: HashMap::new() };
    for part in parts {
        out.add(part);
    }
    out.maps
}

/// Maps that are filled from the first on.
struct Documents<'a> {
    maps: Vec<Vec<Member<'a>>>,
    /// How many maps, from the first on, have this operator of a path, or this list.
    taken: HashMap<(Option<&'a FieldPath>, &'static str), usize>,
    /// The place of the member of a path in a map.
    fields: HashMap<(usize, &'a FieldPath), usize>,
}

impl<'a> Documents<'a> {
    /// Adds a condition to the first map that does not have its name.
    fn add(&mut self, part: &'a FilterNode) {
        if let Some((path, operator)) = Operator::of(part) {
            return self.add_operator(path, operator);
        }
        let (name, list) = match part {
            FilterNode::Any(parts) => (operator::OR, parts.iter().collect()),
            FilterNode::Not(inner) => match &**inner {
                FilterNode::Any(parts) => (operator::NOR, parts.iter().collect()),
                other => (operator::NOR, vec![other]),
            },
            other => (operator::OR, vec![other]),
        };
        let map = self.room(None, name);
        self.maps[map].push(Member::List(name, list));
    }

    fn add_operator(&mut self, path: &'a FieldPath, operator: Operator<'a>) {
        // All tests for equality are in the first map.
        let is_more = operator.name == operator::EQUAL
            && self.taken.contains_key(&(Some(path), operator::EQUAL));
        let map = if is_more { 0 } else { self.room(Some(path), operator.name) };
        let members = &mut self.maps[map];
        let place = *self.fields.entry((map, path)).or_insert_with(|| {
            members.push(Member::Field(path, Vec::new()));
            members.len() - 1
        });
        let Member::Field(_, operators) = &mut members[place] else { return };
        match operators.iter_mut().find(|other| is_more && other.name == operator::EQUAL) {
            Some(same) => same.more.push(operator.test),
            None => operators.push(operator),
        }
    }

    /// Takes a name in the first map that does not have it.
    fn room(&mut self, path: Option<&'a FieldPath>, name: &'static str) -> usize {
        let taken = self.taken.entry((path, name)).or_insert(0);
        let map = *taken;
        *taken += 1;
        if map == self.maps.len() {
            self.maps.push(Vec::new());
        }
        map
    }
}

impl fmt::Display for NodeAsMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let documents = documents(self.0.conjuncts());
        let [only] = &*documents else {
            write!(f, "{{\"{}\":[", operator::AND)?;
            for (i, members) in documents.iter().enumerate() {
                f.write_str(if i > 0 { "," } else { "" })?;
                write_members(f, members)?;
            }
            return f.write_str("]}");
        };
        write_members(f, only)
    }
}

fn write_members(f: &mut fmt::Formatter<'_>, members: &[Member<'_>]) -> fmt::Result {
    f.write_char('{')?;
    for (i, member) in members.iter().enumerate() {
        f.write_str(if i > 0 { "," } else { "" })?;
        match member {
            Member::Field(path, operators) => {
                quoted(f, &path.to_string())?;
                f.write_char(':')?;
                write_condition(f, operators)?;
            }
            Member::List(name, parts) => {
                write!(f, "\"{name}\":[")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { "," } else { "" }, NodeAsMap(part))?;
                }
                f.write_char(']')?;
            }
        }
    }
    f.write_char('}')
}

/// Writes a plain equality as its value alone, if that is no map.
fn write_condition(f: &mut fmt::Formatter<'_>, operators: &[Operator<'_>]) -> fmt::Result {
    if let [only] = operators
        && only.is_plain_equality()
        && let Test::Compare(_, operand) = only.test
        && !matches!(*operand.value, Value::Map(_))
    {
        return ValueLiteral(&operand.value).fmt(f);
    }
    f.write_char('{')?;
    for (i, operator) in operators.iter().enumerate() {
        f.write_str(if i > 0 { "," } else { "" })?;
        write_operator(f, operator)?;
    }
    f.write_char('}')
}

fn write_operator(f: &mut fmt::Formatter<'_>, operator: &Operator<'_>) -> fmt::Result {
    let Operator { name, test, more, is_negated } = operator;
    match *name {
        _ if !more.is_empty() => {
            write!(f, "\"{}\":", operator::ALL)?;
            let all = [*test].into_iter().chain(more.iter().copied());
            write_list(f, all.filter_map(operand))
        }
        operator::EXISTS => write!(f, "\"{name}\":{}", !is_negated),
        operator::NOT => {
            write!(f, "\"{name}\":{{\"{}\":", test.operator())?;
            write_argument(f, test)?;
            f.write_char('}')
        }
        _ => {
            write!(f, "\"{name}\":")?;
            write_argument(f, test)
        }
    }
}

fn operand(test: &Test) -> Option<&Value> {
    match test {
        Test::Compare(_, operand) => Some(&operand.value),
        _ => None,
    }
}

fn write_list<'a>(
    f: &mut fmt::Formatter<'_>,
    values: impl Iterator<Item = &'a Value>,
) -> fmt::Result {
    f.write_char('[')?;
    for (i, value) in values.enumerate() {
        write!(f, "{}{}", if i > 0 { "," } else { "" }, ValueLiteral(value))?;
    }
    f.write_char(']')
}

fn write_argument(f: &mut fmt::Formatter<'_>, test: &Test) -> fmt::Result {
    match test {
        Test::Exists => f.write_str("true"),
        Test::Compare(_, operand) => ValueLiteral(&operand.value).fmt(f),
        Test::In(operands) => write_list(f, operands.iter().map(|operand| &*operand.value)),
        Test::Value(test) => test.operator().write_operand(f),
        Test::Size(elements) => write!(f, "{elements}"),
        Test::Element(node) => write_element(f, node),
    }
}

/// Writes a condition on an element: operators, if all of it is about the element itself.
fn write_element(f: &mut fmt::Formatter<'_>, node: &FilterNode) -> fmt::Result {
    let documents = documents(node.conjuncts());
    if let [members] = &*documents
        && let [Member::Field(path, operators)] = &**members
        && path.is_root()
    {
        f.write_char('{')?;
        for (i, operator) in operators.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            write_operator(f, operator)?;
        }
        return f.write_char('}');
    }
    NodeAsMap(node).fmt(f)
}
