//! Groups against a model, with memory so small that they spill.

use super::model::{self, Model};
use crate::support::{hashed, small};
use flagstone::doc::Map;
use flagstone::{Collection, ErrorKind, Group, Json, Space, Value, doc};
use flagstone_testkit::Rng;
use flagstone_testkit::{World, seed};
use std::collections::BTreeMap;

/// The groups of the model by paths, with all accumulators of `n`.
fn expected(model: &Model, by: &[&str]) -> Vec<Value> {
    let mut groups: BTreeMap<Vec<Value>, Vec<&Value>> = BTreeMap::new();
    for document in model.0.values() {
        let key = by.iter().map(|path| group_value(document, path)).collect();
        groups.entry(key).or_default().push(document);
    }
    let result = |(key, documents): (Vec<Value>, Vec<&Value>)| {
        let mut map: Map = by.iter().map(|path| Value::from(*path)).zip(key).collect();
        map.insert("count", documents.len());
        let values: Vec<Value> =
            documents.iter().flat_map(|document| model::values(document, "n")).flatten().collect();
        // All numbers of the model are quarters or tenths.
        let twentieths = |value: &Value| (value.as_f64().unwrap() * 20.0).round() as i64;
        let total: i64 = values.iter().map(twentieths).sum();
        map.insert("twentieths", total);
        map.insert("least", values.iter().min().cloned());
        map.insert("greatest", values.iter().max().cloned());
        map.insert("numbers", values.len());
        Value::Map(map)
    };
    groups.into_iter().map(result).collect()
}

fn group_value(document: &Value, path: &str) -> Value {
    let (reached, crossed) = model::reached(document, path);
    if crossed {
        reached.into_iter().flatten().collect()
    } else {
        reached.into_iter().flatten().next().unwrap_or_default()
    }
}

/// Brings a group that was found into the form of the model: its sum in twentieths.
fn comparable(found: &Value) -> Value {
    let map = found.as_map().unwrap();
    let (mut out, mut total, mut mean) = (Map::new(), 0.0, None);
    for (name, value) in map {
        match name.as_str().unwrap() {
            "total" => total = value.as_f64().unwrap(),
            "mean" => mean = value.as_f64(),
            _ => drop(out.insert(name.clone(), value.clone())),
        }
    }
    let numbers = mean.map_or(0.0, |mean| total / mean);
    let numbers = if total == 0.0 { f64::NAN } else { numbers };
    out.insert("twentieths", (total * 20.0).round() as i64);
    if !numbers.is_nan() {
        out.insert("numbers", numbers.round() as i64);
    }
    Value::Map(out)
}

fn assert_same(found: &[Value], expected: &[Value], context: &str) {
    assert_eq!(found.len(), expected.len(), "{context}");
    for (found, expected) in found.iter().zip(expected) {
        let (found, mut expected) = (comparable(found), expected.clone());
        if found.get("numbers").is_none()
            && let Value::Map(map) = &mut expected
        {
            map.remove("numbers");
        }
        assert_eq!(found, expected, "{context}");
    }
}

#[test]
fn groups_are_those_of_a_model() {
    let seed = seed("groups", 12);
    let rng = &mut Rng::new(seed);
    let world = World::new(seed);
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("documents").options(hashed(2)).collection().unwrap();
    let mut model = Model::default();
    for key in 0..3000_i64 {
        let mut document = model::document(rng);
        if let Value::Map(map) = &mut document {
            map.insert("wide", rng.below(1500));
        }
        collection.put(key, &document).unwrap();
        model.0.insert(key.into(), document);
    }
    for by in [&[][..], &["a"], &["n"], &["in.b"], &["tags", "a"], &["wide"], &["none"]] {
        for memory in [1, 1 << 16, 8 << 20] {
            let mut group = by.iter().fold(Group::all(), |group, path| group.then_by(path));
            group = group.count("count").sum("total", "n").avg("mean", "n");
            group = group.min("least", "n").max("greatest", "n");
            let found: Vec<Value> = collection
                .find("{}")
                .memory(memory)
                .group(&group)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_same(&found, &expected(&model, by), &format!("{by:?}, {memory}, seed {seed}"));
        }
    }
}

fn filled() -> (World, Collection) {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("comments").unwrap();
    for n in 0..1000_i64 {
        let document = doc!({"who": format!("user {}", n % 37), "n": n});
        collection.put(n, &document).unwrap();
    }
    (world, collection)
}

#[test]
fn groups_are_sorted_by_a_field_whose_name_is_a_path() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let posts = session.db.collection("posts").unwrap();
    for (key, name) in ["b", "d", "a", "c"].iter().enumerate() {
        posts.put(key, doc!({ "author": { "name": (*name) } })).unwrap();
    }
    let by_name = Group::by("author.name").count("votes.n");
    let names = |sort: &str| -> Vec<String> {
        let groups = posts.find("{}").sort(sort).limit(2).group(&by_name).unwrap();
        groups.map(|group| group.unwrap().get("author.name").unwrap().to_string()).collect()
    };
    assert_eq!(names("-author.name"), ["\"d\"", "\"c\""]);
    assert_eq!(names("-votes.n,author.name"), ["\"a\"", "\"b\""]);
}

#[test]
fn sort_skip_and_limit_are_those_of_groups() {
    let (_world, collection) = filled();
    let group = Group::parse("who: count as n, sum(n) as total").unwrap();
    for memory in [1, 1 << 20] {
        let find = collection.find("{}").memory(memory);
        let all: Vec<Value> = find.group(&group).unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), 37);
        let some = find.clone().skip(5).limit(3).group(&group).unwrap();
        assert_eq!(some.map(Result::unwrap).collect::<Vec<_>>(), all[5..8]);
        let mut by_total = all.clone();
        by_total.sort_by_key(|group| std::cmp::Reverse(group.get("total").cloned()));
        let best = find.clone().sort("-total").skip(1).limit(4).group(&group).unwrap();
        assert_eq!(best.map(Result::unwrap).collect::<Vec<_>>(), by_total[1..5]);
    }
}

#[test]
fn a_group_without_documents_is_none() {
    let (_world, collection) = filled();
    let none = collection.find(r#"{"n":-1}"#);
    assert_eq!(none.group(&Group::all().count("n")).unwrap().count(), 0);
}

#[test]
fn elements_of_arrays_accumulate_one_by_one() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("orders").unwrap();
    collection.put(1, Json(r#"{"items":[{"price":1.10},{"price":2}],"tags":[3,"x"]}"#)).unwrap();
    collection.put(2, Json(r#"{"items":[{"price":null}],"tags":[]}"#)).unwrap();
    let group = Group::parse(": count, sum(items.price) as s, min(items.price) as lo, sum(tags)");
    let found = collection.find("{}").group(&group.unwrap()).unwrap().next().unwrap().unwrap();
    assert_eq!(found.to_string(), r#"{"count":2,"s":3.10,"lo":1.10,"sum(tags)":3}"#);
    let by_price = collection.find("{}").group(&Group::by("items.price").count("n")).unwrap();
    let found: Vec<String> = by_price.map(|group| group.unwrap().to_string()).collect();
    assert_eq!(found, [r#"{"items.price":[null],"n":1}"#, r#"{"items.price":[1.1,2],"n":1}"#]);
}

#[test]
fn a_sum_of_too_many_digits_names_its_group() {
    let (_world, collection) = filled();
    collection.put(5000, Json(r#"{"who":"x","n":1e5000}"#)).unwrap();
    collection.put(5001, Json(r#"{"who":"x","n":1}"#)).unwrap();
    let group = Group::by("who").sum("total", "n");
    let refused = collection.find("{}").group(&group).unwrap().last().unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains(r#""total" of the group {"who":"x"}"#), "{refused}");
}

#[test]
fn a_malformed_group_is_refused() {
    let (_world, collection) = filled();
    for group in [Group::all(), Group::by("$["), Group::by("a").count("a")] {
        let refused = collection.find("{}").group(&group).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}
