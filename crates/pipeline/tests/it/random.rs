//! Random pipelines over random documents, against a model that holds all rows in lists: matches,
//! sorts, skips, limits, groups, unwinds, lookups, graphs, windows, gaps, and values filled in.
//! Some have so little memory that sorts and groups spill; collections have indexes or not. A
//! failure prints the seed and the pipeline.

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

    fn stage(&mut self, name: &str, spec: Map) {
        let mut stage = Map::new();
        stage.insert(name, Value::Map(spec));
        self.stages.push(Value::Map(stage));
    }

    /// Sorts so that rows that differ have an order: those of one key differ in what was unwound.
    fn sorted(&mut self, rng: &mut Rng) {
        if let Some(spec) = self.in_order(rng, "") {
            self.stage("$sort", spec);
        }
    }

    /// Orders the rows of the model by a field `first`, and by what it returns.
    fn in_order(&mut self, rng: &mut Rng, first: &str) -> Option<Map> {
        let path = *rng.pick(&["a", "c.d", "n", "_id"]);
        let sign = if rng.percent(50) { 1 } else { -1 };
        let mut spec = Map::new();
        spec.insert(path, sign);
        for (name, sign) in [("_id", 1), ("n", 1), ("b", 1), ("j._id", 1)] {
            if name != path {
                spec.insert(name, sign);
            }
        }
        let compare = |a: &Value, b: &Value| {
            let [of_a, of_b] = [a, b].map(|row| at(row, first).filter(|value| !value.is_null()));
            let begin = order(of_a, of_b);
            spec.iter().fold(begin, |so_far, (name, sign)| {
                let name = name.as_str().unwrap();
                let next = order(at(a, name), at(b, name));
                so_far.then(if sign.as_i64() == Some(1) { next } else { next.reverse() })
            })
        };
        // Keys of groups that are maps, or arrays, are not ordered by the model.
        let is_plain =
            |row: &Value| !matches!(at(row, "_id"), Some(Value::Map(_) | Value::Array(_)));
        if !self.rows.iter().all(is_plain) {
            return None;
        }
        self.rows.sort_by(compare);
        self.is_ordered = true;
        Some(spec)
    }

    /// Windows of some rows before and behind each row.
    fn windowed(&mut self, rng: &mut Rng) {
        let by = *rng.pick(&["", "a"]);
        let Some(sort) = self.in_order(rng, by) else { return };
        let ends = [-3, -1, 0, 1, 4];
        let low = *rng.pick(&ends);
        let high = *rng.pick(&ends.map(|end| end.max(low)));
        let (is_open, shift) = (rng.percent(30), rng.between(0, 6) as i64 - 3);
        let start = if is_open { Value::from("unbounded") } else { Value::from(low) };
        let window = doc!({ "documents": (Value::Array(vec![start, high.into()])) });
        let over = |name: &str| doc!({ (name): "$n", "window": (window.clone()) });
        let mut output = Map::new();
        for function in ["$sum", "$min", "$last", "$push", "$avg"] {
            output.insert(&function[1..], over(function));
        }
        output.insert("all", doc!({ "$max": "$n" }));
        output.insert("shift", doc!({ "$shift": { "output": "$n", "by": (shift) } }));
        output.insert("locf", doc!({ "$locf": "$n" }));
        let mut spec = Map::new();
        if !by.is_empty() {
            spec.insert("partitionBy", format!("${by}"));
        }
        spec.insert("sortBy", Value::Map(sort));
        spec.insert("output", Value::Map(output));
        self.stage("$setWindowFields", spec);
        self.may_exceed = true;
        let same = |a: &Value, b: &Value| {
            let of = |row: &Value| at(row, by).cloned().unwrap_or_default();
            by.is_empty() || of(a) == of(b)
        };
        let mut out = Vec::new();
        for rows in self.rows.chunk_by(same) {
            let number = |row: &Value| at(row, "n").cloned();
            let all = rows.iter().filter_map(number).max().unwrap_or_default();
            let mut carried = Value::Null;
            for (place, row) in rows.iter().enumerate() {
                let end = |by: i64| (place as i64 + by).clamp(0, rows.len() as i64) as usize;
                let first = if is_open { 0 } else { end(low) };
                let frame = &rows[first.min(end(high + 1))..end(high + 1)];
                let found: Vec<Value> = frame.iter().filter_map(number).collect();
                let sum: i64 = found.iter().filter_map(Value::as_i64).sum();
                let average = match found.len() {
                    0 => Value::Null,
                    count => Value::Float(sum as f64 / count as f64),
                };
                let other = usize::try_from(place as i64 + shift).ok();
                let other = other.and_then(|other| rows.get(other)).and_then(number);
                carried = number(row).unwrap_or(carried);
                let mut map = row.as_map().unwrap().clone();
                map.insert("sum", sum);
                map.insert("min", found.iter().min().cloned().unwrap_or_default());
                map.insert("last", frame.last().and_then(number).unwrap_or_default());
                map.insert("push", Value::Array(found));
                map.insert("avg", average);
                map.insert("all", all.clone());
                map.insert("shift", other.unwrap_or_default());
                map.insert("locf", carried.clone());
                out.push(Value::Map(map));
            }
        }
        self.rows = out;
    }

    /// Windows of near values, if all rows have one.
    fn ranged(&mut self, rng: &mut Rng) {
        let number = |row: &Value| at(row, "n").and_then(Value::as_i64);
        if self.rows.iter().any(|row| number(row).is_none()) {
            return;
        }
        let (low, high) = (-(rng.below(90) as i64), rng.below(40) as i64);
        let window = doc!({ "range": [(low), (high)] });
        let mut output = Map::new();
        output.insert("near", doc!({ "$sum": "$n", "window": (window) }));
        let mut spec = Map::new();
        spec.insert("sortBy", doc!({ "n": 1 }));
        spec.insert("output", Value::Map(output));
        self.stage("$setWindowFields", spec);
        (self.is_ordered, self.may_exceed) = (false, true);
        let numbers: Vec<i64> = self.rows.iter().filter_map(number).collect();
        for row in &mut self.rows {
            let own = number(row).unwrap();
            let near = numbers.iter().filter(|n| (own + low..=own + high).contains(n));
            let near: i64 = near.sum();
            if let Value::Map(map) = row {
                map.insert("near", near);
            }
        }
    }

    /// Adds rows where `n` has gaps.
    fn densified(&mut self, rng: &mut Rng) {
        let step = rng.between(3, 40) as i64;
        let number = |row: &Value| at(row, "n").and_then(Value::as_i64);
        let mut numbers: Vec<i64> = self.rows.iter().filter_map(number).collect();
        numbers.sort_unstable();
        let (bounds, first, end) = match (rng.percent(50), &*numbers) {
            (true, [first, .., last]) => (Value::from("full"), *first, last + 1),
            _ => (doc!([-30, 60]), -30, 60),
        };
        self.stages.push(doc!({
            "$densify": { "field": "n", "range": { "step": (step), "bounds": (bounds) } }
        }));
        self.is_ordered = false;
        let wanted = (first..end).step_by(step as usize);
        let lacking = wanted.filter(|n| numbers.binary_search(n).is_err());
        self.rows.extend(lacking.map(|n| doc!({ "n": (n) })));
    }

    fn filled(&mut self) {
        self.stages.push(doc!({ "$fill": { "output": { "a": { "value": 77 } } } }));
        for row in &mut self.rows {
            if let Value::Map(map) = row
                && map.get("a").is_none_or(Value::is_null)
            {
                map.insert("a", 77);
            }
        }
    }

    /// Goes from `a` through the other collection, from `r` to `_id`.
    fn reached(&mut self, rng: &mut Rng, other: &[Value]) {
        let most = rng.below(3) as i64;
        self.stages.push(doc!({
            "$graphLookup": {
                "from": "other", "startWith": "$a", "connectFromField": "r",
                "connectToField": "_id", "maxDepth": (most), "depthField": "d", "as": "g"
            }
        }));
        for row in &mut self.rows {
            let (mut values, mut found) = (Vec::from_iter(at(row, "a").cloned()), Vec::new());
            for depth in 0..=most {
                let is_new = |one: &&Value| !found.iter().any(|(known, _)| known == *one);
                let is_next = |one: &&Value| values.iter().any(|v| Some(v) == at(one, "_id"));
                let next: Vec<Value> =
                    other.iter().filter(is_next).filter(is_new).cloned().collect();
                values = next.iter().filter_map(|one| at(one, "r").cloned()).collect();
                found.extend(next.into_iter().map(|one| (one, depth)));
            }
            let found = found.into_iter().map(|(one, depth)| {
                let mut map = one.as_map().unwrap().clone();
                map.insert("d", depth);
                Value::Map(map)
            });
            let found = found.collect();
            if let Value::Map(map) = row {
                map.insert("g", Value::Array(found));
            }
        }
        self.may_exceed = true;
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
        self.stage("$group", spec);
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
    if let Value::Map(map) = &mut row {
        for name in ["g", "j"] {
            if let Some(Value::Array(found)) = map.get_mut(name) {
                found.sort();
            }
        }
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
        match rng.below(12) {
            8 => made.windowed(&mut rng),
            9 if rng.percent(50) => made.ranged(&mut rng),
            9 => made.densified(&mut rng),
            10 => made.reached(&mut rng, other),
            11 => made.filled(),
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
