//! Copies from one directory into another, and comparisons of both.

use crate::run::{Place, ran};
use flagstone::{Database, Space};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A database with two collections, indexes and expiries.
fn filled() -> Place {
    let place = Place::new();
    place.ok("generate comments --count 3000 --output in.jsonl");
    place.ok("load db comments in.jsonl --partitions 3");
    place.ok("index create db comments by_author author -score");
    place.ok("put db people 7 {\"mail\":\"a\",\"n\":1.10} --json-key");
    place.ok("put db people k {\"mail\":\"b\"} --expires 30d");
    place.ok("index create db people mails mail --unique");
    place
}

#[test]
fn collections_are_copied_with_their_keys_expiries_indexes_and_options() {
    let place = filled();
    place.ok("alter db comments --bottom-compression lz4");
    let database = Database::open(place.path("db")).unwrap();
    database.keyspace("counters").unwrap().put("a", "1").unwrap();
    database.close().unwrap();
    let copied = place.run("copy db to --verify");
    assert_eq!(copied.code, 0, "{copied:?}");
    for said in [
        "keyspaces of a program are not copied: counters\n",
        "comments: 3,000 documents, ",
        "comments: index by_author of 3,000 entries in ",
        "people: index mails of 2 entries in ",
        "2 collections copied from db to to: 3,002 documents, ",
    ] {
        assert!(copied.stderr.contains(said), "{said:?}: {copied:?}");
    }
    let compared = copied.stdout;
    assert!(compared.starts_with("comments: 3,000 documents, checksum "), "{compared}");
    assert_eq!(place.ok("verify db --against to"), compared);
    assert_eq!(place.ok("verify to --against db people comments").lines().count(), 2);
    assert!(place.ok("verify to").contains("hold"));
    let shown = |what: &str| {
        let of = |database: &str| place.ok(&what.replace("DB", database));
        assert_eq!(of("db"), of("to"));
        of("to")
    };
    let indexes = |database: &str, collection: &str| {
        let listed = place.ok(&format!("index list {database} {collection} --json"));
        let index: Value = serde_json::from_str(&listed).unwrap();
        ["name", "fields", "unique", "sparse", "where", "ready"].map(|of| index[of].clone())
    };
    for collection in ["comments", "people"] {
        assert_eq!(indexes("db", collection), indexes("to", collection));
    }
    let mails = Value::from(indexes("to", "people").to_vec());
    assert_eq!(mails, serde_json::json!(["mails", ["mail"], true, false, null, true]));
    shown("get DB people k --expires");
    shown("get DB people 7 --json-key");
    let options = |database: &str| {
        let stats: Value =
            serde_json::from_str(&place.ok(&format!("stats {database} --json"))).unwrap();
        let all = stats["keyspaces"].as_array().unwrap();
        all.iter().find(|one| one["name"] == "comments").unwrap()["options"].clone()
    };
    assert_eq!(options("db"), options("to"));
    assert_eq!(options("to")["hash_partitions"], 3);
    place.fails("put to people other {\"mail\":\"a\"}", 1, "mails");
    // Once more: there is nothing to do.
    let again = place.run("copy db to --verify");
    assert_eq!((again.code, again.stdout), (0, compared));
    assert!(again.stderr.contains("people: copied before, to its end\n"), "{}", again.stderr);
    assert!(again.stderr.contains("2 collections copied from db to to: 0 documents"));
    // One of them.
    place.ok("copy db one people");
    assert_eq!(place.ok("collections one --names"), "people\n");
}

#[test]
fn what_cannot_be_copied_is_refused_before_anything_is_written() {
    let place = filled();
    for (command, code, why) in [
        ("copy db to nobody", 1, "there is no collection \"nobody\" in db"),
        ("copy missing to", 3, "there is no database here"),
        ("copy db db", 2, "copy: both are db"),
        ("copy db ./db", 2, "copy: both are db"),
        ("copy db mongodb://127.0.0.1/shop", 2, "copy needs directories or clusters, and mongodb"),
        ("copy http://127.0.0.1/shop to", 2, "use flagstone export and flagstone load"),
        ("verify db --against db", 2, "verify --against: both are db"),
        ("verify db --against to --quick", 2, "cannot be used with"),
        ("verify db people", 2, "--against"),
    ] {
        place.fails(command, code, why);
        assert!(!place.path("to").exists(), "{command}");
    }
    #[cfg(not(feature = "cluster"))]
    place.fails("copy db cql://h/k", 2, "cql://h/k: this flagstone was built without clusters");
    #[cfg(feature = "cluster")]
    place.fails("copy db cql://h/k --memory 1GiB", 2, "--memory is for a directory");
    place.ok("put to people x {}");
    let full = "to: cannot copy into collection \"people\": it is not empty; drop it first";
    place.fails("copy db to", 2, full);
    assert_eq!(place.ok("collections to --names"), "people\n");
    place.ok("drop to people --yes");
    place.ok("put to people x {}");
    place.ok("delete to people x");
    place.ok("index create to people mails other");
    place.fails("copy db to", 2, "to has an index people.mails with another definition");
    place.ok("index drop to people mails");
    place.ok("copy db to --verify");
}

#[test]
fn a_comparison_names_the_keys_that_differ_and_its_exit_code_says_so() {
    let place = filled();
    place.ok("copy db to");
    let keys = place.ok("keys to comments");
    let key = keys.lines().next().unwrap();
    place.ok(&format!("update to comments {key} n=1"));
    let compared = place.run("verify db --against to");
    assert_eq!(compared.code, 1, "{compared:?}");
    assert_eq!(compared.stderr, "flagstone: db and to differ: comments\n");
    let differs = "comments: 3,000 documents in db, 3,000 in to; 1 differs in 1 of 4,096 ranges";
    assert!(compared.stdout.contains(differs), "{compared:?}");
    assert!(compared.stdout.contains(&format!("\n  \"{key}\" differs\n")), "{compared:?}");
    assert!(compared.stdout.contains("people: 2 documents, checksum "), "{compared:?}");
    place.ok("put to people 8 {} --json-key");
    place.ok("delete to people k");
    // A copy that was complete is compared, too.
    let compared = place.run("copy db to people --verify");
    assert_eq!(compared.code, 1, "{compared:?}");
    assert!(compared.stderr.ends_with("flagstone: db and to differ: people\n"), "{compared:?}");
    assert!(compared.stdout.contains("\n  8 is only in to\n"), "{compared:?}");
    assert!(compared.stdout.contains("\n  \"k\" is only in db\n"), "{compared:?}");
    place.ok("put to more k {}");
    let others = place.run("verify db --against to people");
    assert_eq!((others.code, others.stderr.contains("more")), (1, false));
    let others = place.run("verify db --against to");
    assert_eq!(
        (others.code, others.stdout.contains("more: 0 documents in db, 1 in to")),
        (1, true)
    );
    place.ok("copy db same");
    place.ok("verify db --against same");
    place.ok("put same more k {}");
    let lone = place.run("verify db --against same");
    assert_eq!((lone.code, &lone.stderr[..]), (1, "flagstone: db and same differ: more\n"));
    place.fails(
        "verify db --against to nobody",
        1,
        "neither db nor to has a collection \"nobody\"",
    );
}

/// Indexes were not compared, and a copy that was complete did not create them again.
#[test]
fn a_comparison_finds_indexes_that_differ_and_a_copy_creates_what_is_missing() {
    let place = filled();
    place.ok("copy db to");
    place.ok("index drop to comments by_author");
    place.ok("index create to people more n");
    let compared = place.run("verify db --against to");
    assert_eq!(compared.stderr, "flagstone: db and to differ: comments, people\n");
    for said in ["comments: index by_author is only in db\n", "people: index more is only in to\n"]
    {
        assert!(compared.stdout.contains(said), "{compared:?}");
    }
    place.ok("index drop to people more");
    let again = place.run("copy db to --verify");
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("comments: copied before, to its end\n"), "{again:?}");
    assert!(again.stderr.contains("comments: index by_author of 3,000 entries in "), "{again:?}");
    place.ok("verify to --against db");
    place.ok("index drop to people mails");
    place.ok("index create to people mails mail");
    let compared = place.run("verify db --against to people");
    assert_eq!(compared.code, 1, "{compared:?}");
    let said = "people: index mails has another definition in to\n";
    assert!(compared.stdout.contains(said), "{compared:?}");
}

#[test]
fn a_copy_that_is_killed_goes_on() {
    let place = Place::new();
    place.ok("generate comments --count 60000 --output in.jsonl");
    place.ok("load db comments in.jsonl");
    place.ok("put db people k {}");
    let killed_copy = || {
        let mut child = place.command("copy db to --verify").spawn().unwrap();
        let started = Instant::now();
        let logged = || {
            let log =
                |name: &String| std::fs::metadata(place.path(name)).map_or(0, |log| log.len());
            let logs = if place.path("to").exists() { place.files("to", ".wal") } else { vec![] };
            logs.iter().map(log).sum::<u64>()
        };
        while logged() < 4 << 20 && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        assert_eq!(ran(child.wait_with_output().unwrap()).code, -1);
    };
    killed_copy();
    let rest = place.run("copy db to --verify");
    assert_eq!(rest.code, 0, "{rest:?}");
    assert!(rest.stderr.contains("comments: continued behind key \""), "{rest:?}");
    assert!(rest.stdout.starts_with("comments: 60,000 documents, checksum "), "{rest:?}");
    // What is left of a copy is no good beside what FROM has become.
    place.ok("drop to comments --yes");
    place.ok("drop to people --yes");
    killed_copy();
    place.ok("put db comments new {}");
    let changed = "it has a part of another load or copy, which was stopped: the source of a copy ";
    place.fails("copy db to", 2, changed);
    place.ok("drop to comments --yes");
    place.ok("copy db to --verify");
}
