//! Changes of the catalog: finds, creates, alters, empties and drops keyspaces.

use crate::background::{
    Upkeep, flush_trees, make_history_durable, resume_later, schedule, sweep, watch,
};
use crate::catalog::{
    KeyspaceContent, KeyspaceRecord, NewKeyspace, altered, check_name, content_mismatch, mismatch,
};
use crate::commit::{Committed, InFlight, LogNote, note_ahead};
use crate::content::{OLD_VALUES, OpenContent};
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::{Edit, Manifest};
use crate::open::{build_keyspace, open_content};
use crate::options::{Durability, KeyspaceOptions};
use crate::parts::Parts;
use crate::supply::supply_of;
use flagstone_base::{Error, KeyspaceId, Result, SeqNo};
use flagstone_tree::{Tree, Version};
use flagstone_wal::Log;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the keyspaces `names`. Those that are missing are created by one edit.
pub(crate) fn open_or_create(
    parts: &Parts,
    names: &[&str],
    wanted: &WantedContent<'_>,
    asked: Option<&KeyspaceOptions>,
) -> Result<Vec<Arc<KeyspaceCore>>> {
    parts.core.health.check_open()?;
    names.iter().try_for_each(|name| check_name(name))?;
    if let Some(options) = asked {
        options.check()?;
    }
    if let Some(found) = find_all(parts, names, wanted, asked)? {
        return Ok(found);
    }
    if parts.core.history.is_read_only() {
        let missing = names.iter().find(|name| parts.core.keyspaces.named(name).is_none());
        return Err(Error::invalid(format!(
            "there is no keyspace {:?}, and {} is open for reading only",
            missing.unwrap_or(&""),
            parts.core.setup().dir.display()
        )));
    }
    parts.core.health.check_may_wait("the creation of a keyspace")?;
    let mut options = asked.cloned().unwrap_or_default();
    options.fold = options.fold.or_else(|| wanted.fold_if_new.map(str::to_owned));
    options.bottom_dictionary.get_or_insert(wanted.dictionary_if_new);
    let mut guard = parts.core.edits.manifest.lock();
    if let Some(found) = find_all(parts, names, wanted, asked)? {
        return Ok(found);
    }
    parts.core.health.check_open_for_writing()?;
    let manifest = guard.as_mut().ok_or_else(|| parts.core.setup().closed())?;
    create_missing(parts, manifest, names, &wanted.content, &options)?;
    // None can be dropped meanwhile: a drop takes the same lock.
    find_all(parts, names, wanted, asked)?.ok_or_else(|| parts.core.setup().closed())
}

/// Returns the keyspace `name` if it exists, or an error if it is of another kind.
pub(crate) fn existing(
    parts: &Parts,
    name: &str,
    wanted: &WantedContent<'_>,
    asked: Option<&KeyspaceOptions>,
) -> Result<Option<Arc<KeyspaceCore>>> {
    if let Some(options) = asked {
        options.check()?;
    }
    let core = parts.core.keyspaces.named(name);
    core.map(|core| check_same(core, wanted, asked)).transpose()
}

/// Returns the keyspaces `names` if all exist, or an error if one exists and is of another kind.
fn find_all(
    parts: &Parts,
    names: &[&str],
    wanted: &WantedContent<'_>,
    asked: Option<&KeyspaceOptions>,
) -> Result<Option<Vec<Arc<KeyspaceCore>>>> {
    let (mut found, mut is_one_missing) = (Vec::with_capacity(names.len()), false);
    for name in names {
        match parts.core.keyspaces.named(name) {
            Some(core) => found.push(check_same(core, wanted, asked)?),
            None => is_one_missing = true,
        }
    }
    Ok((!is_one_missing).then_some(found))
}

fn create_missing(
    parts: &Parts,
    manifest: &mut Manifest,
    names: &[&str],
    content: &KeyspaceContent,
    options: &KeyspaceOptions,
) -> Result<()> {
    // Each name once, in the given order.
    let mut seen = BTreeSet::new();
    let missing: Vec<&str> = names
        .iter()
        .copied()
        .filter(|&name| parts.core.keyspaces.named(name).is_none() && seen.insert(name))
        .collect();
    let mut records = Vec::with_capacity(missing.len());
    let catalog = &manifest.state().catalog;
    let mut free = catalog.counters();
    for name in missing {
        let seed = parts.core.setup().environment.random.next_u64();
        let wanted = NewKeyspace { name, content, options, owned: None };
        records.push(catalog.plan(wanted, seed, &mut free)?);
    }
    let mut opened: Vec<(KeyspaceId, OpenContent)> = Vec::with_capacity(records.len());
    for record in &records {
        opened.push((record.id, open_content(&*parts.contents, record)?));
    }
    let edit = Edit { keyspaces_created: records, ..Edit::default() };
    parts.core.edits.append(manifest, edit)?;
    for (id, content) in opened {
        insert_created(parts, manifest, id, content)?;
    }
    Ok(())
}

/// Builds the keyspace `id`, which an edit has just created, and makes it known.
pub(crate) fn insert_created(
    parts: &Parts,
    manifest: &Manifest,
    id: KeyspaceId,
    content: OpenContent,
) -> Result<Arc<KeyspaceCore>> {
    let record = manifest.state().catalog.by_id(id).ok_or_else(|| parts.core.setup().closed())?;
    let core = build_keyspace(Arc::clone(record), content, |id, options| {
        Ok(Tree::new(id, Arc::clone(&parts.core.trees), options, Version::empty()))
    })?;
    let core = Arc::new(core);
    parts.core.keyspaces.insert(&core);
    Ok(core)
}

pub(crate) fn drop_keyspace(parts: &Parts, name: &str) -> Result<bool> {
    parts.core.health.check_may_change("the drop of a keyspace")?;
    parts.core.health.check_open_for_writing()?;
    if parts.core.keyspaces.named(name).is_none() {
        return Ok(false);
    }
    make_history_durable(&parts.upkeep)?;
    let mut guard = parts.core.edits.manifest.lock();
    let Some(core) = parts.core.keyspaces.named(name) else { return Ok(false) };
    let Some(manifest) = guard.as_mut() else { return Err(parts.core.setup().closed()) };
    // The set of owned keyspaces changes under the manifest's lock, too.
    let mut dropped = core.owned_set().keyspaces.clone();
    dropped.push(Arc::clone(&core));
    let note = LogNote::Drop { keyspace: core.id, name };
    let told = tell_ahead(parts, manifest, &note)?;
    let done = append_drop(parts, manifest, &dropped, || set_in_doubt(parts, &core), || ());
    drop(guard);
    publish(told);
    done?;
    after_drop(parts, &dropped);
    Ok(true)
}

/// Drops the keyspace if no write of it was ever numbered, and it owns none but that of old values.
/// Returns whether it did. No acknowledged write is lost: a writer comes before, or is refused.
pub(crate) fn drop_unwritten(parts: &Parts, core: &Arc<KeyspaceCore>) -> Result<bool> {
    parts.core.health.check_may_change("the drop of a keyspace")?;
    parts.core.health.check_open_for_writing()?;
    let mut guard = parts.core.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Err(parts.core.setup().closed()) };
    let mut dropped = core.owned_set().keyspaces.clone();
    let is_ours = |one: &Arc<KeyspaceCore>| one.record().content.as_str() == OLD_VALUES;
    if core.check_not_dropped().is_err() || core.is_ingesting() || !dropped.iter().all(is_ours) {
        return Ok(false);
    }
    {
        // Commits check the keyspace under this lock: none gets SeqNos from here on.
        let numbering = parts.core.history.numbering.lock();
        let is_written = |tree: &Arc<Tree>| tree.has_tables() || numbering.is_unflushed(tree);
        if core.trees().iter().any(is_written) {
            return Ok(false);
        }
        core.set_dropped();
    }
    dropped.push(Arc::clone(core));
    let name = core.name();
    let note = LogNote::Drop { keyspace: core.id, name: &name };
    let (told, done) = match tell_ahead(parts, manifest, &note) {
        Ok(told) => {
            (told, append_drop(parts, manifest, &dropped, || set_in_doubt(parts, core), || ()))
        }
        Err(error) => (None, Err(error)),
    };
    if done.is_err() {
        let _numbering = parts.core.history.numbering.lock();
        core.set_not_dropped();
    }
    drop(guard);
    publish(told);
    done?;
    after_drop(parts, &dropped);
    Ok(true)
}

/// Notes in the log for readers of changes what is about to happen to a keyspace, if they are kept.
/// Under the manifest's lock, so the notes have the order of the edits. When the place is
/// published, which takes no lock of the caller's, readers see the note, and believe it only if it
/// has happened by then.
fn tell_ahead<'a>(
    parts: &'a Parts,
    manifest: &mut Manifest,
    note: &LogNote<'_>,
) -> Result<Option<(SeqNo, InFlight<'a>)>> {
    if !parts.core.history.keeps_changes() {
        return Ok(None);
    }
    loop {
        let told = note_ahead(&parts.commits, note);
        if let Some(told) = told.inspect_err(|error| parts.core.ballast.note_failure(error))? {
            return Ok(Some(told));
        }
        supply_of(&parts.core.edits, manifest, 1)?;
    }
}

/// Lets readers of changes see what [`tell_ahead`] has noted.
fn publish(told: Option<(SeqNo, InFlight<'_>)>) {
    if let Some((_seqno, place)) = told {
        place.publish();
    }
}

/// Drops the keyspaces `cores` by one edit. `note_doubt` is called if it is refused, and a crash
/// could bring it back. `detach` takes them from their owner, before any of them refuses to be
/// read: a reader that is refused finds that the set of its owner has changed.
pub(crate) fn append_drop(
    parts: &Parts,
    manifest: &mut Manifest,
    cores: &[Arc<KeyspaceCore>],
    note_doubt: impl FnOnce(),
    detach: impl FnOnce(),
) -> Result<()> {
    let keyspaces_dropped = cores.iter().map(|core| core.id).collect();
    let edit = Edit { keyspaces_dropped, ..Edit::default() };
    append_or_rule_out(parts, manifest, edit, note_doubt)?;
    {
        // Commits check the keyspace under this lock: none gets SeqNos after the drop.
        let mut numbering = parts.core.history.numbering.lock();
        detach();
        for core in cores {
            core.set_dropped();
            core.trees().iter().for_each(|tree| numbering.forget(tree));
        }
    }
    cores.iter().for_each(|core| parts.core.keyspaces.remove(core));
    Ok(())
}

/// Removes what is left of keyspaces that an edit has dropped.
pub(crate) fn after_drop(parts: &Parts, cores: &[Arc<KeyspaceCore>]) {
    for tree in cores.iter().flat_map(|core| core.trees()) {
        parts.upkeep.core.work.note_table_bytes(tree.table_bytes(), 0);
        tree.discard();
        watch(&parts.upkeep, tree);
    }
    cores.iter().for_each(|core| parts.core.long_chains.forget(core.id));
    sweep(&parts.upkeep);
    {
        // Writers that waited for the keyspaces can continue, and a flush that failed in one has
        // nothing left to write.
        let mut queue = parts.upkeep.core.work.lock();
        queue.flushes.wake(u64::MAX);
        parts.upkeep.core.work.recount(&queue);
    }
    schedule(&parts.upkeep);
    parts.core.health.writers.notify_all();
}

/// Has `empty` commit a batch that deletes everything in the keyspaces that it returns. Then the
/// memtables are flushed; the same edit removes the tables that no snapshot needs.
///
/// The batch has a SeqNo as every write has, which is its place in history, also in a replay of the
/// log. As in every flush, the log is synced through it before the edit is appended.
pub(crate) fn clear(
    parts: &Parts,
    empty: impl FnOnce() -> Result<(Committed, Vec<Arc<KeyspaceCore>>)>,
) -> Result<()> {
    parts.core.health.check_may_wait("the emptying of a keyspace")?;
    parts.core.health.check_may_write()?;
    parts.core.health.check_open_for_writing()?;
    make_history_durable(&parts.upkeep)?;
    let (committed, emptied) = empty()?;
    parts.core.log.wait_durable(committed.lsn, Durability::Group)?;
    // The log has the batch, so a failed flush only delays freeing the space: it is retried.
    let trees: Vec<_> = emptied.iter().flat_map(|core| core.trees()).cloned().collect();
    let _flushed = flush_trees(&parts.upkeep, &trees);
    sweep(&parts.upkeep);
    Ok(())
}

/// Changes how the tables of the keyspace `name` are written from now on.
pub(crate) fn alter_keyspace(parts: &Parts, name: &str, options: &KeyspaceOptions) -> Result<()> {
    parts.core.health.check_may_change("the change of a keyspace")?;
    parts.core.health.check_open_for_writing()?;
    options.check()?;
    parts.core.edits.end_doubt();
    alter(parts, name, |record| altered(record, options))
}

/// Gives the keyspace `old` the name `new`.
pub(crate) fn rename_keyspace(parts: &Parts, old: &str, new: &str) -> Result<()> {
    parts.core.health.check_may_change("the renaming of a keyspace")?;
    parts.core.health.check_open_for_writing()?;
    check_name(new)?;
    // A renaming that the disk refused a moment ago may be possible now.
    parts.core.edits.end_doubt();
    alterable(parts, old)?;
    make_history_durable(&parts.upkeep)?;
    let mut guard = parts.core.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Err(parts.core.setup().closed()) };
    let core = alterable(parts, old)?;
    if parts.core.keyspaces.named(new).is_some() {
        return Err(Error::invalid(format!(
            "keyspace {old:?} cannot be renamed: there is a keyspace {new:?} already"
        )));
    }
    let note = LogNote::Rename { keyspace: core.id, from: old, to: new };
    let told = tell_ahead(parts, manifest, &note)?;
    let oldest = parts.core.history.log.as_ref().map_or(SeqNo::ZERO, Log::dropped_through);
    let mut renamed = core.record().renamed(new, told.as_ref().map(|(seqno, _)| *seqno));
    renamed.former.retain(|former| former.through > oldest);
    let done = append_altered(parts, manifest, &core, renamed);
    drop(guard);
    publish(told);
    done
}

/// Makes `to` the fold of a keyspace whose fold is `from`. The caller knows that `to` can read the
/// operands of `from`, and lets the objects of the keyspace's content know.
pub(crate) fn upgrade_fold(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    from: &str,
    to: &str,
) -> Result<()> {
    parts.core.health.check_may_change("the upgrade of a fold")?;
    parts.core.health.check_open_for_writing()?;
    parts.core.edits.end_doubt();
    let found = || core.check_not_dropped().map(|()| Arc::clone(core));
    alter_found(parts, found, |record| match record.fold.as_deref() {
        Some(fold) if fold == from => {
            Ok(KeyspaceRecord { fold: Some(to.to_owned()), ..record.clone() })
        }
        Some(fold) if fold == to => Ok(record.clone()),
        other => Err(Error::invalid(format!(
            "keyspace {:?} has the fold {other:?}, so it cannot get {to:?}: expected {from:?}",
            record.name
        ))),
    })
}

/// Makes `change` of the record of the keyspace `name` durable, then current.
fn alter(
    parts: &Parts,
    name: &str,
    change: impl FnOnce(&KeyspaceRecord) -> Result<KeyspaceRecord>,
) -> Result<()> {
    alter_found(parts, || alterable(parts, name), change)
}

/// Does what [`alter`] does with the keyspace that `find` returns under the manifest's lock.
fn alter_found(
    parts: &Parts,
    find: impl FnOnce() -> Result<Arc<KeyspaceCore>>,
    change: impl FnOnce(&KeyspaceRecord) -> Result<KeyspaceRecord>,
) -> Result<()> {
    let mut guard = parts.core.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Err(parts.core.setup().closed()) };
    let core = find()?;
    let after = change(&core.record())?;
    append_altered(parts, manifest, &core, after)
}

/// Appends the edit that gives the keyspace the record `after`, and makes it current.
fn append_altered(
    parts: &Parts,
    manifest: &mut Manifest,
    core: &Arc<KeyspaceCore>,
    after: KeyspaceRecord,
) -> Result<()> {
    let before = core.record();
    if *before == after {
        return Ok(());
    }
    let (tables, is_renamed) = (after.tables, before.name != after.name);
    let edit = Edit { keyspaces_altered: vec![after], ..Edit::default() };
    append_or_rule_out(parts, manifest, edit, || {
        // The rename may survive a crash or not. Writes under the wrong name would not be found.
        if is_renamed {
            set_in_doubt(parts, core);
        }
    })?;
    if let Some(record) = manifest.state().catalog.by_id(core.id) {
        parts.core.keyspaces.replace_record(core, record);
    }
    core.trees().iter().for_each(|tree| tree.set_table_options(tables));
    Ok(())
}

fn alterable(parts: &Parts, name: &str) -> Result<Arc<KeyspaceCore>> {
    let core = parts.core.keyspaces.named(name);
    let core = core.ok_or_else(|| Error::invalid(format!("there is no keyspace {name:?}")))?;
    core.check_not_dropped()?;
    Ok(core)
}

/// Appends an edit of the catalog. If it is refused, tries to rule out that a crash brings it back,
/// and calls `note_doubt` while one could.
fn append_or_rule_out(
    parts: &Parts,
    manifest: &mut Manifest,
    edit: Edit,
    note_doubt: impl FnOnce(),
) -> Result<()> {
    let was_in_doubt = manifest.is_in_doubt();
    let appended = parts.core.edits.append(manifest, edit);
    // If the manifest was in doubt before, the edit is in no file.
    if appended.is_err() && !was_in_doubt && manifest.is_in_doubt() {
        note_doubt();
        rule_out(parts, manifest);
    }
    appended
}

/// Tries, now and later, to rule out that a crash brings back the edit that was refused last.
pub(crate) fn rule_out(parts: &Parts, manifest: &mut Manifest) {
    parts.core.edits.end_doubt_of(manifest);
    if manifest.is_in_doubt() {
        end_doubt_later(&parts.upkeep);
    }
}

/// Stops the writes of the keyspace until what was refused can no longer come back.
pub(crate) fn set_in_doubt(parts: &Parts, core: &KeyspaceCore) {
    let _numbering = parts.core.history.numbering.lock();
    core.set_in_doubt();
}

/// Repeatedly tries to end the doubt of a refused edit, since no other work may come that does.
fn end_doubt_later(upkeep: &Arc<Upkeep>) {
    resume_later(upkeep, |upkeep| {
        upkeep.core.edits.end_doubt();
        if upkeep.core.edits.is_in_doubt() && upkeep.core.health.poisoned().is_none() {
            end_doubt_later(upkeep);
        }
    });
}

/// The content that a requested keyspace must have.
pub struct WantedContent<'a> {
    /// The content that the keyspace must have.
    pub content: KeyspaceContent,
    /// The fold of a new keyspace whose options name none.
    pub fold_if_new: Option<&'a str>,
    /// Whether the tables of a new keyspace have dictionaries, unless its options say.
    pub dictionary_if_new: bool,
}

pub(crate) fn check_content(core: &KeyspaceCore, content: &KeyspaceContent) -> Result<()> {
    content_mismatch(&core.record(), content).map_or(Ok(()), |text| Err(Error::invalid(text)))
}

fn check_same(
    core: Arc<KeyspaceCore>,
    wanted: &WantedContent<'_>,
    options: Option<&KeyspaceOptions>,
) -> Result<Arc<KeyspaceCore>> {
    check_content(&core, &wanted.content)?;
    let mismatch = |options| mismatch(&core.record(), options, &wanted.content);
    if let Some(text) = options.and_then(mismatch) {
        return Err(Error::invalid(text));
    }
    Ok(core)
}

#[cfg(test)]
mod tests {
    use crate::testing::Builder;
    use crate::{Environment, ErrorKind};
    use flagstone_env::executor::Job;
    use flagstone_env::names::FileKind;
    use flagstone_env::{
        Effect, Executor, Failure, Fault, FaultDisk, Lane, ManualClock, MemDisk, Op, Progress,
        SeededRandom,
    };
    use std::sync::Arc;
    use std::time::Duration;

    /// Runs flushes at once, in the thread that submits them. No time passes.
    struct AtOnce;

    impl Executor for AtOnce {
        fn submit(&self, lane: Lane, mut job: Job) {
            while lane == Lane::Flush && job() != Progress::Done {}
        }

        fn submit_after(&self, _delay: Duration, _lane: Lane, _job: Job) {}

        fn assist(&self) -> bool {
            false
        }

        fn workers(&self, _lane: Lane) -> usize {
            1
        }

        fn shut_down(&self) {}
    }

    /// The flush paused for up to another minute, and writers of all keyspaces were held back for
    /// as long.
    #[test]
    fn a_keyspace_whose_flush_fails_holds_nobody_back_once_it_is_dropped() {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(AtOnce)),
        };
        let builder = Builder::at("db").memory_budget(1 << 20).environment(environment);
        let db = builder.open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        let work = &kv.handle().parts().upkeep.core.work;
        kv.put("a", "1").unwrap();
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]);
        disk.inject(fault.of(FileKind::Table).forever());
        for _ in 0..2 {
            assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Io);
        }
        assert_eq!(work.stuck(), 1);
        assert!(db.drop_keyspace("kv").unwrap());
        assert_eq!(work.stuck(), 0);
        assert!(work.lock().flushes.groups.is_empty());
    }
}
