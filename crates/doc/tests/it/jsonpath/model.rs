//! Random queries of random documents, compared with an evaluation on values in memory that is
//! written as the standard reads; and filters, compared with the order of values.

use super::documents;
use crate::random::{check, number, value};
use flagstone_doc::{JsonPath, Pointer, Value};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::fmt::Write;

#[derive(Clone, Debug)]
enum Selector {
    Name(String),
    Index(i64),
    All,
    Slice(Option<i64>, Option<i64>, Option<i64>),
}

#[derive(Clone, Debug)]
struct Segment {
    descends: bool,
    selectors: Vec<Selector>,
}

type Found<'v> = (Vec<String>, &'v Value);

/// Returns the children of a value and their steps.
fn children(value: &Value) -> Vec<(String, &Value)> {
    if let Some(items) = value.as_array() {
        return items.iter().enumerate().map(|(i, item)| (i.to_string(), item)).collect();
    }
    let pairs = value.as_map().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.as_str()?.to_owned(), value))).collect()
}

/// Returns the indexes that a slice selects of `len` elements.
fn indexes(len: i64, start: Option<i64>, end: Option<i64>, step: Option<i64>) -> Vec<i64> {
    let normal = |i: i64| if i >= 0 { i } else { len + i };
    match step.unwrap_or(1) {
        0 => vec![],
        step if step > 0 => {
            let (start, end) = (normal(start.unwrap_or(0)), normal(end.unwrap_or(len)));
            let (lower, upper) = (start.max(0).min(len), end.max(0).min(len));
            (lower..upper).step_by(step as usize).collect()
        }
        step => {
            let start = normal(start.unwrap_or(len - 1));
            let end = normal(end.unwrap_or(-len - 1));
            let (upper, lower) = (start.max(-1).min(len - 1), end.max(-1).min(len - 1));
            let mut found = vec![];
            let mut i = upper;
            while lower < i {
                found.push(i);
                i += step;
            }
            found
        }
    }
}

fn choose<'v>(selector: &Selector, value: &'v Value) -> Vec<(String, &'v Value)> {
    let mut all = children(value);
    let len = value.as_array().map_or(0, <[Value]>::len) as i64;
    let at = |i: i64| {
        let item = usize::try_from(i).ok().and_then(|i| value.at(i))?;
        Some((i.to_string(), item))
    };
    match selector {
        Selector::All => all,
        Selector::Name(_) if value.as_array().is_some() => vec![],
        Selector::Name(name) => {
            all.retain(|(step, _)| step == name);
            all
        }
        Selector::Index(i) => at(if *i < 0 { len + i } else { *i }).into_iter().collect(),
        Selector::Slice(start, end, step) => {
            indexes(len, *start, *end, *step).into_iter().filter_map(at).collect()
        }
    }
}

fn apply<'v>(segment: &Segment, node: &Found<'v>, out: &mut Vec<Found<'v>>) {
    let below = |step: String| node.0.iter().cloned().chain([step]).collect::<Vec<_>>();
    for selector in &segment.selectors {
        let chosen = choose(selector, node.1).into_iter();
        out.extend(chosen.map(|(step, value)| (below(step), value)));
    }
    if segment.descends {
        for (step, value) in children(node.1) {
            apply(segment, &(below(step), value), out);
        }
    }
}

fn evaluate<'v>(segments: &[Segment], root: &'v Value) -> Vec<Found<'v>> {
    segments.iter().fold(vec![(vec![], root)], |nodes, segment| {
        let mut next = vec![];
        nodes.iter().for_each(|node| apply(segment, node, &mut next));
        next
    })
}

/// Writes a query, in the short form where there is one.
fn text(segments: &[Segment]) -> String {
    let mut out = String::from("$");
    for Segment { descends, selectors } in segments {
        out.push_str(if *descends { ".." } else { "" });
        match selectors.as_slice() {
            [Selector::Name(name)] if !name.is_empty() => {
                out.push_str(if *descends { "" } else { "." });
                out.push_str(name);
                continue;
            }
            _ => out.push('['),
        }
        for (i, selector) in selectors.iter().enumerate() {
            out.push_str(if i > 0 { " ," } else { "" });
            let shown = |int: &Option<i64>| int.map_or(String::new(), |int| int.to_string());
            match selector {
                Selector::Name(name) => write!(out, "'{name}'"),
                Selector::Index(index) => write!(out, "{index}"),
                Selector::All => write!(out, "*"),
                Selector::Slice(start, end, None) => {
                    write!(out, "{}:{}", shown(start), shown(end))
                }
                Selector::Slice(start, end, step) => {
                    write!(out, "{} : {} : {}", shown(start), shown(end), shown(step))
                }
            }
            .unwrap();
        }
        out.push(']');
    }
    out
}

fn query() -> impl Strategy<Value = Vec<Segment>> {
    let selector = prop_oneof![
        3 => "[a-c]{0,2}".prop_map(Selector::Name),
        2 => (-4..4_i64).prop_map(Selector::Index),
        2 => Just(Selector::All),
        1 => (option::of(-5..5_i64), option::of(-5..5_i64), option::of(-3..4_i64))
            .prop_map(|(start, end, step)| Selector::Slice(start, end, step)),
    ];
    let segment = (prop::bool::weighted(0.3), vec(selector, 1..3))
        .prop_map(|(descends, selectors)| Segment { descends, selectors });
    vec(segment, 0..4)
}

#[test]
fn segments_select_what_a_straightforward_evaluation_selects() {
    let cases = (value(), query());
    let name = "segments_select_what_a_straightforward_evaluation_selects";
    check(name, &cases, 1500, |(value, segments)| {
        let text = text(&segments);
        let path = JsonPath::parse(&text).unwrap();
        for document in documents(&value) {
            // The order of pairs with keys of any value is that of the document.
            let value = document.to_value();
            let expected = evaluate(&segments, &value);
            let found: Vec<_> = document.query(&path).collect();
            assert_eq!(found.len(), expected.len(), "{text} of {value}");
            for (node, (steps, value)) in found.iter().zip(&expected) {
                assert_eq!(node.view().to_value().unwrap(), **value, "{text}");
                let pointer = node.location().unwrap().to_pointer();
                assert_eq!(pointer, Pointer::from_iter(steps.iter().map(String::as_str)), "{text}");
            }
            let first = path.first(&document.root()).unwrap();
            let first = first.map(|view| view.to_value().unwrap());
            assert_eq!(first.as_ref(), expected.first().map(|(_, value)| *value), "{text}");
            let counted = format!("$[?count({text}) == {}]", expected.len());
            let counted = JsonPath::parse(&counted).unwrap();
            assert_eq!(document.query(&counted).count(), children(&value).len(), "{text}");
        }
    });
}

/// Each turn goes into one of the children by its number, or to one that is missing.
#[test]
fn a_simple_path_leads_where_navigation_in_memory_leads() {
    let cases = (value(), vec((any::<prop::sample::Index>(), any::<bool>()), 0..6));
    let name = "a_simple_path_leads_where_navigation_in_memory_leads";
    check(name, &cases, 1500, |(value, turns)| {
        let value = documents(&value)[0].to_value();
        let mut here = Some(&value);
        let (mut path, mut pointer) = (String::from("$"), vec![]);
        for (turn, is_missing) in turns {
            let Some(value) = here else { break };
            let all = children(value);
            if let Some(items) = value.as_array() {
                let index = if items.is_empty() { 0 } else { turn.index(items.len()) };
                let index = if is_missing { items.len() } else { index };
                let from_end = index as i64 - items.len() as i64;
                let shown = if from_end < 0 && index % 2 == 0 { from_end } else { index as i64 };
                write!(path, "[{shown}]").unwrap();
                pointer.push(index.to_string());
                here = value.at(index);
            } else {
                let known: &str = if all.is_empty() || is_missing {
                    "none"
                } else {
                    &all[turn.index(all.len())].0
                };
                // Names of these documents need no escapes but these.
                let escaped = known.replace('\\', "\\\\").replace('\'', "\\'");
                let escaped = escaped.replace('\0', "\\u0000").replace('\n', "\\n");
                write!(path, "['{escaped}']").unwrap();
                pointer.push(known.to_owned());
                here = value.get(known);
            }
        }
        let expected = here.cloned();
        let compiled = JsonPath::parse(&path).unwrap();
        assert!(compiled.is_single());
        for document in documents(&value) {
            let root = document.root();
            let found = compiled.first(&root).unwrap().map(|view| view.to_value().unwrap());
            assert_eq!(found, expected, "{path} of {value}");
            let mut nodes = document.query(&compiled);
            let found = nodes.next().map(|node| node.view().to_value().unwrap());
            assert_eq!((found, nodes.next().is_some()), (expected.clone(), false), "{path}");
            let pointer = Pointer::from_iter(pointer.iter().map(String::as_str));
            let found = document.pointer(&pointer).map(|view| view.to_value().unwrap());
            assert_eq!(found, expected, "{pointer} of {value}");
            assert_eq!(Pointer::parse(&pointer.to_string()), Ok(pointer));
        }
    });
}

#[test]
fn comparisons_follow_the_order_of_values() {
    let test = |(a, b): (Value, Value)| {
        let is_ordered = match (&a, &b) {
            (Value::Text(_), Value::Text(_)) | (Value::DateTime(_), Value::DateTime(_)) => true,
            (a, b) => a.as_f64().is_some() && b.as_f64().is_some(),
        };
        let value = Value::Array(vec![a.clone(), b.clone()]);
        for document in documents(&value) {
            let holds = |comparison: &str| {
                let path = JsonPath::parse(&format!("$[?{comparison}]")).unwrap();
                document.query(&path).count() == 2
            };
            assert_eq!(holds("$[0] == $[1]"), a == b, "{a} and {b}");
            assert_eq!(holds("$[0] != $[1]"), a != b, "{a} and {b}");
            assert_eq!(holds("$[0] < $[1]"), is_ordered && a < b, "{a} and {b}");
            assert_eq!(holds("$[0] > $[1]"), is_ordered && a > b, "{a} and {b}");
            assert_eq!(holds("$[0] <= $[1]"), a == b || is_ordered && a < b, "{a} and {b}");
            assert_eq!(holds("$[0] >= $[1]"), a == b || is_ordered && a > b, "{a} and {b}");
        }
    };
    let near = value().prop_flat_map(|value| (Just(value.clone()), Just(shuffled(value))));
    check("comparisons_of_numbers", &(number(), number()), 500, test);
    check("comparisons_of_values", &(value(), value()), 500, test);
    check("comparisons_of_values_that_are_equal", &near, 500, |(a, b)| {
        assert_eq!(a, b);
        test((a, b));
    });
}

/// Returns an equal value whose maps have their fields in the opposite order.
fn shuffled(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(shuffled).collect(),
        Value::Map(map) => {
            let mut pairs: Vec<(Value, Value)> =
                map.into_iter().map(|(key, value)| (key, shuffled(value))).collect();
            pairs.reverse();
            Value::Map(pairs.into_iter().collect())
        }
        other => other,
    }
}
