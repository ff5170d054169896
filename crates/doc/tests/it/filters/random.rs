//! Random filters of random documents: the compiled filter agrees with the reference, its bounds
//! with the keys of an index, and its text with itself.

use super::reference;
use crate::random::{check, value};
use flagstone_doc::{
    Arrays, Bounds, Direction, Document, Encoder, FieldPath, Filter, IndexKeys, Names, Value, doc,
    long, sort_key,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

const PATHS: [&str; 9] = ["a", "b", "a.b", "a.a", "a.0", "a.0.b", "b.a", "a.b.a", "$"];

fn scalar() -> impl Strategy<Value = Value> {
    let number = |literal| Value::number(literal).unwrap();
    prop_oneof![
        2 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        6 => (-1..4_i64).prop_map(Value::from),
        1 => (-1..3_i64).prop_map(long),
        1 => (-4..4_i32).prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
        1 => prop::sample::select(vec!["1.0", "1.50", "2e0", "18446744073709551616", "-1e400"])
            .prop_map(number),
        3 => "[ab]{0,2}".prop_map(Value::from),
    ]
}

fn map<N: Into<Value>>(pairs: Vec<(N, Value)>) -> Value {
    Value::Map(pairs.into_iter().collect())
}

/// A value of a few names, so that filters and documents meet.
fn small(depth: u32) -> impl Strategy<Value = Value> {
    scalar().prop_recursive(depth, 12, 3, |inner| {
        prop_oneof![
            2 => vec(inner.clone(), 0..4).prop_map(Value::Array),
            3 => vec(("[ab0]", inner), 0..3).prop_map(map),
        ]
    })
}

pub(super) fn document() -> impl Strategy<Value = Value> {
    vec(("[ab]", small(3)), 0..3).prop_map(map)
}

fn one(name: &str, value: impl Into<Value>) -> Value {
    Value::Map([(name, value.into())].into_iter().collect())
}

fn type_name() -> impl Strategy<Value = Value> {
    let names = vec![
        "null", "bool", "number", "text", "array", "map", "int", "long", "double", "decimal",
        "object",
    ];
    prop::sample::select(names).prop_map(Value::from)
}

/// Operators of a field, without those that nest conditions.
fn operator() -> impl Strategy<Value = Value> {
    let compared = prop::sample::select(vec!["$eq", "$ne", "$lt", "$lte", "$gt", "$gte"]);
    let listed = prop::sample::select(vec!["$in", "$nin", "$all"]);
    let searched = prop::sample::select(vec!["$prefix", "$contains", "$regex"]);
    let bits =
        prop::sample::select(vec!["$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"]);
    let mask = prop_oneof![
        (0..5_i64).prop_map(Value::from),
        vec(prop::sample::select(vec![0_i64, 1, 2, 63, 99]), 0..3).prop_map(Value::from_iter),
    ];
    let pattern = || {
        let form = |text: String| doc!({ "pattern": text, "options": "" });
        "[ab]{0,2}".prop_map(move |text| one("$regularExpression", form(text)))
    };
    let in_list = || prop_oneof![4 => small(1), 1 => pattern()];
    let in_all = prop_oneof![
        4 => in_list(),
        1 => small(1).prop_map(|value| one("$elemMatch", one("$eq", value))),
        1 => small(1).prop_map(|value| one("$elemMatch", one("b", value))),
    ];
    prop_oneof![
        6 => (compared, small(1)).prop_map(|(name, value)| one(name, value)),
        3 => (listed, vec(in_list(), 0..4)).prop_map(|(name, list)| one(name, list)),
        2 => vec(in_all, 0..3).prop_map(|list| one("$all", list)),
        1 => (bits, mask).prop_map(|(name, mask)| one(name, mask)),
        1 => pattern(),
        1 => (searched, "[ab]{0,2}").prop_map(|(name, text)| one(name, text)),
        1 => any::<bool>().prop_map(|exists| one("$exists", exists)),
        1 => (0..2_i64).prop_map(|exists| one("$exists", exists)),
        1 => vec(type_name(), 1..3).prop_map(|names| one("$type", names)),
        1 => (0..3_u64).prop_map(|size| one("$size", size)),
        1 => (1..4_i64, 0..3_i64)
            .prop_map(|(divisor, rest)| one("$mod", doc!([divisor, rest]))),
    ]
}

fn merged(parts: Vec<Value>) -> Value {
    let pairs = parts.iter().flat_map(|part| part.as_map().unwrap().iter().cloned());
    Value::Map(pairs.collect())
}

/// Operators of a field.
fn operators() -> impl Strategy<Value = Value> {
    let flat = vec(operator(), 1..3).prop_map(merged);
    flat.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| one("$not", inner)),
            inner.clone().prop_map(|inner| one("$elemMatch", inner)),
            (prop::sample::select(vec!["a", "b", "a.b"]), inner.clone())
                .prop_map(|(path, inner)| one("$elemMatch", one(path, inner))),
            (operator(), inner).prop_map(|(first, inner)| merged(vec![first, inner])),
        ]
    })
}

/// A filter in its document form.
fn filter() -> impl Strategy<Value = Value> {
    let literal = small(1).prop_filter("operators", |value| {
        value.as_map().is_none_or(|map| map.iter().all(|(name, _)| name.as_str() != Some("")))
    });
    let condition = prop_oneof![1 => literal, 3 => operators()];
    let field = (prop::sample::select(PATHS.to_vec()), condition);
    let comment = small(1).prop_map(|value| ("$comment", value));
    let flat = vec(prop_oneof![9 => field, 1 => comment], 0..3).prop_map(map);
    flat.prop_recursive(2, 8, 3, |inner| {
        let logic = prop::sample::select(vec!["$and", "$or", "$nor"]);
        (logic, vec(inner.clone(), 1..3), inner)
            .prop_map(|(name, list, more)| merged(vec![one(name, list), more]))
    })
}

fn stored(value: &Value) -> [Document; 2] {
    let names = Arc::new(Names::new());
    let mut bytes = Vec::new();
    Encoder::new().encode(value, Some(&names), &mut bytes).unwrap();
    [Document::from_value(value).unwrap(), Document::from_bytes(bytes, Some(names)).unwrap()]
}

fn matches(filter: &Filter, document: &Value) -> bool {
    let matcher = filter.compile().unwrap();
    let [inline, ids] = stored(document).map(|one| matcher.matches(&one.root()).unwrap());
    assert_eq!(inline, ids, "{filter} of {document}");
    inline
}

#[test]
fn a_compiled_filter_agrees_with_the_reference() {
    check("filters", &(filter(), vec(document(), 1..6)), 4000, |(text, documents)| {
        let filter = Filter::parse(&text.to_string()).unwrap();
        assert_eq!(Filter::from_value(&text).unwrap(), filter);
        let printed = Filter::parse(&filter.to_string()).unwrap();
        assert_eq!(printed, filter, "the text of {text}");
        assert_eq!(printed.to_string(), filter.to_string());
        for document in &documents {
            let expected = reference::matches(&text, document);
            assert_eq!(matches(&filter, document), expected, "{text} of {document}");
            assert_eq!(matches(&printed, document), expected, "{filter} of {document}");
        }
    });
}

/// Many conditions of one path are tested by one walk along it, so they are compiled otherwise than
/// a few are.
#[test]
fn many_joined_conditions_agree_with_the_reference() {
    let equality = || small(1).prop_map(|value| one("$eq", value));
    let simple = prop_oneof![
        4 => equality(),
        2 => small(1).prop_map(|value| one("$ne", value)),
        1 => vec(small(1), 0..3).prop_map(|list| one("$in", list)),
        1 => vec(small(1), 0..3).prop_map(|list| one("$nin", list)),
        3 => (prop::sample::select(vec!["$lt", "$lte", "$gt", "$gte"]), small(1))
            .prop_map(|(name, value)| one(name, value)),
        1 => operator().prop_map(|inner| one("$elemMatch", inner)),
        2 => equality().prop_map(|inner| one("$elemMatch", inner)),
        3 => (prop::sample::select(vec!["a", "b"]), equality())
            .prop_map(|(path, inner)| one("$elemMatch", one(path, inner))),
        1 => operators(),
    ];
    let paths = prop::sample::select(vec!["a", "a", "a", "a.b", "b"]);
    let list = vec((paths, simple).prop_map(|(path, inner)| one(path, inner)), 1..60);
    let logic = || prop::sample::select(vec!["$and", "$or", "$nor"]);
    let all = vec(small(1), 8..24).prop_map(|list| one("a", one("$all", list)));
    let inner = (logic(), list.clone()).prop_map(|(name, list)| one(name, list));
    let inner = vec(prop_oneof![inner, all], 0..12);
    let filter = (logic(), list, inner).prop_map(|(name, mut list, inner)| {
        list.extend(inner);
        one(name, list)
    });
    let long = vec(small(1), 0..40).prop_map(|items| doc!({ "a": items }));
    let documents = vec(prop_oneof![document(), long], 1..6);
    let found = std::cell::Cell::new([0; 2]);
    check("joined", &(filter, documents), 2000, |(text, documents)| {
        let filter = Filter::from_value(&text).unwrap();
        assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter, "the text of {text}");
        for document in &documents {
            let expected = reference::matches(&text, document);
            assert_eq!(matches(&filter, document), expected, "{text} of {document}");
            let mut counts = found.get();
            counts[usize::from(expected)] += 1;
            found.set(counts);
        }
    });
    assert!(found.get().iter().all(|count| *count > 500), "{:?}", found.get());
}

#[test]
fn values_of_all_types_compare_as_in_memory() {
    check("operands", &(value(), value()), 1500, |(a, b)| {
        let document = doc!({ "v": (vec![a.clone()]) });
        let is_of_one_type = a.value_type() == b.value_type();
        let is_nan = |value: &Value| value.as_f64().is_some_and(f64::is_nan);
        let is_ordered = is_of_one_type && is_nan(&a) == is_nan(&b);
        let element = |filter| Filter::field("v").elem_match(filter);
        for (filter, expected) in [
            (element(Filter::value().eq(&b)), a == b),
            (element(Filter::value().lt(&b)), is_ordered && a < b),
            (element(Filter::value().lte(&b)), is_ordered && a <= b),
            (element(Filter::value().gt(&b)), is_ordered && a > b),
            (element(Filter::value().gte(&b)), is_ordered && a >= b),
            (element(Filter::value().one_of([&b, &Value::from("~")])), a == b),
        ] {
            assert_eq!(matches(&filter, &document), expected, "{filter} of {a}");
            let printed = Filter::parse(&filter.to_string()).unwrap();
            assert_eq!(printed, filter);
            assert_eq!(matches(&printed, &document), expected, "{filter} of {a}");
        }
    });
}

/// Returns whether a key of the document is within the bounds, as an index would find it.
fn is_inside(bounds: &Bounds, keys: &IndexKeys) -> bool {
    let found = [Direction::Ascending, Direction::Descending].map(|direction| {
        keys.iter().any(|key| {
            // Another part of a compound key follows; parts begin with 04 to FB.
            [0x04, 0xFB].iter().any(|next| {
                let mut entry = Vec::new();
                sort_key::directed(key, direction, &mut entry);
                entry.push(*next);
                bounds.intervals().iter().any(|interval| {
                    let (from, to) = interval.bytes(direction);
                    from <= entry && to.is_none_or(|to| entry < to)
                })
            })
        })
    });
    assert_eq!(found[0], found[1], "both directions");
    found[0]
}

#[test]
fn each_matching_document_has_a_key_in_the_bounds() {
    let whole = std::cell::Cell::new(0);
    let input = (filter(), vec(document(), 1..6));
    check("bounds", &input, 4000, |(text, documents)| {
        let filter = Filter::from_value(&text).unwrap();
        let mut paths = filter.paths();
        paths.extend(PATHS.map(|path| FieldPath::parse(path).unwrap()));
        for path in paths {
            let mut all = Vec::new();
            for document in &documents {
                let mut keys = IndexKeys::new();
                keys.collect(&path, &stored(document)[0].root()).unwrap();
                all.push((document, keys));
            }
            let each = all.iter().map(|(_, keys)| keys.arrays());
            let arrays = each.fold(Arrays::NONE, Arrays::union);
            for arrays in [arrays, Arrays::ANY] {
                let bounds = filter.bounds(&path, arrays);
                for (document, keys) in &all {
                    let is_inside = is_inside(&bounds, keys);
                    let matches = matches(&filter, document);
                    let note = || format!("{text} of {document}, {path}: {bounds:?}");
                    assert!(is_inside || !matches, "misses {}", note());
                    if bounds.is_whole() {
                        whole.set(whole.get() + usize::from(!bounds.is_everything()));
                        assert_eq!(is_inside, matches, "is not whole: {}", note());
                    }
                }
            }
        }
    });
    assert!(whole.get() > 1000, "{} bounds that decide", whole.get());
}

#[test]
fn what_is_implied_matches() {
    let implied = std::cell::Cell::new(0);
    let input = (operators(), operators(), filter(), vec(document(), 1..6));
    check("implied", &input, 4000, |(a, b, c, documents)| {
        let of = |value: &Value| Filter::from_value(value).unwrap();
        let (a, b, c) = (of(&one("a", a)), of(&one("a", b)), of(&c));
        assert!(a.clone().and(c.clone()).implies(&a) && a.implies(&a.clone().or(c.clone())));
        for (from, to) in [(&a, &b), (&b, &a), (&a, &c), (&c, &a)] {
            if from.implies(to) {
                implied.set(implied.get() + 1);
                for document in &documents {
                    let holds = !matches(from, document) || matches(to, document);
                    assert!(holds, "{from} does not imply {to}: {document}");
                }
            }
        }
    });
    assert!(implied.get() > 300, "{} filters implied", implied.get());
}
