//! Patches change the bytes of a document as they change the value in memory, and hostile bytes do
//! no harm.

use super::random::{check, number, value, wide};
use flagstone_doc::{
    Document, Encoder, Names, Patch, Patcher, StoredNumber, Value, doc, json, validate,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// One change drawn for a document: its kind, path, argument and new name.
type Change = (u8, String, Value, String);

/// The number of kinds that [`patch_of`] knows.
const KINDS: u8 = 22;

fn patch_of(changes: &[Change], upsert: bool, document: &Value) -> Patch {
    let mut patch = if upsert { Patch::new().upsert() } else { Patch::new() };
    for (kind, path, value, name) in changes {
        let (path, value) = (path.as_str(), value.clone());
        let by = if value.as_f64().is_some() { value.clone() } else { Value::from(3) };
        let position = by.as_i64().unwrap_or(-1) % 7;
        let met = met(document, path, position).unwrap_or_else(|| value.clone());
        patch = match kind {
            0 => patch.set(path, value),
            1 => patch.unset(path),
            2 => patch.inc(path, by),
            3 => patch.mul(path, by),
            4 => patch.rename(path, name),
            5 => patch.push(path, value),
            6 => patch.min(path, value),
            7 => patch.max(path, value),
            8 => patch.add_to_set(path, value),
            9 => patch.add_to_set(path, met),
            10 => patch.pull(path, met),
            11 => patch.pull_all(path, [met, value, Value::from(1)]),
            12 => patch.pull_all(path, (0..20).map(Value::from).chain([met])),
            13 => patch.pop_first(path),
            14 => patch.pop_last(path),
            15 => patch.push_at(path, position, value),
            16 => patch.push_at(path, position, met),
            17 if name.as_str() < "b" => patch.if_missing(path),
            17 => patch.if_exists(path),
            18 => patch.if_eq(path, document.path(path).cloned().unwrap_or(value)),
            19 => patch.if_ne(path, met),
            20 if name.as_str() < "b" => patch.if_lt(path, value),
            20 => patch.if_lte(path, met),
            _ if name.as_str() < "b" => patch.if_gt(path, value),
            _ => patch.if_gte(path, met),
        };
    }
    patch
}

/// Returns an element of the array at `path`, or the value there if that is no array.
fn met(document: &Value, path: &str, at: i64) -> Option<Value> {
    let found = document.path(path)?;
    let Some(items) = found.as_array() else { return Some(found.clone()) };
    items.get(at.unsigned_abs() as usize % items.len().max(1)).cloned()
}

/// Collects every path in a value, and some that lead to no value.
fn paths(value: &Value, prefix: &str, out: &mut Vec<String>) {
    let join =
        |step: &str| if prefix.is_empty() { step.to_owned() } else { format!("{prefix}.{step}") };
    for step in ["new", "0", "b.c"] {
        out.push(join(step));
    }
    let mut into = |step: &str, inner: &Value| {
        out.push(join(step));
        paths(inner, &join(step), out);
    };
    match value {
        Value::Map(map) => {
            for (key, inner) in map {
                if let Some(name) = key.as_str() {
                    into(name, inner);
                }
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                into(&at.to_string(), inner);
            }
            out.push(join(&items.len().to_string()));
            out.push(join(&(items.len() + 1).to_string()));
        }
        _ => {}
    }
}

/// Draws documents, among them large maps and arrays whose counts, ids and lengths change width.
fn document() -> impl Strategy<Value = Value> {
    let wide = vec(("[a-e][a-z0-9]{0,2}", small()), 0..140)
        .prop_map(|pairs| Value::Map(pairs.into_iter().collect()));
    let alike = vec(100..120_i64, 1..140).prop_map(|ints| ints.into_iter().collect::<Value>());
    let long = (65_300..65_600_usize).prop_map(|len| Value::from("x".repeat(len)));
    let nested = (long, value()).prop_map(|(long, value)| {
        doc!({ "a": { "b": { "text": (long), "c": (value) }, "n": 1 }, "z": [[1, 2], [3, 4]] })
    });
    prop_oneof![4 => value(), 3 => wide, 1 => alike, 1 => nested]
}

fn small() -> impl Strategy<Value = Value> {
    prop_oneof![
        number(),
        "[a-z]{0,5}".prop_map(Value::from),
        vec((0..300_i64).prop_map(Value::from), 0..4).prop_map(Value::Array),
        vec(("[a-c]", number()), 0..3).prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
    ]
}

fn encoded(value: &Value, names: Option<&Names>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new().encode(value, names, &mut bytes).unwrap();
    bytes
}

fn decoded(bytes: &[u8], names: Option<&Names>) -> Value {
    validate(bytes, names).unwrap().to_value().unwrap()
}

/// Defines `crowd` names, so that some ids take two bytes.
fn crowd_in(names: &Names, crowd: usize) {
    for n in 0..crowd {
        names.intern(&format!("crowd {n}"));
    }
}

/// Returns a text that also shows what equality ignores: number literals and the order of fields.
fn shown(value: &Value) -> String {
    format!("{value:?}")
}

#[test]
fn on_bytes_a_patch_does_what_it_does_in_memory() {
    let changes = vec((0..KINDS, any::<u32>(), small(), "[a-e]{1,2}"), 1..4);
    let drawn = (document(), vec(changes, 1..5), any::<bool>(), 0..400_usize);
    check("on_bytes_a_patch_does_what_it_does_in_memory", &drawn, 3000, |drawn| {
        let (mut value, patches, by_id, crowd) = drawn;
        let names = by_id.then(Names::new);
        if let Some(names) = &names {
            crowd_in(names, crowd);
        }
        let names = names.as_ref();
        let mut bytes = Some(encoded(&value, names));
        let mut patcher = Patcher::new();
        for changes in patches {
            let mut all = Vec::new();
            paths(&value, "", &mut all);
            let changes: Vec<Change> = changes
                .into_iter()
                .map(|(kind, at, new, name)| {
                    (kind, all[at as usize % all.len()].clone(), new, name)
                })
                .collect();
            let patch = patch_of(&changes, false, &value);
            let mut operand = Vec::new();
            patch.encode(&mut Encoder::new(), names, &mut operand).unwrap();
            let known = names.map(Names::len);
            let before = shown(&value);
            let applies = patch.apply_to(&mut value);
            assert_eq!(patcher.apply(&operand, &mut bytes, names), applies, "{patch} to {before}");
            assert_eq!(names.map(Names::len), known, "a fold defines no names");
            let view = validate(bytes.as_ref().unwrap(), names).unwrap();
            // Maps with keys of any value are sorted when they are encoded.
            value = decoded(&encoded(&value, names), names);
            assert_eq!(shown(&view.to_value().unwrap()), shown(&value), "{patch} to {before}");
        }
    });
}

/// Returns encoded patches, each of a few changes. A patch is drawn for the document as the patches
/// before it left it.
fn chain(
    mut value: Value,
    drawn: Vec<Vec<(u8, u32, Value, String)>>,
    names: Option<&Names>,
) -> Vec<Vec<u8>> {
    let mut operands = Vec::new();
    for changes in drawn {
        let mut all = Vec::new();
        paths(&value, "", &mut all);
        let path = |at: u32| all[at as usize % all.len()].clone();
        let changes: Vec<Change> =
            changes.into_iter().map(|(kind, at, new, name)| (kind, path(at), new, name)).collect();
        let mut patch = patch_of(&changes, operands.len() % 5 == 0, &value);
        if operands.len() % 7 == 3 {
            patch = patch.upsert_from(doc!({ "new": [1, 2], "b": { "c": "default" } }));
        }
        let mut operand = Vec::new();
        patch.encode(&mut Encoder::new(), names, &mut operand).unwrap();
        patch.apply_to(&mut value);
        operands.push(operand);
    }
    operands
}

fn folded_one_by_one(
    base: Option<&[u8]>,
    operands: &[&[u8]],
    names: Option<&Names>,
) -> (Option<Vec<u8>>, u64) {
    let (mut patcher, mut document) = (Patcher::new(), base.map(<[u8]>::to_vec));
    let mut refused = 0;
    for operand in operands {
        refused += u64::from(!patcher.apply(operand, &mut document, names));
    }
    (document, refused)
}

#[test]
fn many_patches_fold_to_the_bytes_they_give_one_by_one() {
    let changes = vec((0..KINDS, any::<u32>(), small(), "[a-e]{1,2}"), 1..4);
    let drawn = (document(), vec(changes, 2..60), 0..4_u8, 0..400_usize);
    check("many_patches_fold_to_the_bytes_they_give_one_by_one", &drawn, 600, |drawn| {
        let (value, changes, way, crowd) = drawn;
        let names = (way != 0).then(Names::new);
        if let Some(names) = &names {
            crowd_in(names, crowd);
        }
        let names = names.as_ref();
        // Some documents are written before their names are defined, so not in normal form.
        let base = encoded(&value, names.filter(|_| way != 1));
        let base = (way != 3).then_some(base);
        let operands = chain(value, changes, names);
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let known = names.map(Names::len);
        let mut patcher = Patcher::new().with_one_by_one_max(1);
        let folded = patcher.fold(base.as_deref(), &operands, names);
        assert_eq!(folded, folded_one_by_one(base.as_deref(), &operands, names));
        assert_eq!(names.map(Names::len), known, "a fold defines no names");
    });
}

#[test]
fn a_patch_leaves_the_bytes_that_encoding_its_result_gives() {
    let changes = vec((0..KINDS, any::<u32>(), small(), "[a-e]{1,2}"), 1..4);
    let drawn = (document(), vec(changes, 1..12), any::<bool>(), 0..300_usize);
    let test = "a_patch_leaves_the_bytes_that_encoding_its_result_gives";
    check(test, &drawn, 2000, |drawn| {
        let (value, changes, by_id, crowd) = drawn;
        let names = by_id.then(Names::new);
        if let Some(names) = &names {
            crowd_in(names, crowd);
        }
        let names = names.as_ref();
        let mut document = Some(encoded(&value, names));
        let mut operands = chain(value, changes, names);
        if let Some(names) = names {
            // All steps are defined names, so encoding the result defines no name.
            let numbers = (0..200).map(|n| n.to_string());
            for name in ["new", "b", "c"].map(str::to_owned).into_iter().chain(numbers) {
                names.intern(&name);
            }
        }
        let mut patcher = Patcher::new();
        for operand in operands.drain(..) {
            patcher.apply(&operand, &mut document, names);
            let bytes = document.as_ref().unwrap();
            assert_eq!(*bytes, encoded(&decoded(bytes, names), names));
        }
    });
}

#[test]
fn many_mutated_patches_fold_as_one_by_one() {
    let mut random = super::hostile::Random::new("many_mutated_patches_fold_as_one_by_one");
    let names = Names::new();
    let documents = super::hostile::samples(&names);
    let patches = [
        Patch::new().inc("score", 300).push("ints", 1003),
        Patch::new().set("tags.2.c", doc!({ "x": [1, 2] })).unset("long"),
        Patch::new().upsert().rename("id", "key").mul("price", 2).set("pairs.two", "x"),
        Patch::new().upsert_from(doc!({ "score": 1, "ints": [1] })).push_at("ints", 1, "x"),
        Patch::new().if_gt("score", 0).pull("ints", 1003).add_to_set("ints", 5).pop_last("ints"),
    ];
    let encode = |patch: &Patch| {
        let mut operand = Vec::new();
        patch.encode(&mut Encoder::new(), Some(&names), &mut operand).unwrap();
        operand
    };
    let patches = patches.map(|patch| encode(&patch));
    for round in 0..600 {
        let mut base = documents[round % 2].clone();
        if round % 3 == 0 {
            random.mutate(&mut base);
        }
        let mut operands: Vec<Vec<u8>> = patches.iter().cycle().take(40).cloned().collect();
        for operand in operands.iter_mut().step_by(4) {
            random.mutate(operand);
        }
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let mut patcher = Patcher::new().with_one_by_one_max(1);
        let folded = patcher.fold(Some(&base), &operands, Some(&names));
        assert_eq!(folded, folded_one_by_one(Some(&base), &operands, Some(&names)));
    }
}

fn patched(json: &str, patch: &Patch) -> Option<String> {
    let (mut bytes, mut operand) = (None, Vec::new());
    if !json.is_empty() {
        bytes = Some(encoded(&json::parse(json).unwrap(), None));
    }
    patch.encode(&mut Encoder::new(), None, &mut operand).unwrap();
    let before = bytes.clone();
    let applies = Patcher::new().apply(&operand, &mut bytes, None);
    assert!(applies || bytes == before);
    let document = Document::from_bytes(bytes?, None).unwrap();
    applies.then(|| document.to_json().unwrap())
}

#[test]
fn a_patch_applies_whole_or_not_at_all() {
    let document = r#"{"score":7,"name":"x","tags":["a"],"deep":{"n":1.10}}"#;
    let ok = |patch: &Patch, expected: &str| {
        assert_eq!(patched(document, patch).as_deref(), Some(expected), "{patch}");
    };
    ok(
        &Patch::new().inc("score", 1).inc("deep.n", 1).push("tags", "b").unset("name"),
        r#"{"score":8,"tags":["a","b"],"deep":{"n":2.10}}"#,
    );
    ok(
        &Patch::new().rename("deep.n", "m").min("score", 3).max("score", 5).mul("new", 5),
        r#"{"score":5,"name":"x","tags":["a"],"deep":{"m":1.10},"new":0}"#,
    );
    ok(&Patch::new().unset("nothing").rename("nothing", "x"), document);
    for patch in [
        Patch::new().inc("score", 1).inc("name", 1),
        Patch::new().set("score", 1).push("name", 1),
        Patch::new().set("name.x", 1),
        Patch::new().set("tags.5", 1),
        Patch::new().inc("score", 1).rename("tags.0", "x"),
        Patch::new().mul("score", Value::number("1e1000000000").unwrap()),
    ] {
        assert_eq!(patched(document, &patch), None, "{patch}");
    }
}

/// Applying the parts one by one would copy the document for each.
#[test]
fn one_patch_of_many_parts_gives_what_its_parts_give() {
    let base = r#"{"n":0,"tags":[]}"#;
    let (mut whole, mut one_by_one) = (Patch::new(), base.to_owned());
    for n in 0..300 {
        let part = |patch: Patch| patch.push("tags", n % 9).inc("n", 1);
        whole = part(whole);
        one_by_one = patched(&one_by_one, &part(Patch::new())).unwrap();
    }
    assert_eq!(patched(base, &whole), Some(one_by_one));
    assert_eq!(patched(base, &whole.clone().push("n", 1)), None);
    for _ in 0..100_000 {
        whole = whole.push("tags", 7);
    }
    let document = json::parse(patched(base, &whole).unwrap().as_bytes()).unwrap();
    assert_eq!(document.path("tags").unwrap().as_array().map(<[Value]>::len), Some(100_300));
}

#[test]
fn arrays_are_changed_as_sets_and_lists() {
    let document =
        r#"{"tags":["a","b","a"],"n":[1,2.0,3],"mixed":[null,"x",[1]],"empty":[],"x":7}"#;
    let ok = |patch: &Patch, path: &str, expected: &str| {
        let found = patched(document, patch).unwrap_or_else(|| panic!("{patch} applies"));
        let found = json::parse(&found).unwrap();
        let found = found.path(path).map_or_else(String::new, |value| value.to_string());
        assert_eq!(found, expected, "{patch}");
    };
    let new = Patch::new;
    ok(&new().add_to_set("tags", "a"), "tags", r#"["a","b","a"]"#);
    ok(&new().add_to_set("tags", "c").add_to_set("tags", "c"), "tags", r#"["a","b","a","c"]"#);
    ok(&new().add_to_set("n", Value::number("2").unwrap()), "n", "[1,2.0,3]");
    ok(&new().add_to_set("made.here", 1), "made.here", "[1]");
    ok(&new().pull("tags", "a"), "tags", r#"["b"]"#);
    ok(&new().pull("tags", "b"), "tags", r#"["a","a"]"#);
    ok(&new().pull_all("tags", ["a", "b"]), "tags", "[]");
    ok(&new().pull("n", 2), "n", "[1,3]");
    ok(&new().pull("tags", "z").pull("nothing", 1).pull("x.y", 1), "tags", r#"["a","b","a"]"#);
    ok(&new().pop_first("tags").pop_last("n"), "tags", r#"["b","a"]"#);
    ok(&new().pop_last("mixed"), "mixed", r#"[null,"x"]"#);
    ok(&new().pop_first("mixed").pop_first("mixed"), "mixed", "[[1]]");
    ok(&new().pop_first("empty").pop_last("nothing"), "empty", "[]");
    ok(&new().push_at("tags", 0, "z"), "tags", r#"["z","a","b","a"]"#);
    ok(&new().push_at("tags", -1, "z"), "tags", r#"["a","b","z","a"]"#);
    ok(&new().push_at("tags", 99, "z"), "tags", r#"["a","b","a","z"]"#);
    ok(&new().push_at("tags", -99, 5), "tags", r#"[5,"a","b","a"]"#);
    ok(&new().push_at("empty", 3, 5), "empty", "[5]");
    ok(&new().push_at("made", 3, 5), "made", "[5]");
    for patch in [
        new().add_to_set("x", 1),
        new().pull("x", 7),
        new().pop_first("x"),
        new().pop_last("tags.0"),
        new().push_at("x", 0, 1),
        new().push_at("tags.x", 0, 1),
    ] {
        assert_eq!(patched(document, &patch), None, "{patch}");
    }
}

/// Each value was compared with each element: 20,000 values took minutes. With that, the test would
/// not end.
#[test]
fn many_values_are_added_to_a_large_set() {
    let elements: Vec<Value> = (0..100_000).map(Value::from).collect();
    let added = || (90_000..110_000).flat_map(|n| [Value::from(n), Value::from(f64::from(n))]);
    let mut patch = Patch::new();
    for value in added() {
        patch = patch.add_to_set("set", value);
    }
    patch = patch.add_to_set("other", 1).add_to_set("other", 1.0).add_to_set("set", -1);
    let expected: Vec<Value> = (0..110_000).chain([-1]).map(Value::from).collect();
    let mut in_memory = doc!({ "set": (elements), "other": [2] });
    let before = encoded(&in_memory, None);
    let mut bytes = Some(before.clone());
    assert!(patch.apply_to(&mut in_memory));
    assert_eq!(in_memory, doc!({ "set": (expected), "other": [2, 1] }));
    let mut operand = Vec::new();
    patch.encode(&mut Encoder::new(), None, &mut operand).unwrap();
    assert!(Patcher::new().apply(&operand, &mut bytes, None));
    assert!(decoded(&bytes.unwrap(), None) == in_memory);
    // All of it is taken back if the rest does not apply.
    let refused = patch.add_to_set("set", -2).add_to_set("set", -3).inc("set", 1);
    let mut again = decoded(&before, None);
    assert!(!refused.apply_to(&mut again));
    assert!(encoded(&again, None) == before);
}

#[test]
fn a_patch_applies_only_if_its_conditions_hold() {
    let document = r#"{"n":7,"s":"m","a":[1,2],"null":null,"deep":{"x":1}}"#;
    let new = Patch::new;
    for (holds, patch) in [
        (true, new().if_exists("null").if_missing("nothing").if_exists("a.1").if_missing("a.2")),
        (false, new().if_exists("n.x")),
        (false, new().if_missing("null")),
        (true, new().if_eq("n", Value::number("7.0").unwrap()).if_eq("a", doc!([1, 2]))),
        (true, new().if_eq("deep", doc!({ "x": 1 })).if_ne("deep", doc!({ "y": 1 }))),
        (false, new().if_eq("nothing", Value::Null)),
        (true, new().if_ne("nothing", 1).if_eq("null", Value::Null)),
        (true, new().if_lt("n", 7.5).if_lte("n", 7).if_gt("n", 6).if_gte("s", "m")),
        (false, new().if_lt("s", 7)),
        (false, new().if_gt("s", 7)),
        (false, new().if_lte("nothing", 7)),
    ] {
        let patch = patch.set("done", true);
        assert_eq!(patched(document, &patch).is_some(), holds, "{patch}");
        let alone = Patch::new().inc("n", 1).if_eq("n", 8);
        let text = patched(document, &alone).unwrap();
        assert!(text.contains(r#""n":8"#), "a condition sees the changes before it: {text}");
    }
    let patch = new().set("made", 1).if_exists("nothing");
    assert_eq!(patched(document, &patch), None, "what came before is taken back");
}

#[test]
fn what_does_not_apply_is_named() {
    let why = |patch: &Patch, json: &str| {
        let mut operand = Vec::new();
        patch.encode(&mut Encoder::new(), None, &mut operand).unwrap();
        let bytes = (!json.is_empty()).then(|| encoded(&json::parse(json).unwrap(), None));
        let why = Patcher::explain(&operand, bytes.as_deref(), None);
        (why.part.and_then(|part| patch.part(part)), why.is_condition, why.found)
    };
    let patch = Patch::new().set("x", 1).if_eq("x", 1).if_lt("n", 5).inc("s", 1);
    let named = |text: &str, is_condition, found: &str| {
        (Some(text.to_owned()), is_condition, found.to_owned())
    };
    assert_eq!(why(&patch, r#"{"n":7}"#), named("if_lt n 5", true, "a number at \"n\""));
    let text = "text at \"s\"";
    assert_eq!(why(&patch, r#"{"n":4,"s":"text"}"#), named("inc s 1", false, text));
    let default = patch.upsert_from(doc!({ "n": 1, "s": "text" }));
    assert_eq!(why(&default, ""), named("inc s 1", false, text));
    // Where the way ends.
    let through = |path: &str| why(&Patch::new().set(path, 1), r#"{"a":{"s":"text","l":[7]}}"#).2;
    assert_eq!(through("a.s.x.y"), "text at \"a.s\"");
    assert_eq!(through("a.l.5"), "an array (length 1) at \"a.l\"");
}

#[test]
fn an_upsert_may_start_from_a_document() {
    let patch = Patch::new().upsert_from(doc!({ "plan": "free", "n": 10 })).inc("n", 1);
    assert_eq!(patched("", &patch).as_deref(), Some(r#"{"plan":"free","n":11}"#));
    assert_eq!(patched(r#"{"n":1}"#, &patch).as_deref(), Some(r#"{"n":2}"#));
    let alone = Patch::new().upsert_from(doc!(["x"]));
    assert_eq!(patched("", &alone).as_deref(), Some(r#"["x"]"#));
    assert_eq!(patched("7", &alone).as_deref(), Some("7"));
    let wrong = Patch::new().upsert_from(doc!({ "n": "text" })).inc("n", 1);
    assert_eq!(patched("", &wrong), None);
}

#[test]
fn without_a_document_only_an_upsert_creates_one() {
    let patch = Patch::new().inc("views.today", 1).push("tags", "a");
    assert_eq!(patched("", &patch), None);
    let made = r#"{"views":{"today":1},"tags":["a"]}"#;
    assert_eq!(patched("", &patch.upsert()).as_deref(), Some(made));
    assert_eq!(patched("", &Patch::new().upsert().set("a", 1).set("a.b", 2)), None);
    assert_eq!(patched("", &Patch::new().upsert().unset("a")).as_deref(), Some("{}"));
}

#[test]
fn nesting_beyond_the_limit_does_not_apply() {
    let nested = (0..511).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    let applies = |json: &str, patch: &Patch| {
        let mut bytes = Some(encoded(&json::parse(json).unwrap(), None));
        let mut operand = Vec::new();
        patch.encode(&mut Encoder::new(), None, &mut operand).unwrap();
        let applies = Patcher::new().apply(&operand, &mut bytes, None);
        validate(&bytes.unwrap(), None).unwrap();
        applies
    };
    assert!(applies(r#"{"a":1}"#, &Patch::new().set("a", nested.clone())));
    assert!(applies(r#"{"a":1}"#, &Patch::new().set("b", nested.clone())));
    assert!(!applies(r#"{"a":{"b":1}}"#, &Patch::new().set("a.b", nested.clone())));
    assert!(!applies(r#"{"a":{"b":1}}"#, &Patch::new().set("a.c", nested.clone())));
    assert!(!applies(r#"{"a":[1,"x"]}"#, &Patch::new().push("a", nested)));
}

#[test]
fn mutated_patches_and_documents_do_no_harm() {
    let mut random = super::hostile::Random::new("mutated_patches_and_documents_do_no_harm");
    let names = Names::new();
    let documents = super::hostile::samples(&names);
    let patch = Patch::new()
        .upsert()
        .inc("score", 300)
        .set("tags.2.c", doc!({ "x": [1, 2] }))
        .push("ints", 1003)
        .unset("long")
        .rename("id", "key")
        .mul("price", 2)
        .max("odd", 5)
        .set("pairs.two", "x")
        .if_exists("ints")
        .add_to_set("ints", 7)
        .push_at("ints", -2, 1004)
        .pull_all("ints", [7, 1003])
        .pop_first("tags")
        .upsert_from(doc!({ "score": 1 }));
    let mut operand = Vec::new();
    patch.encode(&mut Encoder::new(), Some(&names), &mut operand).unwrap();
    let mut patcher = Patcher::new();
    for round in 0..30_000 {
        let (mut operand, mut bytes) = (operand.clone(), documents[round % 2].clone());
        if round % 3 != 0 {
            random.mutate(&mut operand);
        }
        if round % 3 != 1 {
            random.mutate(&mut bytes);
        }
        let before = bytes.clone();
        let was_valid = validate(&bytes, Some(&names)).is_ok();
        let mut document = Some(bytes);
        let applied = patcher.apply(&operand, &mut document, Some(&names));
        let after = document.unwrap();
        assert!(applied || after == before);
        if was_valid {
            validate(&after, Some(&names)).unwrap();
        }
    }
}

/// A change of one field turned the integers of 64 bits of all others into ones of 32 bits, if it
/// was applied to the decoded document.
#[test]
fn a_patch_keeps_the_types_of_numbers() {
    let long = |int| wide(|to| to.long(int));
    let exact = wide(|to| to.number("1.50", true).unwrap());
    let document = encoded(&doc!({ "a": (long(1)), "b": [(long(2))], "c": (exact) }), None);
    let patch = Patch::new().inc("a", 1).push("b", 3).mul("c", 2).set("new.d", long(4));
    let mut bytes = Vec::new();
    patch.encode(&mut Encoder::new(), None, &mut bytes).unwrap();
    let results = [usize::MAX, 0].map(|parts| {
        let mut patched = Some(document.clone());
        let mut patcher = Patcher::new().with_one_by_one_max(parts);
        assert!(patcher.apply(&bytes, &mut patched, None));
        patched.unwrap()
    });
    assert_eq!(results[0], results[1]);
    let view = validate(&results[0], None).unwrap();
    let number = |path| view.path(path).unwrap().unwrap().stored_number();
    assert_eq!(number("a"), Some(StoredNumber::Long(2)));
    assert_eq!(number("b.0"), Some(StoredNumber::Long(2)));
    assert_eq!(number("b.1"), Some(StoredNumber::Int(3)));
    assert_eq!(number("c"), Some(StoredNumber::Literal { text: "3.00", is_wide: true }));
    assert_eq!(number("new.d"), Some(StoredNumber::Long(4)));
}
