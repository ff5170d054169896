//! Random queries of random documents against the model, from snapshots, in transactions, with
//! memory so small that sorts spill, across flushes, compactions and reopens.

use super::model::{self, Model, Sort};
use super::values::compare_values;
use crate::support::{hashed, small};
use flagstone::query::{Hint, Projection, Projector};
use flagstone::{
    Collection, Database, Document, ErrorKind, Filter, Find, Group, Index, Space, Transaction,
    Value,
};
use flagstone_testkit::Rng;
use flagstone_testkit::{World, rounds, seed};
use std::time::Duration;

/// Sets a random document, or removes one.
fn change(rng: &mut Rng, collection: &Collection, model: &mut Model) {
    let key = Value::from(rng.below(300) as i64);
    if rng.percent(10) {
        collection.delete(key.clone()).unwrap();
        model.0.remove(&key);
        return;
    }
    let document = model::document(rng);
    match collection.put(key.clone(), &document) {
        Ok(()) => drop(model.0.insert(key, document)),
        Err(error) => check_refused(&error),
    }
}

/// Arrays in two fields of an index, or a value that another document has in a unique one.
fn check_refused(error: &flagstone::Error) {
    assert!(matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Duplicate), "{error}");
}

/// Compares one random query in all its forms, with every plan. `find` begins it.
fn compare<'t>(
    rng: &mut Rng,
    model: &Model,
    hints: &[Option<Hint>],
    find: impl Fn(&Filter) -> Find<'t>,
) -> usize {
    let (filter, sort) = if rng.percent(30) {
        let (filter, sort) = model::merged(rng);
        (filter, Some(sort))
    } else {
        (model::filter(rng, 2), None)
    };
    let sort = |rng: &mut Rng| sort.clone().unwrap_or_else(|| model::sort(rng));
    let expected = model.find(&filter);
    let (rng_at, mut served) = (rng.clone(), 0);
    // Documents with one sort key have the same order in all plans that no hint for an index chose.
    let mut order: Option<Vec<Value>> = None;
    for hint in hints {
        // All plans get the same sorts and limits.
        *rng = rng_at.clone();
        let find = || {
            let find = find(&filter).memory(1);
            hint.clone().map_or(find.clone(), |hint| find.hint(hint))
        };
        let context = format!("{filter} by {hint:?}");
        match find().count() {
            Ok(count) => assert_eq!(count, expected.len() as u64, "{context}"),
            // A partial or sparse index, or one that is newer than the snapshot.
            Err(error) if error.to_string().starts_with("the hint names index") => continue,
            Err(error) if error.to_string().starts_with("the hint asks for") => continue,
            Err(error) => panic!("{context}: {error}"),
        }
        served += 1;
        let sorted = compare_one(rng, &expected, (&find, &sort), &context);
        if !matches!(hint, Some(Hint::Index(_))) {
            assert_eq!(order.get_or_insert_with(|| sorted.clone()), &sorted, "{context}");
        }
        compare_pages(rng, &expected, (&find, &sort, hints), &context);
    }
    served
}

fn compare_one<'t>(
    rng: &mut Rng,
    expected: &[(Value, Value)],
    (find, sort): (&impl Fn() -> Find<'t>, &impl Fn(&mut Rng) -> Sort),
    context: &str,
) -> Vec<Value> {
    let mut found: Vec<(Value, Value)> = Vec::new();
    for entry in find().run().unwrap() {
        let (key, document) = entry.unwrap();
        found.push((key, document.to_value()));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected, "{context}");
    let page = find().page(u64::MAX).unwrap().documents;
    let keys: Vec<Value> = page.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), "{context}");

    let (skip, limit) = (rng.below(8), rng.below(20));
    let part = find().skip(skip).limit(limit).count().unwrap();
    assert_eq!(part, (expected.len() as u64).saturating_sub(skip).min(limit), "{context}");
    let sorted = compare_sorted(rng, expected, (find, sort), context);
    compare_distinct(rng, expected, find, context);
    compare_projected(rng, expected, (find, sort), context);
    compare_values(rng, expected, find, context);
    compare_groups(rng, find, context);
    sorted
}

/// Compares what a projection keeps, sorted or not, to the last digit.
fn compare_projected<'t>(
    rng: &mut Rng,
    expected: &[(Value, Value)],
    (find, sort): (&impl Fn() -> Find<'t>, &impl Fn(&mut Rng) -> Sort),
    context: &str,
) {
    let text = *rng.pick(&["k", "n", "k,n", "o.x", "n,o.x,k", "a,n", "in.b", "tags", "-pad,-o"]);
    let projection = Projection::parse(text).unwrap();
    let (mut projector, mut expected_texts) = (Projector::new(), Vec::new());
    for (_, value) in expected {
        let (document, mut bytes) = (Document::from_value(value).unwrap(), Vec::new());
        projector.apply(&projection, &document.root(), None, &mut bytes).unwrap();
        let projected = Document::from_bytes(bytes, None).unwrap();
        expected_texts.push(model::text(&projected.to_value()));
    }
    expected_texts.sort();
    let (_, sort) = sort(rng);
    for sort in [None, Some(sort)] {
        let query = find().project(text);
        let query = sort.as_ref().map_or(query.clone(), |sort| query.sort(sort));
        let found = query.run().unwrap().map(|entry| model::text(&entry.unwrap().1.to_value()));
        let mut found: Vec<String> = found.collect();
        found.sort();
        assert_eq!(found, expected_texts, "{context} projected to {text}, sorted by {sort:?}");
    }
}

/// Compares groups with those of a scan, which another test compares with a model.
fn compare_groups<'t>(rng: &mut Rng, find: &impl Fn() -> Find<'t>, context: &str) {
    let by = ["", "k", "n", "o.x", "k, n", "a", "in.b", "at"];
    let accumulators =
        ["count as c", "count as c, sum(n) as s, avg(k) as m", "min(k) as lo, max(o.x) as hi"];
    let text = format!("{}: {}", rng.pick(&by), rng.pick(&accumulators));
    let group = Group::parse(&text).unwrap();
    let groups = |find: Find<'t>| -> Vec<Value> {
        find.group(&group).unwrap().map(Result::unwrap).collect()
    };
    let scanned = groups(find().hint(Hint::Scan));
    assert_eq!(groups(find()), scanned, "{context} grouped by {text}");
}

/// Returns the keys of the documents in the order of a random sort.
fn compare_sorted<'t>(
    rng: &mut Rng,
    expected: &[(Value, Value)],
    (find, sort): (&impl Fn() -> Find<'t>, &impl Fn(&mut Rng) -> Sort),
    context: &str,
) -> Vec<Value> {
    let (sort, text) = sort(rng);
    let context = format!("{context} sorted by {text}");
    let keys = |entry: &(Value, Value)| model::sort_keys(entry, &sort);
    let mut sorted: Vec<_> = expected.iter().map(keys).collect();
    sorted.sort_by(|a, b| model::compare(a, b, &sort));
    for limit in [None, Some((rng.below(5), rng.below(10)))] {
        let (skip, count) = limit.unwrap_or((0, u64::MAX));
        let mut query = find().sort(&text).skip(skip);
        query = if limit.is_some() { query.limit(count) } else { query };
        let expected: Vec<_> =
            sorted.iter().skip(skip as usize).take(count.min(1 << 20) as usize).collect();
        let found = query.run().unwrap().map(|entry| entry.unwrap());
        let found: Vec<_> = found.map(|(key, document)| (key, document.to_value())).collect();
        let found: Vec<_> = found.iter().map(keys).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{context}, {limit:?}");
    }
    // Pages by skip and limit, whose plans may differ, are parts of one order.
    let keys = |find: Find<'t>| -> Vec<Value> {
        find.run().unwrap().map(|entry| entry.unwrap().0).collect()
    };
    let whole = keys(find().sort(&text));
    let length = 1 + rng.index(whole.len() / 2 + 2);
    let skips = (0..=whole.len()).step_by(length);
    let page = |skip: usize| keys(find().sort(&text).skip(skip as u64).limit(length as u64));
    assert_eq!(skips.flat_map(page).collect::<Vec<_>>(), whole, "{context}, pages of {length}");
    whole
}

/// Compares the pages of a sorted query. Each page may use another plan, unless only one index has
/// the order of the page before.
fn compare_pages<'t>(
    rng: &mut Rng,
    expected: &[(Value, Value)],
    (find, sort, hints): (&impl Fn() -> Find<'t>, &impl Fn(&mut Rng) -> Sort, &[Option<Hint>]),
    context: &str,
) {
    let (sort, text) = sort(rng);
    let length = 1 + rng.below(expected.len() as u64 / 2 + 2);
    let (mut token, mut found) = (None, Vec::new());
    loop {
        let query = find().sort(&text);
        let page = match &token {
            None => query.page(length).unwrap(),
            Some(token) => {
                let query = query.after(token);
                let other =
                    rng.pick(hints).clone().map_or(query.clone(), |it| query.clone().hint(it));
                let page = other.page(length);
                let is_refused = |error: &flagstone::Error| {
                    let text = error.to_string();
                    text.starts_with("the hint") || text.starts_with("the token is a position")
                };
                match page {
                    Err(error) if is_refused(&error) => query.page(length).unwrap(),
                    page => page.unwrap(),
                }
            }
        };
        found.extend(page.documents.into_iter().map(|(key, it)| (key, it.to_value())));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    let keys = |entry: &(Value, Value)| model::sort_keys(entry, &sort);
    let found_keys: Vec<_> = found.iter().map(keys).collect();
    let is_sorted = found_keys.is_sorted_by(|a, b| model::compare(a, b, &sort).is_le());
    assert!(is_sorted, "{context} sorted by {text}, pages of {length}");
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected, "{context} sorted by {text}, pages of {length}");
}

fn compare_distinct<'t>(
    rng: &mut Rng,
    expected: &[(Value, Value)],
    find: &impl Fn() -> Find<'t>,
    context: &str,
) {
    let path = *rng.pick(&model::PATHS);
    let values = expected.iter().flat_map(|(_, document)| model::values(document, path));
    let mut values: Vec<Value> = values.flatten().collect();
    values.sort();
    values.dedup();
    let found: Vec<Value> = find().distinct(path).unwrap().map(Result::unwrap).collect();
    assert_eq!(found, values, "{context}, distinct {path}");
}

fn in_transaction(
    rng: &mut Rng,
    tx: &mut Transaction,
    (collection, hints): (&Collection, &[Option<Hint>]),
    model: &Model,
) {
    let mut model = model.clone();
    for _ in 0..rng.below(20) {
        let key = Value::from(rng.below(300) as i64);
        if rng.percent(30) {
            tx.delete(collection, key.clone()).unwrap();
            model.0.remove(&key);
        } else {
            let document = model::document(rng);
            match tx.put(collection, key.clone(), &document) {
                Ok(()) => drop(model.0.insert(key, document)),
                Err(error) => check_refused(&error),
            }
        }
    }
    let tx = &*tx;
    compare(rng, &model, hints, |filter| tx.find(collection, filter));
}

/// Definitions of indexes over the fields of the model.
fn indexes() -> Vec<(&'static str, Index)> {
    vec![
        ("a", Index::on("a")),
        ("n", Index::on("-n")),
        ("tags", Index::on("tags")),
        ("inner", Index::on("in.b").sparse()),
        ("n_a", Index::on("n").then("-a")),
        ("a_tags", Index::on("a").then("tags").then("n")),
        ("some", Index::on("n").only(Filter::field("n").gte(2))),
        ("many", Index::on("tags").then("n").sparse()),
        ("k_n", Index::on("k").then("-n")),
        ("o_k", Index::on("-o.x").then("k").then("n")),
        ("k_some", Index::on("n").then("k").only(Filter::field("k").exists())),
        ("l_xy", Index::on("l.x").then("l.y")),
        ("l_ynx", Index::on("-l.y").then("n").then("l.x")),
        ("g_n", Index::on("g").then("-n")),
        ("g_u", Index::on("-g").then("u").unique().only(Filter::field("u").exists())),
        ("g", Index::on("g")),
        ("g_n_u", Index::on("g").then("n").then("u")),
        ("n_u", Index::on("n").then("-u").sparse()),
        ("date", Index::on("at").expire_after(Duration::from_secs(60))),
    ]
}

/// Creates or drops a random index. One that documents do not fit into, since two of its fields
/// have arrays, is not created.
fn change_indexes(rng: &mut Rng, collection: &Collection) {
    let all = indexes();
    let (name, index) = rng.pick(&all).clone();
    if collection.drop_index(name).unwrap() {
        return;
    }
    if let Err(error) = collection.create_index(name, index) {
        check_refused(&error);
        collection.drop_index(name).unwrap();
    }
}

/// No hint, a scan, every index there is, and several.
fn hints(collection: &Collection) -> Vec<Option<Hint>> {
    let indexes = collection.indexes().into_iter();
    let indexes = indexes.map(|index| Some(Hint::index(index.name)));
    let several = [Hint::Union, Hint::Intersection].map(Some);
    [None, Some(Hint::Scan)].into_iter().chain(several).chain(indexes).collect()
}

#[test]
fn queries_return_what_a_model_returns_with_every_plan() {
    let seed = seed("queries", 11);
    let rng = &mut Rng::new(seed);
    let mut served = 0;
    for round in 0..rounds(6, 100) {
        let world = World::new(seed.wrapping_add(round));
        let mut session = world.open(&small()).unwrap();
        let options = || hashed(1 + (round % 3) as u16);
        let mut collection = session.db.space("documents").options(options()).collection().unwrap();
        let mut model = Model::default();
        let mut old: Option<(flagstone::Snapshot, Model)> = None;
        for _ in 0..12 {
            for _ in 0..40 {
                change(rng, &collection, &mut model);
            }
            change_indexes(rng, &collection);
            let hints = hints(&collection);
            served += compare(rng, &model, &hints, |filter| collection.find(filter));
            if let Some((snapshot, model)) = &old {
                compare(rng, model, &hints, |filter| snapshot.find(&collection, filter));
            }
            let mut tx = session.db.begin().unwrap();
            in_transaction(rng, &mut tx, (&collection, &hints), &model);
            drop(tx);
            match rng.below(5) {
                0 => session.db.flush().unwrap(),
                1 => session.db.compact().unwrap(),
                2 => old = Some((session.db.snapshot(), model.clone())),
                3 => {
                    (old, collection) = (None, other(&session.db));
                    drop(collection);
                    session.db.close().unwrap();
                    session = world.open(&small()).unwrap();
                    collection =
                        session.db.space("documents").options(options()).collection().unwrap();
                }
                _ => {}
            }
        }
    }
    assert!(served > 150, "{served} plans were compared");
}

/// A handle that does not keep the collection that is to be closed.
fn other(db: &Database) -> Collection {
    db.collection("other").unwrap()
}
