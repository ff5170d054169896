//! Real documents, every one compared with what serde_json reads in its line.

use crate::support::hashed;
use flagstone::doc::JsonOptions;
use flagstone::load::DocumentParser;
use flagstone::{Database, Json, Options, Space};
use flagstone_testkit::{is_long, rounds};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Where the files lie: `FLAGSTONE_DATA`, or beside the repository.
pub(crate) fn data() -> Option<PathBuf> {
    let dir = match std::env::var_os("FLAGSTONE_DATA") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    dir.join("README.md").exists().then_some(dir)
}

pub(crate) fn lines(path: &Path, limit: usize) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap();
    let decoder = zstd::Decoder::new(file).unwrap();
    BufReader::new(decoder).lines().take(limit).collect::<Result<_, _>>().unwrap()
}

fn round_trip(name: &str, limit: usize) {
    let Some(dir) = data() else {
        eprintln!("SKIPPED: no real documents: set FLAGSTONE_DATA to their directory");
        return;
    };
    let path = dir.join(format!("{name}.jsonl.zst"));
    let lines = lines(&path, if is_long() { usize::MAX } else { limit });
    let temporary = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(16 << 20);
    let open = || Database::builder(temporary.path()).options(options.clone()).open().unwrap();
    let db = open();
    let collection = db.space(name).options(hashed(4)).collection().unwrap();
    // The line's number is the key: films have none of their own.
    for (at, line) in lines.iter().enumerate() {
        collection.put(at as i64, Json(line)).unwrap();
    }
    if rounds(0, 1) == 1 {
        db.compact().unwrap();
    }
    drop(collection);
    db.close().unwrap();
    let db = open();
    let collection = db.space(name).options(hashed(4)).collection().unwrap();
    assert_eq!(collection.count().unwrap(), lines.len() as u64);
    for (at, line) in lines.iter().enumerate() {
        let document = collection.get(at as i64).unwrap().unwrap();
        let found: serde_json::Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(found, expected, "{name}, line {}", at + 1);
    }
    let mut expected = 0;
    for entry in collection.scan(..) {
        let (key, _) = entry.unwrap();
        assert_eq!(key.as_i64(), Some(expected));
        expected += 1;
    }
    eprintln!("{name}: {expected} documents compared");
}

#[test]
fn comments_come_back_as_serde_json_reads_them() {
    round_trip("reddit_comments_ira2018", 6_711);
}

#[test]
fn submissions_come_back_as_serde_json_reads_them() {
    round_trip("reddit_submissions_2013", 4_000);
}

#[test]
fn events_come_back_as_serde_json_reads_them() {
    round_trip("gharchive_2015", 1_500);
}

#[test]
fn artworks_come_back_as_serde_json_reads_them() {
    round_trip("tate_artworks", 1_500);
}

#[test]
fn films_come_back_as_serde_json_reads_them() {
    round_trip("wikipedia_movies", 5_000);
}

#[test]
fn threats_come_back_as_serde_json_reads_them() {
    round_trip("mitre_attack_stix", 2_500);
}

#[test]
fn api_descriptions_come_back_as_serde_json_reads_them() {
    round_trip("google_discovery", 24);
}

#[test]
fn comments_loaded_in_batches_by_their_id_come_back() {
    let Some(dir) = data() else {
        eprintln!("SKIPPED: no real documents: set FLAGSTONE_DATA to their directory");
        return;
    };
    let lines = lines(&dir.join("reddit_comments_ira2018.jsonl.zst"), usize::MAX);
    let temporary = tempfile::tempdir().unwrap();
    let db = Database::open(temporary.path()).unwrap();
    let collection = db.space("comments").options(hashed(4)).collection().unwrap();
    let mut parser = DocumentParser::new(&collection, JsonOptions::default());
    for part in lines.chunks(100) {
        let mut batch = db.batch();
        for line in part {
            parser.put(&mut batch, line.as_bytes(), "id").unwrap();
        }
        db.commit(batch).unwrap();
    }
    // Some ids stand on two lines: the later one is what the collection holds.
    let parsed = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    let by_id: HashMap<String, serde_json::Value> =
        parsed.map(|v: serde_json::Value| (v["id"].as_str().unwrap().to_owned(), v)).collect();
    assert_eq!(collection.count().unwrap(), by_id.len() as u64);
    for (id, expected) in by_id {
        let document = collection.get(id).unwrap().unwrap();
        let found: serde_json::Value = serde_json::from_str(&document.to_json().unwrap()).unwrap();
        assert_eq!(found, expected);
    }
}
