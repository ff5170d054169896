//! Collections whose buckets have ranges of keys.

use crate::support::{
    Hooked, Hooks, by_n, collection, connect, fill, found, is_too_few, keys_of, n_of, rebalance,
};
use flagstone::query::Hint;
use flagstone::{Collection, Database, ErrorKind, Find, Index, Json, Prefix, Space, Value};
use flagstone_cluster::Cluster;
use flagstone_cluster::Layout::{Hash, Ranges};
use flagstone_cluster::mem::{Fate, Mem};
use flagstone_cluster::store::{Freshness, Kind, Store};
use flagstone_testkit::{Rng, seed};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many documents each bucket has that has some, by their numbers.
fn sizes(mem: &Mem) -> Vec<usize> {
    let mut sizes = BTreeMap::new();
    for place in mem.partitions() {
        let rows = mem.all_rows(place);
        let count = rows.iter().filter(|(kind, _)| *kind == Kind::DOCUMENTS).count();
        if count > 0 {
            sizes.insert(place, count);
        }
    }
    sizes.into_values().collect()
}

/// The generation of the documents.
fn generation(mem: &Mem) -> i32 {
    mem.partitions().into_iter().map(|place| place.generation).max().unwrap()
}

#[test]
fn a_short_query_by_the_order_of_keys_reads_one_or_two_pages() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    fill(&documents, 3200);
    let pages = |query: &dyn Fn(&Collection)| {
        // A process that knows nothing of the lengths of documents. Plans read once a minute how
        // many there are.
        let (_cluster, documents) = collection(&mem);
        documents.approximate_count();
        let before = mem.pages_read();
        query(&documents);
        mem.pages_read() - before
    };
    let taken = |documents: &Collection, from: u64| {
        let rows = documents.scan(from..).take(20).map(|row| row.unwrap().0.as_i64().unwrap());
        assert!(rows.eq(from as i64..from as i64 + 20));
    };
    let found = |find: Find<'_>, keys: &mut dyn Iterator<Item = u64>| {
        assert!(keys_of(&find).into_iter().eq(keys));
    };
    type Query<'q> = (&'static str, &'q dyn Fn(&Collection));
    let queries: [Query<'_>; 5] = [
        ("a scan", &|documents| taken(documents, 1205)),
        ("a find", &|documents| {
            found(documents.find("{}").sort("$key").limit(20), &mut (0..20));
        }),
        ("the last ones", &|documents| {
            found(documents.find("{}").sort("-$key").limit(20), &mut (3180..3200).rev());
        }),
        ("a page behind another", &|documents| {
            let find = || documents.find("{}").sort("$key");
            let next = find().page(10).unwrap().next.unwrap();
            found(find().after(&next).limit(10), &mut (10..20));
        }),
        ("a range without an order", &|documents| {
            assert_eq!(documents.scan(100..105).unordered().count(), 5);
        }),
    ];
    rebalance(&cluster, Hash(64)).unwrap();
    let by_hash = queries.map(|(_, query)| pages(query));
    assert!(by_hash.iter().all(|pages| *pages >= 64), "{by_hash:?}");
    rebalance(&cluster, Ranges(64)).unwrap();
    assert_eq!(sizes(&mem), [50; 64]);
    for (name, query) in queries {
        let most = if name.contains("page") { 4 } else { 2 };
        let pages = pages(query);
        assert!((1..=most).contains(&pages), "{name}: {pages} pages");
    }
    // Over the end of a bucket, and of several of them.
    assert!((2..=4).contains(&pages(&|documents| taken(documents, 1240))));
    let many = pages(&|documents| {
        assert!(
            documents
                .scan(100..600)
                .rev()
                .map(|row| row.unwrap().0)
                .eq((100..600_i64).rev().map(Value::from))
        );
    });
    assert!((11..40).contains(&many), "{many}");
}

/// Counts the readings of pages. Each reads pages of one or several buckets.
struct Readings(AtomicU64);

impl Hooks for Arc<Readings> {
    fn before_pages(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn ranges_without_keys_cost_few_readings_and_spoil_no_estimate() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    fill(&documents, 3200);
    rebalance(&cluster, Ranges(16)).unwrap();
    assert!(sizes(&mem).iter().all(|size| (150..250).contains(size)), "{:?}", sizes(&mem));
    let readings = Arc::new(Readings(AtomicU64::new(0)));
    let hooked = Hooked::over(Arc::clone(&mem) as _, Arc::clone(&readings));
    let reader = Cluster::over(hooked).unwrap();
    let read = reader.collection("c").unwrap();
    // What is read at once depends on the lengths of documents.
    assert_eq!(n_of(&read, 10), Some(10));
    for (removed, left) in [(0..2_520_u64, 680), (2_600..3_200, 80)] {
        documents.delete_range(removed).unwrap();
        let about = connect(&mem).collection("c").unwrap().approximate_count();
        assert!((left * 3 / 4..=left * 4 / 3).contains(&about), "{about} instead of {left}");
    }
    let scans: [(Range<i64>, bool); 4] =
        [(2_520..2_540, false), (2_580..2_600, true), (0..0, false), (0..0, true)];
    for (expected, is_reversed) in scans {
        let before = readings.0.load(Ordering::SeqCst);
        let all = if expected.is_empty() { read.scan(..2_520) } else { read.scan(..) };
        let scan = if is_reversed { all.rev() } else { all };
        let mut found: Vec<Value> = scan.take(20).map(|row| row.unwrap().0).collect();
        if is_reversed {
            found.reverse();
        }
        assert!(found.into_iter().eq(expected.clone().map(Value::from)), "{expected:?}");
        // 12 ranges are empty before the first key, and 3 behind the last one: 1, 2, 4, 8.
        let now = readings.0.load(Ordering::SeqCst) - before;
        assert!((3..=5).contains(&now), "{expected:?}, reversed {is_reversed}: {now}");
    }
}

/// Keys of several types, of which some begin alike.
fn key(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => Value::from(rng.below(500) as i64 - 250),
        1 => Value::from(["a", "ab", "b", "https://example.com/", "z"][rng.index(5)]),
        _ => {
            let front = *rng.pick(&["a", "ab", "https://example.com/page/", "k"]);
            Value::from(format!("{front}{:03}", rng.below(400)))
        }
    }
}

#[test]
fn ranges_and_prefixes_are_read_as_from_a_model_before_during_and_after() {
    let mut rng = Rng::new(seed("ranges_and_prefixes", 3));
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, other)) = (collection(&mem), collection(&mem));
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let model = database.collection("c").unwrap();
    let write = |rng: &mut Rng, count: usize| {
        for _ in 0..count {
            let (key, n) = (key(rng), rng.below(50));
            for documents in [&documents, &model] {
                if n < 5 {
                    documents.delete(key.clone()).unwrap();
                } else {
                    documents.put(key.clone(), Json(format!(r#"{{"n":{n}}}"#))).unwrap();
                }
            }
        }
    };
    let check = |rng: &mut Rng, documents: &Collection| {
        let read = |documents: &Collection, [from, to]: [Value; 2]| {
            let keys = |scan: flagstone::Scan<'static, Collection>| {
                scan.map(|row| row.unwrap().0).collect::<Vec<_>>()
            };
            let (a, b) = (|| from.clone(), || to.clone());
            let mut any = keys(documents.scan(a()..=b()).unordered());
            any.sort_by_key(ToString::to_string);
            [
                keys(documents.scan(a()..b())),
                keys(documents.scan(a()..=b()).rev()),
                keys(documents.scan(..b())),
                keys(documents.scan(a()..).rev()),
                any,
            ]
        };
        for _ in 0..10 {
            let mut ends = [key(rng), key(rng)];
            if rng.percent(80) && model.scan(ends[0].clone()..ends[1].clone()).next().is_none() {
                ends.reverse();
            }
            let text = format!("{ends:?}");
            assert_eq!(read(documents, ends.clone()), read(&model, ends), "{text}");
        }
        for front in ["a", "ab", "https://example.com/", "https://example.com/page/1", "q"] {
            let keys = |documents: &Collection| {
                [documents.scan(Prefix(front)), documents.scan(Prefix(front)).rev()]
                    .map(|scan| scan.map(|row| row.unwrap().0).collect::<Vec<_>>())
            };
            assert_eq!(keys(documents), keys(&model), "{front}");
        }
        let all = |documents: &Collection| -> Vec<(Value, String)> {
            let rows = documents.scan(..).map(Result::unwrap);
            rows.map(|(key, document)| (key, document.to_value().to_string())).collect()
        };
        assert_eq!(all(documents), all(&model));
    };
    write(&mut rng, 1500);
    for layout in [Ranges(13), Ranges(40), Hash(8), Ranges(5), Ranges(2), Hash(16)] {
        for documents in [&documents, &other] {
            check(&mut rng, documents);
        }
        let mut pages = 0;
        let watch = |copied| {
            pages += u32::from(copied > 0);
            if copied > 0 && pages % 7 == 1 {
                write(&mut rng, 60);
                check(&mut rng, &other);
            }
            ControlFlow::Continue(())
        };
        assert!(cluster.rebalance("c", layout, watch).unwrap().is_continue());
        assert!(pages > 0);
        write(&mut rng, 60);
    }
    check(&mut rng, &other);
}

#[test]
fn pages_go_on_behind_their_tokens_in_another_layout() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, there)) = (collection(&mem), collection(&mem));
    fill(&documents, 900);
    for sort in ["$key", "-$key", "n,$key"] {
        let mut layouts = [Ranges(20), Hash(4), Ranges(3), Ranges(50)].into_iter().cycle();
        let (mut keys, mut token) = (Vec::new(), None);
        loop {
            let find = there.find("{}").sort(sort);
            let find = match &token {
                Some(token) => find.after(token),
                None => find,
            };
            let page = find.page(140).unwrap();
            keys.extend(page.documents.iter().map(|one| one.1.int("n").unwrap()));
            token = page.next;
            if token.is_none() {
                break;
            }
            rebalance(&cluster, layouts.next().unwrap()).unwrap();
        }
        if sort == "-$key" {
            keys.reverse();
        }
        assert!(keys.into_iter().eq(0..900), "{sort}");
    }
}

/// Keys that only rise all go to the last bucket.
#[test]
fn ranges_that_are_not_equal_any_more_are_made_anew() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    fill(&documents, 400);
    rebalance(&cluster, Ranges(4)).unwrap();
    assert_eq!(sizes(&mem), [100; 4]);
    (400..1000).for_each(|key| documents.put(key, Json(format!(r#"{{"n":{key}}}"#))).unwrap());
    assert_eq!(sizes(&mem), [100, 100, 100, 700]);
    let about = connect(&mem).collection("c").unwrap().approximate_count();
    assert_eq!(about, 1000, "also of buckets that differ");
    rebalance(&cluster, Ranges(4)).unwrap();
    assert_eq!(sizes(&mem), [250; 4]);
    let before = (generation(&mem), mem.batches());
    rebalance(&connect(&mem), Ranges(4)).unwrap();
    assert_eq!((generation(&mem), mem.batches()), before, "they are equal");
    // From as many ranges it cannot be given up, as both have the same name.
    (1000..2500).for_each(|key| documents.put(key, Json("{}")).unwrap());
    let stopped = cluster.rebalance("c", Ranges(4), stops_behind_the_first_pages);
    assert!(stopped.unwrap().is_break());
    let busy = rebalance(&cluster, Hash(16)).unwrap_err().to_string();
    let text = "is being divided into 4 ranges of keys: divide it again afterwards. If that was \
                cut short, flagstone rebalance with --buckets 4 --ranges completes it";
    assert!(busy.ends_with(text), "{busy}");
    rebalance(&connect(&mem), Ranges(4)).unwrap();
    assert_eq!(sizes(&mem), [625; 4]);
    assert_eq!(documents.count().unwrap(), 2500);
}

/// Before, keys are read to choose ranges.
fn stops_behind_the_first_pages(copied: u64) -> ControlFlow<()> {
    if copied > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// As many ranges with other bounds are another layout for those who slept meanwhile.
#[test]
fn others_go_on_in_as_many_other_ranges() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, slept)) = (collection(&mem), collection(&mem));
    // The one reads meanwhile, the other sleeps through it all.
    let (_c, writes) = collection(&mem);
    fill(&documents, 400);
    documents.create_index("by n", by_n()).unwrap();
    rebalance(&cluster, Ranges(4)).unwrap();
    (400..1600).for_each(|key| documents.put(key, Json(format!(r#"{{"n":{key}}}"#))).unwrap());
    for one in [&slept, &writes] {
        one.put(0, Json(r#"{"n":0}"#)).unwrap();
    }
    let mut scans = [slept.scan(..), slept.scan(..).rev(), slept.scan(..).unordered()];
    let by_n = slept.find(r#"{"n":{"$gte":0}}"#).hint(Hint::index("by n"));
    let (mut cursor, mut found) = (by_n.run().unwrap(), Vec::new());
    let mut keys: [Vec<i64>; 3] = Default::default();
    for most in [250, usize::MAX] {
        for (scan, keys) in scans.iter_mut().zip(&mut keys) {
            keys.extend(scan.take(most).map(|row| row.unwrap().0.as_i64().unwrap()));
        }
        while found.len() < most && cursor.advance().unwrap() {
            found.push(cursor.key().unwrap().as_i64().unwrap());
        }
        rebalance(&cluster, Ranges(4)).unwrap();
        assert_eq!(sizes(&mem), [400; 4]);
    }
    found.sort_unstable();
    for (at, keys) in keys.iter_mut().chain([&mut found]).enumerate() {
        match at {
            1 => keys.reverse(),
            2 => keys.sort_unstable(),
            _ => {}
        }
        assert!((0..1600).eq(keys.iter().copied()), "{at}: {} keys", keys.len());
    }
    // What it writes is where it is looked for, and where others write it, too.
    for key in [400, 0, 399, 800, 1200, 1599] {
        let increment = |document: &mut flagstone::DocumentMut| document.inc("n", 5000);
        let all = [&writes, &slept, &documents];
        assert_eq!(all.map(|one| one.update(key, increment).unwrap()), [true; 3], "{key}");
        assert_eq!(all.map(|one| n_of(one, key)), [Some(key as i64 + 15_000); 3]);
    }
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (1600, 1600));
    assert_eq!(sizes(&mem), [400; 4], "none is in two buckets");
}

/// The keys that were read are those of a collection that was cleared since.
#[test]
fn bounds_are_not_those_of_documents_that_were_cleared() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 200);
    let mut calls = 0;
    let done = cluster.rebalance("c", Ranges(4), |_| {
        calls += 1;
        if calls == 16 {
            other.clear().unwrap();
            (1000..1100).for_each(|key| other.put(key, Json("{}")).unwrap());
        }
        ControlFlow::Continue(())
    });
    assert!(done.unwrap().is_continue());
    assert_eq!(sizes(&mem), [25; 4]);
}

/// The bounds are those that were chosen when the move began.
#[test]
fn a_call_that_goes_on_chooses_no_new_bounds() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    fill(&documents, 200);
    let stopped = cluster.rebalance("c", Ranges(4), |_| ControlFlow::Break(()));
    assert!(stopped.unwrap().is_break());
    rebalance(&cluster, Hash(16)).unwrap();
    assert_eq!((sizes(&mem).len(), generation(&mem)), (16, 1), "it had not begun");
    let stopped = cluster.rebalance("c", Ranges(4), stops_behind_the_first_pages);
    assert!(stopped.unwrap().is_break());
    (200..800).for_each(|key| documents.put(key, Json("{}")).unwrap());
    rebalance(&connect(&mem), Ranges(4)).unwrap();
    assert_eq!(sizes(&mem), [50, 50, 50, 650]);
}

/// Counts the rows that are asked for by their keys.
#[derive(Clone, Default)]
struct Copied(Arc<AtomicU64>);

impl Hooks for Copied {
    fn before_rows(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Each new bucket takes its rows from all old ones: of a part, the old ones that are done and how
/// far the next one is are noted.
#[test]
fn a_call_goes_on_where_the_one_before_has_ended() {
    for (from, to) in [(Hash(16), Ranges(2)), (Ranges(16), Ranges(3)), (Ranges(2), Hash(4))] {
        let mem = Arc::new(Mem::new());
        let (cluster, documents) = collection(&mem);
        fill(&documents, 12_000);
        rebalance(&cluster, from).unwrap();
        let half = cluster.rebalance("c", to, |copied| {
            if copied > 10_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(half.unwrap().is_break());
        let copied = Copied::default();
        let store = Hooked::over(Arc::clone(&mem) as _, copied.clone());
        let mut most = 0;
        let goes_on = Cluster::over(store).unwrap().rebalance("c", to, |documents| {
            most = documents;
            ControlFlow::Continue(())
        });
        assert!(goes_on.unwrap().is_continue());
        assert!((1_500..7_000).contains(&most), "{from} to {to}: {most} documents once more");
        let reads = copied.0.load(Ordering::SeqCst);
        assert!(reads < 400, "{from} to {to}: {reads}");
        assert_eq!(documents.count().unwrap(), 12_000);
    }
}

#[test]
fn indexes_and_unique_values_are_kept_in_ranges() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 300);
    rebalance(&cluster, Ranges(5)).unwrap();
    documents.create_index("by n", by_n()).unwrap();
    documents.create_index("unique", Index::on("$.n").unique()).unwrap();
    assert_eq!(other.verify_indexes().unwrap().entries, 600);
    let twice = other.put(1000, Json(r#"{"n":7}"#)).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Duplicate);
    other.put(1000, Json(r#"{"n":1000}"#)).unwrap();
    assert!(documents.remove(7).unwrap());
    other.put(1001, Json(r#"{"n":7}"#)).unwrap();
    assert_eq!(found(&documents, r#"{"n":7}"#), [1001]);
    let sorted = documents.find("{}").sort("-n").hint(Hint::index("by n")).limit(3);
    assert_eq!(keys_of(&sorted), [1000, 299, 298]);
    assert!(documents.drop_index("by n").unwrap());
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (301, 301));
    // Values are claimed by their hashes, in as many buckets.
    let claims: Vec<i32> = mem
        .partitions()
        .into_iter()
        .filter(|at| {
            let rows = mem.all_rows(*at);
            rows.iter().any(|(kind, row)| kind.0 > 0 && row.token.is_some())
        })
        .map(|at| at.bucket)
        .collect();
    assert_eq!(claims, (0..8).collect::<Vec<_>>());
}

#[test]
fn a_clear_keeps_the_ranges() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, slept)) = (collection(&mem), collection(&mem));
    fill(&documents, 90);
    rebalance(&cluster, Ranges(3)).unwrap();
    for fences in [0, 2, 100] {
        let mut plan = vec![Fate::Answered; 2 + fences];
        plan.resize(fences + 60, Fate::Unavailable);
        mem.plan(&plan);
        let cleared = documents.clear();
        mem.plan(&[]);
        if cleared.is_err() {
            // Whoever meets a fence completes it.
            documents.clear().unwrap();
        }
        assert_eq!(slept.count().unwrap(), 0);
        fill(&slept, 90);
        assert_eq!((sizes(&mem), n_of(&documents, 89)), (vec![30; 3], Some(89)));
    }
    assert!(cluster.drop_collection("c").unwrap());
    assert!(mem.partitions().is_empty());
}

#[test]
fn more_ranges_than_keys_are_refused() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    fill(&documents, 30);
    let refused = rebalance(&cluster, Ranges(31)).unwrap_err();
    assert!(is_too_few(&refused), "{refused}");
    let text = "cannot be divided into 31 ranges of keys: 30 keys that differ in their first 256 \
                bytes were found";
    assert!(refused.to_string().contains(text), "{refused}");
    rebalance(&cluster, Ranges(30)).unwrap();
    assert_eq!(sizes(&mem), [1; 30]);
    // Long keys that differ early: the bounds are short.
    for n in 0..2000 {
        documents.put(format!("{n:04}{}", "x".repeat(300)), Json("{}")).unwrap();
    }
    rebalance(&cluster, Ranges(300)).unwrap();
    let note = mem.note("c", Freshness::Serial).unwrap().unwrap().note;
    assert!(note.len() < 300 * 8, "{} bytes", note.len());
}

#[test]
fn bounds_that_are_too_long_for_the_catalog_are_refused() {
    let (cluster, documents) = collection(&Arc::new(Mem::new()));
    // Keys differ late from every second one.
    for n in 0..1200 {
        let key = format!("{:03}{}{}", n / 2, "k".repeat(240), n % 2);
        documents.put(key, Json("{}")).unwrap();
    }
    let refused = rebalance(&cluster, Ranges(1200)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let text = "its keys are long, and the bounds would have 148265 bytes";
    assert!(refused.to_string().contains(text), "{refused}");
    assert!(refused.to_string().contains("expected at most 131072. Ask for fewer"), "{refused}");
    rebalance(&cluster, Ranges(600)).unwrap();
    assert_eq!(documents.count().unwrap(), 1200);
}
