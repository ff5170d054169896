//! A collection in memory, and what a query of it should return. It knows only plain dotted names.

use flagstone::query::Matcher;
use flagstone::{Document, Filter, Value};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_testkit::Rng;
use std::collections::BTreeMap;

/// Documents by primary key.
#[derive(Clone, Default)]
pub(super) struct Model(pub(super) BTreeMap<Value, Value>);

/// A sort: paths, those that descend marked, and its text.
pub(super) type Sort = (Vec<(&'static str, bool)>, String);

/// What a path reaches: `None` where something is missing.
type Reached = Option<Value>;

impl Model {
    /// The documents that match, in the order of their keys. Another test compares the matcher with
    /// a reference.
    pub(super) fn find(&self, filter: &Filter) -> Vec<(Value, Value)> {
        let matcher = filter.compile_with_key().unwrap();
        let is_match = |key: &Value, value: &Value| matches(&matcher, key, value);
        let found = self.0.iter().filter(|(key, value)| is_match(key, value));
        found.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn matches(matcher: &Matcher, key: &Value, value: &Value) -> bool {
    let mut stored = Vec::new();
    sort_key::encode(key, Direction::Ascending, &mut stored);
    let document = Document::from_value(value).unwrap();
    matcher.matches_with_key(&document.root(), &stored).unwrap()
}

/// What `path` reaches in `value`, an array at its end as a whole, and whether it passes an array.
pub(super) fn reached(value: &Value, path: &str) -> (Vec<Reached>, bool) {
    let (mut now, mut crossed) = (vec![Some(value.clone())], false);
    for name in path.split('.') {
        let mut next = Vec::new();
        for value in now {
            match value {
                Some(Value::Map(map)) => next.push(map.get(name).cloned()),
                Some(Value::Array(items)) => {
                    crossed = true;
                    let maps = items.iter().filter_map(Value::as_map);
                    next.extend(maps.map(|map| map.get(name).cloned()));
                }
                _ => next.push(None),
            }
        }
        now = next;
    }
    (now, crossed)
}

/// The values of `path`, each element of an array at its end by itself.
pub(super) fn values(value: &Value, path: &str) -> Vec<Reached> {
    let mut values = Vec::new();
    for reached in reached(value, path).0 {
        match reached {
            Some(Value::Array(items)) if !items.is_empty() => {
                values.extend(items.into_iter().map(Some));
            }
            other => values.push(other),
        }
    }
    if values.is_empty() {
        values.push(None);
    }
    values
}

/// The key by which a sort compares a document: of each path the least value, or the greatest.
pub(super) fn sort_keys((key, value): &(Value, Value), sort: &[(&str, bool)]) -> Vec<Reached> {
    let key = |(path, descending): &(&str, bool)| {
        if *path == "$key" {
            return Some(Some(key.clone()));
        }
        let values = values(value, path).into_iter();
        if *descending { values.max() } else { values.min() }
    };
    sort.iter().map(|part| key(part).unwrap()).collect()
}

/// Compares two documents by their sort keys.
pub(super) fn compare(a: &[Reached], b: &[Reached], sort: &[(&str, bool)]) -> std::cmp::Ordering {
    let parts = a.iter().zip(b).zip(sort);
    let mut orders =
        parts.map(|((a, b), (_, descending))| if *descending { b.cmp(a) } else { a.cmp(b) });
    orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

/// The fields of [`document`].
pub(super) const PATHS: [&str; 11] =
    ["a", "n", "tags", "in.b", "k", "o.x", "at", "l.x", "l.y", "g", "u"];

/// A random document with fields of several types, arrays and gaps; now and then no map.
pub(super) fn document(rng: &mut Rng) -> Value {
    if rng.percent(2) {
        return scalar(rng);
    }
    let mut map = flagstone::doc::Map::new();
    if rng.percent(80) {
        map.insert("k", scalar(rng));
    }
    if rng.percent(90) {
        map.insert("g", rng.below(6) as i64);
    }
    if rng.percent(60) {
        map.insert("u", rng.below(150) as i64);
    }
    match rng.below(5) {
        0 => drop(map.insert("o", scalar(rng))),
        1 => drop(map.insert("o", Value::object())),
        _ => drop(map.insert("o", flagstone::doc!({"x": (scalar(rng)), "y": 1}))),
    }
    if rng.percent(90) {
        map.insert("a", value(rng));
    }
    if rng.percent(90) {
        map.insert("n", number(rng));
    }
    if rng.percent(70) {
        let tags: Vec<Value> = (0..rng.below(4)).map(|_| value(rng)).collect();
        map.insert("tags", tags);
    }
    if rng.percent(60) {
        let mut inner = flagstone::doc::Map::new();
        inner.insert("b", value(rng));
        let inner = Value::Map(inner);
        let inner = if rng.percent(30) { vec![inner, value(rng)].into() } else { inner };
        map.insert("in", inner);
    }
    if rng.percent(70) {
        map.insert("at", date(rng));
    }
    if rng.percent(40) {
        let maps: Vec<Value> = (0..rng.below(4)).map(|_| pair(rng)).collect();
        map.insert("l", maps);
    }
    map.insert("pad", "x".repeat(rng.index(40)));
    Value::Map(map)
}

/// An element of a list of maps; now and then another one, or with an array in it.
fn pair(rng: &mut Rng) -> Value {
    if rng.percent(5) {
        return value(rng);
    }
    let mut map = flagstone::doc::Map::new();
    if rng.percent(80) {
        map.insert("x", value(rng));
    }
    if rng.percent(80) {
        map.insert("y", number(rng));
    }
    Value::Map(map)
}

/// A date that no clock of a test reaches, in seconds; now and then what is no date.
fn date(rng: &mut Rng) -> Value {
    const FAR: i64 = 9_000_000_000;
    let second = |rng: &mut Rng| Value::from(FAR + rng.below(30) as i64);
    match rng.below(10) {
        0 => Value::Null,
        1 => Value::from(*rng.pick(&["", "a", "soon"])),
        2 => Value::Array((0..rng.below(3)).map(|_| second(rng)).collect()),
        _ => second(rng),
    }
}

fn number(rng: &mut Rng) -> Value {
    match rng.below(6) {
        0 => Value::number(&format!("{}.{}0", rng.below(5), rng.below(10))).unwrap(),
        1 => Value::from(rng.below(40) as f64 / 4.0),
        _ => Value::from(rng.below(20) as i64 - 5),
    }
}

fn value(rng: &mut Rng) -> Value {
    match rng.below(10) {
        0 => Value::Null,
        1 => Value::from(rng.percent(50)),
        2 | 3 => Value::from(*rng.pick(&["", "a", "ab", "b", "zz"])),
        4 if rng.percent(30) => Value::Array((0..rng.below(3)).map(|_| number(rng)).collect()),
        _ => number(rng),
    }
}

/// A random value that is no array; rarely one that is too long for an index.
fn scalar(rng: &mut Rng) -> Value {
    match rng.below(12) {
        0 => Value::Null,
        1 => Value::from(rng.percent(50)),
        2 | 3 => Value::from(*rng.pick(&["", "a", "ab", "b", "zz"])),
        4 if rng.percent(20) => Value::from("a".repeat(1020 + rng.index(8))),
        5 if rng.percent(20) => flagstone::doc!({"z": 1, "y": (number(rng))}),
        _ => number(rng),
    }
}

/// A random filter over the fields of [`document`].
pub(super) fn filter(rng: &mut Rng, depth: u32) -> Filter {
    if depth > 0 && rng.percent(40) {
        let parts = (0..=rng.below(2)).map(|_| filter(rng, depth - 1)).collect::<Vec<_>>();
        return match rng.below(3) {
            0 => Filter::any(parts),
            1 => Filter::all(parts),
            _ => Filter::none(parts),
        };
    }
    if rng.percent(8) {
        let key = rng.below(320) as i64 - 10;
        return match rng.below(4) {
            0 => Filter::key().eq(key),
            1 => Filter::key().one_of([key, key / 2, key + 1]),
            2 => Filter::key().gte(key),
            _ => Filter::key().lt(key),
        };
    }
    if rng.percent(6) {
        let (x, y) = (value(rng), number(rng));
        let both = Filter::field("x").eq(x.clone()).and(Filter::field("y").gte(y.clone()));
        return match rng.below(3) {
            0 => Filter::field("l").elem_match(both),
            1 => Filter::field("l.x").eq(x).and(Filter::field("l.y").gte(y)),
            _ => Filter::field("l.x").gte(x).and(Filter::field("l.y").eq(y)),
        };
    }
    let path = *rng.pick(&PATHS);
    let field = Filter::field(path);
    if rng.percent(8) {
        let operator = *rng.pick(&[
            r#""$bitsAnySet":5"#,
            r#""$bitsAllClear":[0,1]"#,
            r#""$type":["int","double"]"#,
            r#""$type":"binData""#,
            r#""$in":[1,{"$regularExpression":{"pattern":"a","options":""}}]"#,
            r#""$nin":[{"$regularExpression":{"pattern":"^a","options":"i"}},null]"#,
            r#""$all":[{"$elemMatch":{"$gt":1}}]"#,
            r#""$gt":{"$minKey":1}"#,
        ]);
        return Filter::parse(&format!(r#"{{"{path}":{{{operator}}}}}"#)).unwrap();
    }
    let value = if path == "at" { date } else { value };
    let number = if path == "at" { date } else { number };
    match rng.below(9) {
        0 => field.eq(value(rng)),
        1 => field.ne(value(rng)),
        2 => field.lt(number(rng)),
        3 => field.lte(value(rng)),
        4 => field.gt(number(rng)),
        5 => field.gte(value(rng)),
        6 => field.one_of([value(rng), value(rng), number(rng)]),
        7 if rng.percent(50) => field.exists(),
        7 => field.is_missing(),
        _ => field.prefix("a"),
    }
}

/// A filter on a few values of the first fields of an index, and a sort by the fields after these:
/// what a merge of ranges serves.
pub(super) fn merged(rng: &mut Rng) -> (Filter, Sort) {
    let few = |rng: &mut Rng, field: &str| {
        let group = |rng: &mut Rng| Value::from(rng.below(7) as i64);
        let values = (0..=rng.below(3)).map(|_| match field {
            "g" => group(rng),
            _ => value(rng),
        });
        let values: Vec<Value> = values.collect();
        match rng.below(3) {
            0 => Filter::any(values.into_iter().map(|value| Filter::field(field).eq(value))),
            _ => Filter::field(field).one_of(values),
        }
    };
    let (first, rest): (&[&str], &[&'static str]) = *rng.pick(&[
        (&["g"][..], &["n"][..]),
        (&["g"], &["n", "u"]),
        (&["g"], &["u"]),
        (&["g"], &["$key"]),
        (&["g", "n"], &["u"]),
        (&["g"], &["g", "n"]),
        (&["tags"], &["n"]),
        (&["tags"], &["$key"]),
        (&["k"], &["n"]),
        (&["n"], &["u"]),
    ]);
    let mut filter = Filter::all(first.iter().map(|field| few(rng, field)));
    if rng.percent(30) {
        filter = filter.and(match rest[0] {
            "$key" => Filter::key().gte(rng.below(300) as i64),
            path => Filter::field(path).gte(number(rng)),
        });
    }
    if rest == ["u"] {
        filter = filter.and(Filter::field("u").exists());
    }
    let is_reverse = rng.percent(50);
    let mut sort: Vec<(&str, bool)> = rest.iter().map(|path| (*path, is_reverse)).collect();
    if rng.percent(20) {
        sort.push(("$key", rng.percent(50)));
        sort.dedup_by_key(|(path, _)| *path);
    }
    let text = sort_text(&sort);
    (filter, (sort, text))
}

/// A random sort, with its text.
pub(super) fn sort(rng: &mut Rng) -> Sort {
    let mut paths = [&PATHS[..], &["none"]].concat();
    let mut sort = Vec::new();
    for _ in 0..=rng.below(2) {
        sort.push((paths.swap_remove(rng.index(paths.len())), rng.percent(50)));
    }
    if rng.percent(50) {
        sort.insert(rng.index(sort.len() + 1), ("$key", rng.percent(50)));
    }
    let text = sort_text(&sort);
    (sort, text)
}

fn sort_text(sort: &[(&str, bool)]) -> String {
    let text =
        |(path, descending): &(&str, bool)| format!("{}{path}", if *descending { "-" } else { "" });
    sort.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The text of a value, with the fields of maps in the order of their names.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Map(map) => {
            let mut fields: Vec<String> =
                map.iter().map(|(name, value)| format!("{name}:{}", text(value))).collect();
            fields.sort();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}
