//! Loads of random inputs by many threads, compared with a map that is filled line by line.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::{BadDocuments, Count, Input, Key, LoadError, Mode, Outcome, Plan, Unwatched, Watcher};
use flagstone::{Collection, Database, Json, Options, Space, Value};
use flagstone_testkit::{Rng, seed};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Key -> the number of the line whose document it has.
pub(crate) type Expected = BTreeMap<i64, i64>;

/// Readers, parsers and writers.
pub(crate) const THREADS: [(u16, u16, u16); 5] =
    [(1, 1, 1), (1, 2, 2), (3, 4, 3), (9, 2, 7), (2, 9, 16)];

/// Random lines, whose keys repeat at once, soon and late, in three files: plain, compressed, and
/// an array.
pub(crate) struct Lines {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) keys: Vec<i64>,
}

impl Lines {
    pub(crate) fn random(rng: &mut Rng, bytes: usize) -> Self {
        let (mut keys, mut texts) = (Vec::new(), Vec::new());
        for file in 0..3 {
            let mut text = String::new();
            while text.len() < bytes {
                let key = match rng.below(10) {
                    0 => rng.below(5) as i64,
                    1 | 2 => *keys.last().unwrap_or(&0),
                    3..6 => rng.below(2000) as i64,
                    _ => rng.below(1 << 40) as i64,
                };
                let between = if file == 2 && !text.is_empty() { "," } else { "" };
                let (n, pad) = (keys.len(), "x".repeat(rng.index(900)));
                let _always =
                    writeln!(text, "{between}{{\"id\":{key},\"n\":{n},\"pad\":\"{pad}\"}}");
                keys.push(key);
            }
            texts.push(text);
        }
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).unwrap();
            dir.path().join(name)
        };
        let files = vec![
            write("plain.jsonl", texts[0].as_bytes()),
            write("packed.zst", &zstd::encode_all(texts[1].as_bytes(), 1).unwrap()),
            write("array.json", format!("[{}]", texts[2]).as_bytes()),
        ];
        Self { dir, files, keys }
    }

    /// Which line each key has, when the lines of `loaded` are loaded one after another.
    pub(crate) fn expected(
        &self,
        mode: Mode,
        loaded: std::ops::Range<usize>,
        mut into: Expected,
    ) -> Expected {
        for (n, key) in self.keys[loaded.clone()].iter().enumerate() {
            let n = (loaded.start + n) as i64;
            match mode {
                Mode::Insert => *into.entry(*key).or_insert(n),
                // All fields are in every line, so a merge sets them all.
                Mode::Upsert | Mode::Merge => into.insert(*key, n).unwrap_or(n),
            };
        }
        into
    }

    pub(crate) fn inputs(&self) -> Vec<Input> {
        self.files.iter().map(|path| Input::open(path).unwrap()).collect()
    }

    pub(crate) fn database(&self, name: &str) -> (Database, Collection) {
        let builder = Database::builder(self.dir.path().join(name));
        let database = builder.options(Options::new().memory_budget(32 << 20)).open().unwrap();
        let collection = database.collection("c").unwrap();
        (database, collection)
    }
}

pub(crate) fn found(collection: &Collection) -> Expected {
    let entry = |entry: flagstone::Result<(Value, flagstone::Document)>| {
        let (key, document) = entry.unwrap();
        (key.as_i64().unwrap(), document.int("n").unwrap_or(0))
    };
    collection.scan(..).map(entry).collect()
}

pub(crate) fn plan(
    database: &Database,
    collection: &Collection,
    inputs: Vec<Input>,
    (readers, parsers, writers): (u16, u16, u16),
) -> Plan {
    // Batches of 32 KiB: many of each chunk.
    let memory_budget = 512 << 10;
    Plan { readers, parsers, writers, memory_budget, ..Plan::new(database, collection, inputs) }
}

#[test]
fn of_lines_with_one_key_the_last_wins_whatever_the_number_of_threads() {
    let seed = seed("last wins", 9);
    let lines = Lines::random(&mut Rng::new(seed), 2 << 20);
    let expected = lines.expected(Mode::Upsert, 0..lines.keys.len(), Expected::new());
    for threads in THREADS {
        let (database, collection) = lines.database(&format!("{threads:?}"));
        let plan = plan(&database, &collection, lines.inputs(), threads);
        let count = plan.run(&mut Unwatched).unwrap().whole().unwrap();
        assert_eq!(count.documents, lines.keys.len() as u64);
        assert!(found(&collection) == expected, "{threads:?}");
        database.close().unwrap();
    }
}

#[test]
fn of_inserted_lines_with_one_key_the_first_wins_and_the_others_are_counted() {
    let seed = seed("first wins", 10);
    let mut rng = Rng::new(seed);
    let lines = Lines::random(&mut rng, 2 << 20);
    let there: Expected = (0..500).map(|_| (rng.below(2000) as i64, -1)).collect();
    let expected = lines.expected(Mode::Insert, 0..lines.keys.len(), there.clone());
    for threads in THREADS {
        let (database, collection) = lines.database(&format!("{threads:?}"));
        for key in there.keys() {
            collection.put(*key, Json(r#"{"n":-1}"#)).unwrap();
        }
        let plan = plan(&database, &collection, lines.inputs(), threads);
        let plan = Plan { mode: Mode::Insert, ..plan };
        let count = plan.run(&mut Unwatched).unwrap().whole().unwrap();
        assert!(found(&collection) == expected, "{threads:?}");
        let inserted = (expected.len() - there.len()) as u64;
        assert_eq!(
            (count.documents, count.existing),
            (inserted, lines.keys.len() as u64 - inserted)
        );
        database.close().unwrap();
    }
}

#[test]
fn a_load_that_meets_a_bad_line_has_loaded_what_is_before_it_and_nothing_after_it() {
    let seed = seed("bad line", 8);
    let mut rng = Rng::new(seed);
    let lines = Lines::random(&mut rng, 3 << 20);
    let text = std::fs::read_to_string(&lines.files[0]).unwrap();
    let mut text: Vec<&str> = text.lines().collect();
    let bad = rng.index(text.len());
    let also = rng.index(text.len());
    text[bad] = "{\"id\":1,";
    text[also] = "no";
    let bad = bad.min(also);
    std::fs::write(&lines.files[0], text.join("\n")).unwrap();
    let expected = lines.expected(Mode::Upsert, 0..bad, Expected::new());
    for threads in THREADS {
        let (database, collection) = lines.database(&format!("{threads:?}"));
        let plan = plan(&database, &collection, lines.inputs(), threads);
        let outcome = plan.run(&mut Unwatched).unwrap();
        let failure = outcome.failure.unwrap().to_string();
        assert!(failure.contains(&format!("plain.jsonl:{}:", bad + 1)), "{failure}");
        assert_eq!(outcome.count.documents, bad as u64, "{threads:?}");
        assert!(found(&collection) == expected, "{threads:?}");
        database.close().unwrap();
    }
}

/// Stops a load when this many documents are loaded.
pub(crate) struct StopAfter(pub(crate) u64, pub(crate) bool);

impl Watcher for StopAfter {
    fn tick(&mut self, _took: std::time::Duration, count: Count) {
        self.1 |= count.documents >= self.0;
    }

    fn stops(&self) -> bool {
        self.1
    }
}

/// A writer may be stopped at any of its batches: every one of them leaves a mark from which the
/// load continues, as if it had not been stopped.
#[test]
fn a_load_that_is_stopped_anywhere_continues_and_loads_each_document_once() {
    let seed = seed("continued", 9);
    let lines = Lines::random(&mut Rng::new(seed), 1 << 20);
    for mode in [Mode::Upsert, Mode::Insert, Mode::Merge] {
        let expected = lines.expected(mode, 0..lines.keys.len(), Expected::new());
        for (at, threads) in THREADS.into_iter().enumerate().step_by(2) {
            let (database, collection) = lines.database(&format!("{mode:?} {threads:?}"));
            let mut sum = Count::default();
            for round in 0.. {
                assert!(round < 100, "a load makes progress");
                // The number of writers is that of the first round, other numbers may change.
                let threads = THREADS[(at + round) % THREADS.len()];
                let inputs = lines.inputs();
                let first = plan(&database, &collection, inputs, threads);
                let stop_at = (lines.keys.len() as u64) / 3;
                let on_commit = slow_commits();
                let plan = Plan { mode, resumes: true, on_commit, ..first };
                let outcome = plan.run(&mut StopAfter(stop_at, false)).unwrap();
                assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                assert_eq!(outcome.resumed_at.is_some(), round > 0);
                sum.documents += outcome.count.documents;
                sum.existing += outcome.count.existing;
                if !outcome.is_interrupted {
                    break;
                }
            }
            assert!(found(&collection) == expected, "{mode:?} {threads:?}");
            let all = lines.keys.len() as u64;
            let inserted = if mode == Mode::Insert { expected.len() as u64 } else { all };
            assert_eq!((sum.documents, sum.existing), (inserted, all - inserted));
            let again = plan(&database, &collection, lines.inputs(), threads);
            let again = Plan { mode, resumes: true, ..again }.run(&mut Unwatched).unwrap();
            assert_eq!((again.was_complete, again.count), (true, Count::default()));
            database.close().unwrap();
        }
    }
}

/// Makes commits slow enough that a load can be stopped between them.
#[allow(clippy::unnecessary_wraps, reason = "the type of the field")]
pub(crate) fn slow_commits() -> Option<crate::OnCommit> {
    Some(std::sync::Arc::new(|_| std::thread::sleep(std::time::Duration::from_micros(300))))
}

#[test]
fn a_load_does_not_continue_one_of_other_inputs() {
    let lines = Lines::random(&mut Rng::new(1), 1 << 20);
    let (database, collection) = lines.database("db");
    let resume = |inputs: Vec<Input>, key: &str, resumes: bool| -> Result<Outcome, LoadError> {
        let plan = plan(&database, &collection, inputs, (1, 1, 2));
        Plan { key: Key::parse(key), resumes, ..plan }.run(&mut Unwatched)
    };
    let bad = lines.dir.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"id\":1}\n{\"id\":2}\n{").unwrap();
    let open = |path: &Path| Input::open(path).unwrap();
    assert!(resume(vec![open(&bad)], "id", true).unwrap().failure.is_some());
    let refused = |inputs, key| match resume(inputs, key, true) {
        Err(LoadError::Usage(text)) => text,
        other => panic!("{other:?}"),
    };
    let text = refused(lines.inputs(), "id");
    assert!(text.contains("bad.jsonl") && text.contains("plain.jsonl"), "{text}");
    assert!(refused(vec![open(&bad)], "n").contains("--key id: found --key n"));
    std::fs::write(&bad, "{").unwrap();
    assert!(refused(vec![open(&bad)], "id").contains("bad.jsonl has 1 bytes"));
    // The bad line was corrected.
    std::fs::write(&bad, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}").unwrap();
    let outcome = resume(vec![open(&bad)], "id", true).unwrap();
    assert_eq!((outcome.count.documents, found(&collection).len()), (1, 3));
    // A load without --resume forgets the one that was stopped.
    std::fs::write(&bad, "{\"id\":1}\n{").unwrap();
    assert!(resume(vec![open(&bad)], "id", true).unwrap().failure.is_some());
    assert!(resume(vec![open(&bad)], "id", false).unwrap().failure.is_some());
    let marks = database.space("flagstone.loads").existing().keyspace().unwrap().unwrap();
    assert!(marks.scan(..).next().is_none());
}

#[test]
fn a_key_that_exists_ends_an_insert_that_is_to_stop_at_errors() {
    let lines = Lines::random(&mut Rng::new(2), 1 << 20);
    let (database, collection) = lines.database("db");
    let twice = (1..lines.keys.len()).find(|n| lines.keys[..*n].contains(&lines.keys[*n])).unwrap();
    let plan = plan(&database, &collection, lines.inputs(), (1, 1, 1));
    let plan = Plan { mode: Mode::Insert, stops_on_error: true, ..plan };
    let outcome = plan.run(&mut Unwatched).unwrap();
    let failure = outcome.failure.unwrap();
    let expected = format!("plain.jsonl:{}:1: a document with this key exists", twice + 1);
    assert!(matches!(&failure, LoadError::Exists(text) if text.ends_with(&expected)), "{failure}");
    assert_eq!(outcome.count.documents, twice as u64, "what is before it is loaded");
    assert!(found(&collection) == lines.expected(Mode::Insert, 0..twice, Expected::new()));
}

/// Values of a unique index repeat. With one writer the first document of a value is loaded, and
/// with more of them one of those that have it; a load that is stopped continues exactly.
#[test]
fn documents_that_a_unique_index_refuses_are_left_out_and_no_others() {
    let seed = seed("unique", 4);
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let (input, bad) = (dir.path().join("in.jsonl"), dir.path().join("bad.txt"));
    let values: Vec<usize> = (0..20_000).map(|_| rng.index(15_000)).collect();
    let line = |(n, v)| format!("{{\"id\":{n},\"n\":{n},\"v\":{v},\"pad\":\"{v:0>99}\"}}\n");
    let text: String = values.iter().enumerate().map(line).collect();
    std::fs::write(&input, &text).unwrap();
    let mut seen = std::collections::HashSet::new();
    let first = |n: &i64| seen.insert(values[*n as usize]);
    let first: Vec<i64> = (0..values.len() as i64).filter(first).collect();
    for (mode, threads) in
        [(Mode::Upsert, (1, 3, 1)), (Mode::Insert, (2, 2, 1)), (Mode::Upsert, (1, 3, 4))]
    {
        let database = Database::open(dir.path().join(format!("{mode:?} {threads:?}"))).unwrap();
        let collection = database.collection("c").unwrap();
        collection.create_index("by_v", flagstone::Index::on("v").unique()).unwrap();
        let mut sum = Count::default();
        for round in 0.. {
            assert!(round < 100, "a load makes progress");
            let inputs = vec![Input::open(&input).unwrap()];
            let copied = BadDocuments::copy_to(&bad, &[]).unwrap();
            let plan = plan(&database, &collection, inputs, threads);
            let plan = Plan { mode, bad: copied, resumes: true, ..plan };
            let outcome = plan.run(&mut StopAfter(4000, false)).unwrap();
            assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
            sum.documents += outcome.count.documents;
            sum.bad += outcome.count.bad;
            sum.existing += outcome.count.existing;
            if !outcome.is_interrupted {
                break;
            }
        }
        let loaded: Vec<i64> = found(&collection).into_keys().collect();
        assert_eq!(loaded.len(), first.len());
        assert!(threads.2 > 1 || loaded == first, "{mode:?} {threads:?}");
        let expected = (first.len() as u64, (values.len() - first.len()) as u64, 0);
        assert_eq!((sum.documents, sum.bad, sum.existing), expected);
        let copied = std::fs::read_to_string(&bad).unwrap();
        assert_eq!(copied.lines().count(), 2 * (values.len() - first.len()));
        database.verify().unwrap();
        database.close().unwrap();
    }
}

#[test]
fn bad_lines_are_copied_in_their_order_also_by_a_load_that_continues() {
    let lines = Lines::random(&mut Rng::new(3), 1 << 20);
    let bad = lines.dir.path().join("bad.txt");
    let input = lines.dir.path().join("in.jsonl");
    let text: String = (0..40_000)
        .map(|n| match n % 100 {
            7 => format!("{{\"id\":{n},\n"),
            _ => format!("{{\"id\":{n},\"n\":{n},\"pad\":\"{}\"}}\n", "y".repeat(n % 90)),
        })
        .collect();
    std::fs::write(&input, &text).unwrap();
    let (database, collection) = lines.database("db");
    for round in 0.. {
        let inputs = vec![Input::open(&input).unwrap()];
        let plan = plan(&database, &collection, inputs, (3, 3, 1));
        let copied = BadDocuments::copy_to(&bad, &[]).unwrap();
        let plan = Plan { bad: copied, resumes: true, on_commit: slow_commits(), ..plan };
        let outcome = plan.run(&mut StopAfter(5000, false)).unwrap();
        assert!(outcome.failure.is_none() && round < 100);
        if !outcome.is_interrupted {
            break;
        }
    }
    assert_eq!(found(&collection).len(), 39_600);
    let copied = std::fs::read_to_string(&bad).unwrap();
    let copied: Vec<&str> = copied.lines().skip(1).step_by(2).collect();
    let expected: Vec<&str> = text.lines().skip(7).step_by(100).collect();
    assert!(copied == expected, "{} of {}", copied.len(), expected.len());
}
