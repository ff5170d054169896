//! Random values: every form preserves them, and sort keys compare as the total order does.

use flagstone_doc::{
    DateTime, Direction, Document, DocumentWriter, Encoder, JsonParser, Names, ObjectId, Value,
    View, json, sort_key,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::cmp::Ordering;

pub(crate) fn check<S: Strategy>(name: &str, strategy: &S, cases: u32, test: impl Fn(S::Value))
where
    S::Value: std::fmt::Debug,
{
    let seed = super::seed(name);
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        test(value);
        Ok(())
    });
    outcome.unwrap();
}

fn literal() -> impl Strategy<Value = Value> {
    let digits = "(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?";
    let exponent = prop_oneof![
        4 => Just(String::new()),
        2 => "[eE][+-]?[0-9]{1,2}".boxed(),
        1 => "[eE][+-]?[0-9]{1,12}".boxed(),
        1 => Just("e1000000000".to_owned()),
        1 => Just("e-1000000000".to_owned()),
    ];
    ("-?", digits, exponent).prop_map(|(sign, digits, exponent)| {
        Value::number(&format!("{sign}{digits}{exponent}")).unwrap()
    })
}

/// Draws numbers close to one another in many ways, so that ties and boundaries occur.
pub(crate) fn number() -> impl Strategy<Value = Value> {
    let border = prop_oneof![
        Just(0_i128),
        Just(1 << 7),
        Just(1 << 8),
        Just(1 << 16),
        Just(1 << 63),
        Just(1 << 64),
        Just(100),
        Just(10_i128.pow(18)),
        Just(10_i128.pow(19)),
    ];
    let fraction = prop_oneof![
        Just(""),
        Just(".0"),
        Just(".5"),
        Just(".50"),
        Just(".05"),
        Just(".999"),
        Just(".01"),
        Just(".0000000000000000"),
        Just(".00000000000000001"),
        Just(".00000000000000000099"),
    ];
    let near =
        (any::<bool>(), border, -2..=2_i128, fraction).prop_map(|(negate, border, by, f)| {
            let value = (border + by).abs();
            Value::number(&format!("{}{value}{f}", if negate { "-" } else { "" })).unwrap()
        });
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-300..300_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-4000..4000_i32).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        near,
        literal(),
        (-300..300_i32).prop_map(|int| wide(|to| to.long(int.into()))),
        literal().prop_map(|number| wide(|to| to.number(&number.to_string(), true).unwrap())),
    ]
}

/// Returns a number that is stored in a wider form than it needs.
pub(crate) fn wide(write: impl FnOnce(&mut DocumentWriter<'_>)) -> Value {
    let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
    let mut writer = encoder.write(None);
    write(&mut writer);
    writer.finish(&mut bytes).unwrap();
    View::of(&bytes, None).unwrap().to_value().unwrap()
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        4 => number(),
        2 => "[ab\\x00\"\\\\\n é😀]{0,6}".prop_map(Value::from),
        1 => "[a-z]{180,300}".prop_map(Value::from),
        1 => vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..5).prop_map(Value::Bytes),
        1 => any::<i64>().prop_map(|micros| Value::from(DateTime::from_micros(micros))),
        1 => any::<[u8; 16]>().prop_map(Value::Uuid),
        1 => any::<[u8; 12]>().prop_map(|id| Value::from(ObjectId::from_bytes(id))),
    ]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec(("[a-c]{0,2}", inner.clone()), 0..6)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
            vec((inner.clone(), inner), 0..4)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
        ]
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        literal(),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\\\\ ]{0,300}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::Array),
            vec((prop_oneof!["[a-d]{1,2}".boxed(), any::<String>().boxed()], inner), 0..8)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
        ]
    })
}

#[test]
fn the_binary_form_gives_every_value_back() {
    check("the_binary_form_gives_every_value_back", &value(), 1500, |value| {
        let names = Names::new();
        let mut encoder = Encoder::new();
        let mut by_id = Vec::new();
        let used = encoder.encode(&value, Some(&names), &mut by_id).unwrap();
        assert_eq!(used, names.len());
        let view = flagstone_doc::validate(&by_id, Some(&names)).unwrap();
        assert_eq!(view.to_value().unwrap(), value);
        let mut alone = Vec::new();
        encoder.encode_view(&view, None, &mut alone).unwrap();
        assert_eq!(flagstone_doc::validate(&alone, None).unwrap().to_value().unwrap(), value);
        assert_eq!(alone, Document::from_value(&value).unwrap().as_bytes());
        let mut again = Vec::new();
        let alone = View::of(&alone, None).unwrap();
        encoder.encode_view(&alone, Some(&names), &mut again).unwrap();
        assert_eq!(again, by_id);
        if let Some(map) = value.as_map().filter(|map| map.has_only_names()) {
            for (key, value) in map {
                let field = view.get(key.as_str().unwrap()).unwrap().unwrap();
                assert_eq!(field.to_value().unwrap(), *value);
            }
        }
        for (i, item) in value.as_array().unwrap_or_default().iter().enumerate() {
            assert_eq!(view.at(i).unwrap().unwrap().to_value().unwrap(), *item);
        }
    });
}

#[test]
fn json_goes_in_and_comes_out_the_same() {
    check("json_goes_in_and_comes_out_the_same", &json_value(), 1500, |value| {
        let mut text = Vec::new();
        json::append_value_json(&value, &mut text);
        let names = Names::new();
        let (mut parser, mut binary) = (JsonParser::default(), Vec::new());
        for _ in 0..2 {
            binary.clear();
            parser.parse(&text, Some(&names), &mut binary).unwrap();
            let view = flagstone_doc::validate(&binary, Some(&names)).unwrap();
            let mut back = Vec::new();
            json::append_json(&view, &mut back).unwrap();
            assert_eq!(String::from_utf8(back).unwrap(), std::str::from_utf8(&text).unwrap());
        }
        let mut encoded = Vec::new();
        Encoder::new().encode(&value, Some(&names), &mut encoded).unwrap();
        assert_eq!(encoded, binary);
        assert_eq!(json::parse(&text).unwrap(), value);
    });
}

/// Compares two values; containers by their content.
fn in_structure(a: &Value, b: &Value) -> Ordering {
    let pairs = |map: &flagstone_doc::Map| {
        let mut pairs: Vec<(Value, Value)> = map.iter().cloned().collect();
        pairs.sort_by(|(a, _), (b, _)| in_structure(a, b));
        pairs.into_iter().flat_map(<[Value; 2]>::from).collect::<Vec<_>>()
    };
    let items = |a: &[Value], b: &[Value]| {
        let first = a.iter().zip(b).map(|(a, b)| in_structure(a, b)).find(|order| order.is_ne());
        first.unwrap_or(a.len().cmp(&b.len()))
    };
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => items(a, b),
        (Value::Map(a), Value::Map(b)) => items(&pairs(a), &pairs(b)),
        (a, b) => a.cmp(b),
    }
}

#[test]
fn sort_keys_order_as_the_values_do() {
    let hash = |value: &Value| {
        use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
    };
    let test = |mut values: Vec<Value>| {
        values.sort();
        let keys = |direction| {
            let key = |value: &Value| {
                let mut key = Vec::new();
                sort_key::encode(value, direction, &mut key);
                key
            };
            values.iter().map(key).collect::<Vec<_>>()
        };
        let (up, down) = (keys(Direction::Ascending), keys(Direction::Descending));
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                let order = a.cmp(b);
                assert!(order.is_eq() || order == i.cmp(&j), "no total order: {a} and {b}");
                assert_eq!(order, b.cmp(a).reverse());
                assert_eq!(order, in_structure(a, b), "{a} and {b}");
                assert_eq!(order.is_eq(), a == b, "{a} and {b}");
                assert!(a != b || hash(a) == hash(b), "{a} and {b}");
                assert_eq!(up[i].cmp(&up[j]), order, "{a} and {b}");
                assert_eq!(down[i].cmp(&down[j]), order.reverse(), "{a} and {b}");
            }
            for (key, direction) in
                [(&up[i], Direction::Ascending), (&down[i], Direction::Descending)]
            {
                assert_eq!(sort_key::decode(key, direction).unwrap(), *a);
                let first = key[0];
                assert!(first != 0 && first != 0xFF);
                let compound = [key.as_slice(), &down[0], b"rest"].concat();
                let (value, len) = sort_key::decode_first(&compound, direction).unwrap();
                assert_eq!((&value, len), (a, key.len()));
            }
            let document = Document::from_value(a).unwrap();
            let mut from_view = Vec::new();
            sort_key::encode_view(&document.root(), Direction::Ascending, &mut from_view).unwrap();
            assert_eq!(from_view, up[i]);
        }
    };
    check("sort_keys_of_values", &vec(value(), 2..10), 400, test);
    check("sort_keys_of_numbers", &vec(number(), 2..16), 800, test);
}

#[test]
fn a_compound_key_orders_by_its_parts() {
    let parts = vec((scalar(), scalar()), 2..8);
    check("a_compound_key_orders_by_its_parts", &parts, 500, |pairs| {
        let key = |(a, b): &(Value, Value)| {
            let mut key = Vec::new();
            sort_key::encode(a, Direction::Ascending, &mut key);
            sort_key::encode(b, Direction::Descending, &mut key);
            key
        };
        for x in &pairs {
            for y in &pairs {
                let expected = x.0.cmp(&y.0).then_with(|| y.1.cmp(&x.1));
                assert_eq!(key(x).cmp(&key(y)), expected, "{x:?} and {y:?}");
            }
        }
    });
}

#[test]
fn the_size_of_a_sort_key_follows_the_literal() {
    let test = |value: Value| {
        let mut key = Vec::new();
        sort_key::encode(&value, Direction::Ascending, &mut key);
        assert!(key.len() <= value.to_string().len() + 16, "{value}: {} bytes", key.len());
    };
    check("the_size_of_a_sort_key_follows_the_literal", &literal(), 2000, test);
}
