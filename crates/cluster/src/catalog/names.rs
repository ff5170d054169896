//! Notes by their names, and how they are changed.

use super::note::{Note, corrupt};
use crate::backoff::Backoff;
use crate::store::{Freshness, Outcome, Record, Store};
use flagstone_base::codec::put_varint;
use flagstone_base::fields::number;
use flagstone_base::{Error, ErrorKind, Result, Slice, interrupt};

/// The name of the record that counts the numbers of collections and generations. No collection can
/// have it.
pub(crate) const NUMBERS: &str = "\u{1}numbers";

/// How often a change of a note is tried.
const TRIES: u32 = 100;
/// The longest name of a collection, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Returns the new bytes of a record; `None` leaves it.
type ChangeBytes<'c> = &'c mut dyn FnMut(Option<&Record>) -> Result<Option<Vec<u8>>>;

/// Refuses a name that no collection of an embedded database can have.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of a collection has {} bytes: expected 1 to {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if let Some(control) = name.chars().find(|c| c.is_control()) {
        return Err(Error::invalid(format!(
            "the collection name {name:?} holds the control character {control:?}"
        )));
    }
    Ok(())
}

/// Reads the note of a collection, and its version.
pub(crate) fn read(
    store: &dyn Store,
    name: &str,
    freshness: Freshness,
) -> Result<Option<(i64, Note)>> {
    let record = store.note(name, freshness)?;
    record.map(|record| Ok((record.version, Note::decode(name, &record.note)?))).transpose()
}

/// Changes the note of a collection to what `change` returns for the present one, which no other
/// change comes after; `None` leaves it. `change` may be called several times, and must then find
/// out by itself whether an earlier result of it has become the note. Returns the newest note.
///
/// # Errors
/// Conflict if other changes came first too often; those of the store and of `change`.
pub(crate) fn alter(
    store: &dyn Store,
    name: &str,
    change: &mut dyn FnMut(Option<&Note>) -> Result<Option<Note>>,
) -> Result<Option<(i64, Note)>> {
    let mut new = None;
    let written = alter_record(store, name, &mut |record| {
        let note = record.map(|record| Note::decode(name, &record.note)).transpose()?;
        let changed = change(note.as_ref())?;
        let bytes = changed.as_ref().map(Note::encode);
        new = changed.or(note);
        Ok(bytes)
    })?;
    Ok(written.zip(new))
}

/// Returns a number that no collection and no generation has.
pub(crate) fn next_number(store: &dyn Store) -> Result<i32> {
    let mut next = 0;
    alter_record(store, NUMBERS, &mut |record| {
        let last = match record {
            Some(record) => number(&record.note).map_err(|wrong| corrupt(NUMBERS, wrong))?,
            None => 0,
        };
        next = i32::try_from(last).ok().and_then(|last| last.checked_add(1)).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "all numbers of collections are used: start anew \
                                                in another keyspace of the cluster",
            )
        })?;
        let mut bytes = Vec::new();
        put_varint(&mut bytes, next as u64);
        Ok(Some(bytes))
    })?;
    Ok(next)
}

/// As [`alter`], of bytes. Returns the version of the record, if there is one. It is not
/// interrupted: it must learn what became of a change.
fn alter_record(store: &dyn Store, name: &str, change: ChangeBytes<'_>) -> Result<Option<i64>> {
    interrupt::interruptible(|| false, || try_to_alter(store, name, change))
}

fn try_to_alter(store: &dyn Store, name: &str, change: ChangeBytes<'_>) -> Result<Option<i64>> {
    let mut backoff = Backoff::of(TRIES);
    let mut unanswered: Option<Error> = None;
    loop {
        let read = store.note(name, Freshness::Serial);
        match read.and_then(|record| try_alter(store, name, record, change)) {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::Unknown => unanswered = Some(error),
            // An earlier attempt may still happen: it must be known whether it did.
            Err(error) if error.kind() == ErrorKind::Unavailable && unanswered.is_some() => {}
            Err(error) => return Err(error),
        }
        if !backoff.again() {
            return Err(unanswered.unwrap_or_else(|| {
                let text = format!(
                    "the catalog's note of {name:?} was changed by others {TRIES} \
                                    times while this call tried to change it: try again"
                );
                Error::new(ErrorKind::Conflict, text)
            }));
        }
    }
}

/// One attempt. Returns `None` if it was refused.
fn try_alter(
    store: &dyn Store,
    name: &str,
    record: Option<Record>,
    change: ChangeBytes<'_>,
) -> Result<Option<Option<i64>>> {
    let version = record.as_ref().map(|record| record.version);
    let Some(note) = change(record.as_ref())? else { return Ok(Some(version)) };
    let new = Record { version: version.unwrap_or(0) + 1, note: Slice::from(note) };
    match store.set_note(name, version, &new)? {
        Outcome::Applied => Ok(Some(Some(new.version))),
        Outcome::Refused => Ok(None),
    }
}
