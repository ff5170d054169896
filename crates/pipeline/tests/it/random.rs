//! Random pipelines over random documents, against a model that holds all rows in lists: matches,
//! sorts, skips, limits, groups, unwinds and lookups, with so little memory that sorts and groups
//! spill, and with indexes or without. A failure prints the seed and the pipeline.

use flagstone::doc::Map;
use flagstone::{Collection, Database, Index, Space, Value, doc};
use flagstone_pipeline::Aggregated;
use flagstone_testkit::{Rng, rounds, seed};
use std::cmp::Ordering;

/// A scalar of few values, so that many are equal: number, text, null; `None` is missing.
fn scalar(rng: &mut Rng) -> Option<Value> {
    Some(match rng.below(10) {
        0 => return None,
        1 => Value::Null,
        2 => Value::from(*rng.pick(&["x", "y"])),
        _ => Value::from(rng.below(7) as i64),
    })
}

fn document(rng: &mut Rng, key: u64) -> Value {
    let mut map = Map::new();
    map.insert("_id", key);
    if let Some(value) = scalar(rng) {
        map.insert("a", value);
    }
    match rng.below(6) {
        0 => {}
        1 => drop(map.insert("b", scalar(rng).unwrap_or(Value::Null))),
        _ => {
            let items = (0..rng.below(5)).map(|_| Value::from(rng.below(6) as i64));
            map.insert("b", Value::Array(items.collect()));
        }
    }
    if let Some(value) = scalar(rng) {
        map.insert("c", doc!({ "d": (value) }));
    }
    if rng.percent(90) {
        map.insert("n", rng.below(1_000) as i64 - 500);
    }
    map.insert("pad", "p".repeat(rng.index(120)));
    Value::Map(map)
}

fn at<'v>(row: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(row, |value, name| value.get(name))
}

/// The order of missing, null, numbers, text, arrays and maps.
fn order(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Int(_)) => 2,
        Some(Value::Text(_)) => 3,
        Some(Value::Array(_)) => 4,
        Some(_) => 5,
    };
    match (a, b) {
        (Some(Value::Int(a)), Some(Value::Int(b))) => a.cmp(b),
        (Some(Value::Text(a)), Some(Value::Text(b))) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Where a pipeline is while it is made: its stages, and what the model has.
struct Made {
    stages: Vec<Value>,
    rows: Vec<Value>,
    /// Whether the order of the rows is known.
    is_ordered: bool,
    /// Whether a stage may need more memory than there is.
    may_exceed: bool,
}

impl Made {
    fn matched(&mut self, rng: &mut Rng) {
        let path = *rng.pick(&["a", "b", "c.d", "n", "_id", "k"]);
        let bound = rng.below(7) as i64;
        let operator = *rng.pick(&["$eq", "$gte", "$lt"]);
        self.stages.push(doc!({ "$match": { (path): { (operator): (bound) } } }));
        self.rows.retain(|row| {
            let holds = |value: &Value| match (value, operator) {
                (Value::Int(int), "$eq") => *int == bound,
                (Value::Int(int), "$gte") => *int >= bound,
                (Value::Int(int), _) => *int < bound,
                _ => false,
            };
            match at(row, path) {
                Some(Value::Array(items)) => items.iter().any(holds),
                Some(value) => holds(value),
                None => false,
            }
        });
    }

    /// Sorts so that rows that differ have an order: those of one key differ in what was unwound.
    fn sorted(&mut self, rng: &mut Rng) {
        let path = *rng.pick(&["a", "c.d", "n", "_id"]);
        let sign = if rng.percent(50) { 1 } else { -1 };
        let mut spec = Map::new();
        spec.insert(path, sign);
        for (name, sign) in [("_id", 1), ("b", 1), ("j._id", 1)] {
            if name != path {
                spec.insert(name, sign);
            }
        }
        let compare = |a: &Value, b: &Value| {
            spec.iter().fold(Ordering::Equal, |so_far, (name, sign)| {
                let name = name.as_str().unwrap();
                let next = order(at(a, name), at(b, name));
                so_far.then(if sign.as_i64() == Some(1) { next } else { next.reverse() })
            })
        };
        // Keys of groups that are maps, or arrays, are not ordered by the model.
        let is_plain =
            |row: &Value| !matches!(at(row, "_id"), Some(Value::Map(_) | Value::Array(_)));
        if self.rows.iter().all(is_plain) {
            self.rows.sort_by(compare);
            let mut stage = Map::new();
            stage.insert("$sort", Value::Map(spec));
            self.stages.push(Value::Map(stage));
            self.is_ordered = true;
        }
    }

    fn grouped(&mut self, rng: &mut Rng) {
        let by = *rng.pick(&["$a", "$c.d", "$b", ""]);
        let id = if by.is_empty() { Value::Null } else { Value::from(by) };
        let mut spec = Map::new();
        spec.insert("_id", id);
        spec.insert("k", doc!({ "$sum": 1 }));
        spec.insert("s", doc!({ "$sum": "$n" }));
        spec.insert("low", doc!({ "$min": "$n" }));
        spec.insert("high", doc!({ "$max": "$n" }));
        if self.is_ordered {
            spec.insert("first", doc!({ "$first": "$n" }));
            spec.insert("last", doc!({ "$last": "$n" }));
            spec.insert("all", doc!({ "$push": "$n" }));
            spec.insert("two", doc!({ "$firstN": { "n": 2, "input": "$n" } }));
            self.may_exceed = true;
        }
        let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
        for row in std::mem::take(&mut self.rows) {
            let id = match by.strip_prefix('$') {
                Some(path) => at(&row, path).cloned().unwrap_or_default(),
                None => Value::Null,
            };
            match groups.iter_mut().find(|(known, _)| *known == id) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((id, vec![row])),
            }
        }
        for (id, rows) in groups {
            let numbers = || rows.iter().filter_map(|row| at(row, "n")?.as_i64());
            let value = |number: Option<i64>| number.map_or(Value::Null, Value::from);
            let of = |row: &Value| at(row, "n").cloned();
            let mut map = Map::new();
            map.insert("_id", id);
            map.insert("k", rows.len());
            map.insert("s", numbers().sum::<i64>());
            map.insert("low", value(numbers().min()));
            map.insert("high", value(numbers().max()));
            if self.is_ordered {
                map.insert("first", of(&rows[0]).unwrap_or_default());
                map.insert("last", of(&rows[rows.len() - 1]).unwrap_or_default());
                map.insert("all", Value::Array(rows.iter().filter_map(of).collect()));
                let two = rows.iter().take(2).map(|row| of(row).unwrap_or_default());
                map.insert("two", Value::Array(two.collect()));
            }
            self.rows.push(Value::Map(map));
        }
        let mut stage = Map::new();
        stage.insert("$group", Value::Map(spec));
        self.stages.push(Value::Map(stage));
        self.is_ordered = false;
    }

    fn unwound(&mut self, rng: &mut Rng, name: &str) {
        let keeps = rng.percent(40);
        let path = format!("${name}");
        self.stages.push(doc!({
            "$unwind": { "path": (path), "preserveNullAndEmptyArrays": (keeps) }
        }));
        let mut out = Vec::new();
        for row in std::mem::take(&mut self.rows) {
            let with = |value: Value| {
                let mut map = row.as_map().unwrap().clone();
                map.insert(name, value);
                Value::Map(map)
            };
            match at(&row, name) {
                Some(Value::Array(items)) if items.is_empty() => {
                    let mut map = row.as_map().unwrap().clone();
                    map.remove(name);
                    out.extend(keeps.then_some(Value::Map(map)));
                }
                Some(Value::Array(items)) => out.extend(items.iter().cloned().map(with)),
                None | Some(Value::Null) => out.extend(keeps.then_some(row)),
                Some(_) => out.push(row),
            }
        }
        self.rows = out;
    }

    fn joined(&mut self, rng: &mut Rng, other: &[Value]) {
        let local = *rng.pick(&["a", "b", "c.d"]);
        let foreign = *rng.pick(&["r", "_id"]);
        self.stages.push(doc!({
            "$lookup": {
                "from": "other", "localField": (local), "foreignField": (foreign), "as": "j"
            }
        }));
        for row in &mut self.rows {
            let wanted: Vec<Option<Value>> = match at(row, local) {
                Some(Value::Array(items)) if !items.is_empty() => {
                    items.iter().cloned().map(Some).collect()
                }
                None | Some(Value::Null | Value::Array(_)) => vec![Some(Value::Null), None],
                Some(value) => vec![Some(value.clone())],
            };
            let is_found =
                |other: &&Value| wanted.iter().any(|value| value.as_ref() == at(other, foreign));
            let found = other.iter().filter(is_found).cloned().collect();
            if let Value::Map(map) = row {
                map.insert("j", Value::Array(found));
            }
        }
        self.may_exceed = true;
    }
}

/// The rows of a lookup have no order.
fn plain(mut row: Value) -> Value {
    if let Value::Map(map) = &mut row
        && let Some(Value::Array(found)) = map.get_mut("j")
    {
        found.sort();
    }
    row
}

fn check(seed: u64, documents: (&Collection, &[Value]), other: &[Value]) {
    let mut rng = Rng::new(seed);
    let (collection, rows) = documents;
    let rows = rows.to_vec();
    let mut made = Made { stages: Vec::new(), rows, is_ordered: false, may_exceed: false };
    let mut has_joined = false;
    for _ in 0..rng.between(1, 6) {
        match rng.below(8) {
            0 | 1 => made.matched(&mut rng),
            2 | 3 => made.sorted(&mut rng),
            4 if made.is_ordered => {
                let skip = rng.index(40);
                made.stages.push(doc!({ "$skip": (skip) }));
                made.rows.drain(..skip.min(made.rows.len()));
            }
            4 | 5 if made.is_ordered => {
                let limit = rng.index(300) + 1;
                made.stages.push(doc!({ "$limit": (limit) }));
                made.rows.truncate(limit);
            }
            6 => made.grouped(&mut rng),
            7 if !has_joined && rng.percent(50) => {
                made.joined(&mut rng, other);
                has_joined = true;
            }
            _ if has_joined && rng.percent(30) => {
                made.unwound(&mut rng, "j");
                made.is_ordered = false;
            }
            _ => made.unwound(&mut rng, "b"),
        }
        // Groups by an array and the like make few rows; unwinds of unwinds make no more.
        if made.rows.len() > 20_000 {
            break;
        }
    }
    let memory = *rng.pick(&[96 << 10, 256 << 10, 64 << 20]);
    let text = Value::Array(made.stages.clone()).to_string();
    let aggregate = collection.aggregate(Value::Array(made.stages)).unwrap().memory(memory);
    let found: Result<Vec<Value>, _> =
        aggregate.run().and_then(|rows| rows.map(|row| Ok(plain(row?.to_value()))).collect());
    let mut found = match found {
        Ok(found) => found,
        Err(error) if error.code() == 146 && made.may_exceed && memory < 64 << 20 => return,
        Err(error) => panic!("seed {seed}, {memory} bytes, {text}: {error}"),
    };
    let mut expected: Vec<Value> = made.rows.into_iter().map(plain).collect();
    if !made.is_ordered {
        found.sort();
        expected.sort();
    }
    if found == expected {
        return;
    }
    let place = found.iter().zip(&expected).position(|(a, b)| a != b);
    let place = place.unwrap_or_else(|| found.len().min(expected.len()));
    panic!(
        "seed {seed}, {memory} bytes, {text}: {} rows for {}; row {place} is {:?}, expected {:?}",
        found.len(),
        expected.len(),
        found.get(place).map(ToString::to_string),
        expected.get(place).map(ToString::to_string),
    );
}

#[test]
fn random_pipelines_return_what_a_model_returns() {
    let first = seed("pipelines", 1);
    for round in 0..rounds(6, 100_000) {
        let seed = first.wrapping_add(round * 1_000);
        let mut rng = Rng::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("data")).unwrap();
        let (collection, other) =
            (db.collection("documents").unwrap(), db.collection("other").unwrap());
        let rows: Vec<Value> =
            (0..rng.between(1, 900)).map(|key| document(&mut rng, key)).collect();
        for row in &rows {
            collection.put(at(row, "_id").unwrap(), row).unwrap();
        }
        let mut others = Vec::new();
        for key in 0..rng.below(12) {
            let mut map = Map::new();
            map.insert("_id", key);
            if let Some(value) = scalar(&mut rng) {
                map.insert("r", value);
            }
            other.put(key, Value::Map(map.clone())).unwrap();
            others.push(Value::Map(map));
        }
        if rng.percent(50) {
            collection.create_index("by_a", Index::on("a").then("n")).unwrap();
            collection.create_index("by_b", Index::on("b")).unwrap();
            other.create_index("by_r", Index::on("r")).unwrap();
        }
        for number in 0..60 {
            check(seed.wrapping_add(number), (&collection, &rows), &others);
        }
    }
}
