//! Documents of indexed collections in a transaction. The entries are own writes of the
//! transaction, so its queries see them.

use super::blind::is_blind;
use super::changes::{IndexChanges, expiry_by_date, has_unique};
use super::entry_change::EntryWrite;
use super::unique::{holder, violation};
use crate::collection::stored::Stored;
use crate::collection::write::Rewrite;
use crate::index::{Claim, DocumentKey, Pending, index_of};
use crate::write::Own;
use flagstone_base::{Error, ErrorKind, Kind, Moment, Result};
use flagstone_engine::{
    Durability, Effect, Engine, HeldBatch, Keyspace, KeyspaceCore, OP_OVERHEAD, StoredPut, Ticket,
    Transaction,
};
use std::sync::Arc;

/// A write of a document, with the changes of the indexes.
struct DocumentWrite<'d> {
    key: Vec<u8>,
    effect: Effect,
    bytes: &'d [u8],
    list: Vec<EntryWrite>,
}

/// What one write of a document claims.
struct Claims {
    values: Vec<(DocumentKey, Claim)>,
    /// The document itself, where those with unique values may expire.
    document: Option<Claim>,
}

/// A transaction whose writes of documents take the entries of indexes along.
pub(crate) struct Indexed<'t> {
    transaction: &'t mut Transaction,
    pending: &'t mut Option<Box<Pending>>,
}

impl<'t> Indexed<'t> {
    pub(crate) fn of(own: &'t mut Own<'_>) -> Self {
        Self { transaction: own.transaction, pending: own.pending }
    }

    /// Sets the document of the encoded `key` in an indexed collection to `new`, or removes it, and
    /// changes the entries of the indexes.
    ///
    /// # Errors
    /// Duplicate for a value that a unique index has already; InvalidInput for a document that an
    /// index cannot hold, or more bytes than a transaction may have. Everything is as before then.
    /// Conflict if an index was dropped meanwhile: so is the commit.
    pub(in crate::collection) fn write(
        &mut self,
        stored: &Stored,
        key: &[u8],
        new: Option<(&[u8], Option<Moment>)>,
    ) -> Result<()> {
        self.write_with_entries(stored, key, new).map_err(|error| {
            let sets = self.pending.as_ref().map_or(&[][..], |pending| &pending.sets);
            overtaken(error, sets)
        })
    }

    fn write_with_entries(
        &mut self,
        stored: &Stored,
        key: &[u8],
        new: Option<(&[u8], Option<Moment>)>,
    ) -> Result<()> {
        let core = stored.keyspace()?;
        self.note_set(core);
        let (value, expiry) = self.transaction.get_with_expiry(core, key)?;
        let old = match value {
            None if core.expires() => self.transaction.get_stored(core, key)?,
            value => StoredPut { value, expiry, seqno: None },
        };
        let mut changes = IndexChanges::new(core.batch_bytes_max());
        let stated = match new {
            Some((bytes, expiry)) => Some((bytes, expiry_by_date(core, bytes, expiry)?)),
            None => None,
        };
        changes.add(core, key, &old, stated)?;
        let (list, unseen) = changes.into_parts();
        let effect = stated.map_or(Kind::Delete.into(), |(_, expiry)| Effect::put(expiry));
        let bytes = new.map_or(&b""[..], |(bytes, _)| bytes);
        // All is checked before the first write: what is refused leaves nothing behind.
        let mut writes = self.removals_of_expired_holders(stored, &list)?;
        writes.push(DocumentWrite { key: key.to_vec(), effect, bytes, list });
        self.check_room(core, &writes)?;
        let checked: Vec<Claims> =
            writes.iter_mut().map(|write| self.claims_of(core, write)).collect::<Result<_>>()?;
        for (write, claims) in writes.into_iter().zip(checked) {
            self.make(core, write, claims)?;
        }
        self.pending.get_or_insert_default().unseen.extend(unseen);
        Ok(())
    }

    /// Makes a write that was checked.
    fn make(
        &mut self,
        core: &Keyspace,
        mut write: DocumentWrite<'_>,
        claims: Claims,
    ) -> Result<()> {
        self.transaction.write(core, write.effect, &write.key, write.bytes)?;
        EntryWrite::sort(&mut write.list);
        for change in &write.list {
            let (effect, value) = match &change.put {
                None => (Kind::Delete.into(), &b""[..]),
                Some((value, expiry)) => (Effect::put(*expiry), value.as_slice()),
            };
            self.transaction.write(&change.core, effect, &change.key, value)?;
        }
        let pending = self.pending.get_or_insert_default();
        pending.blind.remove(&(core.id().0, write.key.clone()));
        for (place, claim) in claims.values {
            pending.claims.entry(place).or_insert(claim);
        }
        if let Some(document) = claims.document {
            pending.documents.entry((core.id().0, write.key)).or_insert(document);
        }
        Ok(())
    }

    /// Changes the document of the encoded `key` in an indexed collection by a patch. One that does
    /// not apply changes nothing.
    ///
    /// # Errors
    /// As [`Indexed::write`].
    pub(in crate::collection) fn patch(
        &mut self,
        stored: &Stored,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        let core = stored.keyspace()?;
        // Before it is looked up which paths the indexes read.
        self.note_set(core);
        // Where documents expire, a patch is a put of what it makes of the one that is there: so
        // its unique values are locked as those of any put. Neither is one blind of what the
        // transaction has set or removed.
        if is_blind(core, operand) && !core.expires() && !self.transaction.has_set(core, key) {
            self.transaction.write(core, Kind::Merge, key, operand)?;
            self.pending.get_or_insert_default().blind.insert((core.id().0, key.to_vec()));
            return Ok(());
        }
        let (old, expiry) = self.transaction.get_with_expiry(core, key)?;
        let new = stored.fold(key, old.as_deref(), operand);
        match new {
            new if new.as_deref() == old.as_deref() => Ok(()),
            Some(new) => self.write(stored, key, Some((&new, expiry))),
            None => self.write(stored, key, None),
        }
    }

    /// Reads the document of the encoded `key` and does what `decide` returns. Returns whether
    /// something was written.
    ///
    /// # Errors
    /// The error of `decide`; else as [`Indexed::write`].
    pub(in crate::collection) fn rewrite(
        &mut self,
        stored: &Stored,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> Result<Rewrite>,
    ) -> Result<bool> {
        let (old, expiry) = self.transaction.get_with_expiry(stored.keyspace()?, key)?;
        match decide(old.as_deref())? {
            Rewrite::Nothing => return Ok(false),
            Rewrite::Delete => self.write(stored, key, None)?,
            Rewrite::Put(bytes) => self.write(stored, key, Some((&bytes, expiry)))?,
        }
        Ok(true)
    }

    /// Returns the removals of the documents that have expired and have a unique value that `list`
    /// gives to another one.
    fn removals_of_expired_holders(
        &self,
        stored: &Stored,
        list: &[EntryWrite],
    ) -> Result<Vec<DocumentWrite<'static>>> {
        let mut removals: Vec<DocumentWrite<'_>> = Vec::new();
        for change in list.iter().filter(|change| !change.primary_key.is_empty()) {
            if change.put.is_none() || !change.core.expires() {
                continue;
            }
            let found = self.transaction.get_stored(&change.core, &change.key)?.value;
            let Some(holder) = found.as_deref().and_then(holder) else { continue };
            if holder == change.primary_key
                || removals.iter().any(|removal| removal.key == holder)
                || self.transaction.get(&change.core, &change.key)?.is_some()
                || self.transaction.get(stored.keyspace()?, holder)?.is_some()
            {
                continue;
            }
            let old = self.transaction.get_stored(stored.keyspace()?, holder)?;
            let mut changes = IndexChanges::new(stored.keyspace()?.batch_bytes_max());
            changes.add(stored.keyspace()?, holder, &old, None)?;
            // The entry may be one of an earlier document, which was removed from tables before it.
            let has_it = |of: &EntryWrite| of.core.id() == change.core.id() && of.key == change.key;
            if changes.list.iter().any(has_it) {
                let (effect, list) = (Kind::Delete.into(), changes.into_parts().0);
                removals.push(DocumentWrite { key: holder.to_vec(), effect, bytes: b"", list });
            }
        }
        Ok(removals)
    }

    /// Notes with which indexes the writes to `core` are prepared.
    fn note_set(&mut self, core: &Keyspace) {
        self.transaction.note_set(core);
        let pending = self.pending.get_or_insert_default();
        if !pending.sets.iter().any(|(known, _)| Arc::ptr_eq(known, core)) {
            pending.sets.push((Arc::clone(core), core.owned_set().epoch));
        }
    }

    /// Refuses writes that, with those of their indexes, take more than a transaction may have.
    fn check_room(&self, core: &Keyspace, writes: &[DocumentWrite<'_>]) -> Result<()> {
        let entry = |change: &EntryWrite| {
            let value = change.put.as_ref().map_or(0, |(value, _)| value.len());
            change.key.len() + value + OP_OVERHEAD
        };
        let document = |write: &DocumentWrite<'_>| {
            let entries: usize = write.list.iter().map(entry).sum();
            entries + write.key.len() + write.bytes.len() + OP_OVERHEAD
        };
        let more: usize = writes.iter().map(document).sum();
        let (bytes, most) = (self.transaction.bytes() + more, core.batch_bytes_max());
        if bytes as u64 <= most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a transaction of {bytes} bytes with the entries of indexes: expected at most {most} \
             (a quarter of the memory budget)"
        )))
    }

    /// Returns the claims of a write. Refuses unique values that another document has. Drops
    /// removals of entries that another document holds, as [`super::unique::check`] does.
    fn claims_of(&self, core: &Keyspace, write: &mut DocumentWrite<'_>) -> Result<Claims> {
        let (key, list) = (write.key.as_slice(), &mut write.list);
        let mut values = Vec::new();
        for change in std::mem::take(list) {
            if change.primary_key.is_empty() {
                list.push(change);
                continue;
            }
            let value = self.transaction.get(&change.core, &change.key)?;
            let before = value.as_deref().and_then(holder);
            if let Some(other) = before.filter(|before| *before != key)
                && change.put.is_some()
            {
                return Err(violation(&change.core, &change.key, key, other));
            }
            let stored = self.transaction.get_stored(&change.core, &change.key)?.value;
            let stored = stored.as_deref().and_then(holder);
            if change.put.is_none() && stored.is_some_and(|stored| stored != key) {
                continue;
            }
            let claim = self.claim(&change.core, &change.key)?;
            values.push(((change.core.id().0, change.key.clone()), claim));
            list.push(change);
        }
        let document = if core.expires() && has_unique(&core.owned_set()) {
            Some(self.claim(core, key)?)
        } else {
            None
        };
        Ok(Claims { values, document })
    }

    fn claim(&self, core: &Arc<KeyspaceCore>, key: &[u8]) -> Result<Claim> {
        let before = self.transaction.seqno_before(core, key)?;
        Ok(Claim { core: Arc::clone(core), before })
    }
}

/// What a transaction has noted, to be committed with it.
pub(crate) struct AtCommit(pub(crate) Box<Pending>);

impl AtCommit {
    /// Commits `transaction`. Returns no ticket if it has written nothing.
    ///
    /// # Errors
    /// Conflict if another commit came between; else as [`Engine::start_transaction`].
    pub(crate) fn commit(
        self,
        engine: &Engine,
        transaction: Transaction,
        durability: Durability,
    ) -> Result<Option<Ticket>> {
        let sets = self.0.sets.clone();
        self.start(engine, transaction, durability).map_err(|error| overtaken(error, &sets))
    }

    fn start(
        self,
        engine: &Engine,
        transaction: Transaction,
        durability: Durability,
    ) -> Result<Option<Ticket>> {
        let is_plain = self.0.claims.is_empty() && self.0.documents.is_empty();
        if is_plain && self.0.unseen.is_empty() && self.0.blind.is_empty() {
            return engine.start_transaction(transaction, durability);
        }
        let hold = engine.hold_transaction(transaction)?.durability(durability);
        let hold = hold.resolve(&|_core, _key, _operand| false);
        let (ticket, ()) = hold.commit(|held| self.check(held))?;
        Ok(ticket)
    }

    fn check(self, held: &mut HeldBatch<'_>) -> Result<()> {
        if has_changed(&self.0.sets) {
            return Err(conflict(INDEXES_CHANGED));
        }
        self.check_blind(held)?;
        let all = self.0.claims.iter().chain(&self.0.documents);
        let keys: Vec<_> =
            all.map(|((_, key), claim)| (Arc::clone(&claim.core), key.clone())).collect();
        if !keys.is_empty() {
            held.lock_also(&keys);
        }
        // Who holds a value counts also if it has expired: it may be back when the clock is set
        // right. The next try removes it.
        for ((_, key), claim) in &self.0.claims {
            let now = held.get_stored(&claim.core, key)?.seqno;
            if now.is_some() && now != claim.before {
                return Err(conflict("a value of a unique index was given to another document"));
            }
        }
        for ((_, key), document) in &self.0.documents {
            if held.get_stored(&document.core, key)?.seqno != document.before {
                return Err(conflict("a document that has expired was removed"));
            }
        }
        for (core, seen) in &self.0.unseen {
            let Some(index) = index_of(core) else { continue };
            let (from, to) = index.note_seen(*seen, |note| held.set_note(core, note))?;
            held.raise_premise(core, from, to);
        }
        Ok(())
    }

    /// Refuses a patch that was resolved to the removal of its document, which has expired: nothing
    /// removes the entries. The collection got its first expiry after the patch was written.
    fn check_blind(&self, held: &HeldBatch<'_>) -> Result<()> {
        for op in (0..held.len()).filter(|_| !self.0.blind.is_empty()).map(|at| held.op(at)) {
            if op.effect.kind() == Kind::Delete
                && self.0.blind.contains(&(op.keyspace.id().0, op.key.to_vec()))
                && held.get_stored(op.keyspace, op.key)?.value.is_some()
            {
                return Err(conflict("a document that was patched got an expiry, and expired,"));
            }
        }
        Ok(())
    }
}

const INDEXES_CHANGED: &str = "the indexes of a collection were changed";

/// Returns whether a collection has other indexes than when it was written.
fn has_changed(sets: &[(Arc<KeyspaceCore>, u64)]) -> bool {
    sets.iter().any(|(core, epoch)| core.owned_set().epoch != *epoch)
}

/// Returns what an error of a write means: an entry of an index that was dropped may be looked at
/// before the set of indexes is.
#[cold]
fn overtaken(error: Error, sets: &[(Arc<KeyspaceCore>, u64)]) -> Error {
    let is_refused = error.kind() == ErrorKind::InvalidInput;
    if is_refused && has_changed(sets) { conflict(INDEXES_CHANGED) } else { error }
}

#[cold]
fn conflict(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("{what} after the transaction began"))
}
