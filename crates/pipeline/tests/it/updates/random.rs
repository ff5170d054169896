//! Random updates of random documents. None panics, a refused one leaves the document, and the
//! result is the same whatever the order of the operators.

use super::parse;
use flagstone::doc::Map;
use flagstone::{Document, Value, doc};
use flagstone_pipeline::update::{Context, Update};
use flagstone_testkit::{Rng, rounds, seed};

const PATHS: [&str; 14] = [
    "a", "b", "a.b", "a.a", "a.0", "a.1.b", "b.2", "a.$", "a.$.b", "a.$[]", "a.$[x]", "a.$[].b",
    "b.a.b", "_id",
];
const OPERATORS: [&str; 15] = [
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$setOnInsert",
    "$currentDate",
    "$push",
    "$addToSet",
    "$pop",
    "$pull",
    "$pullAll",
    "$bit",
];

fn value(rng: &mut Rng, depth: u32) -> Value {
    match rng.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => Value::from(rng.below(2) == 0),
        2 => Value::from(i64::MAX - rng.below(2) as i64),
        3 | 4 => Value::from(rng.below(4) as i64 - 1),
        5 => Value::from(*rng.pick(&["", "x", "y"])),
        6 | 7 => Value::Array((0..rng.below(4)).map(|_| value(rng, depth - 1)).collect()),
        _ => map(rng, depth - 1),
    }
}

fn map(rng: &mut Rng, depth: u32) -> Value {
    let count = rng.below(3);
    Value::Map((0..count).map(|_| (*rng.pick(&["a", "b"]), value(rng, depth))).collect())
}

fn operand(rng: &mut Rng, operator: &str) -> Value {
    if rng.below(12) == 0 {
        return value(rng, 2);
    }
    match operator {
        "$inc" | "$mul" => Value::from(rng.below(5) as i64 - 2),
        "$rename" => Value::from(*rng.pick(&PATHS)),
        "$currentDate" => Value::from(true),
        "$pop" => Value::from(if rng.below(2) == 0 { 1 } else { -1 }),
        "$pullAll" => Value::Array((0..rng.below(3)).map(|_| value(rng, 1)).collect()),
        "$bit" => doc!({"xor": (rng.below(8))}),
        "$push" if rng.below(2) == 0 => {
            let mut map = Map::new();
            map.insert("$each", Value::Array((0..rng.below(3)).map(|_| value(rng, 1)).collect()));
            for (name, value) in [
                ("$slice", Value::from(rng.below(7) as i64 - 3)),
                ("$position", Value::from(rng.below(7) as i64 - 3)),
                ("$sort", if rng.below(2) == 0 { Value::from(-1) } else { doc!({"a": 1}) }),
            ] {
                if rng.below(2) == 0 {
                    map.insert(name, value);
                }
            }
            Value::Map(map)
        }
        "$addToSet" if rng.below(2) == 0 => {
            doc!({"$each": (Value::Array((0..rng.below(3)).map(|_| value(rng, 1)).collect()))})
        }
        "$pull" if rng.below(2) == 0 => doc!({"$gte": (rng.below(3))}),
        _ => value(rng, 2),
    }
}

fn random_update(rng: &mut Rng) -> Value {
    if rng.below(10) == 0 {
        return map(rng, 2);
    }
    let mut update = Map::new();
    for _ in 0..=rng.below(3) {
        let operator = *rng.pick(&OPERATORS);
        let mut operands = Map::new();
        for _ in 0..=rng.below(2) {
            let path = *rng.pick(&PATHS);
            operands.insert(path, operand(rng, operator));
        }
        update.insert(operator, operands);
    }
    Value::Map(update)
}

fn document(rng: &mut Rng) -> Value {
    let mut map = match map(rng, 4) {
        Value::Map(map) => map,
        _ => Map::new(),
    };
    if rng.below(4) > 0 {
        map.insert("_id", 1);
    }
    Value::Map(map)
}

/// The same operators, in the opposite order.
fn turned(update: &Value) -> Value {
    let pairs = update.as_map().unwrap().iter().rev().map(|(name, operands)| {
        let operands = match operands {
            Value::Map(operands) if name.as_str().unwrap().starts_with('$') => {
                Value::Map(operands.iter().rev().cloned().collect())
            }
            other => other.clone(),
        };
        (name.clone(), operands)
    });
    Value::Map(pairs.collect())
}

#[test]
fn random_updates_are_refused_whole_or_applied() {
    let seed = seed("updates", 1);
    let mut rng = Rng::new(seed);
    let (mut applied, mut refused) = (0, 0);
    for round in 0..rounds(20_000, 1_000_000) {
        let (text, old) = (random_update(&mut rng), document(&mut rng));
        let filters = [parse(r#"{"x":{"$gte":1}}"#)];
        let filters = if text.to_string().contains("$[x]") { &filters[..] } else { &[] };
        let Ok(update) = Update::parse(&text, filters) else { continue };
        let context = Context {
            position: (rng.below(2) == 0).then_some(rng.below(2) as usize),
            is_insert: rng.below(4) == 0,
            ..Context::default()
        };
        let note = || format!("seed {seed}, round {round}: {text} of {old}, {context:?}");
        let mut new = old.clone();
        match update.apply(&mut new, &context) {
            Ok(is_changed) => {
                applied += 1;
                let bytes =
                    |value: &Value| Document::from_value(value).unwrap().as_bytes().to_vec();
                assert_eq!(is_changed, bytes(&old) != bytes(&new), "{}", note());
                if old.get("_id").is_some() {
                    assert_eq!(old.get("_id"), new.get("_id"), "{}", note());
                }
            }
            Err(error) => {
                refused += 1;
                assert_eq!(new.to_string(), old.to_string(), "{}", note());
                assert!(error.to_string().starts_with("update"), "{error}");
            }
        }
        if !update.is_replacement() {
            let other = Update::parse(&turned(&text), filters).unwrap();
            let mut again = old.clone();
            let result = other.apply(&mut again, &context);
            let text = |value: &Value| value.to_string();
            assert_eq!((result.is_ok(), text(&again)), (result.is_ok(), text(&new)), "{}", note());
        }
        // A second time, operators that set something change nothing.
        let is_idempotent = text.as_map().unwrap().iter().all(|(name, _)| {
            matches!(name.as_str(), Some("$set" | "$unset" | "$min" | "$max" | "$addToSet"))
        });
        let mut twice = new.clone();
        if is_idempotent && update.apply(&mut twice, &context).is_ok() {
            assert_eq!(twice.to_string(), new.to_string(), "{}", note());
        }
    }
    assert!(applied > 2000 && refused > 1000, "{applied} applied, {refused} refused");
}
