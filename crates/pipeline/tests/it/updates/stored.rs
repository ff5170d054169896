//! Updates of documents of a collection.

use super::{parse, update};
use flagstone::{
    Collection, Database, ErrorKind, Expires, Filter, Index, Moment, Patched, Space, Value, doc,
};
use tempfile::TempDir;

fn opened() -> (TempDir, Database, Collection) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let collection = db.collection("c").unwrap();
    (dir, db, collection)
}

fn filter(text: &str) -> Filter {
    Filter::parse(text).unwrap()
}

/// Returns a document as text.
fn text(collection: &Collection, key: impl Into<Value>) -> Option<String> {
    collection.get(key.into()).unwrap().map(|document| document.to_json().unwrap())
}

/// The update, its array filters, a filter, a document, and what becomes of it.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (r#"{"$set":{"a.$":7}}"#, "[]", r#"{"a":2}"#, r#"{"a":[1,2]}"#, r#"{"a":[1,7]}"#),
    (r#"{"$inc":{"a.$[]":1}}"#, "[]", "{}", r#"{"a":[1,2]}"#, r#"{"a":[2,3]}"#),
    (
        r#"{"$mul":{"a.$[x].n":2}}"#,
        r#"[{"x.n":{"$gt":1}}]"#,
        "{}",
        r#"{"a":[{"n":1},{"n":2}]}"#,
        r#"{"a":[{"n":1},{"n":4}]}"#,
    ),
    (
        r#"{"$push":{"a":{"$each":[5,1],"$sort":1,"$slice":2}}}"#,
        "[]",
        "{}",
        r#"{"a":[3]}"#,
        r#"{"a":[1,3]}"#,
    ),
    (
        r#"{"$push":{"a":{"$each":[5],"$position":0}}}"#,
        "[]",
        "{}",
        r#"{"a":[3]}"#,
        r#"{"a":[5,3]}"#,
    ),
    (r#"{"$pull":{"a":{"$gte":2}}}"#, "[]", "{}", r#"{"a":[1,2,3]}"#, r#"{"a":[1]}"#),
    (
        r#"{"$pull":{"a":{"n":2}}}"#,
        "[]",
        "{}",
        r#"{"a":[{"n":2,"m":1},{"n":3}]}"#,
        r#"{"a":[{"n":3}]}"#,
    ),
    (r#"{"$setOnInsert":{"b":1},"$unset":{"c":1}}"#, "[]", "{}", r#"{"c":1}"#, "{}"),
    (
        r#"[{"$set":{"sum":{"$add":["$a","$b"]},"key":"$_id"}},{"$unset":"a"}]"#,
        "[]",
        "{}",
        r#"{"a":1,"b":2}"#,
        r#"{"b":2,"sum":3,"key":"k"}"#,
    ),
];

#[test]
fn a_document_is_changed_by_its_key_and_by_a_filter_alone_and_in_a_transaction() {
    let (_dir, db, c) = opened();
    for (change, filters, by, before, after) in CASES {
        let change = update(change, filters).unwrap();
        let put = || c.put("k", parse(before)).unwrap();
        let is_changed = before != after;
        let by = filter(by);
        put();
        let done = c.update_many(&by, change.change(&by).unwrap()).run().unwrap();
        assert_eq!((done.matched, done.modified), (1, u64::from(is_changed)), "{change:?}");
        assert_eq!(text(&c, "k").unwrap(), *after);
        put();
        let mut tx = db.begin().unwrap();
        tx.update_many(&c, &by, change.change(&by).unwrap()).unwrap();
        tx.commit().unwrap();
        assert_eq!(text(&c, "k").unwrap(), *after);
        if change.matched_array().is_some() {
            continue;
        }
        put();
        assert_eq!(change.run(&c, "k").unwrap(), Patched::Changed);
        assert_eq!(text(&c, "k").unwrap(), *after);
        put();
        let mut tx = db.begin().unwrap();
        assert_eq!(change.run_in(&mut tx, &c, "k").unwrap(), Patched::Changed);
        tx.commit().unwrap();
        assert_eq!(text(&c, "k").unwrap(), *after);
    }
}

#[test]
fn what_does_not_apply_is_told_and_changes_nothing() {
    let (_dir, _db, c) = opened();
    c.put("k", doc!({ "a": [1], "t": "x" })).unwrap();
    c.put("list", doc!([1])).unwrap();
    let told = |change: &str, key: &str, said: &str| {
        let Patched::NotApplied(why) = update(change, "[]").unwrap().run(&c, key).unwrap() else {
            panic!("{change} applies to {key}");
        };
        assert!(why.contains(said), "{change}: {why}");
    };
    told(r#"{"$inc":{"t":1}}"#, "k", "update.$inc.t: expected a number");
    told(r#"{"$set":{"a.$":1}}"#, "k", "expected a filter that matches an element");
    told(r#"{"$set":{"_id":1}}"#, "k", "update._id: expected no change");
    told(r#"{"$set":{"b":1}}"#, "list", r#"maps, found an array with the key "list""#);
    assert_eq!(text(&c, "k").unwrap(), r#"{"a":[1],"t":"x"}"#);
    let change = update(r#"{"$set":{"t":"y"}}"#, "[]").unwrap();
    assert_eq!(change.run(&c, "none").unwrap(), Patched::NoDocument);
    assert_eq!(change.run(&c, "k").unwrap(), Patched::Changed);
    assert_eq!(change.run(&c, "k").unwrap(), Patched::Unchanged);
    // By a filter it is an error, as with other changes.
    let wrong = update(r#"{"$inc":{"t":1}}"#, "[]").unwrap();
    let by = filter(r#"{"t":"y"}"#);
    let stopped = c.update_many(&by, wrong.change(&by).unwrap()).run().unwrap_err();
    assert_eq!(stopped.error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_upsert_inserts_the_document_of_a_key_once() {
    let (_dir, db, c) = opened();
    let change = r#"{"$inc":{"n":1},"$setOnInsert":{"new":true}}"#;
    let change = update(change, "[]").unwrap().upsert();
    let list = || doc!([1, "a"]);
    for _ in 0..2 {
        assert_eq!(change.run(&c, "k").unwrap(), Patched::Changed);
        assert_eq!(change.run(&c, list()).unwrap(), Patched::Changed);
        let mut tx = db.begin().unwrap();
        assert_eq!(change.run_in(&mut tx, &c, 7).unwrap(), Patched::Changed);
        tx.commit().unwrap();
    }
    for key in [doc!("k"), list(), doc!(7)] {
        assert_eq!(text(&c, key).unwrap(), r#"{"n":2,"new":true}"#);
    }
    let date = update(r#"{"$currentDate":{"at":true}}"#, "[]").unwrap().upsert();
    date.run(&c, "date").unwrap().applied().unwrap();
    assert!(matches!(
        c.get("date").unwrap().unwrap().to_value().get("at"),
        Some(Value::DateTime(_))
    ));
}

/// A `$set` that was forgotten replaced all documents.
#[test]
fn a_replacement_is_for_the_document_of_one_key() {
    let (_dir, db, c) = opened();
    c.put(1, doc!({ "a": 1 })).unwrap();
    for change in [r#"{"a":2}"#, "{}"] {
        let change = update(change, "[]").unwrap();
        let refused = change.change(&filter("{}")).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("expected operators"), "{refused}");
    }
    let change = update(r#"{"a":2}"#, "[]").unwrap();
    assert!(change.run(&c, 1).unwrap().is_applied());
    assert_eq!(text(&c, 1).unwrap(), r#"{"a":2}"#);
    let mut tx = db.begin().unwrap();
    let change = update("{}", "[]").unwrap();
    assert!(change.run_in(&mut tx, &c, 1).unwrap().is_applied());
    tx.commit().unwrap();
    assert_eq!(text(&c, 1).unwrap(), "{}");
}

#[test]
fn an_upsert_by_a_filter_takes_the_key_and_the_fields_from_it() {
    let (_dir, db, c) = opened();
    let change = update(r#"{"$set":{"b":2}}"#, "[]").unwrap();
    let insert = |by: &str| change.insert(&c, &filter(by));
    assert_eq!(insert(r#"{"$key":5,"a":{"$eq":1}}"#).unwrap(), Some(Value::from(5)));
    assert_eq!(text(&c, 5).unwrap(), r#"{"a":1,"b":2}"#);
    assert_eq!(insert(r#"{"$key":5}"#).unwrap(), None, "it matches now");
    assert_eq!(insert(r#"{"$key":[1,"a"]}"#).unwrap(), Some(doc!([1, "a"])));
    assert_eq!(text(&c, doc!([1, "a"])).unwrap(), r#"{"b":2}"#);
    // The update takes it for the key, and the filter for a field. That a document matches does not
    // hide the error.
    c.put(60, parse(r#"{"_id":6}"#)).unwrap();
    for by in [r#"{"_id":6}"#, r#"{"_id.a":6}"#, r#"{"$key":6,"_id":6}"#] {
        let refused = insert(by).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("expected $key"), "{refused}");
    }
    let made = insert(r#"{"a":3}"#).unwrap().unwrap();
    assert!(matches!(made, Value::ObjectId(_)), "{made}");
    assert_eq!(text(&c, made).unwrap(), r#"{"a":3,"b":2}"#);
    let error = insert(r#"{"$key":5,"a":4}"#).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Duplicate);
    assert!(error.to_string().contains("a document 5"), "{error}");
    let mut tx = db.begin().unwrap();
    let by = filter(r#"{"$key":8,"a":1}"#);
    assert_eq!(change.insert_in(&mut tx, &c, &by).unwrap(), Value::from(8));
    assert_eq!(change.insert_in(&mut tx, &c, &by).unwrap_err().kind(), ErrorKind::Duplicate);
    tx.commit().unwrap();
    assert_eq!(text(&c, 8).unwrap(), r#"{"a":1,"b":2}"#);
}

/// Of several that found nothing, those that came second failed.
#[test]
fn upserts_of_one_value_at_once_make_one_document_and_lose_nothing() {
    let (_dir, _db, c) = opened();
    c.create_index("u", Index::on("u").unique()).unwrap();
    let change = update(r#"{"$inc":{"n":1}}"#, "[]").unwrap().upsert();
    let (values, threads) = (20, 4);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for value in 0..values {
                    let by = filter(&format!(r#"{{"u":{value}}}"#));
                    while c.update_many(&by, change.change(&by).unwrap()).run().unwrap().matched
                        == 0
                    {
                        if change.insert(&c, &by).unwrap().is_some() {
                            break;
                        }
                    }
                }
            });
        }
    });
    let all = format!(r#"{{"n":{threads}}}"#);
    assert_eq!(c.find(&all).count().unwrap(), values);
    assert_eq!(c.count().unwrap(), values);
}

#[test]
fn a_stored_id_stays_where_it_is() {
    let (_dir, _db, c) = opened();
    for (key, before, change, after) in [
        (1, r#"{"_id":1.0,"a":1}"#, r#"{"$set":{"b":"x"}}"#, r#"{"_id":1.0,"a":1,"b":"x"}"#),
        (1, r#"{"a":1,"_id":"other"}"#, r#"{"$set":{"a":2}}"#, r#"{"a":2,"_id":"other"}"#),
        (1, r#"{"a":1,"_id":1}"#, r#"{"b":2}"#, r#"{"b":2,"_id":1}"#),
        (1, r#"{"a":1,"_id":1}"#, r#"[{"$project":{"x":"$_id"}}]"#, r#"{"x":1,"_id":1}"#),
    ] {
        c.put(key, parse(before)).unwrap();
        assert_eq!(update(change, "[]").unwrap().run(&c, key).unwrap(), Patched::Changed);
        assert_eq!(text(&c, key).unwrap(), after, "{change} of {before}");
    }
}

#[test]
fn expiry_and_unique_indexes_hold() {
    let (_dir, _db, c) = opened();
    let later = Moment::from_millis(4_000_000_000_000);
    c.create_index("n", Index::on("n").unique()).unwrap();
    c.put(1, doc!({ "n": 1 }).expires(Some(later))).unwrap();
    c.put(2, doc!({ "n": 2 })).unwrap();
    let add = update(r#"{"$inc":{"n":1}}"#, "[]").unwrap();
    assert_eq!(add.run(&c, 1).unwrap_err().kind(), ErrorKind::Duplicate);
    assert!(add.run(&c, 2).unwrap().is_applied());
    assert!(add.run(&c, 1).unwrap().is_applied());
    assert_eq!(c.expiry(1).unwrap(), Some(later));
    assert_eq!(c.find(r#"{"n":{"$in":[2,3]}}"#).count().unwrap(), 2);
}
