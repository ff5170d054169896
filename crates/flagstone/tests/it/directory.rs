//! The directory of a database is the one that was opened, whatever happens to its path.
//!
//! A database used to find its files by the path that its caller gave. A process that changed its
//! directory after `open("data")` wrote its tables to another `data`, and a handle whose directory
//! had been removed and made again (a cell of a notebook that is run twice) deleted and wrote the
//! files of the new one.

use crate::support::{hashed, open_at, owned, small, small_with, threaded};
use flagstone::admin::{Backups, Environment, Event, Repair};
use flagstone::internal::env::names::{LOCK, Name, parse};
use flagstone::internal::env::{
    Disk, DiskLock, HeldDir, LockMode, MemDisk, OsDisk, ReadFile, WriteFile,
};
use flagstone::{Database, Durability, Error, ErrorKind, Json, Options, Result, Space};
use flagstone_testkit::{Session, World, dump};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const MOVED: &str = "/moved";

/// A session that keeps its events, with a hundred entries, half of them in tables.
fn filled(world: &World, durability: Durability) -> (Session, Arc<Mutex<Vec<String>>>) {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let (environment, executor) = world.environment();
    let told = Arc::clone(&events);
    let builder = Database::builder(World::dir()).options(small_with(durability));
    let builder = builder.environment(environment);
    let db = builder.listener(move |event: &Event| told.lock().unwrap().push(event.to_string()));
    let session = Session::of(world, db.open().unwrap(), executor);
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    for n in 0..100_u32 {
        kv.put(n.to_be_bytes(), "old").unwrap();
        if n == 49 {
            session.db.flush().unwrap();
        }
    }
    (session, events)
}

/// Creates another database at the path of the first.
fn made_again(world: &World) -> (Session, Vec<(String, Vec<u8>)>) {
    let new = world.open(&small()).unwrap();
    new.db.space("kv").options(hashed(2)).keyspace().unwrap().put("key", "new").unwrap();
    new.db.flush().unwrap();
    new.settle();
    (new, world.contents())
}

fn assert_names_the_directory(result: Result<()>) {
    let text = result.unwrap_err().to_string();
    assert!(text.contains("/db is not the directory that was opened any more"), "{text}");
}

#[test]
fn a_handle_says_that_its_directory_was_replaced_and_changes_nothing_there() {
    for durability in [Durability::None, Durability::Buffered, Durability::Group] {
        let world = World::new(1);
        let (old, events) = filled(&world, durability);
        let kv = old.db.space("kv").options(hashed(2)).keyspace().unwrap();
        let expected = dump(&kv).unwrap();
        world.mem.rename_dir(World::dir(), Path::new(MOVED));
        let (new, files) = made_again(&world);
        old.settle();
        assert_names_the_directory(old.db.flush());
        assert_names_the_directory(old.db.sync());
        assert_names_the_directory(old.db.compact());
        assert_names_the_directory(old.db.checkpoint("/copy").map(drop));
        assert_names_the_directory(old.db.backup("/backups").map(drop));
        assert_names_the_directory(kv.put("key", "old"));
        assert_names_the_directory(old.db.keyspace("other").map(drop));
        assert_names_the_directory(old.db.drop_keyspace("kv").map(drop));
        assert_eq!(kv.put("key", "old").unwrap_err().kind(), ErrorKind::Poisoned);
        // What it has is still read, and from where it is.
        assert_eq!(dump(&kv).unwrap(), expected);
        assert_names_the_directory(old.db.clone().close());
        drop((kv, old));
        let told = events.lock().unwrap();
        let poisoned = told.iter().filter(|event| event.starts_with("no more writes"));
        assert_eq!(poisoned.count(), 1, "{told:?}");
        assert_eq!(world.contents(), files);
        new.db.verify().unwrap();
        new.db.close().unwrap();
        if durability != Durability::None {
            let moved = open_at(&world, MOVED).unwrap();
            assert_eq!(
                dump(&moved.space("kv").options(hashed(2)).keyspace().unwrap()).unwrap(),
                expected
            );
        }
    }
}

#[test]
fn a_removed_directory_is_not_created_again() {
    let world = World::new(2);
    let (old, _) = filled(&world, Durability::Buffered);
    world.mem.remove_dir(World::dir());
    let kv = old.db.space("kv").options(hashed(2)).keyspace().unwrap();
    // Writes are logged without a look at the directory each time.
    let refused = (0..1000_u32).find_map(|n| kv.put(n.to_be_bytes(), "lost").err());
    assert_names_the_directory(Err(refused.unwrap()));
    assert_names_the_directory(old.db.clone().close());
    drop((kv, old));
    assert!(!world.mem.exists(World::dir()).unwrap());
}

#[test]
fn a_database_that_has_only_been_read_says_so_when_it_is_closed() {
    let world = World::new(3);
    let (first, _) = filled(&world, Durability::Buffered);
    first.db.close().unwrap();
    let old = world.open(&small()).unwrap();
    world.mem.rename_dir(World::dir(), Path::new(MOVED));
    let (new, files) = made_again(&world);
    assert_names_the_directory(old.db.close());
    assert_eq!(world.contents(), files);
    new.db.close().unwrap();
}

#[test]
fn a_reader_of_a_replaced_directory_reads_no_file_of_the_new_one() {
    let world = World::new(4);
    let (first, _) = filled(&world, Durability::Buffered);
    let expected = dump(&first.db.space("kv").options(hashed(2)).keyspace().unwrap()).unwrap();
    first.db.close().unwrap();
    let open = || world.open_read_only(&small()).unwrap();
    let read = |reader: &Session| {
        let kv = reader.db.space("kv").existing().keyspace().unwrap().unwrap();
        dump(&kv)
    };
    let (reader, late) = (open(), open());
    assert_eq!(read(&reader).unwrap(), expected);
    world.mem.rename_dir(World::dir(), Path::new(MOVED));
    let (new, files) = made_again(&world);
    // Its tables are where they were moved, also those that were never opened.
    assert_eq!((read(&reader).unwrap(), read(&late).unwrap()), (expected.clone(), expected));
    world.mem.remove_dir(Path::new(MOVED));
    for (reader, was_read) in [(reader, true), (late, false)] {
        if !was_read {
            assert!(reader.db.verify().is_err());
        }
        drop(reader);
    }
    assert_eq!(world.contents(), files);
    new.db.verify().unwrap();
}

#[test]
fn a_database_without_its_lock_file_stops_before_it_meets_another_process() {
    let world = World::new(5);
    let (old, _) = filled(&world, Durability::Buffered);
    world.mem.remove(&World::path(LOCK)).unwrap();
    // Now nothing keeps others out.
    let next = world.open(&small()).unwrap();
    let error = old.db.flush().unwrap_err().to_string();
    assert!(error.contains("its lock file was removed or replaced"), "{error}");
    assert!(old.db.clone().close().is_err());
    drop(old);
    let kv = next.db.space("kv").options(hashed(2)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), 100);
    next.db.flush().unwrap();
    next.db.verify().unwrap();
    next.db.close().unwrap();
}

#[test]
fn background_work_notices_a_replaced_directory_without_any_call() {
    let world = World::new(6);
    let db = threaded(&world, small());
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    world.mem.rename_dir(World::dir(), Path::new(MOVED));
    let (new, files) = made_again(&world);
    let refused = (0_u32..).find_map(|n| kv.put(n.to_be_bytes(), [7; 1000]).err()).unwrap();
    assert_names_the_directory(Err(refused));
    drop((kv, db));
    assert_eq!(world.contents(), files);
    drop(new);
}

/// A disk whose directory `dir` is moved away and made again when a file is created in it.
#[derive(Clone)]
struct Moving {
    disk: Arc<dyn Disk>,
    mem: MemDisk,
    dir: &'static str,
    /// So many files are created before.
    left: Arc<AtomicUsize>,
    /// Whether the path of `dir` cannot be followed any more.
    is_closed: Arc<AtomicBool>,
}

impl Moving {
    fn new(world: &World, dir: &'static str, nth: usize) -> Self {
        let disk = Arc::new(world.mem.clone());
        let left = Arc::new(AtomicUsize::new(nth));
        Self { disk, mem: world.mem.clone(), dir, left, is_closed: Arc::default() }
    }

    /// Moves the directory, and puts one with files of the same names in its place.
    fn replace(&self) {
        let names = self.mem.list(Path::new(self.dir)).unwrap();
        self.mem.rename_dir(Path::new(self.dir), Path::new(MOVED));
        for name in names.iter().map(String::as_str).chain(["foreign"]) {
            self.mem.put_content(&Path::new(self.dir).join(name), b"foreign");
        }
    }

    /// Returns whether the directory was replaced, and the new one is as it was.
    fn is_untouched(&self) -> bool {
        let path = |name: &String| Path::new(self.dir).join(name);
        let names = self.mem.list(Path::new(self.dir)).unwrap_or_default();
        let is_foreign = |name| self.mem.content(&path(name)).unwrap() == b"foreign";
        names.contains(&"foreign".to_owned()) && names.iter().all(is_foreign)
    }
}

impl Disk for Moving {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.disk.absolute(path)
    }
    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        if self.is_closed.load(Ordering::Relaxed) && dir == Path::new(self.dir) {
            return Err(Error::io("open", dir, std::io::ErrorKind::PermissionDenied.into()));
        }
        let held = self.disk.hold(dir)?;
        Ok(HeldDir { disk: Arc::new(Self { disk: held.disk, ..self.clone() }), ..held })
    }
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let is_there = path.starts_with(self.dir) && self.left.load(Ordering::Relaxed) > 0;
        if is_there && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.replace();
        }
        self.disk.create(path)
    }
    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.disk.reuse(path)
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.disk.open(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }
    fn create_dir(&self, path: &Path) -> Result<()> {
        self.disk.create_dir(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.disk.lock(path, mode)
    }
    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.disk.free_bytes(path)
    }
}

/// Runs `call` on worlds with a database and two backups of it, whose directory `dir` is replaced
/// at each file in turn that `call` creates there. It must fail, and change nothing in the new one.
fn replaced_at_each_file(
    dir: &'static str,
    call: impl Fn(&World, Arc<Moving>) -> Result<()>,
) -> usize {
    for nth in 1.. {
        let world = World::new(7);
        let (session, _) = filled(&world, Durability::Buffered);
        for n in 0..2 {
            session.db.space("kv").options(hashed(2)).keyspace().unwrap().put([n], "more").unwrap();
            session.db.backup("/backups").unwrap();
        }
        session.db.close().unwrap();
        let moving = Arc::new(Moving::new(&world, dir, nth));
        let done = call(&world, Arc::clone(&moving));
        if moving.left.load(Ordering::Relaxed) > 0 {
            done.unwrap();
            return nth - 1;
        }
        let error = done.unwrap_err().to_string();
        assert!(error.contains("is not the directory that was opened any more"), "{error}");
        assert!(moving.is_untouched(), "file {nth}: {:?}", world.mem.list(Path::new(dir)));
    }
    unreachable!()
}

fn opened(world: &World, disk: Arc<Moving>) -> Database {
    let environment = Environment { disk, ..world.environment().0 };
    Database::builder(World::dir()).options(small()).environment(environment).open().unwrap()
}

#[test]
fn a_directory_that_is_replaced_during_a_call_is_not_touched() {
    let write = |db: &Database| {
        let kv = db.space("kv").options(hashed(2)).keyspace()?;
        (0..50_u32).try_for_each(|n| kv.put(n.to_be_bytes(), "new").map(drop))
    };
    let backup = replaced_at_each_file("/backups", |world, disk| {
        let db = opened(world, disk);
        write(&db)?;
        db.backup("/backups").map(drop)
    });
    let checkpoint = replaced_at_each_file("/copy", |world, disk| {
        opened(world, disk).checkpoint("/copy").map(drop)
    });
    let restore = replaced_at_each_file("/restored", |_, disk| {
        Backups::on_disk("/backups", disk).restore(None, "/restored").map(drop)
    });
    let repair = replaced_at_each_file("/repaired", |_, disk| {
        Repair::of(World::dir()).on_disk(disk).into_dir("/repaired").map(drop)
    });
    let in_place = replaced_at_each_file("/db", |_, disk| {
        Repair::of(World::dir()).on_disk(disk).in_place().map(drop)
    });
    let open = replaced_at_each_file("/db", |world, disk| {
        let environment = Environment { disk, ..world.environment().0 };
        let builder = Database::builder(World::dir()).options(small()).environment(environment);
        let db = builder.open()?;
        write(&db)?;
        db.close()
    });
    let counts = [backup, checkpoint, restore, repair, in_place, open];
    assert!(counts.iter().all(|files| *files > 1), "{counts:?}");
}

/// The path of the database was opened again for each copy, which a process cannot that has given
/// up the permission for a directory above it.
#[test]
fn copies_need_no_path_to_the_database() {
    let world = World::new(8);
    let disk = Arc::new(Moving::new(&world, "/db", usize::MAX));
    let db = opened(&world, Arc::clone(&disk));
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    disk.is_closed.store(true, Ordering::Relaxed);
    assert!(disk.hold(World::dir()).is_err());
    db.checkpoint("/copy").unwrap();
    db.backup("/backups").unwrap();
    for to in ["/db/copy", "/db/x/../copy"] {
        assert!(db.checkpoint(to).is_err() && db.backup(to).is_err(), "{to}");
    }
    assert!(!world.mem.list(World::dir()).unwrap().contains(&"copy".to_owned()));
    db.close().unwrap();
    for name in ["/copy", "/restored"] {
        if name == "/restored" {
            let backups = Backups::on_disk("/backups", Arc::new(world.mem.clone()));
            backups.restore(None, name).unwrap();
        }
        let copy = open_at(&world, name).unwrap();
        let kv = copy.space("kv").options(hashed(2)).keyspace().unwrap();
        assert_eq!(kv.get("a").unwrap().unwrap(), b"1");
    }
}

/// Runs the test `name` of this program again as a child, in `dir`.
fn run_again_in(name: &str, dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("directory::{name}"), "--nocapture"]);
    let output = child.env("FLAGSTONE_TEST_CWD", dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// The names of all files below `dir`, with their directories.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { tree(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

#[test]
fn a_relative_path_means_what_it_meant_at_the_call() {
    let Some(dir) = std::env::var_os("FLAGSTONE_TEST_CWD") else {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b/data", "b/backups", "b/scratch"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        run_again_in("a_relative_path_means_what_it_meant_at_the_call", dir.path());
        assert_eq!(tree(&dir.path().join("b")), Vec::<PathBuf>::new());
        let there: Vec<_> = ["backups", "checkpoint", "data", "repaired", "restored"]
            .map(|name| dir.path().join("a").join(name))
            .to_vec();
        let mut found: Vec<PathBuf> = tree(&dir.path().join("a"));
        for path in &mut found {
            assert!(path.pop());
        }
        found.dedup();
        assert_eq!(found, there);
        return;
    };
    let go = |to: &str| std::env::set_current_dir(Path::new(&dir).join(to)).unwrap();
    go("a");
    let options = Options::new().memory_budget(4 << 20);
    let builder = Database::builder("data").options(options).scratch_dir("scratch");
    let db = builder.open().unwrap();
    let backups = Backups::in_dir("backups");
    go("b");
    assert_eq!(db.path(), Path::new(&dir).canonicalize().unwrap().join("a/data"));
    let documents = db.collection("documents").unwrap();
    for n in 0..2000 {
        documents
            .put(n, Json(format!(r#"{{"n":{},"pad":"{}"}}"#, 2000 - n, "x".repeat(2000))))
            .unwrap();
    }
    db.flush().unwrap();
    assert_eq!(documents.find("{}").sort("n").run().unwrap().count(), 2000);
    go("a");
    db.backup("backups").unwrap();
    db.checkpoint("checkpoint").unwrap();
    go("b");
    assert_eq!(backups.list().unwrap().len(), 1);
    assert_eq!(backups.verify().unwrap().damage.len(), 0);
    db.close().unwrap();
    go("a");
    backups.restore(None, "restored").unwrap();
    Repair::of("data").into_dir("repaired").unwrap();
    for name in ["data", "restored", "repaired", "checkpoint"] {
        let db = Database::builder(name).open_read_only().unwrap();
        go("b");
        let documents = db.space("documents").existing().collection().unwrap().unwrap();
        assert_eq!(documents.count().unwrap(), 2000, "{name}");
        db.verify().unwrap();
        go("a");
    }
    let left = fs::read_dir("scratch").unwrap().count();
    assert_eq!(left, 0, "a closed database leaves nothing in its scratch directory");
    fs::remove_dir("scratch").unwrap();
}

/// It was told as damage of the file that names the manifest.
#[test]
fn a_directory_that_is_gone_is_not_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    Database::open(&path).unwrap().close().unwrap();
    let db = Database::builder(&path).open_read_only().unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert_names_the_directory(db.verify().map(drop));
    assert_eq!(db.verify().unwrap_err().kind(), ErrorKind::Io);
}

/// A repair used to follow its relative path when it was run, and one without a current directory
/// kept it, as backups did: either worked on another directory after the next change.
#[test]
fn a_repair_and_backups_keep_what_a_relative_path_meant_when_they_were_made() {
    let Some(dir) = std::env::var_os("FLAGSTONE_TEST_CWD") else {
        let dir = tempfile::tempdir().unwrap();
        let name = "a_repair_and_backups_keep_what_a_relative_path_meant_when_they_were_made";
        return run_again_in(name, dir.path());
    };
    let outer = Path::new(&dir).canonicalize().unwrap();
    for (name, key) in [("a", "in a"), ("b", "in b")] {
        fs::create_dir(outer.join(name)).unwrap();
        let db = Database::builder(outer.join(name).join("data")).options(small()).open().unwrap();
        db.keyspace("kv").unwrap().put(key, "").unwrap();
        db.backup(outer.join(name).join("backups")).unwrap();
        db.close().unwrap();
    }
    let go = |to: &str| std::env::set_current_dir(outer.join(to)).unwrap();
    go("a");
    let (into_dir, in_place) = (Repair::of("data"), Repair::of("data"));
    go("b");
    into_dir.into_dir("repaired").unwrap();
    let repaired = Database::builder(outer.join("b/repaired")).open_read_only().unwrap();
    assert!(
        repaired.space("kv").existing().keyspace().unwrap().unwrap().get("in a").unwrap().is_some()
    );
    let of_b = tree(&outer.join("b/data"));
    in_place.in_place().unwrap();
    assert_eq!(tree(&outer.join("b/data")), of_b);
    // Without a current directory a relative path never means anything.
    fs::create_dir(outer.join("gone")).unwrap();
    go("gone");
    fs::remove_dir(outer.join("gone")).unwrap();
    let (into_dir, in_place) = (Repair::of("data"), Repair::of("data"));
    let backups = Backups::in_dir("backups");
    go("b");
    into_dir.into_dir("again").unwrap_err();
    in_place.in_place().unwrap_err();
    backups.list().unwrap_err();
    backups.verify().unwrap_err();
    backups.keep(1).unwrap_err();
    backups.restore(None, "again").unwrap_err();
    assert!(!outer.join("b/again").exists());
    assert_eq!(tree(&outer.join("b/data")), of_b);
}

#[test]
fn a_directory_is_opened_once_by_whatever_path() {
    let outer = tempfile::tempdir().unwrap();
    let (data, link) = (outer.path().join("data"), outer.path().join("link"));
    symlink(&data, &link).unwrap();
    // A link may lead to what is not there yet.
    fs::create_dir(&data).unwrap();
    let db = Database::builder(&link).options(small()).open().unwrap();
    for path in [data.clone(), link.clone(), outer.path().join("data/../link/.")] {
        for opened in [Database::open(&path), Database::builder(&path).open_read_only()] {
            let busy = opened.unwrap_err();
            assert_eq!(busy.kind(), ErrorKind::Busy);
            assert!(busy.to_string().contains("another handle of this process"), "{busy}");
        }
    }
    // Another target of the link is another database.
    let other = outer.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    let second = Database::builder(&link).options(small()).open().unwrap();
    db.keyspace("k").unwrap().put("a", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert!(second.space("k").existing().keyspace().unwrap().is_none());
}

/// The lock file names its holder, and what it holds does not matter. What is no note stays.
#[test]
fn the_content_of_the_lock_file_does_not_matter() {
    let outer = tempfile::tempdir().unwrap();
    let data = outer.path().join("data");
    let lock = data.join(LOCK);
    let open = || Database::builder(&data).options(small()).open().unwrap();
    open().close().unwrap();
    for content in [&b""[..], b"pid 1, program init\n", &[0; 30], &[0xFF; 10_000], b"\x1b[31m\n\n"]
    {
        let is_note = content.len() <= 30 && !content.starts_with(b"\x1b");
        fs::write(&lock, content).unwrap();
        let db = open();
        let found = fs::read(&lock).unwrap();
        let noted = format!("pid {}, program ", std::process::id());
        assert_eq!(found.starts_with(noted.as_bytes()), is_note);
        assert!(is_note || found == content);
        fs::write(&lock, content).unwrap();
        let busy = Database::open(&data).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.to_string().chars().all(|c| !c.is_control()), "{busy}");
        db.close().unwrap();
        assert_eq!(fs::read(&lock).unwrap(), if is_note { b"" } else { content });
    }
}

/// A file of somebody else that is called LOCK used to be overwritten and emptied by an open, even
/// by one that creates no database, and removed from a scratch directory.
#[test]
fn a_foreign_file_named_like_a_lock_is_refused_and_stays() {
    let outer = tempfile::tempdir().unwrap();
    let (there, data) = (outer.path().join("there"), outer.path().join("data"));
    fs::create_dir(&there).unwrap();
    for content in [&b"the lock of the shed\n"[..], &[0xFF; 10_000]] {
        fs::write(there.join(LOCK), content).unwrap();
        for creates in [true, false] {
            let options = small().create_if_missing(creates);
            let refused = Database::builder(&there).options(options).open().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            assert!(refused.to_string().contains("LOCK is not a file of flagstone"), "{refused}");
        }
        Database::builder(&there).open_read_only().unwrap_err();
        let db = with_scratch(&data, &there);
        let sorted = sorting(&db).map(drop).unwrap_err();
        assert!(sorted.to_string().contains("LOCK is not a file of flagstone"), "{sorted}");
        db.close().unwrap();
        assert_eq!(fs::read(there.join(LOCK)).unwrap(), content);
        assert_eq!(fs::read_dir(&there).unwrap().count(), 1);
    }
}

/// A database whose scratch directory is this, with documents that `sorting` cannot sort in memory.
fn with_scratch(data: &Path, scratch: &Path) -> Database {
    let options = Options::new().memory_budget(4 << 20);
    let db = Database::builder(data).options(options).scratch_dir(scratch).open().unwrap();
    let documents = db.collection("documents").unwrap();
    for n in 0..1000 {
        let json = format!(r#"{{"n":{},"pad":"{}"}}"#, 1000 - n, "x".repeat(200));
        documents.put(n, Json(json)).unwrap();
    }
    db
}

/// A sort that spills.
fn sorting(db: &Database) -> Result<impl Iterator> {
    db.collection("documents")?.find("{}").sort("n").memory(1 << 15).run()
}

fn spill_files(dir: &Path) -> usize {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| matches!(parse(name.to_str().unwrap()), Name::Spill(_))).count()
}

#[test]
fn a_directory_of_backups_that_is_used_for_temporary_files_keeps_its_lock() {
    let outer = tempfile::tempdir().unwrap();
    let (data, backups) = (outer.path().join("data"), outer.path().join("backups"));
    let db = with_scratch(&data, &backups);
    db.backup(&backups).unwrap();
    assert!(backups.join(LOCK).exists());
    assert_eq!(sorting(&db).unwrap().count(), 1000);
    db.close().unwrap();
    assert_eq!(spill_files(&backups), 0);
    assert!(backups.join(LOCK).exists());
    assert_eq!(Backups::in_dir(&backups).list().unwrap().len(), 1);
}

/// A cleaner of old files that removed the lock file of a scratch directory used to end all queries
/// with temporary files until the database was opened again, and the files of the running ones
/// stayed.
#[test]
fn a_scratch_directory_is_locked_again_when_a_cleaner_has_been_there() {
    let outer = tempfile::tempdir().unwrap();
    let (data, scratch) = (outer.path().join("data"), outer.path().join("scratch"));
    let db = with_scratch(&data, &scratch);
    let mut running = vec![sorting(&db).unwrap()];
    assert!(spill_files(&scratch) > 0);
    fs::remove_file(scratch.join(LOCK)).unwrap();
    running.push(sorting(&db).unwrap());
    assert!(scratch.join(LOCK).exists());
    let other = with_scratch(&outer.path().join("other"), &scratch);
    assert_eq!(sorting(&other).map(drop).unwrap_err().kind(), ErrorKind::Busy);
    other.close().unwrap();
    for sorted in running {
        assert_eq!(sorted.count(), 1000);
    }
    assert_eq!(spill_files(&scratch), 0);
    // Even the whole directory may go.
    fs::remove_dir_all(&scratch).unwrap();
    assert_eq!(sorting(&db).unwrap().count(), 1000);
    db.close().unwrap();
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn all_that_is_created_belongs_to_its_owner_alone() {
    let outer = tempfile::tempdir().unwrap();
    let path = |name: &str| outer.path().join(name);
    let options = Options::new().memory_budget(4 << 20);
    let builder = Database::builder(path("data/below")).options(options);
    let db = builder.scratch_dir(path("scratch")).open().unwrap();
    let documents = db.collection("documents").unwrap();
    for n in 0..3000 {
        documents
            .put(n, Json(format!(r#"{{"n":{},"pad":"{}"}}"#, 3000 - n, "x".repeat(2000))))
            .unwrap();
    }
    let mut sorted = documents.find("{}").sort("n").run().unwrap();
    sorted.next().unwrap().unwrap();
    db.backup(path("backups")).unwrap();
    db.checkpoint(path("checkpoint")).unwrap();
    Backups::in_dir(path("backups")).restore(None, path("restored")).unwrap();
    let files = tree(outer.path());
    let spills = files.iter().filter_map(|file| file.file_name()?.to_str());
    assert!(spills.filter(|name| matches!(parse(name), Name::Spill(_))).count() > 0, "{files:?}");
    for file in &files {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600, "{}", file.display());
        let dir = file.parent().unwrap();
        assert_eq!(fs::metadata(dir).unwrap().mode() & 0o777, 0o700, "{}", dir.display());
    }
    drop(sorted);
    db.close().unwrap();
    assert!(OsDisk.list(&path("scratch")).unwrap().is_empty());
}

/// The names in a directory and below it.
fn all_names(dir: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(all_names(&path));
        }
        names.push(path);
    }
    names.sort();
    names
}

/// Only the tool and Python refused it. From Rust a backup went into the directory of the database,
/// and one of the two was lost with the other.
#[test]
fn a_copy_is_not_created_inside_of_its_source() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let (data, kept) = (path("data"), path("backups"));
    let db = Database::builder(&data).options(small()).open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    db.flush().unwrap();
    db.backup(&kept).unwrap();
    fs::create_dir(path("elsewhere")).unwrap();
    symlink(&data, path("to_data")).unwrap();
    symlink(&kept, path("elsewhere/to_backups")).unwrap();
    let names = || (all_names(&data), all_names(&kept), all_names(place.path()).len());
    let before = names();
    let refused = |result: Result<()>, text: &str| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(names(), before, "{error}");
    };
    let inside = [
        "data/copy",
        "data/./deep/er",
        "data/x/../y",
        "to_data/copy",
        "elsewhere/../data/copy",
        "new/../to_data/copy",
        "elsewhere/new/more/../../../data/copy",
    ];
    for to in inside {
        refused(db.checkpoint(path(to)).map(drop), " is inside of ");
        refused(db.backup(path(to)).map(drop), " is inside of ");
    }
    let restore = |to: &str| Backups::in_dir(&kept).restore(None, path(to)).map(drop);
    for to in ["backups/db", "elsewhere/to_backups/x/y", "elsewhere/../backups/db"] {
        refused(restore(to), " is inside of ");
    }
    // The source itself, and what holds the source.
    for to in ["data", "to_data", "elsewhere/../data"] {
        refused(db.checkpoint(path(to)).map(drop), "a checkpoint needs a new or empty directory");
        refused(db.backup(path(to)).map(drop), "backups need a directory of their own");
    }
    for to in ["backups", "elsewhere/to_backups"] {
        refused(restore(to), "a restored database needs a new or empty directory");
    }
    refused(db.checkpoint(place.path()).map(drop), "a checkpoint needs a new or empty directory");
    refused(restore("."), "a restored database needs a new or empty directory");
    db.close().unwrap();

    let before = names();
    let repair = |from: &Path, to: &str| Repair::of(from).into_dir(path(to)).map(drop);
    for to in inside {
        let error = repair(&path("to_data"), to).unwrap_err();
        assert!(error.to_string().contains(" is inside of "), "{error}");
    }
    for to in ["data", "to_data", "."] {
        let error = repair(&data, to).unwrap_err().to_string();
        assert!(error.contains("a repaired database needs a new or empty directory"), "{error}");
    }
    assert_eq!(names(), before);
    // Beside the source, whose name the path begins with, and in a directory that holds it.
    repair(&data, "data2/db").unwrap();
    let db = Database::builder(&data).options(small()).open().unwrap();
    db.checkpoint(path("data.copy")).unwrap();
    db.backup(place.path()).unwrap();
    Backups::in_dir(place.path()).restore(None, path("restored")).unwrap_err();
    Backups::in_dir(place.path()).keep(1).unwrap();
    assert_eq!(owned(db.keyspace("kv").unwrap().get("a").unwrap()), Some(b"1".to_vec()));
    db.verify().unwrap();
}
