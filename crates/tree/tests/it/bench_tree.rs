//! A tree with the parts of a database that its tests need: SeqNos, edits, snapshots.

use flagstone_base::hash::{HashedKey, key_hash};
use flagstone_base::{DatabaseId, EntryRef, FileNumber, Kind, Moment, SeqNo, Trailer, TreeId};
use flagstone_env::{MemDisk, OpenFiles, SeededRandom};
use flagstone_sst::{BlockCache, TableOptions};
use flagstone_tree::{
    ChunkPool, Compaction, Damages, Flush, Fold, FullPass, GetResult, Ingest, IngestOptions, Job,
    Obsolete, Policy, Scans, Tree, TreeContext, TreeEdit, TreeOptions, Unfinished, Version, View,
    choose_levels, pick, pick_expired,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Appends operands to the value, so that the order and number of folds show.
pub(crate) struct Append;

/// As [`Append`], but operands are never combined.
pub(crate) struct AppendApart;

impl Fold for AppendApart {
    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Append.fold(key, base, operands)
    }

    fn name(&self) -> &str {
        "append-apart"
    }
}

impl Fold for Append {
    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut value = base.map_or_else(|| b"_".to_vec(), <[u8]>::to_vec);
        for operand in operands {
            value.extend_from_slice(operand);
        }
        Some(value)
    }

    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some([older, newer].concat())
    }

    fn name(&self) -> &str {
        "append"
    }
}

/// Returns the first piece of a full compaction.
pub(crate) fn first_full(version: &Version, options: &TreeOptions) -> Option<Job> {
    FullPass::new(version).next(version, options)
}

pub(crate) fn small_options() -> TreeOptions {
    TreeOptions {
        tables: TableOptions { block_bytes: 256, ..TableOptions::default() },
        table_bytes: 4096,
        l0_runs_trigger: 2,
        level_fanout: 4,
        l0_runs_tiering: 3,
        level_base_bytes: 8192,
        fold: Some(Arc::new(Append)),
        hash_seed: 11,
        ..TreeOptions::default()
    }
}

/// Returns a tree whose entries carry no checks.
pub(crate) fn unchecked(options: TreeOptions) -> BenchTree {
    let tree = BenchTree::new(options);
    let (context, id) = (context(&tree.disk, 1, false), tree.tree.id());
    let options = tree.tree.options().clone();
    BenchTree { tree: Tree::new(id, context, options, Version::empty()), ..tree }
}

pub(crate) fn context(disk: &MemDisk, first_file: u64, entry_checks: bool) -> Arc<TreeContext> {
    use flagstone_env::Disk;
    let next = AtomicU64::new(first_file);
    disk.create_dir(&PathBuf::from("/db")).unwrap();
    Arc::new(TreeContext {
        disk: Arc::new(disk.clone()),
        // Few descriptors, so that tables are closed and opened again.
        files: OpenFiles::new(Arc::new(disk.clone()), 3),
        dir: PathBuf::from("/db"),
        database: DatabaseId([7; 16]),
        random: Arc::new(SeededRandom::new(7)),
        cache: BlockCache::new(1 << 20),
        next_file: Arc::new(move || FileNumber(next.fetch_add(1, Ordering::SeqCst))),
        direct_reads: false,
        entry_checks,
        memtable_bytes: Arc::default(),
        chunks: ChunkPool::new(4 << 20),
        obsolete: Obsolete::default(),
        unfinished: Unfinished::default(),
        damages: Damages::default(),
        scans: Scans::default(),
        sampled: Arc::default(),
    })
}

pub(crate) struct BenchTree {
    pub(crate) disk: MemDisk,
    pub(crate) tree: Arc<Tree>,
    pub(crate) last: SeqNo,
    pub(crate) edits: Vec<Vec<u8>>,
    pub(crate) snapshots: Vec<SeqNo>,
    /// The moment by which reads judge.
    pub(crate) moment: Moment,
    /// The moments of the snapshots.
    pub(crate) moments: Vec<Moment>,
}

impl BenchTree {
    pub(crate) fn new(options: TreeOptions) -> Self {
        let disk = MemDisk::default();
        let tree = Tree::new(TreeId(3), context(&disk, 1, true), options, Version::empty());
        Self::of(disk, tree)
    }

    /// Takes a tree without tables, whose files are on `disk`.
    pub(crate) fn of(disk: MemDisk, tree: Arc<Tree>) -> Self {
        let (last, edits, snapshots, moment, moments) = Default::default();
        Self { disk, tree, last, edits, snapshots, moment, moments }
    }

    /// The moment through which flushes and compactions expire entries.
    pub(crate) fn safe(&self) -> Moment {
        self.moments.iter().copied().fold(self.moment, Moment::min)
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        key_hash(key, self.tree.options().hash_seed)
    }

    pub(crate) fn write(&mut self, kind: Kind, key: &[u8], value: &[u8]) -> SeqNo {
        self.last = self.last.plus(1);
        let memtable = self.tree.reserve(self.last);
        memtable.insert(EntryRef::new(key, self.last, kind, value), self.hash(key)).unwrap();
        self.last
    }

    /// Puts `key` until `expiry`.
    pub(crate) fn put_until(&mut self, key: &[u8], value: &[u8], expiry: Moment) -> SeqNo {
        self.last = self.last.plus(1);
        let memtable = self.tree.reserve(self.last);
        let trailer = Trailer::expiring(self.last, expiry);
        memtable.insert(EntryRef { key, trailer, value }, self.hash(key)).unwrap();
        self.last
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> SeqNo {
        self.write(Kind::Put, key.as_bytes(), value.as_bytes())
    }

    pub(crate) fn install(&mut self, edit: &TreeEdit) {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        assert_eq!(&TreeEdit::decode(&bytes).unwrap(), edit);
        self.edits.push(bytes);
        self.tree.install(edit).unwrap();
        self.tree.view().version().check().unwrap();
    }

    pub(crate) fn start_flush(&self) -> Option<Flush> {
        let attachments = [(9, b"shapes".to_vec())];
        let flush = Flush::start(&self.tree, SeqNo::MAX, &self.snapshots, self.last, &attachments)?;
        Some(flush.expiring_through(self.safe()))
    }

    pub(crate) fn flush(&mut self) {
        self.tree.seal(self.last);
        while let Some(mut flush) = self.start_flush() {
            let edit = loop {
                if let Some(edit) = flush.step().unwrap() {
                    break edit;
                }
            };
            self.install(&edit);
        }
    }

    /// Flushes, then ingests `keys` with `value`. Returns the levels of the tables.
    pub(crate) fn ingest(&mut self, keys: &[&str], value: &str, may_go_down: bool) -> Vec<u8> {
        self.flush();
        let file_seqno = self.last.plus(1);
        let options = IngestOptions {
            file_seqno,
            attachments: vec![(9, b"shapes".to_vec())],
            entries_max: 3,
            is_one_of_many: may_go_down,
        };
        let mut ingest = Ingest::start(&self.tree, keys[0].as_bytes(), options);
        for key in keys {
            ingest.cut_before(key.as_bytes()).unwrap();
            ingest.put(key.as_bytes(), value.as_bytes(), None).unwrap();
        }
        let mut edit = ingest.finish().unwrap();
        self.tree.context().sync_names().unwrap();
        self.last = file_seqno.plus(1);
        choose_levels(&self.tree, &mut edit, may_go_down);
        edit.set_seqno(self.last);
        self.install(&edit);
        edit.added.iter().map(|(level, _)| *level).collect()
    }

    pub(crate) fn run(&mut self, job: Job) {
        let compaction = Compaction::start(&self.tree, job, &self.snapshots, self.last).unwrap();
        let mut compaction = compaction.expiring_through(self.safe());
        let edit = loop {
            if let Some(edit) = compaction.step().unwrap() {
                break edit;
            }
        };
        self.install(&edit);
    }

    /// Runs one compaction if one is due.
    pub(crate) fn compact_once(&mut self) -> bool {
        let job = pick(self.tree.view().version(), self.tree.options(), Policy::Leveling);
        job.map(|job| self.run(job)).is_some()
    }

    /// Runs one compaction for expired entries if one is due.
    pub(crate) fn expire_once(&mut self) -> bool {
        let version = Arc::clone(self.tree.view().version());
        let job = pick_expired(&version, self.tree.options(), Policy::Leveling, self.safe());
        job.map(|job| self.run(job)).is_some()
    }

    pub(crate) fn compact_full(&mut self) -> bool {
        let mut pass = FullPass::new(self.tree.view().version());
        let mut is_any = false;
        while let Some(job) = pass.next(self.tree.view().version(), self.tree.options()) {
            self.run(job);
            is_any = true;
        }
        is_any
    }

    /// Returns the first piece of a full compaction.
    pub(crate) fn first_full(&self) -> Option<Job> {
        first_full(self.tree.view().version(), self.tree.options())
    }

    pub(crate) fn get(&self, key: &[u8], at: SeqNo) -> Option<Vec<u8>> {
        self.get_by(key, at, self.moment)
    }

    /// Returns the value of `key` for a reader that judges by `moment`.
    pub(crate) fn get_by(&self, key: &[u8], at: SeqNo, moment: Moment) -> Option<Vec<u8>> {
        let view = self.tree.view();
        let found =
            self.tree.get(&view, HashedKey { key, hash: self.hash(key) }, at, &|| moment).unwrap();
        found.value.map(|value| value.to_vec())
    }

    /// As [`BenchTree::get_by`], where no other thread writes. A get and a look agree.
    pub(crate) fn look_by(&self, key: &[u8], at: SeqNo, moment: Moment) -> Option<Vec<u8>> {
        let (view, sought, mut seen) =
            (self.tree.view(), HashedKey { key, hash: self.hash(key) }, None);
        let found = self.tree.get(&view, sought, at, &|| moment).unwrap();
        let mut look = |value: &[u8]| seen = Some(value.to_vec());
        let looked = self.tree.look(&view, sought, at, &|| moment, Some(&mut look)).unwrap();
        assert_eq!(looked.was_seen, seen.is_some());
        let value = looked.value.as_deref().map(<[u8]>::to_vec).or(seen);
        assert_eq!(value.as_deref(), found.value.as_deref());
        assert_eq!((looked.seqno, looked.expiry), (found.seqno, found.expiry));
        value
    }

    pub(crate) fn found_in(&self, view: &View, key: &[u8]) -> flagstone_base::Result<GetResult> {
        self.tree.get(view, HashedKey { key, hash: self.hash(key) }, self.last, &|| self.moment)
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key.as_bytes(), self.last).map(|value| String::from_utf8(value).unwrap())
    }

    /// Opens the same files again, from the encoded edits. Memtables must be flushed.
    pub(crate) fn reopen(&mut self) {
        self.reopen_with(self.tree.options().clone());
    }

    pub(crate) fn reopen_with(&mut self, options: TreeOptions) {
        let next = (self.tree.context().next_file)();
        let context = context(&self.disk, next.0 + 1, true);
        let edits = self.edits.iter().map(|bytes| TreeEdit::decode(bytes).unwrap());
        let version =
            edits.fold(Version::empty(), |version, edit| version.apply(&context, &edit).unwrap());
        assert_eq!(version.to_string(), self.tree.view().version().to_string());
        self.tree = Tree::new(TreeId(3), context, options, version);
    }

    pub(crate) fn dump(&self) -> String {
        self.tree.view().version().to_string()
    }
}
