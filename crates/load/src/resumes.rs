//! Loads that are stopped, killed and continued, by what was removed or changed meanwhile, and keys
//! that a load makes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::stories::{Lines, StopAfter, THREADS, found, plan, slow_commits};
use crate::{BadDocuments, Format, Input, Key, LoadError, Mode, Outcome, Plan, Unwatched};
use flagstone::doc::DateTime;
use flagstone::{
    Collection, Database, Document, ErrorKind, Expires, Index, Json, Moment, Space, Value, doc,
};
use flagstone_testkit::{Rng, seed};
use std::time::Duration;

/// A file of two documents and a third one that is cut off, and a load of it that stops there.
struct StoppedLoad {
    dir: tempfile::TempDir,
    database: Database,
    collection: Collection,
}

impl StoppedLoad {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(dir.path().join("db")).unwrap();
        let collection = database.collection("c").unwrap();
        let stopped = Self { dir, database, collection };
        stopped.write("{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":2}\n{\"id\":3");
        let failure = stopped.resume().unwrap().failure.unwrap().to_string();
        assert!(failure.contains("in.jsonl:3:"), "{failure}");
        stopped.write("{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":2}\n{\"id\":3,\"n\":3}\n");
        stopped
    }

    fn write(&self, text: &str) {
        std::fs::write(self.dir.path().join("in.jsonl"), text).unwrap();
    }

    fn resume(&self) -> Result<Outcome, LoadError> {
        let collection = self.database.collection("c")?;
        let inputs = vec![Input::open(&self.dir.path().join("in.jsonl"))?];
        let plan = plan(&self.database, &collection, inputs, (1, 1, 2));
        Plan { resumes: true, ..plan }.run(&mut Unwatched)
    }
}

/// No load worked any more beside a collection of the name under which marks are kept.
#[test]
fn a_collection_with_the_name_of_the_marks_is_in_the_way_of_marks_alone() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path().join("db")).unwrap();
    database.collection("flagstone.loads").unwrap().put(1, Json("{}")).unwrap();
    let collection = database.collection("c").unwrap();
    let path = dir.path().join("in.jsonl");
    std::fs::write(&path, "{\"id\":1}\n").unwrap();
    let plan = || plan(&database, &collection, vec![Input::open(&path).unwrap()], (1, 1, 1));
    assert_eq!(plan().run(&mut Unwatched).unwrap().whole().unwrap().documents, 1);
    let refused = Plan { resumes: true, ..plan() }.run(&mut Unwatched).unwrap_err();
    assert!(refused.to_string().contains("a collection is named flagstone.loads"), "{refused}");
}

/// A way to remove documents.
type Remove = fn(&StoppedLoad) -> flagstone::Result<()>;

/// Marks were kept under the name of the collection, and nothing but a complete load ended them:
/// after a drop, a load with --resume skipped what was no longer there, and said that all was well.
#[test]
fn marks_end_with_the_documents_that_they_count() {
    let ways: [(&str, Remove); 11] = [
        ("drop", |s| s.database.drop_keyspace("c").map(drop)),
        ("rename", |s| s.database.rename_keyspace("c", "d")),
        ("replace", |s| {
            s.database.collection("new")?.put(9, Json("{\"n\":9}"))?;
            s.database.rename_keyspace("c", "old")?;
            s.database.rename_keyspace("new", "c")?;
            s.database.collection("c")?.delete(9)
        }),
        ("clear", |s| s.collection.clear()),
        ("delete all", |s| s.collection.delete_many("{}").run().map(drop).map_err(Into::into)),
        ("delete some", |s| {
            s.collection.delete_many(r#"{"n":1}"#).run().map(drop).map_err(Into::into)
        }),
        ("delete a range", |s| s.collection.delete_range(..=1)),
        // A clock that is set back would show it again.
        ("delete a range of what has expired", |s| {
            s.collection.put(9, Json("{\"n\":9}").expires(Moment::from_millis(1)))?;
            s.collection.delete_range(9..)
        }),
        ("delete each", |s| s.collection.delete(1).and_then(|()| s.collection.delete(2))),
        ("delete in a transaction", |s| {
            s.database.transaction(|t| t.delete_many(&s.collection, r#"{"n":2}"#).map(drop))
        }),
        ("clear with an index", |s| {
            s.collection.create_index("n", flagstone::Index::on("n"))?;
            s.collection.delete_range(..)
        }),
    ];
    for (way, remove) in ways {
        let stopped = StoppedLoad::new();
        remove(&stopped).unwrap();
        let outcome = stopped.resume().unwrap();
        assert!(outcome.failure.is_none() && outcome.resumed_at.is_none(), "{way}: {outcome:?}");
        assert_eq!(outcome.count.documents, 3, "{way}");
        assert_eq!(found(&stopped.database.collection("c").unwrap()).len(), 3, "{way}");
    }
}

/// A load with a mistaken key came to nothing, and took the place of a complete one, which was
/// refused then, and began at the start without --resume.
#[test]
fn a_load_that_comes_to_nothing_hinders_no_other() {
    let stopped = StoppedLoad::new();
    let mistaken = |stops: &'static str| {
        let inputs = vec![Input::open(&stopped.dir.path().join("in.jsonl")).unwrap()];
        let plan = plan(&stopped.database, &stopped.collection, inputs, (1, 1, 2));
        Plan { resumes: true, key: Key::parse(stops), ..plan }.run(&mut Unwatched)
    };
    // What was stopped in its middle stays.
    let refused = mistaken("idd").unwrap_err().to_string();
    assert!(refused.contains("a load into c was stopped that had --key id"), "{refused}");
    assert_eq!(stopped.resume().unwrap().count.documents, 1);
    for _ in 0..2 {
        let failed = mistaken("idd").unwrap();
        assert!(failed.failure.is_some() && failed.count.has_nothing(), "{failed:?}");
        let again = stopped.resume().unwrap();
        assert!(again.was_complete && again.count.has_nothing(), "{again:?}");
    }
}

/// A file without text had all that was expected of it.
#[test]
fn a_file_that_was_emptied_is_another_one() {
    let stopped = StoppedLoad::new();
    assert_eq!(stopped.resume().unwrap().count.documents, 1);
    stopped.write("");
    let outcome = stopped.resume().unwrap();
    assert!(!outcome.was_complete && outcome.count.has_nothing(), "{outcome:?}");
    stopped.write("{\"id\":4,\"n\":4}\n");
    assert_eq!(stopped.resume().unwrap().count.documents, 1);
}

#[test]
fn marks_stay_with_a_collection_that_is_renamed_and_with_single_deletes() {
    let stopped = StoppedLoad::new();
    stopped.database.rename_keyspace("c", "d").unwrap();
    assert_eq!(stopped.resume().unwrap().count.documents, 3, "into a new collection");
    stopped.database.drop_keyspace("c").unwrap();
    stopped.database.rename_keyspace("d", "c").unwrap();
    let outcome = stopped.resume().unwrap();
    assert!(outcome.resumed_at.is_some());
    assert_eq!((outcome.count.documents, found(&stopped.collection).len()), (1, 3));

    // What removes nothing ends none.
    let stopped = StoppedLoad::new();
    stopped.collection.delete_many(r#"{"n":99}"#).run().unwrap();
    stopped.collection.delete_range(99..).unwrap();
    let nothing = r#"{"n":99}"#;
    stopped.database.transaction(|t| t.delete_many(&stopped.collection, nothing)).unwrap();
    stopped.database.transaction(|t| t.delete_range(&stopped.collection, 99..)).unwrap();
    assert_eq!(stopped.resume().unwrap().count.documents, 1);
    // It is a write nevertheless.
    let copy = stopped.dir.path().join("copy");
    stopped.database.checkpoint(&copy).unwrap();
    let reader = Database::builder(&copy).open_read_only().unwrap();
    let refused = reader.collection("c").unwrap().delete_range(99..).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);

    let stopped = StoppedLoad::new();
    stopped.collection.delete(1).unwrap();
    stopped.database.transaction(|t| t.delete_many(&stopped.collection, "{}").map(drop)).unwrap();
    stopped.collection.put(7, Json("{\"n\":7}")).unwrap();
    assert_eq!(stopped.resume().unwrap().count.documents, 3, "the transaction has ended them");

    let stopped = StoppedLoad::new();
    stopped.collection.delete(1).unwrap();
    assert_eq!(
        stopped.resume().unwrap().count.documents,
        1,
        "a document that was deleted stays so"
    );
    assert_eq!(found(&stopped.collection).into_keys().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn marks_of_a_backup_or_a_checkpoint_do_not_count() {
    let stopped = StoppedLoad::new();
    let copy = stopped.dir.path().join("copy");
    stopped.database.checkpoint(&copy).unwrap();
    let database = Database::open(&copy).unwrap();
    let collection = database.collection("c").unwrap();
    let input = Input::open(&stopped.dir.path().join("in.jsonl")).unwrap();
    let plan = plan(&database, &collection, vec![input], (1, 1, 2));
    let outcome = Plan { resumes: true, ..plan }.run(&mut Unwatched).unwrap();
    assert_eq!((outcome.count.documents, outcome.resumed_at), (3, None));
}

/// The marks were removed before the program ended: a kill after that, and the same command again,
/// loaded everything twice, with keys of their own, or wrote all of it to the file of bad lines.
#[test]
fn a_load_that_was_complete_loads_nothing_again() {
    let dir = tempfile::tempdir().unwrap();
    let lines = |to: u64| -> String { (0..to).map(|n| format!("{{\"n\":{n}}}\n")).collect() };
    let table = |to: u64| -> String { (0..to).map(|n| format!("{n}\n")).collect() };
    let csv = || Format::Table(crate::TableFormat::csv());
    let cases = [
        (Format::Json, Key::Auto, lines(3000), lines(3001)),
        (Format::Json, Key::Auto, lines(3000), lines(2999)),
        (Format::Json, Key::Auto, lines(3000), lines(3000).replace("1234", "4321")),
        (Format::Json, Key::Auto, format!("[{}]", lines(50).trim().replace('\n', ",")), lines(50)),
        (
            csv(),
            Key::Path("n".into()),
            "n\n".to_owned() + &table(9),
            "n,m\n".to_owned() + &table(9),
        ),
        (csv(), Key::Auto, "n\n".to_owned() + &table(9), "n\n".to_owned()),
    ];
    for (at, (format, key, text, other)) in cases.into_iter().enumerate() {
        let database = Database::open(dir.path().join(format!("db{at}"))).unwrap();
        let collection = database.collection("c").unwrap();
        let bad = dir.path().join("bad.txt");
        let paths = [dir.path().join("in"), dir.path().join("in.gz")];
        std::fs::write(&paths[1], zstd::encode_all(&b"{\"n\":-1}\nBAD\n"[..], 1).unwrap()).unwrap();
        let load = |text: &str, mode: Mode| {
            std::fs::write(&paths[0], text).unwrap();
            let formats = [format.clone(), Format::Json];
            let inputs = paths.iter().zip(formats);
            let inputs = inputs.map(|(path, format)| Input::open_as(path, format).unwrap());
            let copied = BadDocuments::copy_to(&bad, &[]).unwrap();
            let plan = plan(&database, &collection, inputs.collect(), THREADS[at % THREADS.len()]);
            let plan = Plan { key: key.clone(), mode, resumes: true, bad: copied, ..plan };
            let outcome = plan.run(&mut Unwatched).unwrap();
            assert!(outcome.failure.is_none() && outcome.resumed_at.is_none(), "{outcome:?}");
            (outcome.was_complete, outcome.count.documents)
        };
        let (was_complete, documents) = load(&text, Mode::Insert);
        assert!(!was_complete && documents > 1, "{at}");
        assert!(std::fs::read_to_string(&bad).unwrap().contains("\nBAD\n"), "{at}");
        for _ in 0..2 {
            assert_eq!(load(&text, Mode::Insert), (true, 0), "{at}");
        }
        // Who has read the bad lines may remove them.
        std::fs::remove_file(&bad).unwrap();
        assert_eq!(load(&text, Mode::Insert), (true, 0), "{at}");
        assert_eq!(collection.count().unwrap(), documents, "{at}");
        assert_eq!(std::fs::read(&bad).unwrap(), b"", "{at}");
        // Other text, or another way to load it, begins at the start.
        let (was_complete, _) = load(&other, Mode::Insert);
        assert!(!was_complete, "{at}");
        assert!(std::fs::read_to_string(&bad).unwrap().contains("\nBAD\n"), "{at}");
        assert!(load(&other, Mode::Insert).0 && !load(&other, Mode::Upsert).0, "{at}");
        collection.clear().unwrap();
        let (was_complete, documents) = load(&other, Mode::Upsert);
        assert!(!was_complete, "{at}");
        assert_eq!(collection.count().unwrap(), documents, "{at}");
    }
}

/// The expiry was not among the settings: a load that continued went on without it, or with it.
#[test]
fn a_load_continues_with_an_expiry_if_it_began_with_one() {
    for is_set in [false, true] {
        let stopped = StoppedLoad::new();
        stopped.collection.clear().unwrap();
        stopped.write("{\"id\":1}\n{\"id\":2");
        let moment = flagstone::Moment::from_millis(1 << 50);
        let load = |is_set: bool| {
            let inputs = vec![Input::open(&stopped.dir.path().join("in.jsonl")).unwrap()];
            let plan = plan(&stopped.database, &stopped.collection, inputs, (1, 1, 2));
            let expires = is_set.then_some(moment);
            Plan { resumes: true, expires, ..plan }.run(&mut Unwatched)
        };
        assert!(load(is_set).unwrap().failure.is_some());
        let refused = load(!is_set).unwrap_err().to_string();
        let word = |is_set| if is_set { "set" } else { "not set" };
        let expected =
            format!("had --expires {}: found --expires {};", word(is_set), word(!is_set));
        assert!(refused.contains(&expected), "{refused}");
    }
}

/// How a text is packed.
type Pack = fn(&str) -> Vec<u8>;

/// A format, what is loaded, what stops the load, what may follow instead, and texts that have
/// changed.
type Case = (Format, Pack, String, &'static str, String, Vec<String>);

/// A file of another content was continued in its middle: its name alone was compared.
#[test]
fn an_input_that_has_changed_is_not_continued_and_one_that_has_grown_is() {
    let table = || Format::Table(crate::TableFormat::csv());
    let plain: Pack = |text| text.as_bytes().to_vec();
    let zstd: Pack = |text| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let lines = |from: usize, to: usize| -> String {
        (from..to).map(|n| format!("{{\"id\":{n},\"n\":{n}}}\n")).collect()
    };
    let records =
        |from: usize, to: usize| -> String { (from..to).map(|n| format!("{n},{n}\n")).collect() };
    let commas = |text: String| text.trim_end().replace('\n', ",\n");
    let cases: Vec<Case> = vec![
        (
            Format::Json,
            plain,
            lines(0, 50),
            "{",
            lines(50, 60),
            vec![
                lines(0, 49) + "{\"id\":1,\"n\":11}\n",
                lines(1, 60),
                "\n".to_owned() + &lines(0, 50),
            ],
        ),
        (Format::Json, zstd, lines(0, 50), "{", lines(50, 60), vec![lines(0, 20), lines(1, 60)]),
        (
            Format::Json,
            plain,
            format!("[{},", commas(lines(0, 50))),
            "{}]",
            format!("{}]", commas(lines(50, 60))),
            vec![format!("[{}]", commas(lines(0, 20))), format!("[{}]", commas(lines(1, 60)))],
        ),
        (
            table(),
            plain,
            "id,n\n".to_owned() + &records(0, 50),
            ",1,2",
            records(50, 60),
            vec!["id,m\n".to_owned() + &records(0, 60), "id,n\n".to_owned() + &records(0, 20)],
        ),
    ];
    for (at, (format, pack, loaded, bad, rest, changed)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let (first, path) = (dir.path().join("first.jsonl"), dir.path().join("in"));
        let database = Database::open(dir.path().join("db")).unwrap();
        let collection = database.collection("c").unwrap();
        let resume = |threads| {
            let inputs =
                vec![Input::open(&first).unwrap(), Input::open_as(&path, format.clone()).unwrap()];
            let plan = plan(&database, &collection, inputs, threads);
            Plan { resumes: true, ..plan }.run(&mut Unwatched)
        };
        let before = lines(100, 110);
        std::fs::write(&first, &before).unwrap();
        std::fs::write(&path, pack(&format!("{loaded}{bad}"))).unwrap();
        assert!(resume((1, 1, 2)).unwrap().failure.is_some());
        assert_eq!(found(&collection).len(), 60, "{at}");
        let refused = |what: &str| {
            let failure = match resume((3, 2, 2)) {
                Ok(outcome) => outcome.failure.unwrap_or_else(|| panic!("{at}: {what}")),
                Err(failure) => failure,
            };
            let text = failure.to_string();
            assert!(matches!(failure, LoadError::Usage(_)), "{text}");
            assert!(text.contains("without --resume the load begins at the start"), "{at}: {text}");
            assert_eq!(found(&collection).len(), 60, "{at}: {what}");
        };
        for text in changed {
            std::fs::write(&path, pack(&text)).unwrap();
            refused(&text);
        }
        std::fs::write(&path, pack(&format!("{loaded}{rest}"))).unwrap();
        std::fs::write(&first, lines(100, 111)).unwrap();
        refused("an input before it has grown");
        std::fs::write(&first, "").unwrap();
        refused("an input before it is empty");
        std::fs::write(&first, before).unwrap();
        let outcome = resume((2, 2, 1)).unwrap();
        assert!(outcome.failure.is_none() && outcome.resumed_at.is_some(), "{at}: {outcome:?}");
        assert_eq!((outcome.count.documents, found(&collection).len()), (10, 70), "{at}");
    }
}

#[test]
fn the_file_of_bad_lines_is_the_one_that_the_marks_know() {
    let dir = tempfile::tempdir().unwrap();
    let (input, bad) = (dir.path().join("in.jsonl"), dir.path().join("bad.txt"));
    let database = Database::open(dir.path().join("db")).unwrap();
    let collection = database.collection("c").unwrap();
    let text = "{\"id\":1}\nBAD 1\n{\"id\":2}\nBAD 2\n{\"id\":3}\n";
    std::fs::write(&input, text).unwrap();
    let load = |copy: bool| {
        let inputs = vec![Input::open(&input).unwrap()];
        let copied = if copy { BadDocuments::copy_to(&bad, &[])? } else { BadDocuments::stop() };
        let plan = plan(&database, &collection, inputs, (1, 1, 1));
        Plan { resumes: true, bad: copied, ..plan }.run(&mut Unwatched)
    };
    // A key that is too long is refused when it is put, so the load stops behind the bad lines.
    let long = format!("{{\"id\":\"{}\"}}\n", "k".repeat(70_000));
    assert!(load(false).unwrap().failure.is_some());
    assert_eq!(load(true).unwrap().count.bad, 2, "the load that was stopped had no such file");
    std::fs::write(&input, format!("{text}{long}")).unwrap();
    collection.clear().unwrap();
    // It is interrupted after its first commit, as by a kill.
    let commits = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let fail_at: crate::OnCommit = {
        let commits = std::sync::Arc::clone(&commits);
        std::sync::Arc::new(move |_| {
            assert!(commits.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0, "stop");
        })
    };
    let inputs = vec![Input::open(&input).unwrap()];
    let first = plan(&database, &collection, inputs, (1, 1, 1));
    let copied = BadDocuments::copy_to(&bad, &[]).unwrap();
    let first = Plan { resumes: true, bad: copied, on_commit: Some(fail_at), ..first };
    assert!(matches!(first.run(&mut Unwatched), Err(LoadError::Io(_))));
    let copies = std::fs::read(&bad).unwrap();
    assert!(String::from_utf8_lossy(&copies).contains("BAD 2"));
    let refused = || match load(true) {
        Err(LoadError::Usage(text)) => assert!(text.contains("bad.txt: expected the"), "{text}"),
        other => panic!("{other:?}"),
    };
    std::fs::remove_file(&bad).unwrap();
    refused();
    std::fs::write(&bad, &copies[..copies.len() - 1]).unwrap();
    refused();
    let mut other = copies.clone();
    other[5] ^= 1;
    std::fs::write(&bad, &other).unwrap();
    refused();
    assert_eq!(std::fs::read(&bad).unwrap(), other, "what is refused is not touched");
    // What was written, and not committed before the kill, is written again.
    std::fs::write(&bad, [&copies[..], b"# in.jsonl:6:1: half of a"].concat()).unwrap();
    let outcome = load(true).unwrap();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    let text = std::fs::read_to_string(&bad).unwrap();
    assert!(text.starts_with(&*String::from_utf8_lossy(&copies)) && !text.contains("half of a"));
    assert_eq!(text.lines().count(), 2 * if copies.len() > 1000 { 3 } else { 2 });
}

/// A kill lost copies of bad lines, which were written after the mark of documents behind them, and
/// wrote others twice. Here a writer ends after each of its commits in turn, as by a kill; the rest
/// of the load goes on, as it may.
#[test]
fn bad_lines_and_documents_are_there_once_after_a_kill_at_any_commit() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let seed = seed("killed", 12);
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("a.jsonl"), dir.path().join("b.jsonl.zst"));
    let bad = dir.path().join("bad.txt");
    let mut refused = 0;
    let mut line = |n: usize| match rng.index(12) {
        0 => {
            refused += 1;
            format!("{{BAD {n}\n")
        }
        _ => format!(
            "{{\"id\":{n},\"n\":{n},\"v\":{},\"pad\":\"{n:0>99}\"}}\n",
            n / 2 * 2 + n % 7 / 6
        ),
    };
    let text: String = (0..4000).map(&mut line).collect();
    std::fs::write(&first, &text).unwrap();
    let more: String = (4000..6000).map(&mut line).collect();
    std::fs::write(&second, zstd::encode_all(more.as_bytes(), 1).unwrap()).unwrap();
    for (mode, threads, is_unique) in [
        (Mode::Upsert, (1, 1, 1), false),
        (Mode::Insert, (2, 3, 3), false),
        (Mode::Insert, (1, 2, 2), true),
        (Mode::Merge, (1, 2, 1), true),
    ] {
        let name = format!("{mode:?} {threads:?} {is_unique}");
        let database = Database::open(dir.path().join(&name)).unwrap();
        let collection = database.collection("c").unwrap();
        if is_unique {
            let unique = flagstone::Index::on("v").unique();
            collection.create_index("by_v", unique).unwrap();
        }
        for round in 0.. {
            assert!(round < 400, "a load makes progress: {name}");
            // What an index refuses makes each document of its batch a commit.
            let kill_at = if is_unique { 1 + rng.below(800) } else { 1 + round % 5 };
            let commits = AtomicU64::new(0);
            let kill: crate::OnCommit = std::sync::Arc::new(move |_| {
                assert!(commits.fetch_add(1, Ordering::Relaxed) + 1 != kill_at, "killed");
            });
            let inputs = vec![Input::open(&first).unwrap(), Input::open(&second).unwrap()];
            let copied = BadDocuments::copy_to(&bad, &[]).unwrap();
            let plan = plan(&database, &collection, inputs, threads);
            // Merges are many commits, which may be done again.
            let on_commit = (mode != Mode::Merge || round % 3 == 0).then_some(kill);
            let plan = Plan { mode, bad: copied, resumes: true, on_commit, ..plan };
            match plan.run(&mut Unwatched) {
                Err(LoadError::Io(_)) => {}
                Ok(outcome) => {
                    assert!(outcome.failure.is_none(), "{name}: {:?}", outcome.failure);
                    break;
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
        let copied = std::fs::read_to_string(&bad).unwrap();
        let copied: Vec<&str> = copied.lines().skip(1).step_by(2).collect();
        let distinct: std::collections::HashSet<&&str> = copied.iter().collect();
        assert_eq!(distinct.len(), copied.len(), "{name}: lines are copied once");
        let bad_lines = copied.iter().filter(|line| line.starts_with("{BAD")).count();
        assert_eq!(bad_lines, refused, "{name}");
        assert_eq!(copied.len() + found(&collection).len(), 6000, "{name}: no line is lost");
        database.verify().unwrap();
        database.close().unwrap();
    }
}

#[test]
fn keys_of_their_own_are_given_once_also_by_a_load_that_continues() {
    let lines = Lines::random(&mut Rng::new(5), 1 << 20);
    let (database, collection) = lines.database("db");
    for round in 0.. {
        assert!(round < 100, "a load makes progress");
        let plan = plan(&database, &collection, lines.inputs(), THREADS[round % THREADS.len()]);
        let on_commit = slow_commits();
        let plan = Plan { key: Key::Auto, resumes: true, on_commit, ..plan };
        let outcome = plan.run(&mut StopAfter(lines.keys.len() as u64 / 3, false)).unwrap();
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        if !outcome.is_interrupted {
            break;
        }
    }
    let number = |entry: flagstone::Result<_>| {
        entry.map(|(_, document): (Value, Document)| document.int("n").unwrap())
    };
    let numbers: Vec<i64> = collection.scan(..).map(|entry| number(entry).unwrap()).collect();
    let expected: Vec<i64> = (0..lines.keys.len() as i64).collect();
    assert!(numbers == expected, "each once, in the order of the input");
    // A second load gives others, which come after them.
    let again = plan(&database, &collection, lines.inputs(), (1, 1, 1));
    let again = Plan { key: Key::Auto, mode: Mode::Insert, ..again };
    let count = again.run(&mut Unwatched).unwrap().whole().unwrap();
    assert_eq!((count.documents, count.existing), (expected.len() as u64, 0));
    let merged = plan(&database, &collection, lines.inputs(), (1, 1, 1));
    let merged = Plan { key: Key::Auto, mode: Mode::Merge, ..merged }.run(&mut Unwatched);
    assert!(matches!(merged, Err(LoadError::Usage(_))));
}

#[test]
fn compound_keys_are_arrays_of_the_values_at_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.jsonl");
    std::fs::write(
        &path,
        "{\"t\":\"a\",\"in\":{\"y\":1}}\n{\"t\":\"a\",\"in\":{\"y\":2}}\n{\"t\":\"b\"}\n",
    )
    .unwrap();
    let database = Database::open(dir.path().join("db")).unwrap();
    let collection = database.collection("c").unwrap();
    let inputs = vec![Input::open(&path).unwrap()];
    let plan = plan(&database, &collection, inputs, (1, 2, 2));
    let outcome = Plan { key: Key::parse("t,in.y"), ..plan }.run(&mut Unwatched).unwrap();
    let failure = outcome.failure.unwrap().to_string();
    assert!(failure.contains("in.jsonl:3:1: there is no field \"in.y\""), "{failure}");
    let key = |year: i64| Value::Array(vec![Value::from("a"), Value::from(year)]);
    let keys: Vec<Value> = collection.scan(..).keys().map(|key| key.unwrap()).collect();
    assert_eq!(keys, [key(1), key(2)]);
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let lines = Lines::random(&mut Rng::new(6), 1 << 18);
    for (at, threads) in [(0, (1, 1, 1)), (0, (3, 1, 1)), (2, (1, 1, 1))] {
        let (database, collection) = lines.database(&format!("{at} {threads:?}"));
        let path = &lines.files[at];
        let text = std::fs::read(path).unwrap();
        let input = Input::open(path).unwrap();
        std::fs::write(path, &text[..text.len() / 2]).unwrap();
        let plan = plan(&database, &collection, vec![input], threads);
        let failure = plan.run(&mut Unwatched).unwrap().failure.unwrap().to_string();
        assert!(failure.contains("expected"), "{failure}");
        std::fs::write(path, &text).unwrap();
    }
}

/// The path was opened a second time: a file that took its place meanwhile gave its identity to
/// what was loaded.
#[test]
fn the_identity_is_that_of_the_file_which_is_open() {
    use std::io::Read;
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("in"), dir.path().join("other"));
    std::fs::write(&path, "first").unwrap();
    std::fs::write(&other, "another").unwrap();
    let identity = |file: &mut std::fs::File| crate::identity_of(&path, file).unwrap();
    let mut open = std::fs::File::open(&path).unwrap();
    let before = identity(&mut open);
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(identity(&mut open), before);
    assert_ne!(identity(&mut std::fs::File::open(&path).unwrap()), before);
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first", "it is read from its begin afterwards");
}

/// The mark outlived its documents, which do not end it when they expire: the load loaded nothing.
#[test]
fn a_load_of_documents_that_expire_loads_them_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.jsonl");
    std::fs::write(&path, "{\"id\":1}\n{\"id\":2}\n").unwrap();
    for by_index in [false, true] {
        let database = Database::open(dir.path().join(format!("db{by_index}"))).unwrap();
        let collection = database.collection("c").unwrap();
        collection.put("other", doc!({})).unwrap();
        let index = Index::on("at").expire_after(Duration::from_secs(9));
        if by_index {
            collection.create_index("at", index).unwrap();
            collection.put("dated", doc!({ "at": (DateTime::from_micros(0)) })).unwrap();
        }
        let expires = (!by_index).then(|| database.now().after(Duration::from_secs(3600)));
        for _ in 0..2 {
            let inputs = vec![Input::open(&path).unwrap()];
            let plan = plan(&database, &collection, inputs, THREADS[0]);
            let outcome = Plan { resumes: true, expires, ..plan }.run(&mut Unwatched).unwrap();
            assert!(!outcome.was_complete && outcome.count.documents == 2, "{outcome:?}");
        }
    }
}

/// The mark of a complete load outlived documents that an index removed later, also one that was
/// dropped again: nothing was loaded.
#[test]
fn a_load_whose_documents_an_index_has_removed_loads_them_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.jsonl");
    std::fs::write(&path, "{\"id\":1,\"at\":0}\n{\"id\":2,\"at\":0}\n").unwrap();
    let database = Database::open(dir.path().join("db")).unwrap();
    let collection = database.collection("c").unwrap();
    collection.put("other", doc!({})).unwrap();
    for removes in [false, true] {
        if removes {
            let index = Index::on("at").expire_after(Duration::from_secs(9));
            collection.create_index("at", index).unwrap();
            assert_eq!(collection.count().unwrap(), 1);
            collection.drop_index("at").unwrap();
        }
        let inputs = vec![Input::open(&path).unwrap()];
        let plan = plan(&database, &collection, inputs, THREADS[0]);
        let outcome = Plan { resumes: true, ..plan }.run(&mut Unwatched).unwrap();
        assert!(!outcome.was_complete && outcome.count.documents == 2, "{outcome:?}");
    }
    assert_eq!(collection.count().unwrap(), 3);
}

/// The end of a load set marks that a clear in its middle had ended: the next load had nothing to
/// do, though documents were missing.
#[test]
fn a_load_whose_documents_are_removed_meanwhile_is_not_complete() {
    type Clear = fn(&Collection) -> flagstone::Result<()>;
    let ways: [Clear; 3] = [
        Collection::clear,
        |collection| collection.delete_range(..),
        |collection| collection.delete_many(r#"{"n":1}"#).run().map(drop).map_err(Into::into),
    ];
    for clear in ways {
        let stopped = StoppedLoad::new();
        stopped.collection.clear().unwrap();
        let (collection, is_done) = (stopped.collection.clone(), std::sync::Once::new());
        let clears = move |_took| is_done.call_once(|| clear(&collection).unwrap());
        let inputs = vec![Input::open(&stopped.dir.path().join("in.jsonl")).unwrap()];
        let plan = plan(&stopped.database, &stopped.collection, inputs, (1, 1, 1));
        let plan = Plan { resumes: true, on_commit: Some(std::sync::Arc::new(clears)), ..plan };
        assert!(plan.run(&mut Unwatched).unwrap().failure.is_none());
        let again = stopped.resume().unwrap();
        assert!(!again.was_complete && again.resumed_at.is_none(), "{again:?}");
        assert_eq!(found(&stopped.collection).len(), 3);
        assert!(stopped.resume().unwrap().was_complete);
    }
}
