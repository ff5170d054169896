//! Queries of real documents, each compared with what a plain scan of the lines returns.

use crate::documents::{data, lines};
use crate::support::hashed;
use flagstone::{
    Collection, Database, Document, Filter, Group, Index, Json, Options, Space, Value,
};
use flagstone_testkit::is_long;
use std::collections::BTreeMap;

/// A data set, with a path to group and compare by, one of numbers, and filters.
struct Set {
    name: &'static str,
    lines: usize,
    by: &'static str,
    number: &'static str,
    filters: &'static [&'static str],
}

const SETS: [Set; 4] = [
    Set {
        name: "reddit_comments_ira2018",
        lines: 6_711,
        by: "author",
        number: "score",
        filters: &[
            "{}",
            r#"{"author":"BlackToLive","score":{"$gte":10}}"#,
            r#"{"score":{"$lt":0}}"#,
            r#"{"$or":[{"$['subreddit.display_name_prefixed']":"r/funny"},{"gilded":{"$gt":0}}]}"#,
            r#"{"author":{"$exists":true},"edited":{"$ne":false}}"#,
        ],
    },
    Set {
        name: "reddit_submissions_2013",
        lines: 3_000,
        by: "subreddit",
        number: "num_comments",
        filters: &["{}", r#"{"over_18":true}"#, r#"{"num_comments":{"$gte":5,"$lt":9}}"#],
    },
    Set {
        name: "gharchive_2015",
        lines: 1_500,
        by: "type",
        number: "payload.size",
        filters: &["{}", r#"{"type":"PushEvent"}"#, r#"{"payload.commits.distinct":true}"#],
    },
    Set {
        name: "tate_artworks",
        lines: 2_000,
        by: "classification",
        number: "year",
        filters: &["{}", r#"{"classification":"on paper, print"}"#],
    },
];

struct Loaded {
    _dir: tempfile::TempDir,
    _db: Database,
    collection: Collection,
    documents: Vec<Document>,
}

fn load(set: &Set) -> Option<Loaded> {
    let Some(dir) = data() else {
        eprintln!("SKIPPED: no real documents: set FLAGSTONE_DATA to their directory");
        return None;
    };
    let path = dir.join(format!("{}.jsonl.zst", set.name));
    let lines = lines(&path, if is_long() { usize::MAX } else { set.lines });
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(16 << 20);
    let db = Database::builder(dir.path()).options(options).open().unwrap();
    let collection = db.space(set.name).options(hashed(4)).collection().unwrap();
    for (at, line) in lines.iter().enumerate() {
        collection.put(at as i64, Json(line)).unwrap();
    }
    let documents = lines.iter().map(|line| Document::from_json(line).unwrap()).collect();
    Some(Loaded { _dir: dir, _db: db, collection, documents })
}

impl Loaded {
    fn matching(&self, filter: &str) -> Vec<(i64, &Document)> {
        let matcher = Filter::parse(filter).unwrap().compile().unwrap();
        let entries = self.documents.iter().enumerate();
        let matching = entries.filter(|(_, document)| matcher.matches(&document.root()).unwrap());
        matching.map(|(at, document)| (at as i64, document)).collect()
    }

    fn compare(&self, set: &Set, filter: &str) {
        let context = format!("{} {filter}", set.name);
        let expected = self.matching(filter);
        let find = || self.collection.find(filter).memory(1);
        assert_eq!(find().count().unwrap(), expected.len() as u64, "{context}");
        let mut found: Vec<i64> =
            find().run().unwrap().map(|entry| entry.unwrap().0.as_i64().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, expected.iter().map(|(key, _)| *key).collect::<Vec<_>>(), "{context}");

        // The values of scalars: missing before null, then in the total order.
        let number =
            |document: &Document| document.get(set.number).map(|view| view.to_value().unwrap());
        let mut sorted: Vec<_> =
            expected.iter().map(|(key, document)| (number(document), *key)).collect();
        sorted.sort();
        for limit in [20, u64::MAX] {
            let find = find().sort(set.number).limit(limit);
            let found: Vec<_> =
                find.run().unwrap().map(|entry| number(&entry.unwrap().1)).collect();
            let expected: Vec<_> =
                sorted.iter().take(limit.min(1 << 30) as usize).map(|(number, _)| number).collect();
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{context}, sorted");
        }
        self.compare_groups(set, &expected, &context, filter);
    }

    fn compare_groups(
        &self,
        set: &Set,
        expected: &[(i64, &Document)],
        context: &str,
        filter: &str,
    ) {
        let mut groups: BTreeMap<Value, (i64, i128, bool)> = BTreeMap::new();
        for (_, document) in expected {
            let by = document.get(set.by).map(|view| view.to_value().unwrap()).unwrap_or_default();
            let group = groups.entry(by).or_default();
            group.0 += 1;
            if let Some(number) = document.get(set.number) {
                match number.as_i64() {
                    Some(int) => group.1 += i128::from(int),
                    None => group.2 |= number.is_number(),
                }
            }
        }
        let group = Group::by(set.by).count("count").sum("total", set.number);
        let find = self.collection.find(filter).memory(1);
        let found: Vec<Value> = find.group(&group).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), groups.len(), "{context}");
        for (found, (by, (count, total, has_fractions))) in found.iter().zip(&groups) {
            assert_eq!(found.get(set.by), Some(by), "{context}");
            assert_eq!(found.get("count").and_then(Value::as_i64), Some(*count), "{context}");
            if !has_fractions {
                assert_eq!(found.get("total"), Some(&Value::from(*total)), "{context}");
            }
        }
        let mut distinct: Vec<Value> = expected
            .iter()
            .filter_map(|(_, document)| document.get(set.by)?.to_value().ok())
            .collect();
        distinct.sort();
        distinct.dedup();
        let found: Vec<Value> = find.distinct(set.by).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, distinct, "{context}");
    }
}

fn compare(set: &Set) {
    let Some(loaded) = load(set) else { return };
    let mut matched = 0;
    for filter in set.filters {
        loaded.compare(set, filter);
        matched += loaded.matching(filter).len();
    }
    let indexes = [
        ("by", Index::on(set.by)),
        ("number", Index::on(set.number)),
        ("both", Index::on(set.by).then(set.number).descending()),
    ];
    for (name, index) in indexes {
        loaded.collection.create_index(name, index).unwrap();
    }
    set.filters.iter().for_each(|filter| loaded.compare(set, filter));
    assert!(matched > loaded.documents.len(), "filters that match nothing compare nothing");
    eprintln!("{}: {} documents, {matched} matched", set.name, loaded.documents.len());
}

#[test]
fn queries_of_comments_return_what_a_scan_of_the_lines_returns() {
    compare(&SETS[0]);
}

#[test]
fn queries_of_submissions_return_what_a_scan_of_the_lines_returns() {
    compare(&SETS[1]);
}

#[test]
fn queries_of_events_return_what_a_scan_of_the_lines_returns() {
    compare(&SETS[2]);
}

#[test]
fn queries_of_artworks_return_what_a_scan_of_the_lines_returns() {
    compare(&SETS[3]);
}
