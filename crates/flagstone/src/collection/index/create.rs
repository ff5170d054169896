//! Creates, lists and drops the indexes of a collection.

use super::build::{BuildProgress, Watch, build};
use super::commit::OwnedIndex;
use super::commit::apply_dates;
use crate::collection::stored::Stored;
use crate::index::{CONTENT, Definition, Index, IndexState, Status, encode_note, index_of};
use crate::remote::{Area, NewIndex, Remote, RemoteIndex};
use flagstone_base::interrupt::interruptible;
use flagstone_base::{Compression, Error, ErrorKind, Result};
use flagstone_engine::content::KeyspaceContent;
use flagstone_engine::{
    Keyspace, KeyspaceCore, KeyspaceOptions, NOTE_BYTES_MAX, Routing, WantedOwned,
};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The bytes of a note that are left for what an index learns of its documents: how far its build
/// is, with the front of a key, and where it has seen arrays.
const STATUS_BYTES_MAX: usize = 4 << 10;

/// An index as the catalog describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexInfo {
    /// The name of the index.
    pub name: String,
    /// The fields, in their order: `subreddit`, `-score`, `lower(author)`.
    pub fields: Vec<String>,
    /// Whether no two documents may have equal values.
    pub is_unique: bool,
    /// Whether documents without any of the values are left out.
    pub is_sparse: bool,
    /// The filter that the documents of a partial index match.
    pub only: Option<String>,
    /// How long after the date in the field documents expire, if they do.
    pub expires_after: Option<Duration>,
    /// What its creator keeps with it.
    #[doc(hidden)]
    pub label: Option<String>,
    /// Whether queries can use the index; if not, it is still to be built.
    pub is_ready: bool,
    /// About how many entries it has.
    pub entries: u64,
    /// Of an index that is still to be built: how many documents an interrupted build has done.
    pub documents_done: u64,
    /// How many queries have read it since the database was opened.
    pub uses: u64,
}

/// What was asked for: `on subreddit, -score, unique`.
struct Asked<'a>(&'a IndexInfo);

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexInfo { fields, is_unique, is_sparse, only, expires_after, label, .. } = self.0;
        write!(f, "on {}", fields.join(", "))?;
        for (is_set, word) in [(*is_unique, "unique"), (*is_sparse, "sparse")] {
            if is_set {
                write!(f, ", {word}")?;
            }
        }
        if let Some(only) = only {
            write!(f, ", only {only}")?;
        }
        if let Some(time) = expires_after {
            write!(f, ", documents expire {time:?} after it")?;
        }
        if let Some(label) = label {
            write!(f, ", labelled {label}")?;
        }
        Ok(())
    }
}

impl fmt::Display for IndexInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, about {} entries", self.name, Asked(self), self.entries)?;
        match (self.is_ready, self.documents_done) {
            (true, _) => Ok(()),
            (false, 0) => f.write_str(", still to be built"),
            (false, done) => write!(f, ", still to be built: {done} documents are done"),
        }
    }
}

impl IndexInfo {
    /// An index with this definition, without entries.
    fn new(definition: &Definition) -> Self {
        let Definition { name, fields, is_unique, is_sparse, only, expires, label } = definition;
        Self {
            name: name.clone(),
            fields: fields.iter().map(|field| field.to_string()).collect(),
            is_unique: *is_unique,
            is_sparse: *is_sparse,
            only: only.as_ref().map(|only| only.filter.to_string()),
            expires_after: *expires,
            label: label.clone(),
            is_ready: false,
            entries: 0,
            documents_done: 0,
            uses: 0,
        }
    }

    fn of_remote(index: &RemoteIndex, remote: &Arc<dyn Remote>) -> Self {
        Self {
            is_ready: index.is_complete(),
            entries: remote.about(Area::Index(index.id)),
            uses: index.state.uses(),
            ..Self::new(&index.state.definition)
        }
    }

    fn of(owned: &Keyspace, index: &IndexState) -> Self {
        Self {
            is_ready: index.usable_from().is_some(),
            entries: owned.approximate_count(),
            documents_done: index.built().map_or(0, |built| built.documents),
            uses: index.uses(),
            ..Self::new(&index.definition)
        }
    }
}

/// Returns the indexes of a collection in the order of their creation.
pub(in crate::collection) fn list(stored: &Stored) -> Vec<IndexInfo> {
    if let Some(remote) = stored.remote() {
        let catalog = remote.catalog();
        return catalog.indexes().iter().map(|index| IndexInfo::of_remote(index, remote)).collect();
    }
    let Ok(keyspace) = stored.keyspace() else { return Vec::new() };
    let owned = stored.engine().owned(keyspace);
    owned.iter().filter_map(|owned| Some(IndexInfo::of(owned, index_of(owned)?))).collect()
}

/// Creates the index `name`, and returns when it is complete. A part of the build has entries of
/// about `part_bytes`. Returns `Break` if `watch` has cancelled it.
pub(crate) fn create(
    stored: &Stored,
    name: &str,
    index: &Index,
    part_bytes: Option<u64>,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    let definition = Definition::new(name, index)?;
    if let Some(remote) = stored.remote() {
        return create_remote(remote, &definition, watch);
    }
    loop {
        let (owned, is_new) = found_or_empty(stored, &definition)?;
        let Some(index) = index_of(&owned) else { return Err(no_index(&owned)) };
        if index.usable_from().is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        // Held until a build that fails has dropped the index: another call that wants the same one
        // would complete it in between, and lose it.
        let _building = index.begin_build()?;
        if find(stored, name).is_none_or(|one| one.id() != owned.id()) {
            // Another call has dropped it since this one looked.
            continue;
        }
        if index.usable_from().is_some() {
            // Another call has completed it since this one looked.
            return Ok(ControlFlow::Continue(()));
        }
        let index = OwnedIndex { owned: &owned, state: index };
        let prepared = prepare(stored, index, is_new);
        let built = prepared.and_then(|()| build(stored, index, part_bytes, watch));
        if !is_kept(&built, is_new) {
            // This index, not another one that has got its name meanwhile.
            let is_it = |one: &KeyspaceCore| one.id() == owned.id();
            match &built {
                Ok(_) => drop_one(stored, &owned, is_it)?,
                // The first error is the one that says what is wrong.
                Err(error) if is_refusal(error) => {
                    drop_one(stored, &owned, is_it).unwrap_or_default()
                }
                // What has failed half-way would fail again.
                Err(_) => stored.engine().drop_owned(stored.keyspace()?, is_it).unwrap_or_default(),
            };
        }
        return built.map(|is_complete| {
            if is_complete { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
}

/// As [`create`], in a cluster.
fn create_remote(
    remote: &Arc<dyn Remote>,
    wanted: &Definition,
    watch: Watch<'_>,
) -> Result<ControlFlow<()>> {
    let new = NewIndex::of(wanted)?;
    let catalog = remote.refresh()?;
    let known = catalog.indexes().iter().find(|index| index.name() == wanted.name);
    if let Some(known) = known {
        check_same(&known.state.definition, wanted)?;
        if known.is_complete() {
            return Ok(ControlFlow::Continue(()));
        }
    }
    let documents_total = remote.about(Area::Documents);
    remote.create_index(&new, &mut |documents, entries| {
        watch(BuildProgress { documents, documents_total, entries, entries_written: entries })
    })
}

/// Returns the index of this definition, and whether it is new.
fn found_or_empty(stored: &Stored, definition: &Definition) -> Result<(Keyspace, bool)> {
    let name = &definition.name;
    if let Some(owned) = find(stored, name) {
        return Ok((same(owned, definition)?, false));
    }
    match create_empty(stored, definition) {
        Ok(owned) => Ok((owned, true)),
        // Another call may have created it since this one looked.
        Err(error) => Ok((same(find(stored, name).ok_or(error)?, definition)?, false)),
    }
}

/// Returns whether an index stays after its build. A continued build that has failed for another
/// reason than its documents, such as a full disk, can be continued again.
fn is_kept(built: &Result<bool>, is_new: bool) -> bool {
    match built {
        Ok(is_complete) => *is_complete,
        Err(error) => !is_new && !is_refusal(error),
    }
}

/// Returns whether the documents are the reason of the error.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput)
}

/// Prepares the build of an index: what an earlier one has left, and the moments of documents.
fn prepare(stored: &Stored, index: OwnedIndex<'_>, is_new: bool) -> Result<()> {
    if !is_new && index.state.built().is_none() {
        // A build that was interrupted, or a repair, may have left entries without documents.
        index.owned.clear()?;
    }
    if index.state.definition.expires.is_some() {
        // Documents that are written from now on expire by the index.
        apply_dates(stored, None)?;
    }
    Ok(())
}

fn find(stored: &Stored, name: &str) -> Option<Keyspace> {
    stored.engine().owned(stored.keyspace().ok()?).into_iter().find(|owned| owned.name() == name)
}

fn create_empty(stored: &Stored, definition: &Definition) -> Result<Keyspace> {
    let note = encode_note(definition, &Status::default())?;
    if note.len() + STATUS_BYTES_MAX > NOTE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "index {:?} with a definition of {} bytes: expected at most {}",
            definition.name,
            note.len(),
            NOTE_BYTES_MAX - STATUS_BYTES_MAX
        )));
    }
    // Queries read long runs of entries, and decompress them often. Entries are small beside the
    // documents, so their larger size costs little.
    let options = KeyspaceOptions::new()
        .routing(Routing::Range(Vec::new()))
        .bottom_compression(Compression::Lz4);
    let content = KeyspaceContent::of(CONTENT);
    let wanted = WantedOwned { name: &definition.name, content, options: &options, note: &note };
    Ok(stored.engine().create_owned(stored.keyspace()?, &wanted)?.keyspace)
}

#[cold]
fn no_index(owned: &Keyspace) -> Error {
    Error::invalid(format!("keyspace {:?} holds no index", owned.name()))
}

/// Refuses an index that is there with another definition.
fn same(owned: Keyspace, wanted: &Definition) -> Result<Keyspace> {
    let Some(known) = index_of(&owned) else { return Err(no_index(&owned)) };
    check_same(&known.definition, wanted)?;
    Ok(owned)
}

fn check_same(known: &Definition, wanted: &Definition) -> Result<()> {
    let text = |definition: &Definition| encode_note(definition, &Status::default());
    if text(known)? == text(wanted)? {
        return Ok(());
    }
    let (known, wanted) = (IndexInfo::new(known), IndexInfo::new(wanted));
    Err(Error::invalid(format!(
        "there is an index {:?} already, with another definition: {}; asked for: {}",
        wanted.name,
        Asked(&known),
        Asked(&wanted)
    )))
}

/// Removes the index `name`. Returns false if there is none.
pub(in crate::collection) fn drop(stored: &Stored, name: &str) -> Result<bool> {
    if let Some(remote) = stored.remote() {
        return remote.drop_index(name);
    }
    let Some(owned) = find(stored, name) else { return Ok(false) };
    drop_one(stored, &owned, |one| one.name() == name && index_of(one).is_some())
}

/// Removes the index `owned`, which `is_it` knows, and the moments that documents have from it. A
/// crash in between leaves some: another index of that definition, and its drop, remove them.
fn drop_one(
    stored: &Stored,
    owned: &Keyspace,
    is_it: impl Fn(&KeyspaceCore) -> bool,
) -> Result<bool> {
    if !stored.engine().drop_owned(stored.keyspace()?, is_it)? {
        return Ok(false);
    }
    if let Some(index) = index_of(owned).filter(|index| index.definition.expires.is_some()) {
        // Nobody may end this half-way: nothing would go on with it.
        interruptible(|| false, || apply_dates(stored, Some(&index.definition)))?;
    }
    Ok(true)
}
