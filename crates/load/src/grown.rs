//! Loads of files that have grown since an earlier load, and of documents that were cut off.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::stories::{THREADS, plan};
use crate::{BadDocuments, Format, Input, Key, LoadError, Mode, Outcome, Plan, Unwatched};
use flagstone::{Collection, Database, Document, Index, Space, Value, doc};

/// Appends a part of a text to a file.
type Append = fn(&mut Vec<u8>, &str);

/// A format, a key, how the file grows, the parts of its text, and the documents in the end.
type GrownCase<'a> = (Format, Key, Append, [String; 3], &'a [i64]);

/// It was loaded again from the start, and with keys of their own its first documents were there
/// twice.
#[test]
fn a_file_that_has_grown_since_a_complete_load_is_loaded_from_its_old_end() {
    use std::io::Write;
    let plain: Append = |file, text| file.extend(text.as_bytes());
    let gzip: Append = |file, text| {
        let mut member = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        member.write_all(text.as_bytes()).unwrap();
        member.finish().unwrap();
    };
    let zstd: Append = |file, text| file.extend(zstd::encode_all(text.as_bytes(), 1).unwrap());
    let csv = || Format::Table(crate::TableFormat::csv());
    let by_n = || Key::Path("n".into());
    let lines = |from: i64, to: i64| -> String {
        (from..to).map(|n| format!("{{\"n\":{n},\"pad\":\"{n:0>99}\"}}\n")).collect()
    };
    let many = [lines(0, 20_000), lines(20_000, 20_001), lines(20_001, 50_000)];
    let numbers: Vec<i64> = (0..50_000).collect();
    let [first, second, third] = ["{\"n\":1}", "\n\n{\"n\":2}\r", "\n{\"n\":3}\n"];
    let in_lines = || [first, second, third].map(str::to_owned);
    let documents = ["{\n\"n\":1}", "{\n\"n\":2}\n", " {\"n\":\n3}"].map(str::to_owned);
    let records = ["n,m\n1,\"a\nb\"\n2,c\n", "3,\"d\n", "e\"\n4,"].map(str::to_owned);
    let cases: [GrownCase<'_>; 9] = [
        (Format::Json, Key::Auto, plain, many.clone(), &numbers),
        (Format::Json, by_n(), plain, many.clone(), &numbers),
        (Format::Json, Key::Auto, gzip, many.clone(), &numbers),
        (Format::Json, Key::Auto, zstd, many, &numbers),
        (Format::Json, Key::Auto, plain, in_lines(), &[1, 2, 3]),
        (Format::Json, by_n(), gzip, in_lines(), &[1, 2, 3]),
        (Format::Json, Key::Auto, plain, documents, &[1, 2, 3]),
        (csv(), Key::Auto, zstd, records.clone(), &[1, 2, 3, 4]),
        (csv(), by_n(), plain, records, &[1, 2, 3, 4]),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (at, (format, key, append, parts, expected)) in cases.into_iter().enumerate() {
        for mode in [Mode::Upsert, Mode::Insert] {
            let grown = Grown::new(&dir.path().join(format!("{at}{mode:?}")), format.clone());
            let (mut file, mut documents) = (Vec::new(), 0);
            for part in 0..parts.len() {
                append(&mut file, &parts[part]);
                let outcome = grown.load(&file, &key, mode, THREADS[(at + part) % THREADS.len()]);
                assert_eq!(outcome.resumed_at.is_some(), part > 0, "{at} {part}");
                // A quote that is not closed yet.
                let bad = u64::from(at >= 7 && part == 1);
                assert_eq!((outcome.count.bad, outcome.was_complete), (bad, false), "{at} {part}");
                documents += outcome.count.documents;
                let again = grown.load(&file, &key, mode, (2, 2, 2));
                assert_eq!((again.was_complete, again.count), (true, crate::Count::default()));
            }
            assert_eq!(grown.numbers(), expected, "{at} {mode:?}");
            assert_eq!(documents, expected.len() as u64, "{at} {mode:?}");
            grown.database.verify().unwrap();
        }
    }
}

/// A database with a file that grows, and the file of its bad lines.
struct Grown {
    file: std::path::PathBuf,
    bad: std::path::PathBuf,
    format: Format,
    database: Database,
    collection: Collection,
}

impl Grown {
    fn new(dir: &std::path::Path, format: Format) -> Self {
        std::fs::create_dir(dir).unwrap();
        let database = Database::open(dir.join("db")).unwrap();
        let collection = database.collection("c").unwrap();
        Self { file: dir.join("in"), bad: dir.join("bad.txt"), format, database, collection }
    }

    fn plan(&self, key: &Key, threads: (u16, u16, u16)) -> Plan {
        let inputs = vec![Input::open_as(&self.file, self.format.clone()).unwrap()];
        let bad = BadDocuments::copy_to(&self.bad, &[]).unwrap();
        let plan = plan(&self.database, &self.collection, inputs, threads);
        Plan { key: key.clone(), resumes: true, bad, ..plan }
    }

    fn load(&self, text: &[u8], key: &Key, mode: Mode, threads: (u16, u16, u16)) -> Outcome {
        std::fs::write(&self.file, text).unwrap();
        let outcome = Plan { mode, ..self.plan(key, threads) }.run(&mut Unwatched).unwrap();
        assert!(outcome.failure.is_none(), "{outcome:?}");
        outcome
    }

    /// The values of `n` in the order of the keys.
    fn numbers(&self) -> Vec<i64> {
        let number = |entry: flagstone::Result<_>| {
            entry.map(|(_, document): (Value, Document)| document.int("n").unwrap())
        };
        self.collection.scan(..).map(|entry| number(entry).unwrap()).collect()
    }

    fn copied(&self) -> String {
        std::fs::read_to_string(&self.bad).unwrap()
    }
}

/// A program that writes lines may be in the middle of one when they are loaded.
#[test]
fn half_a_line_is_loaded_when_the_rest_has_come() {
    let dir = tempfile::tempdir().unwrap();
    for (at, (key, threads)) in
        [(Key::Auto, (1, 1, 1)), (Key::Path("n".into()), (3, 2, 4))].into_iter().enumerate()
    {
        let grown = Grown::new(&dir.path().join(at.to_string()), Format::Json);
        let load = |text: &str| grown.load(text.as_bytes(), &key, Mode::Insert, threads).count;
        let mut text = "{\"n\":1}\n{\"n\":2}\n{\"n\":".to_owned();
        let count = load(&text);
        assert_eq!((count.documents, count.bad), (2, 1));
        let half = grown.copied();
        assert!(half.ends_with("\n{\"n\":\n"), "{half}");
        text += "3}\n{\"n\":4}\n{BAD";
        let count = load(&text);
        assert_eq!((count.documents, count.bad, count.existing), (2, 1, 0));
        assert!(grown.copied().starts_with(&half) && grown.copied().ends_with("\n{BAD\n"));
        // It is no other document yet, and who has read the bad lines may remove them.
        std::fs::remove_file(&grown.bad).unwrap();
        text += "\n";
        assert_eq!(load(&text).bad, 0);
        text += "{\"n\":5}\nWORSE\n";
        let count = load(&text);
        assert_eq!((count.documents, count.bad), (1, 1));
        assert!(grown.copied().ends_with("\nWORSE\n") && !grown.copied().contains("{BAD"));
        assert_eq!(grown.numbers(), [1, 2, 3, 4, 5]);
    }
    // Without keys of its own, a record that was loaded in part stays beside the whole one.
    let format = Format::Table(crate::TableFormat::csv());
    for (key, mode, expected) in [
        (Key::Auto, Mode::Upsert, &[1, 25, 3][..]),
        (Key::Auto, Mode::Insert, &[1, 25, 3]),
        (Key::Path("n".into()), Mode::Insert, &[1, 2, 3, 25]),
    ] {
        let grown = Grown::new(&dir.path().join(format!("csv{key:?}{mode:?}")), format.clone());
        let load = |text: &str| grown.load(text.as_bytes(), &key, mode, THREADS[0]).count;
        assert_eq!(load("n\n1\n2").documents, 2);
        assert_eq!(load("n\n1\n25\n3").documents, 2);
        assert_eq!(load("n\n1\n25\n3\r\n").documents, 0);
        assert_eq!(grown.numbers(), expected);
    }
}

/// Here a writer ends after each of its commits in turn, as by a kill, while the file grows. Its
/// parts end in lines, which are bad JSON then, and shorter records of CSV.
#[test]
fn a_load_of_what_a_file_has_grown_by_continues_after_a_kill() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let json = |n: i64| match n % 50 {
        49 => format!("{{BAD {n}\n"),
        _ => format!("{{\"n\":{n},\"pad\":\"x{n:0>99}\"}}\n"),
    };
    let record = |n: i64| match n % 50 {
        49 => format!("{{BAD {n},1,2\n"),
        _ => format!("{n},x{n:0>99}\n"),
    };
    let csv = Format::Table(crate::TableFormat::csv());
    for (at, threads) in THREADS.into_iter().enumerate() {
        let by_n = Key::Path("n".into());
        let (format, key, mode) = match at % 4 {
            0 => (Format::Json, by_n, Mode::Insert),
            1 => (Format::Json, Key::Auto, Mode::Insert),
            2 => (csv.clone(), Key::Auto, Mode::Insert),
            _ => (csv.clone(), by_n, Mode::Upsert),
        };
        let is_json = format == Format::Json;
        let lines = (0..6000).map(|n| if is_json { json(n) } else { record(n) });
        let lines: Vec<String> = lines.collect();
        let header = if is_json { "" } else { "n,pad\n" };
        let grown = Grown::new(&dir.path().join(at.to_string()), format);
        for part in 1..=3 {
            let (whole, rest) = lines.split_at(part * 2000);
            let half = rest.first().map_or("", |line| &line[..50]);
            let text = [header, &whole.concat(), half].concat();
            std::fs::write(&grown.file, text).unwrap();
            for round in 0.. {
                assert!(round < 400, "a load makes progress");
                let (commits, kill_at) = (AtomicU64::new(0), 1 + round % 5);
                let kill: crate::OnCommit = std::sync::Arc::new(move |_| {
                    assert!(commits.fetch_add(1, Ordering::Relaxed) + 1 != kill_at, "killed");
                });
                let plan = grown.plan(&key, threads);
                match (Plan { mode, on_commit: Some(kill), ..plan }).run(&mut Unwatched) {
                    Err(LoadError::Io(_)) => {}
                    Ok(outcome) => {
                        assert!(outcome.failure.is_none(), "{outcome:?}");
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let expected: Vec<i64> = (0..6000).filter(|n| n % 50 != 49).collect();
        assert!(grown.numbers() == expected, "{threads:?}: each once, in the order of the input");
        let copied = grown.copied();
        let copied: Vec<&str> = copied.lines().filter(|line| line.starts_with("{BAD")).collect();
        let bad: Vec<&str> =
            lines.iter().skip(49).step_by(50).map(|line| line.trim_end()).collect();
        assert_eq!(copied, bad, "{threads:?}");
        for document in grown.collection.scan(..) {
            let (key, document): (Value, Document) = document.unwrap();
            assert_eq!(document.str("pad").unwrap().len(), 100, "{threads:?}: {key:?}");
        }
    }
}

/// The place to which a complete load has come may be in a document, which was cut there. If the
/// next load ended before the writer of this document had committed anything, and others had, the
/// one after that skipped the document, and said that all was well.
#[test]
fn a_document_that_was_cut_is_loaded_although_other_writers_were_faster() {
    let dir = tempfile::tempdir().unwrap();
    let csv = Format::Table(crate::TableFormat::csv());
    for (at, n) in (0..24_i64).enumerate() {
        let (format, mode) = match at % 3 {
            0 => (Format::Json, Mode::Insert),
            1 => (Format::Json, Mode::Upsert),
            _ => (csv.clone(), Mode::Upsert),
        };
        let (before, half, rest, more): (_, _, _, String) = if format == Format::Json {
            let more = (100..120).map(|n| format!("{{\"n\":{n},\"u\":{n}}}\n"));
            ("{\"n\":99}\n", format!("{{\"n\":{n},\"u\":7"), "8}\n", more.collect())
        } else {
            let more = (100..120).map(|n| format!("{n},{n}\n"));
            ("n,u\n99,1\n", format!("{n},7"), "8\n", more.collect())
        };
        let grown = Grown::new(&dir.path().join(at.to_string()), format);
        grown.collection.create_index("by_u", Index::on("u").unique()).unwrap();
        grown.collection.put("other", doc!({ "u": 78 })).unwrap();
        let key = Key::Path("n".into());
        let first = grown.load(format!("{before}{half}").as_bytes(), &key, mode, (1, 1, 2));
        assert!(first.resumed_at.is_none());
        let text = format!("{before}{half}{rest}{more}");
        std::fs::write(&grown.file, &text).unwrap();
        let stopped = Plan { mode, bad: BadDocuments::stop(), ..grown.plan(&key, (1, 1, 2)) };
        let failure = stopped.run(&mut Unwatched).unwrap().failure.unwrap().to_string();
        assert!(failure.contains("by_u"), "{failure}");
        assert!(grown.collection.count().unwrap() > 3, "the other writer has committed");
        grown.collection.delete("other").unwrap();
        let loaded = grown.load(text.as_bytes(), &key, mode, (1, 1, 2));
        assert!(loaded.resumed_at.is_some() && loaded.count.documents > 0, "{at}");
        let document = grown.collection.get(n).unwrap().unwrap();
        assert_eq!(document.int("u").unwrap(), 78, "{at}");
        assert_eq!(grown.collection.count().unwrap(), 22, "{at}");
    }
}

/// So was its copy, if it was bad.
#[test]
fn a_bad_document_that_was_cut_is_copied_although_other_writers_were_faster() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..8_i64 {
        let grown = Grown::new(&dir.path().join(n.to_string()), Format::Json);
        let key = Key::Path("n".into());
        let first = grown.load(b"{\"n\":99}\n{BAD", &key, Mode::Insert, (1, 1, 2));
        assert_eq!((first.count.documents, first.count.bad), (1, 1));
        grown.collection.put(n, doc!({ "n": (-1) })).unwrap();
        let more: String = (100..120).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let text = format!("{{\"n\":99}}\n{{BAD AGAIN\n{{\"n\":{n}}}\n{more}");
        std::fs::write(&grown.file, &text).unwrap();
        let plan = grown.plan(&key, (1, 1, 2));
        let stopped = Plan { mode: Mode::Insert, stops_on_error: true, ..plan };
        let failure = stopped.run(&mut Unwatched).unwrap().failure.unwrap();
        assert!(matches!(failure, LoadError::Exists(_)), "{failure}");
        grown.collection.delete(n).unwrap();
        assert!(grown.load(text.as_bytes(), &key, Mode::Insert, (1, 1, 2)).resumed_at.is_some());
        let copied = grown.copied();
        let again = copied.lines().filter(|line| *line == "{BAD AGAIN").count();
        assert_eq!(again, 1, "{n}: {copied}");
        assert_eq!(grown.collection.count().unwrap(), 22, "{n}");
    }
}

/// The part stayed, and was in the way of the whole record, where another document made the load
/// put the documents of a batch one after another.
#[test]
fn a_whole_record_replaces_its_part_beside_documents_that_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let new = |name: &str| {
        let grown = Grown::new(&dir.path().join(name), Format::Table(crate::TableFormat::csv()));
        grown.collection.create_index("by_u", Index::on("u").unique()).unwrap();
        grown.collection.put("", doc!({ "n": 0, "u": 99 })).unwrap();
        grown
    };
    let load = |grown: &Grown, text: &str| {
        grown.load(text.as_bytes(), &Key::Auto, Mode::Insert, (1, 1, 1)).count
    };
    let (first, second) = ("n,u\n1,10\n2,2", "n,u\n1,10\n2,20\n3,99\n4,40\n");
    let values = |grown: &Grown| -> Vec<i64> {
        let documents = grown.collection.scan(..).map(|entry| entry.unwrap().1);
        documents.map(|document: Document| document.int("u").unwrap()).collect()
    };
    // An index refuses the record behind it.
    let grown = new("refused");
    assert_eq!(load(&grown, first).documents, 2);
    let count = load(&grown, second);
    assert_eq!((count.documents, count.bad, count.existing), (2, 1, 0));
    assert_eq!(values(&grown), [99, 10, 20, 40]);
    let copied = grown.copied();
    assert!(copied.ends_with("\n3,99\n") && copied.lines().count() == 2, "{copied}");
    // Records behind it exist.
    let grown = new("existing");
    grown.collection.delete("").unwrap();
    assert_eq!(load(&grown, first).documents, 2);
    let marks = grown.database.space("flagstone.loads").existing().keyspace().unwrap().unwrap();
    let before: Vec<_> = marks.scan(..).map(Result::unwrap).collect();
    let (_, part): (Value, Document) = grown.collection.scan(..).last().unwrap().unwrap();
    assert_eq!(load(&grown, second).documents, 3);
    let (key, _): (Value, Document) = grown.collection.scan(..).nth(1).unwrap().unwrap();
    grown.collection.put(key, &part).unwrap();
    for (key, mark) in before {
        marks.put(key, mark).unwrap();
    }
    let count = load(&grown, second);
    assert_eq!((count.documents, count.bad, count.existing), (1, 0, 2));
    assert_eq!(values(&grown), [10, 20, 99, 40]);
}

#[test]
fn a_load_that_was_stopped_behind_a_complete_one_is_held_to_its_text_and_settings() {
    let dir = tempfile::tempdir().unwrap();
    let grown = Grown::new(&dir.path().join("a"), Format::Json);
    let lines = |to: i64| -> String { (0..to).map(|n| format!("{{\"n\":{n}}}\n")).collect() };
    let first = grown.load(lines(10).as_bytes(), &Key::Auto, Mode::Upsert, (1, 1, 1));
    assert_eq!(first.count.documents, 10);
    let load = |text: &str, key: &Key| {
        std::fs::write(&grown.file, text).unwrap();
        let plan = Plan { bad: BadDocuments::stop(), ..grown.plan(key, (1, 1, 1)) };
        match plan.run(&mut Unwatched) {
            Ok(outcome) => match outcome.failure {
                None => Ok(outcome.count.documents),
                Some(failure) => Err(failure.to_string()),
            },
            Err(error) => Err(error.to_string()),
        }
    };
    // Nothing is committed behind the end: the mark of the complete load holds.
    assert!(load(&(lines(10) + "{BAD\n"), &Key::Auto).unwrap_err().contains("in:11:2"));
    assert_eq!(load(&lines(11), &Key::Auto), Ok(1));
    assert!(load(&(lines(12) + "{BAD\n"), &Key::Auto).unwrap_err().contains("in:13:2"));
    let by_n = Key::Path("n".into());
    assert!(load(&lines(13), &by_n).unwrap_err().contains("--key auto: found --key n"));
    let changed = load(&lines(13).replace("11", "99"), &Key::Auto).unwrap_err();
    assert!(changed.contains("has changed before byte"), "{changed}");
    assert!(load(&lines(9), &Key::Auto).unwrap_err().contains("in has 72 bytes"));
    assert_eq!(load(&lines(13), &Key::Auto), Ok(1));
    assert_eq!(grown.numbers(), (0..13).collect::<Vec<_>>());
    // A complete load is not held to them.
    assert_eq!(load(&lines(13).replace("11", "99"), &Key::Auto), Ok(13));
    assert_eq!(load(&lines(3), &by_n), Ok(3));
    assert_eq!(grown.collection.count().unwrap(), 29);
    // Without its documents the mark of a complete load is none.
    grown.collection.clear().unwrap();
    assert_eq!(load(&lines(4), &by_n), Ok(4));
}
