//! What filters, sorts and pipelines mean, written as the guide reads.

use bson::{Bson, Document};
use std::cmp::Ordering;

/// A primary key: equal numbers of different types are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Twice the number.
    Number(i64),
    Text(String),
    Id([u8; 12]),
}

impl Key {
    pub(super) fn of(value: &Bson) -> Self {
        match value {
            Bson::String(text) => Self::Text(text.clone()),
            Bson::ObjectId(id) => Self::Id(id.bytes()),
            value => Self::Number((number(value).unwrap() * 2.0) as i64),
        }
    }

    pub(super) fn of_document(document: &Document) -> Self {
        Self::of(document.get("_id").unwrap())
    }
}

pub(super) fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(n) => Some(f64::from(*n)),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    }
}

/// The place of a type in the order of values.
fn rank(value: Option<&Bson>) -> u8 {
    match value {
        None => 0,
        Some(Bson::Null) => 1,
        Some(Bson::Boolean(_)) => 2,
        Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => 3,
        Some(Bson::String(_)) => 4,
        Some(Bson::ObjectId(_)) => 5,
        Some(Bson::DateTime(_)) => 6,
        Some(Bson::Array(_)) => 7,
        Some(Bson::Document(_)) => 8,
        Some(other) => panic!("no documents have {other}"),
    }
}

/// Compares two values; the missing one is the least.
pub(super) fn compare(a: Option<&Bson>, b: Option<&Bson>) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Some(Bson::Boolean(a)), Some(Bson::Boolean(b))) => a.cmp(b),
        (Some(Bson::String(a)), Some(Bson::String(b))) => a.cmp(b),
        (Some(Bson::ObjectId(a)), Some(Bson::ObjectId(b))) => a.bytes().cmp(&b.bytes()),
        (Some(Bson::DateTime(a)), Some(Bson::DateTime(b))) => a.cmp(b),
        (Some(Bson::Array(a)), Some(Bson::Array(b))) => {
            let mut pairs = a.iter().zip(b).map(|(a, b)| compare(Some(a), Some(b)));
            pairs.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (Some(Bson::Document(a)), Some(Bson::Document(b))) => {
            // Only whether they are equal is asked for.
            let in_both = a.iter().all(|(name, one)| {
                b.get(name).is_some_and(|other| compare(Some(one), Some(other)).is_eq())
            });
            if in_both { a.len().cmp(&b.len()) } else { Ordering::Less }
        }
        (Some(a), Some(b)) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap(),
            _ => Ordering::Equal,
        },
        _ => Ordering::Equal,
    })
}

pub(super) fn equal(a: &Bson, b: &Bson) -> bool {
    compare(Some(a), Some(b)).is_eq()
}

/// Returns what a path reaches; `None` for what is missing.
pub(super) fn reach<'v>(value: &'v Bson, steps: &[&str]) -> Vec<Option<&'v Bson>> {
    let Some((step, rest)) = steps.split_first() else { return vec![Some(value)] };
    match value {
        Bson::Document(map) => match map.get(step) {
            Some(inner) => reach(inner, rest),
            None => vec![None],
        },
        Bson::Array(items) => {
            let index = step.parse::<usize>().ok();
            let mut found = Vec::new();
            if let Some(item) = index.and_then(|index| items.get(index)) {
                found.extend(reach(item, rest));
            }
            for item in items {
                if let Bson::Document(map) = item {
                    match (map.get(step), index) {
                        (Some(inner), _) => found.extend(reach(inner, rest)),
                        (None, None) => found.push(None),
                        (None, Some(_)) => {}
                    }
                }
            }
            found
        }
        _ => vec![None],
    }
}

fn reach_in<'d>(document: &'d Bson, path: &str) -> Vec<Option<&'d Bson>> {
    reach(document, &path.split('.').collect::<Vec<_>>())
}

pub(super) fn matches(filter: &Document, document: &Document) -> bool {
    matches_value(filter, &Bson::Document(document.clone()))
}

fn matches_value(filter: &Document, document: &Bson) -> bool {
    let of_all = |list: &Bson| {
        let parts = list.as_array().unwrap().iter();
        parts.map(|part| matches_value(part.as_document().unwrap(), document)).collect::<Vec<_>>()
    };
    filter.iter().all(|(name, condition)| match name.as_str() {
        "$and" => of_all(condition).iter().all(|holds| *holds),
        "$or" => of_all(condition).iter().any(|holds| *holds),
        "$nor" => !of_all(condition).iter().any(|holds| *holds),
        path => holds(condition, &reach_in(document, path), true),
    })
}

/// Returns whether a condition holds for what a path reaches. `opens`: an array counts as its
/// elements, too.
pub(super) fn holds(condition: &Bson, reached: &[Option<&Bson>], opens: bool) -> bool {
    match condition {
        Bson::Document(map) if map.keys().next().is_some_and(|name| name.starts_with('$')) => {
            map.iter().all(|(name, operand)| operator(name, operand, reached, opens))
        }
        value => operator("$eq", value, reached, opens),
    }
}

fn operator(name: &str, operand: &Bson, reached: &[Option<&Bson>], opens: bool) -> bool {
    let values = || reached.iter().copied().flatten();
    let candidates = || {
        let elements = values().filter_map(Bson::as_array).filter(move |_| opens).flatten();
        values().chain(elements)
    };
    let items = || operand.as_array().unwrap().iter();
    let is_equal = |item: &Bson| {
        candidates().any(|value| equal(value, item))
            || *item == Bson::Null && reached.contains(&None)
    };
    let is_ordered = |is: fn(Ordering) -> bool| {
        candidates().any(|value| {
            rank(Some(value)) == rank(Some(operand)) && is(compare(Some(value), Some(operand)))
        })
    };
    match name {
        "$eq" => is_equal(operand),
        "$ne" => !is_equal(operand),
        "$in" => items().any(is_equal),
        "$nin" => !items().any(is_equal),
        "$all" => items().all(is_equal),
        "$gt" => is_ordered(Ordering::is_gt),
        "$gte" => is_ordered(Ordering::is_ge),
        "$lt" => is_ordered(Ordering::is_lt),
        "$lte" => is_ordered(Ordering::is_le),
        "$not" => !holds(operand, reached, opens),
        "$exists" => operand.as_bool() == Some(values().next().is_some()),
        "$size" => {
            let len = operand.as_i32().unwrap() as usize;
            values().filter_map(Bson::as_array).any(|array| array.len() == len)
        }
        "$type" => candidates().any(|value| {
            let kind = match value {
                Bson::Int32(_) => "int",
                Bson::Int64(_) => "long",
                Bson::Double(_) => "double",
                Bson::String(_) => "string",
                Bson::Array(_) => "array",
                _ => "other",
            };
            operand.as_str() == Some(kind)
        }),
        "$mod" => {
            let (by, rest) = match &operand.as_array().unwrap()[..] {
                [Bson::Int32(by), Bson::Int32(rest)] => (i64::from(*by), i64::from(*rest)),
                other => panic!("{other:?}"),
            };
            candidates().filter_map(number).any(|number| number.trunc() as i64 % by == rest)
        }
        "$elemMatch" => {
            let condition = operand.as_document().unwrap();
            let is_of_value = condition.keys().next().is_some_and(|name| name.starts_with('$'));
            values().filter_map(Bson::as_array).flatten().any(|item| {
                if is_of_value {
                    holds(operand, &[Some(item)], false)
                } else {
                    item.as_document().is_some() && matches_value(condition, item)
                }
            })
        }
        other => panic!("no filters have {other}"),
    }
}

/// Returns the position of the first element for which a condition on an array holds.
pub(super) fn position(filter: &Document, document: &Document) -> Option<usize> {
    let (path, condition) = filter.iter().find(|(name, _)| name.starts_with('c'))?;
    let items = document.get_array("c").ok()?;
    let holds_for = |item: &Bson| match path.split_once('.') {
        Some((_, name)) => match item {
            Bson::Document(map) => holds(condition, &[map.get(name)], true),
            _ => false,
        },
        None => holds(condition, &[Some(item)], false),
    };
    items.iter().position(holds_for)
}

/// Returns what a sort compares a document by: of several values the least, or the greatest.
fn sort_value<'d>(document: &'d Bson, path: &str, is_descending: bool) -> Option<&'d Bson> {
    let mut all = Vec::new();
    for reached in reach_in(document, path) {
        match reached {
            Some(Bson::Array(items)) if !items.is_empty() => all.extend(items.iter().map(Some)),
            other => all.push(other),
        }
    }
    let order = |a: &Option<&Bson>, b: &Option<&Bson>| compare(*a, *b);
    let found =
        if is_descending { all.into_iter().max_by(order) } else { all.into_iter().min_by(order) };
    found.flatten()
}

/// Compares two documents as a sort does.
pub(super) fn sort_order(sort: &Document, a: &Document, b: &Document) -> Ordering {
    let (a, b) = (Bson::Document(a.clone()), Bson::Document(b.clone()));
    let mut orders = sort.iter().map(|(path, direction)| {
        let is_descending = direction.as_i32() == Some(-1);
        let values = [&a, &b].map(|document| sort_value(document, path, is_descending));
        let order = compare(values[0], values[1]);
        if is_descending { order.reverse() } else { order }
    });
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Returns the distinct values of a path, in a form that equal values share.
pub(super) fn distinct(documents: &[Document], path: &str) -> Vec<String> {
    let mut all = Vec::new();
    for document in documents {
        for value in reach_in(&Bson::Document(document.clone()), path).into_iter().flatten() {
            match value {
                // An empty array is a value.
                Bson::Array(items) if !items.is_empty() => all.extend(items.iter().map(in_order)),
                value => all.push(in_order(value)),
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Returns a text that equal values share: numbers of any type, maps in any order.
pub(super) fn loose(value: &Bson) -> String {
    text(value, false, &of_number)
}

/// As `loose`, but maps with another order of fields have another text.
pub(super) fn in_order(value: &Bson) -> String {
    text(value, true, &of_number)
}

fn of_number(value: &Bson) -> String {
    match number(value) {
        // A sum of nothing but zeroes has no sign.
        Some(number) => (number + 0.0).to_string(),
        None => value.to_string(),
    }
}

/// As `loose`, but numbers have their types.
pub(super) fn strict(value: &Bson) -> String {
    text(value, false, &|value| format!("{value:?}"))
}

pub(super) fn strict_document(document: &Document) -> String {
    strict(&Bson::Document(document.clone()))
}

fn text(value: &Bson, is_ordered: bool, of: &dyn Fn(&Bson) -> String) -> String {
    match value {
        Bson::Document(map) => {
            let field = |(name, value)| format!("{name}: {}", text(value, is_ordered, of));
            let mut fields: Vec<_> = map.iter().map(field).collect();
            if !is_ordered {
                fields.sort();
            }
            format!("{{{}}}", fields.join(", "))
        }
        Bson::Array(items) => {
            let items: Vec<_> = items.iter().map(|value| text(value, is_ordered, of)).collect();
            format!("[{}]", items.join(", "))
        }
        value => of(value),
    }
}

/// Returns the rows of a pipeline.
pub(super) fn aggregate(documents: &[Document], pipeline: &[Document]) -> Vec<Document> {
    let mut rows = documents.to_vec();
    for stage in pipeline {
        let (name, operand) = stage.iter().next().unwrap();
        rows = match (name.as_str(), operand) {
            ("$match", Bson::Document(filter)) => {
                rows.into_iter().filter(|row| matches(filter, row)).collect()
            }
            ("$sort", Bson::Document(sort)) => {
                rows.sort_by(|a, b| sort_order(sort, a, b));
                rows
            }
            ("$skip", Bson::Int32(n)) => rows.into_iter().skip(*n as usize).collect(),
            ("$limit", Bson::Int32(n)) => rows.into_iter().take(*n as usize).collect(),
            ("$count", Bson::String(name)) => match rows.len() {
                0 => Vec::new(),
                len => vec![bson::doc! { name: len as i32 }],
            },
            ("$unwind", Bson::String(path)) => unwound(rows, &path[1..]),
            ("$group", Bson::Document(group)) => grouped(&rows, group),
            ("$unset", Bson::String(name)) => {
                for row in &mut rows {
                    row.remove(name);
                }
                rows
            }
            other => panic!("no pipelines have {other:?}"),
        };
    }
    rows
}

fn unwound(rows: Vec<Document>, field: &str) -> Vec<Document> {
    let mut out = Vec::new();
    for row in rows {
        match row.get(field) {
            None | Some(Bson::Null) => {}
            Some(Bson::Array(items)) => {
                for item in items {
                    let mut one = row.clone();
                    one.insert(field, item.clone());
                    out.push(one);
                }
            }
            Some(_) => out.push(row),
        }
    }
    out
}

/// Groups by one field, with the count of rows, the sum, the least and the greatest `b`.
fn grouped(rows: &[Document], group: &Document) -> Vec<Document> {
    let mut groups: Vec<(Bson, Vec<&Document>)> = Vec::new();
    for row in rows {
        let id = match group.get("_id") {
            Some(Bson::String(path)) => row.get(&path[1..]).cloned().unwrap_or(Bson::Null),
            _ => Bson::Null,
        };
        match groups.iter_mut().find(|(known, _)| equal(known, &id)) {
            Some((_, members)) => members.push(row),
            None => groups.push((id, vec![row])),
        }
    }
    let of = |(id, members): (Bson, Vec<&Document>)| {
        let values = || members.iter().filter_map(|row| row.get("b"));
        let order = |a: &&Bson, b: &&Bson| compare(Some(a), Some(b));
        let some = |value: Option<&Bson>| value.cloned().unwrap_or(Bson::Null);
        bson::doc! {
            "_id": id,
            "n": members.len() as i32,
            "sum": values().filter_map(number).sum::<f64>(),
            "least": some(values().filter(|value| **value != Bson::Null).min_by(order)),
            "most": some(values().filter(|value| **value != Bson::Null).max_by(order)),
        }
    };
    groups.into_iter().map(of).collect()
}
