//! Random documents, filters, updates and pipelines over a few fields:
//!
//! ```text
//! _id  a number or text        c  an array of scalars, or of {x, y}; or a scalar
//! a    a scalar                d  {e: a scalar, f: an array of numbers}
//! b    a number                u  a small integer, which may be unique
//! t    a date, past or far     z  what a rename makes
//! ```

use bson::{Bson, DateTime, Document, doc};
use flagstone_testkit::Rng;

/// A moment that has passed, and one that has not.
pub(super) const PAST: i64 = 1_000_000_000_000;
pub(super) const FAR: i64 = 4_000_000_000_000;

pub(super) fn id(random: &mut Rng) -> Bson {
    let n = random.index(14) as i32;
    match random.index(12) {
        0 => Bson::Int64(n.into()),
        1 => Bson::Double(f64::from(n) / 2.0),
        2 | 3 => Bson::String(format!("k{}", n % 4)),
        _ => Bson::Int32(n),
    }
}

pub(super) fn number(random: &mut Rng) -> Bson {
    let n = random.index(9) as i32 - 2;
    match random.index(6) {
        0 => Bson::Int64(n.into()),
        1 => Bson::Double(f64::from(n) / 2.0),
        2 => Bson::Double(f64::from(n)),
        _ => Bson::Int32(n),
    }
}

fn scalar(random: &mut Rng) -> Bson {
    match random.index(12) {
        0 | 1 => Bson::String((*random.pick(&["p", "q", "r", ""])).to_owned()),
        2 => Bson::Null,
        3 => Bson::Boolean(random.percent(50)),
        4 => date(random),
        _ => number(random),
    }
}

fn date(random: &mut Rng) -> Bson {
    let base = if random.percent(40) { PAST } else { FAR };
    Bson::DateTime(DateTime::from_millis(base + random.index(4) as i64))
}

fn element(random: &mut Rng) -> Bson {
    Bson::Document(doc! { "x": scalar(random), "y": number(random) })
}

fn array(random: &mut Rng) -> Bson {
    let is_of_maps = random.percent(40);
    let item = |random: &mut Rng| if is_of_maps { element(random) } else { scalar(random) };
    Bson::Array((0..random.index(5)).map(|_| item(random)).collect())
}

fn numbers(random: &mut Rng) -> Bson {
    Bson::Array((0..random.index(4)).map(|_| number(random)).collect())
}

/// Returns a value that a field may have.
fn value_of(random: &mut Rng, field: &str) -> Bson {
    match field {
        "b" => number(random),
        "c" if random.percent(85) => array(random),
        "d" if random.percent(85) => {
            let mut inner = Document::new();
            if random.percent(85) {
                inner.insert("e", scalar(random));
            }
            if random.percent(70) {
                inner.insert("f", numbers(random));
            }
            Bson::Document(inner)
        }
        "u" => Bson::Int32(random.index(9) as i32),
        "t" => date(random),
        _ => scalar(random),
    }
}

/// Returns a document without an `_id`.
pub(super) fn fields(random: &mut Rng) -> Document {
    let mut document = Document::new();
    for (field, percent) in [("a", 85), ("b", 80), ("c", 70), ("d", 60), ("u", 25), ("t", 20)] {
        if random.percent(percent) {
            document.insert(field, value_of(random, field));
        }
    }
    document
}

pub(super) fn document(random: &mut Rng) -> Document {
    let mut document = doc! { "_id": id(random) };
    document.extend(fields(random));
    document
}

fn operand(random: &mut Rng, path: &str) -> Bson {
    match path {
        "_id" => id(random),
        "b" | "d.f" | "c.y" => number(random),
        "u" => Bson::Int32(random.index(9) as i32),
        "t" => date(random),
        _ => scalar(random),
    }
}

/// Returns a condition on what a path reaches.
fn condition(random: &mut Rng, path: &str) -> Bson {
    let one = operand(random, path);
    let list = |random: &mut Rng| -> Vec<Bson> {
        (0..=random.index(3)).map(|_| operand(random, path)).collect()
    };
    let ordered = |random: &mut Rng| loop {
        let bound = operand(random, path);
        if !matches!(bound, Bson::Null) {
            return bound;
        }
    };
    let condition = match random.index(16) {
        0..=3 => return one,
        4 => doc! { "$gt": ordered(random) },
        5 => doc! { "$gte": ordered(random), "$lt": ordered(random) },
        6 => doc! { "$lte": ordered(random) },
        7 => doc! { "$ne": one },
        8 => doc! { "$in": list(random) },
        9 => doc! { "$nin": list(random) },
        10 => doc! { "$exists": random.percent(60) },
        11 if path != "_id" => doc! { "$size": random.index(3) as i32 },
        // Of a primary key only the value is asked for.
        12 if path != "_id" => doc! { "$type": *random.pick(&["int", "long", "double", "string"]) },
        13 => doc! { "$not": { "$gt": ordered(random) } },
        14 if path != "_id" => doc! { "$mod": [random.between(2, 3) as i32, 0] },
        15 if path == "c" && random.percent(60) => {
            doc! { "$elemMatch": { "x": condition(random, "c.x") } }
        }
        15 if path == "c" || path == "d.f" => {
            doc! { "$elemMatch": { "$gte": ordered(random), "$lt": ordered(random) } }
        }
        _ if path != "_id" => doc! { "$all": list(random) },
        _ => doc! { "$eq": one },
    };
    Bson::Document(condition)
}

const PATHS: [&str; 11] = ["_id", "a", "b", "c", "c.x", "c.y", "c.0", "d.e", "d.f", "u", "t"];

pub(super) fn filter(random: &mut Rng) -> Document {
    filter_of(random, 2)
}

fn filter_of(random: &mut Rng, depth: usize) -> Document {
    let mut filter = Document::new();
    if depth > 0 && random.percent(20) {
        let parts: Vec<Document> =
            (0..=random.index(3)).map(|_| filter_of(random, depth - 1)).collect();
        filter.insert(*random.pick(&["$and", "$or", "$or", "$nor"]), parts);
    }
    for _ in 0..random.index(3) {
        let path = *random.pick(&PATHS);
        filter.insert(path, condition(random, path));
    }
    filter
}

/// Returns a filter for one or few documents.
pub(super) fn narrow(random: &mut Rng) -> Document {
    match random.index(4) {
        0 => filter(random),
        1 => doc! { "_id": id(random), "a": condition(random, "a") },
        _ => doc! { "_id": id(random) },
    }
}

pub(super) fn sort(random: &mut Rng) -> Document {
    let mut sort = Document::new();
    for _ in 0..=random.index(2) {
        let path = *random.pick(&["a", "b", "c.x", "d.e", "d.f", "u", "t"]);
        sort.insert(path, if random.percent(50) { 1 } else { -1 });
    }
    sort
}

/// Returns a sort that leaves no ties.
pub(super) fn total_sort(random: &mut Rng) -> Document {
    let mut sort = if random.percent(70) { sort(random) } else { Document::new() };
    sort.insert("_id", if random.percent(50) { 1 } else { -1 });
    sort
}

fn one_of<'a>(random: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[random.index(choices.len())]
}

/// An update, with the filter that it needs if it has a `$` in a path, and array filters.
pub(super) struct DrawnUpdate {
    pub(super) update: Bson,
    pub(super) filter: Option<Document>,
    pub(super) array_filters: Vec<Document>,
}

/// Changes the array `c`.
fn change_array(random: &mut Rng, add: &mut impl FnMut(&str, &str, Bson), out: &mut DrawnUpdate) {
    match random.index(14) {
        0 => add("$push", "c", scalar(random)),
        1 => {
            let items: Vec<Bson> = (0..random.index(3)).map(|_| scalar(random)).collect();
            let mut push = doc! { "$each": items };
            if random.percent(50) {
                push.insert("$position", random.index(5) as i32 - 2);
            }
            if random.percent(60) {
                push.insert("$slice", random.index(9) as i32 - 4);
            }
            add("$push", "c", push.into());
        }
        2 => add("$addToSet", "c", scalar(random)),
        3 => add("$addToSet", "c", doc! { "$each": [scalar(random), scalar(random)] }.into()),
        4 => add("$pop", "c", Bson::Int32(*random.pick(&[1, -1]))),
        5 => add("$pull", "c", condition(random, "c.x")),
        6 => add("$pull", "c", doc! { "x": condition(random, "c.x") }.into()),
        7 => add("$pullAll", "c", Bson::Array(vec![scalar(random), scalar(random)])),
        8 => add("$set", one_of(random, &["c.0", "c.2", "c.1.x", "c.x"]), scalar(random)),
        9 => add("$unset", one_of(random, &["c.0", "c.1.x", "c"]), Bson::Int32(1)),
        10 => add("$set", one_of(random, &["c.$[]", "c.$[].x"]), scalar(random)),
        11 => {
            out.array_filters.push(doc! { "k": condition(random, "c.x") });
            add("$set", "c.$[k]", scalar(random));
        }
        12 => {
            let path = *random.pick(&["c", "c.x"]);
            out.filter = Some(doc! { path: operand(random, path) });
            add("$set", "c.$", scalar(random));
        }
        _ => add("$set", "c", array(random)),
    }
}

pub(super) fn change(random: &mut Rng) -> DrawnUpdate {
    let plain = |update| DrawnUpdate { update, filter: None, array_filters: Vec::new() };
    match random.index(20) {
        0 | 1 => return plain(Bson::Document(fields(random))),
        2 => {
            let field = *random.pick(&["a", "b", "z"]);
            let stage = match random.index(3) {
                0 => doc! { "$set": { field: scalar(random), "u": random.index(9) as i32 } },
                1 => doc! { "$set": { field: "$b" } },
                _ => doc! { "$unset": field },
            };
            return plain(Bson::Array(vec![stage.into()]));
        }
        // One place by two operators.
        3 if random.percent(40) => {
            return plain(Bson::Document(doc! { "$inc": { "b": 1 }, "$set": { "b": 2 } }));
        }
        _ => {}
    }
    let mut out = DrawnUpdate { update: Bson::Null, filter: None, array_filters: Vec::new() };
    let mut update = Document::new();
    let mut add = |operator: &str, path: &str, operand: Bson| {
        let operands = update.entry(operator.to_owned()).or_insert(Bson::Document(Document::new()));
        operands.as_document_mut().unwrap().insert(path, operand);
    };
    let mut roots = vec!["a", "b", "c", "d", "u", "t"];
    for _ in 0..=random.index(3) {
        let root = roots.swap_remove(random.index(roots.len()));
        match root {
            "a" => match random.index(5) {
                0 => add("$unset", "a", Bson::String(String::new())),
                1 => add("$rename", "a", Bson::String("z".to_owned())),
                2 => add("$setOnInsert", "a", scalar(random)),
                3 => add(one_of(random, &["$min", "$max"]), "a", scalar(random)),
                _ => add("$set", "a", scalar(random)),
            },
            "b" => match random.index(6) {
                0 => add("$mul", "b", Bson::Int32(*random.pick(&[-1, 2, 0]))),
                1 => add(one_of(random, &["$min", "$max"]), "b", number(random)),
                2 => add("$set", "b", number(random)),
                3 => add("$unset", "b", Bson::Int32(1)),
                _ => add("$inc", "b", number(random)),
            },
            "c" => change_array(random, &mut add, &mut out),
            "d" => match random.index(7) {
                0 => add("$set", "d.e", scalar(random)),
                1 => add("$unset", one_of(random, &["d.e", "d.f"]), Bson::Int32(1)),
                2 => {
                    let sort = if random.percent(50) { 1 } else { -1 };
                    add("$push", "d.f", doc! { "$each": [number(random)], "$sort": sort }.into());
                }
                3 => add("$inc", "d.f.$[]", Bson::Int32(1)),
                4 => add("$inc", "d.g", number(random)),
                5 => add("$setOnInsert", "d.e", scalar(random)),
                _ => add("$set", "d", value_of(random, "d")),
            },
            "u" => match random.index(4) {
                0 => add("$unset", "u", Bson::Int32(1)),
                1 => add("$inc", "u", Bson::Int32(1)),
                _ => add("$set", "u", value_of(random, "u")),
            },
            _ => match random.index(3) {
                0 => add("$unset", "t", Bson::Int32(1)),
                _ => add("$set", "t", date(random)),
            },
        }
    }
    out.update = Bson::Document(update);
    out
}

/// Returns a pipeline, and whether the order of its rows is certain.
pub(super) fn pipeline(random: &mut Rng) -> (Vec<Document>, bool) {
    let mut stages = Vec::new();
    if random.percent(70) {
        stages.push(doc! { "$match": filter(random) });
    }
    let is_sorted = random.percent(60);
    if is_sorted {
        stages.push(doc! { "$sort": total_sort(random) });
        if random.percent(40) {
            stages.push(doc! { "$skip": random.index(5) as i32 });
        }
        if random.percent(50) {
            stages.push(doc! { "$limit": 1 + random.index(8) as i32 });
        }
        if random.percent(20) {
            stages.push(doc! { "$match": filter(random) });
        }
    }
    let mut is_ordered = is_sorted;
    match random.index(6) {
        0 => {
            stages.push(doc! { "$count": "n" });
            is_ordered = true;
        }
        1 => {
            let by = if random.percent(70) { Bson::String("$a".to_owned()) } else { Bson::Null };
            stages.push(doc! { "$group": { "_id": by, "n": { "$sum": 1 }, "sum": { "$sum": "$b" },
            "least": { "$min": "$b" }, "most": { "$max": "$b" } } });
            is_ordered = false;
        }
        2 => stages.push(doc! { "$unwind": "$c" }),
        3 => stages.push(doc! { "$unset": "d" }),
        _ => {}
    }
    (stages, is_ordered)
}
