//! Patches change the bytes of a document as they change the value in memory, and hostile bytes do
//! no harm.

use super::random::{check, number, value};
use flagstone_doc::{Document, Encoder, Names, Patch, Patcher, Value, doc, json, validate};
use proptest::collection::vec;
use proptest::prelude::*;

/// One change drawn for a document: its kind, path, argument and new name.
type Change = (u8, String, Value, String);

fn patch_of(changes: &[Change], upsert: bool) -> Patch {
    let mut patch = if upsert { Patch::new().upsert() } else { Patch::new() };
    for (kind, path, value, name) in changes {
        let (path, value) = (path.as_str(), value.clone());
        let by = if value.as_f64().is_some() { value.clone() } else { Value::from(3) };
        patch = match kind {
            0 => patch.set(path, value),
            1 => patch.unset(path),
            2 => patch.inc(path, by),
            3 => patch.mul(path, by),
            4 => patch.rename(path, name),
            5 => patch.push(path, value),
            6 => patch.min(path, value),
            _ => patch.max(path, value),
        };
    }
    patch
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
    let changes = vec((0..8_u8, any::<u32>(), small(), "[a-e]{1,2}"), 1..4);
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
            let patch = patch_of(&changes, false);
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
        let patch = patch_of(&changes, operands.len() % 5 == 0);
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
    let changes = vec((0..8_u8, any::<u32>(), small(), "[a-e]{1,2}"), 1..4);
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
    let changes = vec((0..8_u8, any::<u32>(), small(), "[a-e]{1,2}"), 1..4);
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
        .set("pairs.two", "x");
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
