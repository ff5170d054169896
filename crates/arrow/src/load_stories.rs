//! Loads of record batches: rows that are chosen, left out and continued.

use crate::load::{LoadMode, LoadOptions, LoadWatcher, Loaded, load};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use flagstone::admin::Environment;
use flagstone::internal::Shard;
use flagstone::internal::env::MemDisk;
use flagstone::{
    Batch, Collection, Database, Error, ErrorKind, Filter, Json, Keyspace, Result, Space, Value,
};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::Mem;
use std::ops::ControlFlow;
use std::sync::Arc;

fn database() -> Result<(Database, Collection)> {
    let environment = Environment { disk: Arc::new(MemDisk::default()), ..Environment::default() };
    let database = Database::builder("db").environment(environment).open()?;
    let collection = database.collection("c")?;
    Ok((database, collection))
}

/// A cluster in memory and a collection of it, with the database that commits to it.
fn cluster() -> Result<(Cluster, (Database, Collection))> {
    let cluster = Cluster::over(Arc::new(Mem::new()))?;
    let opened = (cluster.scratch()?.clone(), cluster.collection("c")?);
    Ok((cluster, opened))
}

/// Batches of three rows: a key, of which one may be missing, and a number.
fn batches(keys: &[Option<&str>]) -> Vec<RecordBatch> {
    let numbers: Vec<i64> = (0..keys.len() as i64).collect();
    let batch = |(keys, numbers): (&[Option<&str>], &[i64])| {
        let id: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
        let n: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("id", id, true), ("n", n, true)]).ok()
    };
    keys.chunks(3).zip(numbers.chunks(3)).filter_map(batch).collect()
}

/// Notes what it is told, and goes on.
#[derive(Default)]
struct Notes {
    /// Whether a row that cannot be loaded ends the load.
    stops: bool,
    lines: Vec<String>,
    marks: Vec<u64>,
}

impl LoadWatcher for &mut Notes {
    fn watch(&mut self, _so_far: Loaded) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn refuse(&mut self, error: Error, document: Option<&Value>) -> Result<()> {
        if self.stops {
            return Err(error);
        }
        self.lines.push(format!("{error}: {}", document.unwrap_or(&Value::Null)));
        Ok(())
    }

    fn leave(&mut self, row: u64, document: &Value) -> Result<()> {
        self.lines.push(format!("row {row} exists: {document}"));
        Ok(())
    }

    fn mark(&mut self, _batch: &mut Batch, row: u64) -> Result<()> {
        self.marks.push(row);
        Ok(())
    }
}

/// Loads rows with these keys.
fn loaded(
    (database, collection): &(Database, Collection),
    keys: &[Option<&str>],
    options: &LoadOptions,
    notes: &mut Notes,
) -> Result<Loaded> {
    let batches = batches(keys);
    let schema = batches[0].schema();
    let mut reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    load(database, collection, &mut reader, options, notes)
}

fn all(collection: &Collection) -> Result<Vec<String>> {
    let (mut cursor, mut all) = (collection.find("{}").run()?, Vec::new());
    while cursor.advance()? {
        all.push(format!("{} {}", cursor.key()?, cursor.view()?));
    }
    Ok(all)
}

const KEYS: [Option<&str>; 7] =
    [Some("a"), Some("b"), None, Some("c"), Some("a"), Some("d"), Some("e")];

#[test]
fn a_filter_chooses_rows_and_fields_choose_columns() -> Result<()> {
    let opened = database()?;
    let options = LoadOptions {
        filter: Some(Filter::parse(r#"{"n":{"$gte":3},"id":{"$ne":"d"}}"#)?),
        fields: Some(vec!["n".to_owned()]),
        ..LoadOptions::new("id")
    };
    let done = loaded(&opened, &KEYS, &options, &mut Notes::default())?;
    assert_eq!((done.documents, done.rows), (3, 7));
    assert_eq!(all(&opened.1)?, [r#""a" {"n":4}"#, r#""c" {"n":3}"#, r#""e" {"n":6}"#]);
    let fields = Some(vec!["n".to_owned(), "name".to_owned()]);
    let unknown = LoadOptions { fields, ..LoadOptions::new("id") };
    let refused = loaded(&opened, &KEYS, &unknown, &mut Notes::default());
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains(r#"no column "name" among id, n"#), "{text}");
    // It was an error of the first row, which was copied with all others to the file of bad lines.
    let no_key = LoadOptions::new("ID");
    let refused = loaded(&opened, &KEYS, &no_key, &mut Notes::default());
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains(r#"no column of the key "ID" among id, n"#), "{text}");
    Ok(())
}

#[test]
fn each_row_is_in_one_shard_and_the_last_of_a_key_wins() -> Result<()> {
    let whole = database()?;
    let mut notes = Notes::default();
    let all_rows = loaded(&whole, &KEYS, &LoadOptions::new("id"), &mut notes)?;
    for of in [2, 3] {
        let (united, mut sum, mut told) = (database()?, Loaded::default(), Notes::default());
        for number in 1..=of {
            let options = LoadOptions { shard: Shard::new(number, of), ..LoadOptions::new("id") };
            let part = loaded(&united, &KEYS, &options, &mut told)?;
            assert_eq!(part.rows, 7);
            assert!(part.documents < all_rows.documents, "all documents are in one shard");
            sum.documents += part.documents;
            sum.bad += part.bad;
        }
        assert_eq!((sum.documents, sum.bad), (all_rows.documents, all_rows.bad));
        assert_eq!(told.lines, notes.lines, "a bad row is told of once");
        assert_eq!(all(&united.1)?, all(&whole.1)?);
    }
    Ok(())
}

#[test]
fn rows_that_cannot_be_loaded_are_left_out_if_the_watcher_goes_on() -> Result<()> {
    let opened = database()?;
    opened.1.put("d", Json("{}"))?;
    let options = LoadOptions { mode: LoadMode::Insert, ..LoadOptions::new("id") };
    let mut notes = Notes::default();
    let done = loaded(&opened, &KEYS, &options, &mut notes)?;
    assert_eq!((done.documents, done.existing, done.bad, done.rows), (4, 2, 1, 7));
    assert_eq!(
        notes.lines,
        [
            r#"row 2: column id: expected a key, found none: {"id":null,"n":2}"#,
            r#"row 4 exists: {"id":"a","n":4}"#,
            r#"row 5 exists: {"id":"d","n":5}"#,
        ]
    );
    Ok(())
}

#[test]
fn rows_are_loaded_into_a_cluster_as_into_a_directory() -> Result<()> {
    for mode in [LoadMode::Upsert, LoadMode::Insert, LoadMode::Merge] {
        let (here, (_cluster, there)) = (database()?, cluster()?);
        let options = LoadOptions { mode, ..LoadOptions::new("id") };
        let (mut ours, mut theirs) = (Notes::default(), Notes::default());
        for opened in [&here, &there] {
            opened.1.put("d", Json(r#"{"old":1}"#))?;
        }
        let expected = loaded(&here, &KEYS, &options, &mut ours)?;
        let done = loaded(&there, &KEYS, &options, &mut theirs)?;
        let counts = |loaded: Loaded| (loaded.documents, loaded.existing, loaded.bad, loaded.rows);
        assert_eq!(counts(done), counts(expected));
        assert_eq!(theirs.lines, ours.lines);
        assert_eq!(all_sorted(&there.1)?, all_sorted(&here.1)?);
        if mode == LoadMode::Insert {
            // Of a load that continues, its own documents are no others', also if it was stopped
            // before the first mark.
            for (first_row, continues, expected) in
                [(1, true, (3, 2, 1)), (0, true, (4, 2, 1)), (0, false, (0, 6, 1))]
            {
                let again = LoadOptions { first_row, continues, ..options.clone() };
                let done = loaded(&there, &KEYS, &again, &mut Notes::default())?;
                assert_eq!((done.documents, done.existing, done.bad), expected);
            }
        }
    }
    Ok(())
}

fn all_sorted(collection: &Collection) -> Result<Vec<String>> {
    let mut all = all(collection)?;
    all.sort_unstable();
    Ok(all)
}

#[test]
fn a_load_that_failed_is_continued_at_its_last_mark() -> Result<()> {
    for mode in [LoadMode::Upsert, LoadMode::Insert, LoadMode::Merge] {
        let opened = database()?;
        let options = LoadOptions { mode, ..LoadOptions::new("id") };
        let mut notes = Notes { stops: true, ..Notes::default() };
        let failed = loaded(&opened, &KEYS, &options, &mut notes);
        let text = failed.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.starts_with("2 documents were loaded, and then: row 2: "), "{text}");
        assert_eq!(notes.marks.last(), Some(&2));
        // Nothing before the mark is written again.
        opened.1.put("b", Json(r#"{"changed":true}"#))?;
        let options = LoadOptions { first_row: 2, ..options };
        let keys = KEYS.map(|key| Some(key.unwrap_or("new")));
        let done = loaded(&opened, &keys, &options, &mut notes)?;
        assert_eq!(done.rows, 7);
        let all = all(&opened.1)?;
        assert_eq!(all[1], r#""b" {"changed":true}"#);
        assert_eq!(all.len(), 6);
        assert_eq!(notes.marks.last(), Some(&7));
    }
    Ok(())
}

/// Keeps its mark in the database, and fails as by a kill at a call of `mark`.
struct Marked<'a> {
    marks: &'a Keyspace,
    calls_left: u64,
    existing: u64,
}

impl LoadWatcher for &mut Marked<'_> {
    fn watch(&mut self, _so_far: Loaded) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn leave(&mut self, _row: u64, _document: &Value) -> Result<()> {
        self.existing += 1;
        Ok(())
    }

    fn is_told_in_order(&self) -> bool {
        true
    }

    fn mark(&mut self, batch: &mut Batch, row: u64) -> Result<()> {
        if self.calls_left == 0 {
            return Err(Error::new(ErrorKind::Io, "killed"));
        }
        self.calls_left -= 1;
        // With the number of rows that were left out until then.
        batch.put(self.marks, "mark", format!("{row} {}", self.existing))
    }
}

/// A batch with a key that exists is inserted row by row, and its mark came after all of them. A
/// load that continued after a kill between said of its own rows that they had existed before.
#[test]
fn each_row_that_is_inserted_alone_has_its_mark() -> Result<()> {
    let keys = ["a", "b", "x", "a", "c", "y", "d", "d", "e"].map(Some);
    for killed_at in 0..14 {
        let opened = database()?;
        let marks = opened.0.keyspace("marks")?;
        opened.1.put("x", Json("{}"))?;
        opened.1.put("y", Json("{}"))?;
        let options = LoadOptions { mode: LoadMode::Insert, ..LoadOptions::new("id") };
        let (mut first_row, mut existing) = (0, 0);
        for calls_left in [killed_at, u64::MAX] {
            let mut marked = Marked { marks: &marks, calls_left, existing };
            let batches = batches(&keys);
            let schema = batches[0].schema();
            let mut reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
            let options = LoadOptions { first_row, ..options.clone() };
            let done = load(&opened.0, &opened.1, &mut reader, &options, &mut marked);
            existing = marked.existing;
            if done.is_ok() {
                break;
            }
            let mark = marks.get("mark")?.map(|mark| String::from_utf8_lossy(&mark).into_owned());
            let mark = mark.unwrap_or_default();
            let mut numbers = mark.split(' ').filter_map(|number| number.parse().ok());
            (first_row, existing) =
                (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        }
        assert_eq!(existing, 4, "x, y, and the second a and d; killed at {killed_at}");
        assert_eq!(all(&opened.1)?.len(), 7);
    }
    Ok(())
}
