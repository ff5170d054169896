//! Rust structs as documents of a collection: they are documents like any other, and their names
//! are safe.

use crate::support::{hashed, small};
use flagstone::doc::{DateTime, adapt};
use flagstone::{As, Database, ErrorKind, Json, Patch, Space, Value, doc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Comment {
    author: String,
    score: i64,
    #[serde(default)]
    tags: Vec<String>,
    votes: BTreeMap<u64, Vote>,
    #[serde(with = "adapt::millis")]
    at: DateTime,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
enum Vote {
    Up,
    Down { weight: u8 },
}

fn comment(score: i64) -> Comment {
    Comment {
        author: format!("author {score}"),
        score,
        tags: vec!["a".into(); score.unsigned_abs() as usize % 4],
        votes: BTreeMap::from([(300, Vote::Up), (7, Vote::Down { weight: score as u8 })]),
        at: DateTime::from_micros(score * 1000),
    }
}

#[test]
fn structs_come_back_after_flushes_and_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Database::builder(dir.path()).options(small()).open().unwrap();
    let db = open();
    let comments = db.space("comments").options(hashed(3)).collection().unwrap();
    for score in 0..200 {
        comments.put(score, As(&comment(score))).unwrap();
    }
    db.flush().unwrap();
    // Fields with names of their own, known to the log alone.
    comments.put("other", As(&BTreeMap::from([("late", Value::from(1))]))).unwrap();
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Late {
        late_name: u8,
    }
    comments.put("late", As(&Late { late_name: 3 })).unwrap();
    drop((comments, db));
    let db = open();
    let comments = db.collection("comments").unwrap();
    for score in 0..200 {
        assert_eq!(comments.get_as(score).unwrap(), Some(comment(score)));
    }
    assert_eq!(comments.get_as("late").unwrap(), Some(Late { late_name: 3 }));
    assert_eq!(comments.get_as::<Comment>("nobody").unwrap(), None);
}

#[test]
fn a_struct_is_a_document_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).options(small()).open().unwrap();
    let comments = db.collection("comments").unwrap();
    let value = comment(2);
    comments.put("a", As(&value)).unwrap();
    let document = comments.get("a").unwrap().unwrap();
    assert_eq!((document.str("author").unwrap(), document.int("at").unwrap()), ("author 2", 2));
    assert_eq!(document.to::<Comment>().unwrap(), value);
    comments.put("b", &document).unwrap();
    assert_eq!(comments.get_as("b").unwrap(), Some(value));
    // The same bytes as of the equal value.
    #[derive(Serialize)]
    struct Point {
        x: i32,
        y: [u8; 2],
    }
    comments.put("c", As(&Point { x: -1, y: [2, 3] })).unwrap();
    comments.put("d", doc!({ "x": (-1), "y": [2, 3] })).unwrap();
    let bytes = |key: &str| comments.get(key).unwrap().unwrap().as_bytes().to_vec();
    assert_eq!(bytes("c"), bytes("d"));
    comments.put("e", Json(r#"{"author":"x","score":1e1,"votes":{"8":"Up"},"at":5}"#)).unwrap();
    comments.patch("e", &Patch::new().inc("score", 1).push("tags", "hot")).unwrap();
    let read: Comment = comments.get_as("e").unwrap().unwrap();
    assert_eq!((read.score, read.tags), (11, vec!["hot".to_owned()]));
    assert_eq!(read.votes, BTreeMap::from([(8, Vote::Up)]));
}

#[test]
fn batches_take_structs_and_snapshots_give_them() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).options(small()).open().unwrap();
    let comments = db.collection("comments").unwrap();
    comments.put(1, As(&comment(1))).unwrap();
    let before = db.snapshot();
    let mut batch = db.batch();
    batch.put(&comments, 1, As(&comment(10))).unwrap();
    batch.put(&comments, 2, As(&comment(20))).unwrap();
    assert_eq!(batch.len(), 2);
    assert_eq!(comments.get_as(1).unwrap(), Some(comment(1)));
    db.commit(batch).unwrap();
    assert_eq!(comments.get_as(1).unwrap(), Some(comment(10)));
    assert_eq!(comments.get_as(2).unwrap(), Some(comment(20)));
    let first = before.get(&comments, 1).unwrap().unwrap();
    assert_eq!(first.to::<Comment>().unwrap(), comment(1));
    assert_eq!(before.get(&comments, 2).unwrap(), None);
    let read: Vec<Comment> =
        comments.scan(..).map(|entry| entry.unwrap().1.to().unwrap()).collect();
    assert_eq!(read, [comment(10), comment(20)]);
}

#[test]
fn a_document_that_does_not_fit_the_type_is_named_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let options = small().document_bytes_max(1000);
    let db = Database::builder(dir.path()).options(options).open().unwrap();
    let comments = db.collection("comments").unwrap();
    let json = r#"{"author":"x","score":1,"votes":{"8":{"Down":{"weight":300}}},"at":5}"#;
    comments.put("a", Json(json)).unwrap();
    let error = comments.get_as::<Comment>("a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.to_string(),
        "a stored document of \"comments\": votes.8.Down.weight: invalid value: integer `300`, \
         expected u8"
    );
    let large = vec!["x".repeat(100); 20];
    assert_eq!(comments.put("b", As(&large)).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut batch = db.batch();
    batch.put(&comments, "b", As(&large)).unwrap_err();
    let nested = (0..600).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    let error = comments.put("b", As(&nested)).unwrap_err().to_string();
    assert!(error.contains("nested deeper than 512"), "{error}");
    assert!(batch.is_empty() && comments.get("b").unwrap().is_none());
}

/// A value that writes another document while it is being written itself.
struct Nosy(flagstone::Collection);

impl Serialize for Nosy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.put("inner", As(&comment(3))).map_err(serde::ser::Error::custom)?;
        serializer.collect_map([("seen", true)])
    }
}

#[test]
fn a_value_may_write_documents_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::builder(dir.path()).options(small()).open().unwrap();
    let comments = db.collection("comments").unwrap();
    comments.put("outer", As(&Nosy(comments.clone()))).unwrap();
    assert_eq!(comments.get_as("inner").unwrap(), Some(comment(3)));
    let outer: BTreeMap<String, bool> = comments.get_as("outer").unwrap().unwrap();
    assert_eq!(outer, BTreeMap::from([("seen".to_owned(), true)]));
}
