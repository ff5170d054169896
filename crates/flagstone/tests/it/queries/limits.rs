//! NaN, the infinities and the zeros: one order in sorts, groups, distinct values, keys, indexes
//! and the ranges that a filter reads, whatever the plan.

use flagstone::doc::{JsonMode, Map};
use flagstone::query::Hint;
use flagstone::{
    Collection, Database, ErrorKind, Filter, Find, Group, Index, Json, Space, Value, doc,
};

/// Numbers in their order, several of each place.
fn ranks() -> [Vec<Value>; 7] {
    let number = |literal: &str| Value::number(literal).unwrap();
    let nan = |bits: u64| Value::Float(f64::from_bits(bits));
    [
        vec![f64::NAN.into(), nan(0xFFF8_0000_0000_0000), nan(0x7FF0_0000_0000_0001)],
        vec![f64::NEG_INFINITY.into()],
        vec![number("-1e400")],
        vec![Value::Float(-0.0), number("-0"), 0.into(), Value::Float(0.0), number("0.00")],
        vec![1.into(), Value::Float(1.0), number("1.0")],
        vec![number("1e400")],
        vec![f64::INFINITY.into()],
    ]
}

fn documents(db: &Database) -> Collection {
    let collection = db.collection("c").unwrap();
    for (rank, values) in ranks().into_iter().enumerate() {
        for (n, value) in values.into_iter().enumerate() {
            let document = doc!({ "v": (value), "rank": (rank as i64) });
            collection.put(doc!([(rank as i64), (n as i64)]), &document).unwrap();
        }
    }
    collection.put("text", Json(r#"{"v":"NaN","rank":7}"#)).unwrap();
    collection.put("none", Json(r#"{"rank":-1}"#)).unwrap();
    collection
}

fn ranks_of(find: &Find<'_>) -> Vec<i64> {
    let found = find.run().unwrap();
    found.map(|entry| entry.unwrap().1.get("rank").unwrap().as_i64().unwrap()).collect()
}

#[test]
fn nan_and_the_infinities_have_one_place_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db")).unwrap();
    let c = documents(&db);
    c.create_index("v", Index::on("v")).unwrap();
    let mut expected: Vec<i64> = vec![-1];
    for (rank, values) in ranks().iter().enumerate() {
        expected.extend(values.iter().map(|_| rank as i64));
    }
    expected.push(7);
    for hint in [Hint::Scan, Hint::index("v")] {
        let find = c.find("{}").hint(hint.clone());
        assert_eq!(ranks_of(&find.sort("v")), expected, "{hint:?}");
        let down: Vec<i64> = expected.iter().rev().copied().collect();
        assert_eq!(ranks_of(&c.find("{}").hint(hint.clone()).sort("-v")), down, "{hint:?}");
        // One NaN, and one zero.
        let find = c.find("{}").hint(hint.clone());
        let distinct: Vec<Value> = find.distinct("v").unwrap().map(Result::unwrap).collect();
        assert_eq!(distinct.len(), 8, "{distinct:?}");
        for (found, values) in distinct.iter().zip(ranks()) {
            assert!(values.iter().all(|value| value == found), "{found} {values:?}");
        }
        let groups = find.group(&Group::parse("v: count as n").unwrap()).unwrap();
        let counts: Vec<i64> =
            groups.map(|group| group.unwrap().get("n").unwrap().as_i64().unwrap()).collect();
        assert_eq!(counts, [1, 3, 1, 1, 5, 3, 1, 1, 1], "{hint:?}");
    }
}

/// In conditions a NaN is neither less nor greater than a number, and is at least and at most
/// itself.
#[test]
fn a_range_finds_the_same_with_and_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db")).unwrap();
    let c = documents(&db);
    c.create_index("v", Index::on("v")).unwrap();
    let ranks = ranks();
    for (of_operand, operands) in ranks.iter().enumerate() {
        for operand in operands {
            for (operator, takes) in [
                ("$eq", [false, true, false]),
                ("$lt", [true, false, false]),
                ("$lte", [true, true, false]),
                ("$gt", [false, false, true]),
                ("$gte", [false, true, true]),
            ] {
                let is_found = |rank: usize| {
                    let place = 1 + (rank > of_operand) as usize - (rank < of_operand) as usize;
                    // NaN is the first.
                    let is_ordered = rank == of_operand || (rank > 0 && of_operand > 0);
                    takes[place] && is_ordered
                };
                let expected: Vec<i64> = ranks
                    .iter()
                    .enumerate()
                    .filter(|(rank, _)| is_found(*rank))
                    .flat_map(|(rank, values)| values.iter().map(move |_| rank as i64))
                    .collect();
                let test: Map = [(Value::from(operator), operand.clone())].into_iter().collect();
                let filter = Filter::from_value(&doc!({ "v": (Value::Map(test)) })).unwrap();
                // The text of the filter says the same.
                let again = Filter::parse(&filter.to_string()).unwrap();
                for filter in [&filter, &again] {
                    let by = |hint: Hint| ranks_of(&c.find(filter).sort("v").hint(hint));
                    assert_eq!(by(Hint::Scan), expected, "{filter}");
                    // A filter that nothing matches asks no index.
                    if !expected.is_empty() {
                        assert_eq!(by(Hint::index("v")), expected, "{filter}");
                    }
                    assert_eq!(c.find(filter).count().unwrap(), expected.len() as u64);
                }
            }
        }
    }
}

#[test]
fn a_key_or_a_unique_value_that_is_nan_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("db")).unwrap();
    let c = db.collection("keys").unwrap();
    for (rank, values) in ranks().into_iter().enumerate() {
        for value in values {
            c.put(value, Json(format!(r#"{{"rank":{rank}}}"#))).unwrap();
        }
    }
    assert_eq!(c.count().unwrap(), 7);
    let ranks_found = c.scan(..).map(|entry| entry.unwrap().1.int("rank").unwrap());
    assert_eq!(ranks_found.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    let nan = f64::from_bits(0xFFF0_0000_0000_0007);
    assert_eq!(c.get(nan).unwrap().unwrap().int("rank"), Some(0));
    let first = c.scan(..).keys().next().unwrap().unwrap();
    let mut text = Vec::new();
    flagstone::doc::json::append_value_json_as(&first, JsonMode::Extended, &mut text);
    assert_eq!(text, br#"{"$numberDouble":"NaN"}"#);
    // The range from NaN, and the range after it.
    assert_eq!(c.scan(Value::from(f64::NAN)..).count(), 7);
    let infinity = Value::from(f64::NEG_INFINITY);
    assert_eq!(c.scan(infinity..Value::from(0)).count(), 2);

    let c = db.collection("unique").unwrap();
    c.create_index("v", Index::on("v").unique()).unwrap();
    for (rank, values) in ranks().into_iter().enumerate() {
        for (n, value) in values.into_iter().enumerate() {
            let put = c.put(format!("{rank} {n}"), doc!({ "v": (value) }));
            let refused = put.err().map(|error| error.kind());
            assert_eq!(refused, (n > 0).then_some(ErrorKind::Duplicate), "{rank} {n}");
        }
    }
}
