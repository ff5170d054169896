//! The file of bad documents: which one it may be, and what it holds after commits that failed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::bad_documents::COPIED;
use crate::marks::Marks;
use crate::stories::plan;
use crate::{BadDocuments, Count, Input, LoadError, Mode, Plan, Unwatched};
use flagstone::{Collection, Database, Error, ErrorKind, Space};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

struct Bench {
    dir: tempfile::TempDir,
    database: Database,
    collection: Collection,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let collection = database.collection("c").unwrap();
        Self { dir, database, collection }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// `--bad-lines DB/CURRENT` emptied that file, and the database was lost.
#[test]
fn files_of_a_database_are_refused() {
    let bench = Bench::new();
    let current = bench.path("db/CURRENT");
    let before = std::fs::read(&current).unwrap();
    let unused = bench.path("db/000777.sst");
    let mut names = vec![current.clone(), bench.path("db/LOCK"), unused.clone()];
    #[cfg(unix)]
    {
        names.push(bench.path("linked"));
        std::os::unix::fs::symlink(&current, bench.path("linked")).unwrap();
    }
    for name in names {
        match BadDocuments::copy_to(&name, &[]) {
            Err(LoadError::Usage(text)) => {
                assert!(text.contains("is in the directory of a database"))
            }
            other => panic!("{}: {other:?}", name.display()),
        }
    }
    assert!(!unused.exists());
    assert_eq!(std::fs::read(&current).unwrap(), before);
    // Without a database the name means nothing.
    BadDocuments::copy_to(&bench.path("CURRENT"), &[]).unwrap();
}

/// It holds documents, and everybody could read it.
#[cfg(unix)]
#[test]
fn a_new_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let path = bench.path("bad.txt");
    BadDocuments::copy_to(&path, &[]).unwrap();
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    BadDocuments::copy_to(&path, &[]).unwrap();
    assert_eq!(mode(), 0o640, "an own choice stays");
}

/// A commit may be in the log although it returned an error. Its copies were cut off, and then the
/// load could not be continued: the file was shorter than the marks said.
#[test]
fn copies_stay_if_it_is_unknown_whether_they_are_committed() {
    let bench = Bench::new();
    let path = bench.path("bad.txt");
    let bad = BadDocuments::copy_to(&path, &[]).unwrap();
    bad.write_with(b"a\n", |_| Ok(())).unwrap().unwrap();
    for kind in [ErrorKind::Conflict, ErrorKind::Duplicate, ErrorKind::InvalidInput] {
        assert!(bad.write_with(b"b\n", |_| Err(Error::new(kind, "no"))).unwrap().is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"a\n", "{kind:?}");
    }
    let unknown = bad.write_with(b"c\n", |_| Err(Error::new(ErrorKind::Io, "sync")));
    assert!(unknown.unwrap().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a\nc\n");
}

/// The end of the file was put into one batch. If that was refused, the next one had the mark
/// alone, and a load that continued cut off copies of rows before its mark.
#[test]
fn each_mark_has_the_end_of_the_file_beside_it() {
    let bench = Bench::new();
    let bad = BadDocuments::copy_to(&bench.path("bad.txt"), &[]).unwrap();
    let open = || Marks::open(&bench.database, &bench.collection, None, &[], 1).unwrap();
    let marks = open();
    bad.write(b"a row\n").unwrap();
    let mut refused = bench.database.batch();
    bad.mark(&mut refused, &marks).unwrap();
    drop(refused);
    let mut batch = bench.database.batch();
    bad.mark(&mut batch, &marks).unwrap();
    bench.database.commit(batch).unwrap();
    assert_eq!(open().copies().map(|(bytes, _)| bytes), Some(6));
}

/// A document that is longer than two batches was committed before its mark. After a kill between
/// the two the load that continued found it, and said that it had existed before.
#[test]
fn a_long_document_is_inserted_with_its_mark() {
    let bench = Bench::new();
    let input = bench.path("in.jsonl");
    let line = |n: usize| format!("{{\"id\":{n},\"pad\":\"{}\"}}\n", "x".repeat(100_000));
    std::fs::write(&input, (0..4).map(line).collect::<String>()).unwrap();
    let mut sum = Count::default();
    for round in 0.. {
        assert!(round < 9, "a load makes progress");
        let commits = AtomicU64::new(0);
        let kill: crate::OnCommit =
            Arc::new(move |_| assert!(commits.fetch_add(1, Ordering::Relaxed) > 0, "killed"));
        let inputs = vec![Input::open(&input).unwrap()];
        let plan = plan(&bench.database, &bench.collection, inputs, (1, 1, 1));
        let on_commit = (round < 3).then_some(kill);
        match (Plan { mode: Mode::Insert, resumes: true, on_commit, ..plan }).run(&mut Unwatched) {
            Err(LoadError::Io(_)) => {}
            outcome => {
                sum = outcome.unwrap().count;
                break;
            }
        }
    }
    assert_eq!((sum.documents, sum.existing), (1, 0));
    assert_eq!(bench.collection.count().unwrap(), 4);
}

/// The copies of all documents that a unique index had refused were put together again for each
/// one: to insert 8,000 took 48 seconds.
#[test]
fn a_refusal_costs_the_same_however_many_came_before() {
    let copied = |documents: u64, resumes: bool| {
        let bench = Bench::new();
        bench.collection.put(0, flagstone::Json(r#"{"u":7}"#)).unwrap();
        bench.collection.create_index("u", flagstone::Index::on("u").unique()).unwrap();
        let input = bench.path("in.jsonl");
        let line = |n| format!("{{\"id\":{n},\"u\":7}}\n");
        std::fs::write(&input, (1..=documents).map(line).collect::<String>()).unwrap();
        let bytes = Arc::new(AtomicUsize::new(0));
        let heard = Arc::clone(&bytes);
        // The writer calls it, whose bytes they are.
        let on_commit: crate::OnCommit = Arc::new(move |_| {
            heard.fetch_max(COPIED.get(), Ordering::Relaxed);
        });
        let inputs = vec![Input::open(&input).unwrap()];
        let plan = plan(&bench.database, &bench.collection, inputs, (1, 1, 1));
        let plan = Plan { memory_budget: 64 << 20, on_commit: Some(on_commit), ..plan };
        let bad = BadDocuments::copy_to(&bench.path("bad.txt"), &[]).unwrap();
        let plan = Plan { mode: Mode::Insert, bad, resumes, ..plan };
        let count = plan.run(&mut Unwatched).unwrap().whole().unwrap();
        assert_eq!((count.documents, count.bad), (0, documents));
        let text = std::fs::read_to_string(bench.path("bad.txt")).unwrap();
        assert_eq!(text.lines().count() as u64, 2 * documents);
        bytes.load(Ordering::Relaxed)
    };
    for resumes in [false, true] {
        let (few, many) = (copied(100, resumes), copied(400, resumes));
        assert!(few > 0 && many <= 5 * few, "{few} bytes for 100, {many} for 400");
    }
}

/// `--bad-lines /dev/stderr` emptied the file that stderr was appended to.
#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_written_where_it_is_and_is_not_one_of_the_process_itself() {
    use std::os::fd::AsRawFd;
    let bench = Bench::new();
    let own = std::fs::File::create(bench.path("own")).unwrap();
    let by_number = |folder: &str| PathBuf::from(format!("{folder}/{}", own.as_raw_fd()));
    for folder in ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"] {
        let refused = BadDocuments::copy_to(&by_number(folder), &[]);
        assert!(matches!(refused, Err(LoadError::Io(_))), "{folder}: {refused:?}");
    }
    let link = bench.path("link");
    std::os::unix::fs::symlink("/dev/stderr", &link).unwrap();
    for path in [PathBuf::from("/dev/stderr"), link, PathBuf::from("/dev/fd/2")] {
        assert!(crate::descriptor_of(&path).unwrap().is_some(), "{}", path.display());
        let bad = BadDocuments::copy_to(&path, &[]).unwrap();
        let marks = Marks::open(&bench.database, &bench.collection, None, &[], 1).unwrap();
        let refused = bad.begin(Some(&marks)).unwrap_err().to_string();
        assert!(refused.contains("expected a regular file"), "{refused}");
    }
    assert!(crate::descriptor_of(&bench.path("own")).unwrap().is_none());
    assert!(crate::descriptor_of(&bench.path("none/at/all")).unwrap().is_none());
    match BadDocuments::copy_to(std::path::Path::new("-"), &[]) {
        Err(LoadError::Usage(text)) => assert!(text.contains("found -"), "{text}"),
        other => panic!("{other:?}"),
    }
}

/// A reader that fails once it is at its end.
struct Cut(&'static [u8]);

impl std::io::Read for Cut {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::other("the line was cut")),
            read => Ok(read),
        }
    }
}

#[test]
fn bad_documents_are_passed_on_with_their_place_and_their_text() {
    let bench = Bench::new();
    let text: &[u8] = b"{\"id\":1}\n{\"id\":\n{\"n\":\"#\"}\n{\"id\":2}\n";
    let run = |input: Input, resumes| {
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let to = Arc::clone(&heard);
        let bad = BadDocuments::pass_to(move |why, text| {
            to.lock().unwrap().push((why.to_owned(), String::from_utf8(text.to_vec()).unwrap()));
        });
        let plan = plan(&bench.database, &bench.collection, vec![input], (1, 2, 2));
        let ran = Plan { bad, resumes, ..plan }.run(&mut Unwatched);
        (ran, std::mem::take(&mut *heard.lock().unwrap()))
    };
    let (ran, heard) = run(Input::from_reader("it", crate::Format::Json, text), false);
    let count = ran.unwrap().whole().unwrap();
    assert_eq!((count.documents, count.bad), (2, 2));
    let [(first, one), (second, two)] = &heard[..] else { panic!("{heard:?}") };
    assert!(first.starts_with("it:2:") && second.starts_with("it:3:"), "{heard:?}");
    assert_eq!((one.as_str(), two.as_str()), ("{\"id\":", "{\"n\":\"#\"}"));
    let (refused, _) = run(Input::from_reader("it", crate::Format::Json, text), true);
    assert!(matches!(refused, Err(LoadError::Usage(_))), "{refused:?}");
    // What is cut is not whole.
    let (cut, _) = run(Input::from_reader("it", crate::Format::Json, Cut(text)), false);
    match cut.unwrap().whole() {
        Err(LoadError::Io(text)) => assert!(text.contains("the line was cut"), "{text}"),
        other => panic!("{other:?}"),
    }
}
