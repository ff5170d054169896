//! Helpers for tests of the manifest: small edits, a world of disks, random histories.

use crate::catalog::{KeyspaceContent, KeyspaceRecord};
use crate::content::{DefinitionKind, DefinitionRecord};
use crate::manifest::*;
use crate::options::{KeyspaceOptions, Routing};
use flagstone_base::{DatabaseId, FileNumber, KeyspaceId, Result, SeqNo, TreeId};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::{Disk, FaultDisk, MemDisk, Random, SeededRandom};
use flagstone_sst::TableMeta;
use flagstone_tree::TreeEdit;
use std::path::Path;
use std::sync::Arc;

pub(crate) const DIR: &str = "/db";
pub(crate) const ID: DatabaseId = DatabaseId(*b"0123456789abcdef");

/// A keyspace of one partition, whose tree is `tree`.
pub(crate) fn keyspace(id: u32, name: &str, tree: u32) -> KeyspaceRecord {
    let options = KeyspaceOptions::new().routing(Routing::Hash(1));
    let content = KeyspaceContent::of("bytes");
    KeyspaceRecord::new(KeyspaceId(id), name, TreeId(tree), content, &options, 7)
}

pub(crate) fn created(record: KeyspaceRecord) -> Edit {
    Edit { keyspaces_created: vec![record], ..Edit::default() }
}

pub(crate) fn table(number: u64) -> TableMeta {
    TableMeta {
        number: FileNumber(number),
        bytes: 1000,
        smallest: b"a".to_vec(),
        largest: b"z".to_vec(),
        ..TableMeta::default()
    }
}

/// The edit of a flush of `tree` into the table `file`.
pub(crate) fn flushed(tree: u32, file: u64, seqno: u64) -> Edit {
    let mut tables = TreeEdit::new(TreeId(tree));
    tables.added = vec![(0, TableMeta { seqno_max: SeqNo::new(seqno), ..table(file) })];
    tables.flushed_through = Some(SeqNo::new(seqno));
    Edit { tables: vec![tables], ..Edit::default() }
}

/// The disks of a test, and the numbers of its files.
pub(crate) struct World {
    pub(crate) mem: MemDisk,
    pub(crate) disk: FaultDisk,
    pub(crate) numbers: Arc<AtomicU64>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mem = MemDisk::default();
        mem.create_dir(Path::new(DIR)).unwrap();
        Self::on(mem)
    }

    /// Returns a world that begins with what a crash left.
    pub(crate) fn on(mem: MemDisk) -> Self {
        let disk = FaultDisk::new(Arc::new(mem.clone()));
        Self { mem, disk, numbers: Arc::new(AtomicU64::new(1)) }
    }

    pub(crate) fn location(&self) -> Location {
        let numbers = Arc::clone(&self.numbers);
        Location {
            disk: Arc::new(self.disk.clone()),
            dir: DIR.into(),
            next_file: Arc::new(move || FileNumber(numbers.fetch_add(1, Ordering::Relaxed))),
        }
    }

    pub(crate) fn load(&self) -> Result<Option<Loaded>> {
        Manifest::load(&self.disk, Path::new(DIR))
    }

    /// Opens or creates the database; files are rolled early.
    pub(crate) fn open(&self) -> Result<Manifest> {
        let mut manifest = match self.load()? {
            Some(loaded) => {
                self.numbers.fetch_max(loaded.state.next_file.0, Ordering::Relaxed);
                Manifest::reopen(self.location(), loaded)?
            }
            None => Manifest::create(self.location(), ID, ManifestState::default())?,
        };
        manifest.set_roll_bytes_min(300);
        Ok(manifest)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.mem.list(Path::new(DIR)).unwrap()
    }
}

/// Returns the state without the fields that a new file changes by itself.
pub(crate) fn plain(state: &ManifestState) -> ManifestState {
    ManifestState { next_file: FileNumber(0), clean_close: false, ..state.clone() }
}

/// Returns the state after `edit`.
pub(crate) fn after(state: &ManifestState, edit: &Edit) -> ManifestState {
    let mut next = plain(state);
    next.apply(edit).unwrap();
    plain(&next)
}

/// Returns the next edit of a random history, one that fits `state`.
pub(crate) fn next_edit(state: &ManifestState, random: &SeededRandom, file: u64) -> Edit {
    let below = |n: u64| random.next_u64() % n;
    let trees: Vec<TreeId> = state.catalog.trees().collect();
    let counters = state.catalog.counters();
    let choice = if trees.is_empty() { 0 } else { below(10) };
    let tree = || trees[below(trees.len() as u64) as usize];
    match choice {
        0 => {
            let (id, tree) = (counters.next_keyspace.0, counters.next_tree.0);
            created(keyspace(id, &format!("keyspace {id}"), tree))
        }
        1 if trees.len() > 1 => {
            let id = state.catalog.keyspace_of(tree()).unwrap();
            Edit { keyspaces_dropped: vec![id], ..Edit::default() }
        }
        2 | 3 => {
            let keyspace = state.catalog.keyspace_of(tree()).unwrap();
            let kind = DefinitionKind(1 + below(2) as u8);
            let known = state.definitions_of(keyspace, kind).len();
            let items = (0..=below(40)).map(|i| format!("name {known} {i}").into()).collect();
            let definitions =
                vec![DefinitionRecord { keyspace, kind, first_id: known as u32, items }];
            Edit { definitions, ..Edit::default() }
        }
        4 | 5 => {
            let tree = tree();
            let mut tables = TreeEdit::new(tree);
            let old = state.trees.get(&tree).into_iter().flat_map(|tree| tree.tables.keys());
            tables.removed = old.copied().take(below(3) as usize).collect();
            tables.added = vec![(6, table(file))];
            tables.watermark = state.last_seqno;
            Edit { tables: vec![tables], wal_from: Some(FileNumber(file)), ..Edit::default() }
        }
        _ => flushed(tree().0, file, state.last_seqno.get() + 1),
    }
}

/// Returns the seed of a random test, `FLAGSTONE_SEED` or a fixed one, and prints it, so that a
/// failure can be repeated.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("FLAGSTONE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(20);
    println!("FLAGSTONE_SEED={seed}");
    seed
}
