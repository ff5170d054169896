//! All sets of real documents, loaded with indexes: each query, by every plan, finds what a scan of
//! the lines by another JSON parser finds.

use super::plain::{self, matches, values};
use crate::documents::{data, lines};
use crate::support::hashed;
use flagstone::query::Hint;
use flagstone::{Collection, Database, Filter, Find, Index, Options, Space, Value};
use flagstone_testkit::is_long;
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A set of documents: how many lines are read, and what is asked.
struct Set {
    name: &'static str,
    lines: usize,
    indexes: fn() -> Vec<Index>,
    filters: &'static [&'static str],
    sorts: &'static [&'static str],
    distinct: &'static str,
}

struct Loaded {
    _dir: tempfile::TempDir,
    db: Database,
    collection: Collection,
    documents: Vec<Json>,
}

fn load(set: &Set) -> Option<Loaded> {
    let Some(dir) = data() else {
        eprintln!("SKIPPED: no real documents: set FLAGSTONE_DATA to their directory");
        return None;
    };
    let path = dir.join(format!("{}.jsonl.zst", set.name));
    let lines = lines(&path, if is_long() { usize::MAX } else { set.lines });
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(64 << 20);
    let db = Database::builder(dir.path()).options(options).open().unwrap();
    let collection = db.space(set.name).options(hashed(2)).collection().unwrap();
    let put = |from: usize, lines: &[String]| {
        for (at, line) in lines.iter().enumerate() {
            collection.put((from + at) as i64, flagstone::Json(line)).unwrap();
        }
    };
    // Half of the documents are there when the indexes are built, half are written afterwards.
    let half = lines.len() / 2;
    put(0, &lines[..half]);
    for (at, index) in (set.indexes)().into_iter().enumerate() {
        collection.create_index(&format!("index {at}"), index).unwrap();
    }
    put(half, &lines[half..]);
    let documents = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    Some(Loaded { _dir: dir, db, collection, documents })
}

fn keys(find: &Find<'_>) -> Vec<usize> {
    find.run().unwrap().map(|entry| entry.unwrap().0.as_i64().unwrap() as usize).collect()
}

/// The value by which a document is sorted: the least of a path, or the greatest.
fn sort_value(document: &Json, path: &str, is_descending: bool) -> Option<Json> {
    let order = |a: &Option<Json>, b: &Option<Json>| order(a, b);
    let values = values(document, path).into_iter();
    let value = if is_descending { values.max_by(order) } else { values.min_by(order) };
    value.flatten()
}

fn order(a: &Option<Json>, b: &Option<Json>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => plain::compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

impl Loaded {
    /// No hint, a scan, and every index that serves the filter.
    fn plans(&self, filter: &Filter) -> Vec<Option<Hint>> {
        let names = self.collection.indexes().into_iter().map(|index| Hint::index(index.name));
        let serves =
            |hint: &Hint| self.collection.find(filter).hint(hint.clone()).limit(0).run().is_ok();
        let hints = [Hint::Scan].into_iter().chain(names.filter(serves));
        [None].into_iter().chain(hints.map(Some)).collect()
    }

    /// Compares one query by every plan. Returns how many documents match.
    fn compare(&self, set: &Set, text: &str) -> usize {
        let plain: Json = serde_json::from_str(text).unwrap();
        let filter = Filter::parse(text).unwrap();
        let documents = self.documents.iter().enumerate();
        let matching: Vec<usize> =
            documents.filter(|(_, document)| matches(&plain, document)).map(|(at, _)| at).collect();
        for hint in self.plans(&filter) {
            let context = format!("{} {text} by {hint:?}", set.name);
            let find = || match &hint {
                Some(hint) => self.collection.find(&filter).hint(hint.clone()),
                None => self.collection.find(&filter),
            };
            assert_eq!(find().count().unwrap(), matching.len() as u64, "{context}");
            let mut found = keys(&find());
            found.sort_unstable();
            assert_eq!(found, matching, "{context}");
            for sort in set.sorts {
                self.compare_sort(&matching, &find(), sort, &context);
            }
            self.compare_distinct(&matching, &find(), set.distinct, &context);
        }
        matching.len()
    }

    fn compare_sort(&self, matching: &[usize], find: &Find<'_>, sort: &str, context: &str) {
        let (path, is_descending) =
            sort.strip_prefix('-').map_or((sort, false), |path| (path, true));
        let value = |at: &usize| sort_value(&self.documents[*at], path, is_descending);
        let mut expected: Vec<_> = matching.iter().map(value).collect();
        expected.sort_by(order);
        if is_descending {
            expected.reverse();
        }
        for limit in [7, u64::MAX] {
            let found = keys(&find.clone().sort(sort).limit(limit).memory(1 << 20));
            let found: Vec<_> = found.iter().map(value).collect();
            let expected = &expected[..expected.len().min(limit as usize)];
            let is_same = |a: &Option<Json>, b: &Option<Json>| order(a, b).is_eq();
            let differs = found.iter().zip(expected).position(|(a, b)| !is_same(a, b));
            assert_eq!((differs, found.len()), (None, expected.len()), "{context} by {sort}");
        }
    }

    fn compare_distinct(&self, matching: &[usize], find: &Find<'_>, path: &str, context: &str) {
        let values = matching.iter().flat_map(|at| values(&self.documents[*at], path));
        let expected: BTreeSet<String> = values.flatten().map(|value| value.to_string()).collect();
        let found = find.distinct(path).unwrap().map(|value| match value.unwrap() {
            Value::Text(text) => Json::from(text.to_string()).to_string(),
            value => value.to_string(),
        });
        assert_eq!(found.collect::<BTreeSet<_>>(), expected, "{context}, distinct {path}");
    }
}

fn compare(set: &Set) {
    let Some(loaded) = load(set) else { return };
    for filter in set.filters {
        let count = loaded.compare(set, filter);
        assert!(count > 0, "{}: {filter} matches nothing, so it compares nothing", set.name);
    }
    loaded.collection.verify_indexes().unwrap();
    loaded.db.close().unwrap();
}

#[test]
fn comments_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "reddit_comments_ira2018",
        lines: 2_000,
        indexes: || {
            vec![
                Index::on("author").then("-score"),
                Index::on("score"),
                Index::on("edited").sparse(),
                Index::on("$['subreddit.display_name_prefixed']").then("-created_utc"),
                Index::on("length(body)").only(Filter::field("score").gte(5)),
            ]
        },
        filters: &[
            r#"{"author":"1488reasons","score":{"$gte":2}}"#,
            r#"{"score":{"$lt":0},"controversiality":{"$ne":1}}"#,
            r#"{"score":{"$gte":5,"$lte":9}}"#,
            r#"{"edited":{"$type":"number"}}"#,
            r#"{"edited":{"$gt":1400000000}}"#,
            r#"{"body":{"$regex":"police","$options":"i"},"author":{"$prefix":"B"}}"#,
            r#"{"$or":[{"author":"BlackToLive"},{"score":{"$gt":100}}]}"#,
        ],
        sorts: &["-score", "author", "edited"],
        distinct: "author",
    });
}

#[test]
fn submissions_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "reddit_submissions_2013",
        lines: 2_000,
        indexes: || {
            vec![
                Index::on("subreddit").then("-num_comments"),
                Index::on("created_utc"),
                Index::on("domain").sparse(),
                Index::on("-score").only(Filter::field("is_self").eq(true)),
                Index::on("id").unique(),
                Index::on("lower(title)"),
            ]
        },
        filters: &[
            r#"{"subreddit":{"$in":["0x10c","100yearsago"]},"num_comments":{"$gte":5}}"#,
            r#"{"created_utc":{"$gte":1337775457,"$lt":1350000000.5}}"#,
            r#"{"is_self":true,"score":{"$gt":50}}"#,
            r#"{"id":"u0w25"}"#,
            r#"{"link_flair_text":null,"over_18":{"$nin":[true]}}"#,
            r#"{"title":{"$contains":"love"}}"#,
            r#"{"score":{"$mod":[7,3]}}"#,
            r#"{"$nor":[{"domain":{"$prefix":"i"}},{"score":{"$lt":100}}]}"#,
        ],
        sorts: &["-num_comments", "created_utc", "subreddit"],
        distinct: "domain",
    });
}

#[test]
fn events_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "gharchive_2015",
        lines: 1_200,
        indexes: || {
            vec![
                Index::on("type").then("created_at"),
                Index::on("payload.commits.author.name"),
                Index::on("payload.size").sparse(),
                Index::on("actor.login"),
                Index::on("payload.commits.distinct").then("payload.size"),
                Index::on("length(payload.commits)"),
            ]
        },
        filters: &[
            r#"{"type":"PushEvent","payload.size":{"$gte":3}}"#,
            r#"{"payload.commits":{"$elemMatch":{"distinct":true,"message":{"$contains":"fix"}}}}"#,
            r#"{"payload.commits":{"$size":2}}"#,
            r#"{"payload.commits":[]}"#,
            r#"{"payload.commits.distinct":false}"#,
            r#"{"payload.commits.0.distinct":true}"#,
            r#"{"payload.commits":{"$exists":false}}"#,
            r#"{"payload.size":{"$not":{"$gt":0}}}"#,
            r#"{"type":{"$ne":"PushEvent"},"actor.login":{"$gte":"m"}}"#,
        ],
        sorts: &["-payload.size", "payload.commits.author.name", "actor.login"],
        distinct: "payload.commits.author.name",
    });
}

#[test]
fn artworks_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "tate_artworks",
        lines: 800,
        indexes: || {
            vec![
                Index::on("contributors.fc").then("acquisitionYear"),
                Index::on("dateRange.startYear"),
                Index::on("subjects.children.children.name"),
                Index::on("classification").then("-id"),
                Index::on("contributorCount"),
            ]
        },
        filters: &[
            r#"{"contributors.fc":"William Blake"}"#,
            r#"{"subjects.children.children.name":{"$all":["adults","landscape"]}}"#,
            r#"{"subjects.children.children.name":{"$in":["water: inland","inscriptions"]}}"#,
            r#"{"dateRange.startYear":{"$gte":1800,"$lt":1820}}"#,
            r#"{"foreignTitle":{"$exists":true},"classification":"on paper, unique"}"#,
            r#"{"contributors":{"$elemMatch":{"role":"artist","birthYear":{"$lt":1760}}}}"#,
            r#"{"catalogueGroup":{"$type":"map"},"contributorCount":{"$lte":1}}"#,
            r#"{"contributors":{"$all":[{"$elemMatch":{"role":"artist"}}]}}"#,
        ],
        sorts: &["dateRange.startYear", "-contributors.birthYear", "classification"],
        distinct: "subjects.children.children.name",
    });
}

#[test]
fn films_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "wikipedia_movies",
        lines: 4_000,
        indexes: || {
            vec![
                Index::on("genres").then("-year"),
                Index::on("cast"),
                Index::on("year").then("title"),
                Index::on("length(cast)"),
                Index::on("extract").sparse().only(Filter::field("year").lt(1915)),
            ]
        },
        filters: &[
            r#"{"genres":"Comedy","year":{"$gte":1912}}"#,
            r#"{"genres":{"$all":["Comedy","Short"]}}"#,
            r#"{"cast":{"$size":0},"href":null}"#,
            r#"{"cast":[]}"#,
            r#"{"cast":{"$elemMatch":{"$gte":"A","$lt":"C"}}}"#,
            r#"{"year":1910,"title":{"$regex":"^The"}}"#,
            r#"{"$comment":"why","year":{"$bitsAllSet":6},"href":{"$exists":1}}"#,
            r#"{"genres":{"$in":[{"$regularExpression":{"pattern":"^C","options":""}},"Short"]}}"#,
            r#"{"year":1909,
                "cast":{"$nin":[{"$regularExpression":{"pattern":"^F","options":""}}]}}"#,
            r#"{"extract":{"$exists":true},"year":{"$lt":1910}}"#,
            r#"{"thumbnail_width":{"$type":"number"},"genres":{"$nin":["Silent","Short"]}}"#,
        ],
        sorts: &["-year", "genres", "-cast", "extract"],
        distinct: "genres",
    });
}

#[test]
fn threats_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "mitre_attack_stix",
        lines: 1_500,
        indexes: || {
            vec![
                Index::on("type").then("-created"),
                Index::on("external_references.external_id"),
                Index::on("x_mitre_platforms"),
                Index::on("kill_chain_phases.phase_name").then("modified"),
                Index::on("description").sparse(),
                Index::on("revoked"),
            ]
        },
        filters: &[
            r#"{"type":"attack-pattern","revoked":false}"#,
            r#"{"external_references.external_id":{"$prefix":"T12"}}"#,
            r#"{"x_mitre_platforms":{"$all":["Windows","Linux"]}}"#,
            r#"{"kill_chain_phases":{"$elemMatch":{"phase_name":"persistence"}}}"#,
            r#"{"created":{"$gte":"2020","$lt":"2022"}}"#,
            r#"{"description":{"$contains":"PowerShell"}}"#,
            r#"{"$and":[{"x_mitre_platforms":"macOS"},{"x_mitre_platforms":{"$ne":"Windows"}}]}"#,
            r#"{"description":{"$exists":true},"revoked":{"$ne":true}}"#,
        ],
        sorts: &["-created", "x_mitre_platforms", "description"],
        distinct: "x_mitre_platforms",
    });
}

#[test]
fn descriptions_of_interfaces_are_found_as_by_a_scan_of_their_lines() {
    compare(&Set {
        name: "google_discovery",
        lines: 40,
        indexes: || {
            vec![
                Index::on("name").then("version"),
                Index::on("auth.oauth2.scopes").sparse(),
                Index::on("title"),
                Index::on("length(schemas)"),
                Index::on("revision").only(Filter::field("version").eq("v1")),
            ]
        },
        filters: &[
            r#"{"version":"v1"}"#,
            r#"{"version":{"$ne":"v1"},"name":{"$gte":"ad"}}"#,
            r#"{"auth.oauth2.scopes":{"$type":"map"}}"#,
            r#"{"title":{"$contains":"API"},"canonicalName":{"$exists":true}}"#,
            r#"{"$or":[{"name":{"$prefix":"acc"}},{"name":{"$prefix":"ad"}}]}"#,
            r#"{"version":"v1","revision":{"$gte":"2020"}}"#,
        ],
        sorts: &["name", "-revision", "title"],
        distinct: "version",
    });
}
