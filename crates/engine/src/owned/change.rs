//! Creates and drops owned keyspaces.
//!
//! A keyspace that owns others accepts only prepared writes, because what its writes mean for the
//! owned keyspaces is known to the layer above. The set of owned keyspaces changes under the gate
//! of the owner, so no write that has read something is under way then. The change itself happens
//! under the numbering lock:
//!
//! ```text
//! numbers:   .. 41 42 | 43 44 ..          a commit checks its set under the same lock
//!         old set     ^ change  new set   earlier ones are visible when the change returns
//! ```

use crate::catalog::{KeyspaceContent, NewKeyspace, OwnedRecord};
use crate::change::{after_drop, append_drop, insert_created};
use crate::keyspace::Keyspace;
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::Edit;
use crate::note::check_note;
use crate::open::open_content;
use crate::options::KeyspaceOptions;
use crate::parts::Parts;
use flagstone_base::{Error, Result, SeqNo};
use std::sync::Arc;

/// An owned keyspace that a caller wants to create.
pub struct WantedOwned<'a> {
    /// The name, unique among the keyspaces of the owner.
    pub name: &'a str,
    /// The content of the keyspace.
    pub content: KeyspaceContent,
    /// The options of the keyspace.
    pub options: &'a KeyspaceOptions,
    /// Bytes that the layer above keeps with the keyspace, at most 64 KiB.
    pub note: &'a [u8],
}

/// An owned keyspace that was created.
pub struct OwnedCreated {
    /// The keyspace, which is empty.
    pub keyspace: Keyspace,
    /// The last write to the owner that was prepared without the keyspace. It is visible.
    pub seqno: SeqNo,
}

/// Creates an owned keyspace. From the SeqNo that is returned on, writes to `owner` are prepared
/// with it; all earlier ones are visible.
pub(crate) fn create(
    parts: &Parts,
    owner: &KeyspaceCore,
    wanted: &WantedOwned<'_>,
) -> Result<(Arc<KeyspaceCore>, SeqNo)> {
    check_change(parts, owner, wanted.note)?;
    let last = {
        let _gate = owner.gate.pass_alone();
        let mut guard = parts.core.edits.manifest.lock();
        let manifest = guard.as_mut().ok_or_else(|| parts.core.setup().closed())?;
        owner.check_not_dropped()?;
        let WantedOwned { name, content, options, note } = wanted;
        let note = note.to_vec();
        let owned = Some(&OwnedRecord { owner: owner.id, note, is_doubtful: false });
        let catalog = &manifest.state().catalog;
        let seed = parts.core.setup().environment.random.next_u64();
        let wanted = NewKeyspace { name, content, options, owned };
        let record = catalog.plan(wanted, seed, &mut catalog.counters())?;
        let (id, content) = (record.id, open_content(&*parts.contents, &record)?);
        // Even if the edit is refused and a crash brings it back: its note says that it is to be
        // filled.
        let edit = Edit { keyspaces_created: vec![record], ..Edit::default() };
        parts.core.edits.append(manifest, edit)?;
        let core = insert_created(parts, manifest, id, content)?;
        let mut keyspaces = owner.owned_set().keyspaces.clone();
        keyspaces.push(Arc::clone(&core));
        let numbering = parts.core.history.numbering.lock();
        owner.set_owned(keyspaces);
        (core, SeqNo::new(numbering.next.get() - 1))
    };
    parts.core.history.publisher.wait_for_all();
    Ok(last)
}

/// Drops the keyspace of `owner` that `is_it` chooses, under the locks. Returns false if there is
/// none.
pub(crate) fn drop_one(
    parts: &Parts,
    owner: &KeyspaceCore,
    is_it: &dyn Fn(&KeyspaceCore) -> bool,
) -> Result<bool> {
    check_change(parts, owner, &[])?;
    let dropped = {
        let _gate = owner.gate.pass_alone();
        let mut guard = parts.core.edits.manifest.lock();
        let manifest = guard.as_mut().ok_or_else(|| parts.core.setup().closed())?;
        owner.check_not_dropped()?;
        let keyspaces = owner.owned_set().keyspaces.clone();
        let (dropped, kept): (Vec<_>, Vec<_>) =
            keyspaces.into_iter().partition(|owned| is_it(owned));
        if dropped.is_empty() {
            return Ok(false);
        }
        // If a crash brings a refused drop back, it removes what nothing else needs.
        append_drop(parts, manifest, &dropped, || (), || owner.set_owned(kept))?;
        dropped
    };
    after_drop(parts, &dropped);
    Ok(true)
}

fn check_change(parts: &Parts, owner: &KeyspaceCore, note: &[u8]) -> Result<()> {
    parts.core.health.check_may_change("a change of an owned keyspace")?;
    parts.core.health.check_may_write()?;
    parts.core.health.check_open_for_writing()?;
    if !owner.belongs_to(&parts.core.trees) {
        return Err(Error::invalid("a change of a keyspace of another database"));
    }
    if owner.owner().is_some() {
        let text = format!("keyspace {:?} is owned, so it can own none", owner.name());
        return Err(Error::invalid(text));
    }
    check_note(note)?;
    // A change that the disk refused a moment ago may be possible now.
    parts.core.edits.end_doubt();
    Ok(())
}
