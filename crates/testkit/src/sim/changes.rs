//! Turns changes into calls of the database.

use super::document::{
    DATE, Edit, Fields, LIST_MAX, Missing, PAD, STRANGE, of_extended_json, pad, path_of,
    text_of_strange, value_of_field,
};
use super::life::Handle;
use super::model::{SLOTS, key_bytes, operand_bytes, value_bytes};
use super::step::SlotChange;
use flagstone::{Batch, Document, Expires, Json, Patch, Result, Space, Value, doc};

/// The handles of the slots that are written.
pub(super) type SlotHandles = [Option<Handle>; SLOTS];

pub(super) fn patch_of(missing: Missing, edits: &[Edit]) -> Patch {
    let patch = match missing {
        Missing::Nothing => Patch::new(),
        Missing::Empty => Patch::new().upsert(),
        Missing::Default(value) => Patch::new().upsert_from(doc!({ "f0": (i64::from(value)) })),
    };
    let field = |name: u16| format!("f{name}");
    let list = |name: u16| format!("l{name}");
    let not_full = |patch: Patch, name: u16| patch.if_missing(format!("l{name}.{}", LIST_MAX - 1));
    edits.iter().fold(patch, |patch, edit| match *edit {
        Edit::Set(name, value) => patch.set(path_of(name), value_of_field(name, value)),
        Edit::Add(name, value) => patch.inc(field(name), i64::from(value)),
        Edit::IfLess(name, value) => patch.if_lt(field(name), i64::from(value)),
        Edit::IfMissing(name) => patch.if_missing(field(name)),
        Edit::Collect(name, number) => {
            not_full(patch, name).add_to_set(list(name), i64::from(number))
        }
        Edit::Insert(name, position, number) => {
            not_full(patch, name).push_at(list(name), position.into(), i64::from(number))
        }
        Edit::Pull(name, number) => patch.pull(list(name), i64::from(number)),
        Edit::Pop(name, true) => patch.pop_first(list(name)),
        Edit::Pop(name, false) => patch.pop_last(list(name)),
    })
}

pub(super) fn document_of(fields: &[(u16, i64)]) -> Result<Document> {
    Document::from_value(&value_of(&fields.iter().copied().collect()))
}

/// Returns the document with these fields and lists.
pub(super) fn value_of(fields: &Fields) -> Value {
    let mut value = Value::object();
    if let Value::Map(map) = &mut value {
        for (name, number) in fields {
            map.insert(path_of(*name), value_of_field(*name, *number));
        }
    }
    value
}

/// Fills a batch with changes.
pub(super) fn fill(batch: &mut Batch, handles: &SlotHandles, changes: &[SlotChange]) -> Result<()> {
    for change in changes {
        let Some(handle) = &handles[change.slot()] else { continue };
        match (handle, change) {
            (Handle::Bytes(keyspace), SlotChange::Put(slot, key, value, lasts)) => {
                let (key, value) = (key_bytes(*key), value_bytes(*slot, *value));
                batch.put(keyspace, key, value.expires(lasts.expiry()))?;
            }
            (Handle::Bytes(keyspace), SlotChange::Delete(_, key)) => {
                batch.delete(keyspace, key_bytes(*key))?;
            }
            (Handle::Bytes(keyspace), SlotChange::Merge(slot, key, seed)) => {
                batch.merge(keyspace, key_bytes(*key), operand_bytes(*slot, *seed))?;
            }
            (Handle::Bytes(keyspace), SlotChange::DeleteRange(_, from, to)) => {
                batch.delete_range(keyspace, key_bytes(*from)..key_bytes(*to))?;
            }
            (Handle::Documents(collection), SlotChange::Document(_, key, fields, lasts)) => {
                let (key, document) = (i64::from(*key), document_of(fields)?);
                batch.put(collection, key, (&document).expires(lasts.expiry()))?;
            }
            (Handle::Documents(collection), SlotChange::Delete(_, key)) => {
                batch.delete(collection, i64::from(*key))?;
            }
            (Handle::Documents(collection), SlotChange::Patch(_, key, missing, edits)) => {
                batch.patch(collection, i64::from(*key), &patch_of(*missing, edits))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes one change by the method of its keyspace.
pub(super) fn write_one(handle: &Handle, change: &SlotChange) -> Result<()> {
    match (handle, change) {
        (Handle::Bytes(keyspace), SlotChange::Put(slot, key, value, lasts)) => {
            let (key, value) = (key_bytes(*key), value_bytes(*slot, *value));
            keyspace.put(key, value.expires(lasts.expiry()))
        }
        (Handle::Bytes(keyspace), SlotChange::Delete(_, key)) => keyspace.delete(key_bytes(*key)),
        (Handle::Bytes(keyspace), SlotChange::Merge(slot, key, seed)) => {
            keyspace.merge(key_bytes(*key), operand_bytes(*slot, *seed))
        }
        (Handle::Bytes(keyspace), SlotChange::DeleteRange(_, from, to)) => {
            keyspace.delete_range(key_bytes(*from)..key_bytes(*to))
        }
        (Handle::Documents(collection), SlotChange::Document(_, key, fields, lasts)) => {
            let has_no_text =
                |(name, value): &(u16, i64)| *name == STRANGE && text_of_strange(*value).is_none();
            if fields.iter().any(has_no_text) {
                let document = document_of(fields)?;
                return collection.put(i64::from(*key), (&document).expires(lasts.expiry()));
            }
            let field = |&(name, value): &(u16, i64)| {
                let value = match name {
                    PAD => format!("\"{}\"", pad(value as i16)),
                    DATE => format!("{{\"$date\":{{\"$numberLong\":\"{value}\"}}}}"),
                    STRANGE => text_of_strange(value).unwrap_or_default().to_owned(),
                    _ => value.to_string(),
                };
                format!("\"{}\":{value}", path_of(name))
            };
            let json: Vec<_> = fields.iter().map(field).collect();
            let (key, json) = (i64::from(*key), format!("{{{}}}", json.join(",")));
            // Plain JSON has neither of the two.
            if fields.iter().any(|(name, _)| matches!(*name, DATE | STRANGE)) {
                let document = of_extended_json(&json)?;
                return collection.put(key, (&document).expires(lasts.expiry()));
            }
            collection.put(key, Json(json).expires(lasts.expiry()))
        }
        (Handle::Documents(collection), SlotChange::Delete(_, key)) => {
            collection.delete(i64::from(*key))
        }
        (Handle::Documents(collection), SlotChange::Patch(_, key, missing, edits)) => {
            collection.patch(i64::from(*key), &patch_of(*missing, edits))
        }
        _ => Ok(()),
    }
}
