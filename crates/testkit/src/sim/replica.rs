//! A replica that follows the change feed.

use super::changes::value_of;
use super::document::{document_bytes, fields_of};
use super::life::{self, Check, slot_named};
use super::model::{DOCUMENTS, KEYS, KINDS, Key, Kind, State, key_bytes, key_of};
use super::step::SlotChange;
use flagstone::Moment;
use flagstone::changes::{ChangeBatch, ChangeKind, ChangeToken};
use flagstone::fold::{AddI64, Append, Fold};
use flagstone_doc::Value;
use flagstone_doc::sort_key::{self, Direction};

/// A copy of the database, and the position of the feed up to which it was copied.
pub(super) struct Replica {
    pub(super) token: ChangeToken,
    pub(super) state: State,
}

/// Applies a delivered commit to a replica.
pub(super) fn apply(state: &mut State, batch: &ChangeBatch) -> Check {
    for change in batch.changes() {
        let name = change.keyspace();
        let Some(slot) = slot_named(&name) else {
            return Err(format!("a change of keyspace {name:?}"));
        };
        if change.kind() == ChangeKind::DeleteRange {
            let end = change.end_bytes().unwrap_or_default();
            for key in (0..KEYS as Key).filter(|key| {
                let stored = stored_key(slot, *key);
                (change.key_bytes()..end).contains(&&stored[..])
            }) {
                state.apply(&SlotChange::Delete(slot, key), 0);
            }
            continue;
        }
        let Some(key) = key_in(slot, change.key_bytes()) else { continue };
        let old = state.get(slot, key, Moment::ZERO).map(|entry| entry.bytes.to_vec());
        let malformed = |error: flagstone::Error| format!("a change of slot {slot}: {error}");
        let value = match (change.kind(), KINDS[slot]) {
            (ChangeKind::Delete, _) => None,
            (ChangeKind::Put, Kind::Documents) => {
                let document = change.document().map_err(malformed)?;
                document.map(|document| document_bytes(&life::fields_of(&document.to_value())))
            }
            (ChangeKind::Put, _) => Some(change.value_bytes().to_vec()),
            (_, Kind::Documents) => {
                let Some(patch) = change.patch().map_err(malformed)? else {
                    return Err("a change of a document without its patch".into());
                };
                let before = old.as_deref().map(|old| value_of(&fields_of(old)));
                let Some(mut document) = before.or_else(|| patch.upserted()) else { continue };
                if patch.apply_to(&mut document) {
                    Some(document_bytes(&life::fields_of(&document)))
                } else {
                    old
                }
            }
            (_, Kind::Counters) => {
                AddI64.fold(key_bytes(key), old.as_deref(), &[change.value_bytes()])
            }
            (_, _) => Append.fold(key_bytes(key), old.as_deref(), &[change.value_bytes()]),
        };
        state.apply(&SlotChange::Made(slot, key, value, change.expiry()), 0);
    }
    Ok(())
}

fn stored_key(slot: usize, key: Key) -> Vec<u8> {
    if slot != DOCUMENTS {
        return key_bytes(key).to_vec();
    }
    let mut stored = Vec::new();
    sort_key::encode(&Value::from(i64::from(key)), Direction::Ascending, &mut stored);
    stored
}

/// Returns the key whose stored bytes these are.
pub(super) fn key_in(slot: usize, stored: &[u8]) -> Option<Key> {
    if slot == DOCUMENTS {
        (0..KEYS as Key).find(|key| stored_key(slot, *key) == stored)
    } else {
        key_of(stored)
    }
}
