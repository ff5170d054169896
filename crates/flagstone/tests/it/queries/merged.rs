//! Ranges of one index that are merged, because together they have the order of a sort.
//!
//! `{"state":{"$in":["new","retry"]}}`, sorted by `at` with a limit of 1, read all jobs of both
//! states on an index of state and time, and sorted them: 24,000 for one.

use super::found::{analyzed, keys};
use crate::support::{hashed, small};
use flagstone::{Collection, ErrorKind, Index, Isolation, Space, TransactionOptions, Value, doc};
use flagstone_testkit::{Session, World};

const STATES: [&str; 4] = ["new", "retry", "running", "done"];

/// 4,000 jobs. Times repeat, so that the order of ties shows; each job has two tags.
fn jobs(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let jobs = session.db.space("jobs").options(hashed(2)).collection().unwrap();
    for n in 0..4000_i64 {
        let tags: Value = [n % 7, n % 5 + 3].into_iter().collect();
        let job = doc!({"state": (STATES[n as usize % 4]), "at": (n * 7919 % 1000), "n": n,
            "tags": tags, "pad": "x".repeat(50)});
        jobs.put(n, &job).unwrap();
    }
    (session, jobs)
}

/// The jobs that `is_match` takes, in ascending or descending order of time and key.
fn expected(is_match: impl Fn(i64) -> bool, is_reverse: bool) -> Vec<i64> {
    let mut jobs: Vec<(i64, i64)> =
        (0..4000).filter(|n| is_match(*n)).map(|n| (n * 7919 % 1000, n)).collect();
    jobs.sort_unstable();
    if is_reverse {
        jobs.reverse();
    }
    jobs.into_iter().map(|(_, n)| n).collect()
}

const WAITING: [&str; 2] =
    [r#"{"state":{"$in":["new","retry"]}}"#, r#"{"$or":[{"state":"retry"},{"state":"new"}]}"#];

fn is_waiting(n: i64) -> bool {
    n % 4 < 2
}

#[test]
fn the_first_of_several_values_reads_one_entry_of_each() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("state").then("at")).unwrap();
    for filter in WAITING {
        for (sort, is_reverse) in [("at", false), ("-at", true)] {
            let find = jobs.find(filter).sort(sort);
            let (explain, actual) = analyzed(&find.clone().limit(1));
            let access = "sorted merge of 2 ranges of index \"due\"";
            assert_eq!(explain.plans[0].access, access, "{explain}");
            assert!(!explain.sorts, "{explain}");
            // The first entry of each, and the document.
            assert_eq!((actual.entries, actual.documents), (2, 1), "{explain}");
            let all = expected(is_waiting, is_reverse);
            assert_eq!(keys(&find.clone().skip(3).limit(50)), all[3..53]);
            assert_eq!(keys(&find), all, "without a limit");
            // A page reads its own documents, wherever it begins.
            let (mut found, mut token) = (Vec::new(), None);
            loop {
                let page = match &token {
                    Some(token) => find.clone().after(token).page(600),
                    None => find.clone().page(600),
                };
                let page = page.unwrap();
                found.extend(page.documents.iter().map(|(key, _)| key.as_i64().unwrap()));
                token = page.next;
                let Some(token) = &token else { break };
                let (explain, actual) = analyzed(&find.clone().after(token).limit(1));
                assert!(actual.entries <= 2, "{explain}");
            }
            assert_eq!(found, all);
        }
    }
}

#[test]
fn conditions_on_what_is_sorted_by_bound_each_range() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("-state").then("-at")).unwrap();
    let filter = r#"{"state":{"$in":["new","retry","done"]},"at":{"$gte":500},
        "$or":[{"at":{"$lt":510}},{"at":{"$gt":990}}]}"#;
    let is_match = |n: i64| {
        let at = n * 7919 % 1000;
        n % 4 != 2 && ((500..510).contains(&at) || at > 990)
    };
    for (sort, is_reverse) in [("at", false), ("-at", true)] {
        let find = jobs.find(filter).sort(sort).limit(20);
        let (explain, actual) = analyzed(&find);
        assert!(explain.plans[0].access.starts_with("sorted merge of 3"), "{explain}");
        assert_eq!((actual.entries, actual.documents), (22, 20), "{explain}");
        // Ties are in the direction in which the index is read.
        let mut all = expected(is_match, false);
        all.sort_by_key(|n| (n * 7919 % 1000, -n));
        if is_reverse {
            all.reverse();
        }
        assert_eq!(keys(&find), all[..20]);
    }
}

/// A sort that begins with the field of several values needs no merge: the ranges come one after
/// another.
#[test]
fn ranges_in_the_order_of_the_sort_are_read_one_after_another() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("state").then("at")).unwrap();
    let find = jobs.find(WAITING[0]).sort("state,at").limit(5);
    let (explain, actual) = analyzed(&find);
    assert_eq!(explain.plans[0].access, "index \"due\"", "{explain}");
    assert_eq!((actual.entries, actual.documents, explain.sorts), (5, 5, false), "{explain}");
    assert_eq!(keys(&find), expected(|n| n % 4 == 0, false)[..5]);
}

/// An array puts a document into several ranges. One that was reached by two values must come once.
#[test]
fn a_document_with_several_of_the_values_comes_once() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("tagged", Index::on("tags").then("at")).unwrap();
    let tags = |n: i64| [n % 7, n % 5 + 3];
    for (filter, wanted) in
        [(r#"{"tags":{"$in":[3,4,5]}}"#, &[3, 4, 5][..]), (r#"{"tags":3}"#, &[3])]
    {
        for (sort, is_reverse) in [("at", false), ("-at", true)] {
            let find = jobs.find(filter).sort(sort).limit(100);
            let (explain, actual) = analyzed(&find);
            assert!(!explain.sorts && actual.documents == 100, "{explain}");
            assert!(actual.entries < 250, "{explain}");
            let is_match = |n: i64| tags(n).iter().any(|tag| wanted.contains(tag));
            assert_eq!(keys(&find), expected(is_match, is_reverse)[..100]);
        }
    }
    // The order of the tags themselves is not that of the entries.
    let explain = jobs.find(r#"{"tags":{"$in":[3,4]}}"#).sort("tags").explain().unwrap();
    assert!(explain.sorts, "{explain}");
}

/// The fields of the index that come after those of the sort decide ties, as they do with one
/// value; the token of a page is a position among them.
#[test]
fn further_fields_of_the_index_decide_ties() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("state").then("at").then("-n")).unwrap();
    let find = jobs.find(WAITING[0]).sort("at");
    let mut all = expected(is_waiting, false);
    all.sort_by_key(|n| (n * 7919 % 1000, -n));
    assert_eq!(keys(&find), all, "sorted");
    assert_eq!(keys(&find.clone().limit(300)), all[..300], "merged");
    let page = find.clone().page(7).unwrap();
    let (explain, actual) = analyzed(&find.clone().after(&page.next.clone().unwrap()).limit(5));
    assert!(actual.entries <= 6, "{explain}");
    let next = find.after(&page.next.unwrap()).page(200).unwrap();
    let next: Vec<_> = next.documents.iter().map(|(key, _)| key.as_i64().unwrap()).collect();
    assert_eq!(next, all[7..207]);
}

/// Several values of all fields of an index, in the order of the primary key.
#[test]
fn ranges_are_merged_in_the_order_of_the_primary_key() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("state", Index::on("state")).unwrap();
    for (sort, first) in [("$key", [3000, 3001, 3004]), ("-$key", [3997, 3996, 3993])] {
        let find = jobs.find(WAITING[1]).hint(flagstone::query::Hint::index("state")).sort(sort);
        let find = find.limit(3);
        assert!(keys(&find)[0] % 4 < 2);
        let late = r#"{"state":{"$in":["new","retry"]},"$key":{"$gte":3000}}"#;
        let find = jobs.find(late).hint(flagstone::query::Hint::index("state")).sort(sort).limit(3);
        let (explain, actual) = analyzed(&find);
        assert_eq!((actual.entries, actual.documents), (4, 3), "{explain}");
        assert_eq!(keys(&find), first, "{explain}");
    }
    let (mut found, mut token) = (0, None);
    loop {
        let find = jobs.find(WAITING[0]).hint(flagstone::query::Hint::index("state"));
        let find = token.iter().fold(find, |find, token| find.after(token));
        let page = find.page(300).unwrap();
        assert!(page.documents.is_sorted_by(|a, b| a.0 < b.0));
        found += page.documents.len();
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(found, 2000);
}

/// At most 64 ranges are merged: each holds a block in memory.
#[test]
fn too_many_values_are_sorted() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("n", Index::on("n").then("at")).unwrap();
    for (count, merges) in [(64, true), (65, false)] {
        let values: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let filter = format!(r#"{{"n":{{"$in":[{}]}}}}"#, values.join(","));
        let find = jobs.find(&*filter).sort("at").limit(2);
        let explain = find.explain().unwrap();
        assert_eq!(explain.plans[0].access.starts_with("sorted merge"), merges, "{explain}");
        assert_eq!(explain.sorts, !merges);
        assert_eq!(keys(&find), expected(|n| n < count, false)[..2]);
    }
}

/// A transaction has read each range up to the entry that is next in it, and no further.
#[test]
fn a_transaction_rests_on_what_a_merge_has_read() {
    let world = World::new(1);
    let (session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("state").then("at")).unwrap();
    let claims = |at: f64, state: &str| {
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        let mut tx = options.begin(&session.db).unwrap();
        let find = tx.find(&jobs, WAITING[0]).sort("at").limit(1);
        let (key, _) = find.run().unwrap().next().unwrap().unwrap();
        jobs.put(9000, &doc!({"state": state, "at": at})).unwrap();
        tx.put(&jobs, key, &doc!({"state": "taken"})).unwrap();
        let done = tx.commit().map(drop).map_err(|error| error.kind());
        jobs.delete(9000).unwrap();
        done
    };
    assert_eq!(claims(-1.0, "new"), Err(ErrorKind::Conflict));
    assert_eq!(claims(-1.0, "retry"), Err(ErrorKind::Conflict));
    assert_eq!(claims(-1.0, "done"), Ok(()));
    assert_eq!(claims(900.0, "retry"), Ok(()));
}

/// A sort without a limit merges nothing, but what it might merge took the cover of its index: it
/// read 2,000 documents that its entries say all of.
#[test]
fn a_covered_sort_without_a_limit_stays_covered() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("state").then("at").then("-n")).unwrap();
    let mut all = expected(is_waiting, false);
    all.sort_by_key(|n| (n * 7919 % 1000, -n));
    for _ in 0..2 {
        // The second lacks the field that decides ties.
        for fields in ["state,at,n", "state,at"] {
            let find = jobs.find(WAITING[0]).sort("at").project(fields);
            let (explain, actual) = analyzed(&find);
            assert_eq!((actual.entries, actual.documents), (2000, 0), "{explain}");
            assert_eq!(keys(&find), all);
            assert_eq!(keys(&find.limit(300)), all[..300], "merged");
        }
        jobs.create_index("by_time", Index::on("at").then("state")).unwrap();
    }
}

/// A merge that ends soon was not counted, and taken for one of 256 entries at least: a scan of 300
/// documents looked cheaper than five entries.
#[test]
fn few_entries_are_counted() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let jobs = session.db.space("jobs").options(hashed(2)).collection().unwrap();
    for n in 0..300_i64 {
        let state = if n % 60 == 7 { STATES[n as usize % 2] } else { "done" };
        jobs.put(n, &doc!({"state": state, "at": (-n), "n": n})).unwrap();
    }
    jobs.create_index("due", Index::on("state").then("at")).unwrap();
    for (filter, count) in
        [(WAITING[0], 5), (r#"{"state":{"$in":["new","retry"]},"n":{"$gte":60}}"#, 4)]
    {
        let find = jobs.find(filter).sort("at").limit(100);
        let (explain, actual) = analyzed(&find);
        assert_eq!((actual.entries, actual.documents), (5, 5), "{explain}");
        assert_eq!(keys(&find), [247, 187, 127, 67, 7][..count]);
    }
}

/// A write by filter takes the keys in their order and reads all: it held a scan of each value open
/// until its end.
#[test]
fn keys_are_merged_for_a_part_of_them() {
    let world = World::new(1);
    let (_session, jobs) = jobs(&world);
    jobs.create_index("state", Index::on("state")).unwrap();
    let find = jobs.find(WAITING[0]).hint(flagstone::query::Hint::index("state")).sort("$key");
    for (find, is_merged) in [(find.clone(), false), (find.limit(2000), true)] {
        let explain = find.explain().unwrap();
        assert_eq!(explain.plans[0].access.starts_with("sorted merge"), is_merged, "{explain}");
        let mut all = expected(is_waiting, false);
        all.sort_unstable();
        assert_eq!(keys(&find), all);
    }
    assert_eq!(jobs.delete_many(WAITING[1]).run().unwrap().modified, 2000);
    assert_eq!(jobs.find(WAITING[0]).count().unwrap(), 0);
}

/// Pages of a unique index begin again at an entry that was returned: in all other intervals of the
/// sorted field, the range then ended before it began.
#[test]
fn pages_of_a_unique_index_pass_intervals() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let seats = session.db.space("seats").options(hashed(2)).collection().unwrap();
    for n in 0..24_i64 {
        seats.put(n, &doc!({"row": (n % 3), "u": (n / 3)})).unwrap();
    }
    seats.create_index("seat", Index::on("row").then("u").unique()).unwrap();
    let filter =
        r#"{"row":{"$in":[0,2]},"$or":[{"u":{"$gte":0,"$lt":2}},{"u":{"$gte":4,"$lt":6}}]}"#;
    for (sort, is_reverse) in [("u", false), ("-u", true)] {
        let hinted = seats.find(filter).sort(sort).hint(flagstone::query::Hint::index("seat"));
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let find = token.iter().fold(hinted.clone(), |find, token| find.after(token));
            let page = find.page(1).unwrap();
            found.extend(page.documents.iter().map(|(key, _)| key.as_i64().unwrap()));
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        let mut all = vec![0, 2, 3, 5, 12, 14, 15, 17];
        if is_reverse {
            all.reverse();
        }
        assert_eq!(found, all, "{sort}");
    }
}

/// A cursor over entries kept what it read while its client was idle: each range of a merge a block
/// and a table.
#[test]
fn a_parked_merge_goes_on_where_it_was() {
    for fields in [None, Some("state,at")] {
        let world = World::new(1);
        let (session, jobs) = jobs(&world);
        jobs.create_index("due", Index::on("state").then("at")).unwrap();
        let find = jobs.find(WAITING[0]).sort("at").limit(1500);
        let find = fields.iter().fold(find, |find, fields| find.project(*fields));
        let (mut cursor, mut found) = (find.run().unwrap(), Vec::new());
        for step in 0.. {
            if step % 50 == 0 {
                cursor.park();
            }
            match step {
                10 => jobs.clear().unwrap(),
                60 => session.db.flush().unwrap(),
                // What it has read is given up: no file is left that is not of use.
                100 => {
                    session.db.compact().unwrap();
                    session.settle();
                    let files = world.files().iter().filter(|it| it.ends_with(".sst")).count();
                    assert_eq!(files as u64, session.db.stats().tables());
                }
                _ => {}
            }
            let Some(entry) = cursor.next() else { break };
            found.push(entry.unwrap().0.as_i64().unwrap());
        }
        assert_eq!(found, expected(is_waiting, false)[..1500], "{fields:?}");
    }
}

/// What is before the position of a token was not read, nor what is beyond the entry that is next.
#[test]
fn a_transaction_rests_on_what_follows_a_token() {
    let world = World::new(1);
    let (session, jobs) = jobs(&world);
    jobs.create_index("due", Index::on("state").then("at")).unwrap();
    let claims = |sort: &str, at: f64, state: &str| {
        let first = jobs.find(WAITING[0]).sort(sort).page(1).unwrap();
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        let mut tx = options.begin(&session.db).unwrap();
        let find = tx.find(&jobs, WAITING[0]).sort(sort).after(&first.next.unwrap()).limit(1);
        let (key, document) = find.run().unwrap().next().unwrap().unwrap();
        jobs.put(9000, &doc!({"state": state, "at": at})).unwrap();
        tx.put(&jobs, key.clone(), &doc!({"state": "taken"})).unwrap();
        let done = tx.commit().map(drop).map_err(|error| error.kind());
        jobs.delete(9000).unwrap();
        jobs.put(key, &document).unwrap();
        done
    };
    // The first four jobs are new, of time 0; the last four wait again, of time 999.
    assert_eq!(claims("at", -1.0, "retry"), Ok(()));
    assert_eq!(claims("at", 0.5, "retry"), Err(ErrorKind::Conflict));
    assert_eq!(claims("at", 0.5, "new"), Ok(()));
    assert_eq!(claims("-at", 2000.0, "new"), Ok(()));
    assert_eq!(claims("-at", 998.5, "new"), Err(ErrorKind::Conflict));
    assert_eq!(claims("-at", 998.5, "retry"), Ok(()));
}
