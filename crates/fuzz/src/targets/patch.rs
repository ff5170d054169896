//! Patches: one that does not apply changes nothing, in whatever way it is folded.

use super::document::{names, shape, value};
use super::{bounded, join, note, split};
use flagstone_doc::{EncodedPatch, Encoder, FieldPath, Patch, Patcher, Value, doc, validate};

/// Reads a document and two patches. There is no document if its length is 0.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, rest)) = split(bytes) else { return };
    let Some((first, second)) = split(rest) else { return };
    let names = names();
    let mut patcher = Patcher::new();
    let base = (!document.is_empty()).then_some(document);
    let mut patched = base.map(<[u8]>::to_vec);
    let applied =
        bounded(bytes.len(), 400, "a patch", || patcher.apply(first, &mut patched, Some(&names)));
    if !applied {
        assert_eq!(patched.as_deref(), base, "a patch that does not apply changes nothing");
    }
    let value = patched.and_then(|bytes| validate(&bytes, Some(&names)).ok()?.to_value().ok());
    let found = value.map_or_else(String::new, |value| shape(&value, 3));
    note(format_args!("{applied} {found}"));
    for one_by_one in [0, usize::MAX] {
        let mut patcher = Patcher::new().with_one_by_one_max(one_by_one);
        let (folded, refused) = patcher.fold(base, &[first, second], Some(&names));
        assert!(refused <= 2);
        if refused == 2 {
            assert_eq!(folded.as_deref(), base, "patches that do not apply change nothing");
        }
        note(format_args!("fold {refused:?}"));
    }
    let why = Patcher::explain(first, base, Some(&names));
    let is_valid = base.is_none_or(|bytes| validate(bytes, Some(&names)).is_ok());
    assert!(
        !applied || !is_valid || why.part.is_none(),
        "a part that does not apply, of one that does"
    );
    if let Ok(patch) = EncodedPatch::of(first, Some(&names)) {
        note(format_args!("{} {}", patch.is_upsert(), patch.touches(&FieldPath::root())));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let names = names();
    let mut encoder = Encoder::new();
    let mut encoded = |value: &Value| {
        let mut bytes = Vec::new();
        encoder.encode(value, Some(&names), &mut bytes).unwrap();
        bytes
    };
    let documents = [encoded(&value()), encoded(&doc!({"a": {"b": [1, 2]}, "score": 1})), vec![]];
    let patches = [
        Patch::new().set("a.b.1", 7).unset("id").push("tags", "new").inc("score", 3),
        Patch::new().upsert().set("long", "text").rename("a", "z").max("score", 9),
        Patch::new()
            .mul("score", Value::number("1.5").unwrap())
            .min("big", 0)
            .set("x.y", doc!([1])),
        Patch::new().upsert_from(doc!({"a": {"b": [3]}})).if_exists("a.b").add_to_set("a.b", 2),
        Patch::new().if_lt("score", 2).push_at("a.b", -1, "in").pull_all("a.b", [1, 2]),
        Patch::new().if_missing("gone").pop_first("a.b").pop_last("tags").if_ne("score", 9),
    ];
    let bytes: Vec<Vec<u8>> = patches
        .iter()
        .map(|patch| {
            let mut bytes = Vec::new();
            patch.encode(&mut Encoder::new(), Some(&names), &mut bytes).unwrap();
            bytes
        })
        .collect();
    let mut seeds = Vec::new();
    for document in &documents {
        for (at, patch) in bytes.iter().enumerate() {
            seeds.push(join(document, &join(patch, &bytes[(at + 1) % bytes.len()])));
        }
    }
    seeds
}
