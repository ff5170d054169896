//! The tool on a Cassandra node.

use crate::run::Place;
use flagstone_testkit::cassandra::{CommitLog, Nodes, Setup};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the address of a new keyspace.
fn address(keyspace: &str) -> String {
    static NODE: OnceLock<Nodes> = OnceLock::new();
    let node = NODE.get_or_init(|| {
        let commit_log = CommitLog::Periodic;
        Nodes::start(Setup::of(1, commit_log))
    });
    format!("cql://{}/{keyspace}?rf=1", node.hosts())
}

/// A database with comments and people.
fn filled() -> Place {
    let place = Place::new();
    place.ok("generate comments --count 6000 --output in.jsonl");
    place.ok("load db comments in.jsonl");
    place.ok("index create db comments by_author author -score");
    place.ok("put db people 7 {\"mail\":\"a\",\"n\":1.10} --json-key");
    place.ok("put db people k {\"mail\":\"b\"} --expires 30d");
    place
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn collections_go_to_a_cluster_and_back() {
    let (place, to) = (filled(), address("moved"));
    place.ok("index create db people mails mail --unique");
    place.ok("put db logs 1 {\"at\":\"2099-01-01T00:00:00Z\"} --json-key");
    place.ok("index create db logs old at --expire-after 30d");
    place.fails(
        &format!("copy db {to}"),
        2,
        "a cluster cannot keep logs.old (documents expire by it): name the collections to copy \
         them with plain indexes in their place",
    );
    assert_eq!(place.ok(&format!("collections {to} --names")), "");
    // Killed in the middle.
    let mut child = place.command(&format!("copy db {to} comments people")).spawn().unwrap();
    let started = Instant::now();
    let copied = || {
        let listed = place.run(&format!("count {to} comments"));
        listed.stdout.trim().parse::<u64>().unwrap_or(0)
    };
    while copied() < 3_000 && child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(120));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = place.run(&format!("copy db {to} comments people logs --verify"));
    assert_eq!(rest.code, 0, "{rest:?}");
    let plain = "gets plain indexes in the place of logs.old (documents expire by it): their \
                 documents last\n";
    assert!(rest.stderr.contains(plain), "{rest:?}");
    place.fails(&format!("put {to} people z {{\"mail\":\"a\"}}"), 1, "unique index \"mails\"");
    assert!(rest.stderr.contains("commitlog_sync: periodic"), "{rest:?}");
    assert!(rest.stdout.starts_with("comments: 6,000 documents, checksum "), "{rest:?}");
    // And back, with what the cluster has now.
    place.ok(&format!("put {to} people new {{}}"));
    place.fails(&format!("copy {to} db"), 2, "db: cannot copy into collection \"comments\"");
    let back = place.run(&format!("copy {to} back --verify"));
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(place.ok("verify db comments --against back").lines().count(), 1);
    let differs = place.run("verify db --against back");
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.stdout.contains("\n  \"new\" is only in back\n"), "{differs:?}");
    assert_eq!(place.ok("get db people k --expires"), place.ok("get back people k --expires"));
    // Nothing tells what has changed in a cluster.
    place.ok(&format!("put {to} people newer {{\"mail\":\"c\"}}"));
    let again = place.run(&format!("copy {to} back people"));
    let note = "people: copied before, to its end; a cluster has no version, so what changed there";
    assert!((again.code, again.stderr.contains(note)) == (0, true), "{again:?}");
    let changed = place.run(&format!("copy {to} back people --verify"));
    assert!(
        (changed.code, changed.stderr.ends_with("differ: people\n")) == (1, true),
        "{changed:?}"
    );
    let explained = place.ok("find back comments {\"author\":\"x\"} --explain");
    assert!(explained.contains("by_author"), "{explained}");
}

/// Of a load that was killed, and of one whose node was, `--resume` loads the rest.
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_load_goes_on_after_a_kill_and_after_a_restart_of_the_node() {
    let mut node = Nodes::start(Setup::of(1, CommitLog::Group));
    let (place, to) = (Place::new(), format!("cql://{}/loads?rf=1", node.hosts()));
    place.ok("generate comments --count 30000 --output in.jsonl");
    let load = format!("load {to} c in.jsonl --resume");
    let loaded = || place.run(&format!("count {to} c")).stdout.trim().parse().unwrap_or(0_u64);
    let wait = |count: u64| {
        let started = Instant::now();
        while loaded() < count {
            assert!(started.elapsed() < Duration::from_secs(120));
        }
    };
    let mut child = place.command(&load).spawn().unwrap();
    wait(1_000);
    child.kill().unwrap();
    child.wait().unwrap();
    let first = loaded();
    assert!((1_000..30_000).contains(&first), "{first}");
    let child = place.command(&load).stderr(Stdio::piped()).spawn().unwrap();
    wait(first + 1_000);
    node.kill(0);
    let failed = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&failed.stderr);
    assert!(!failed.status.success(), "{text}");
    assert!(text.contains("table loads."), "{text}");
    assert!(
        text.contains("when the nodes answer again, the same command loads the rest"),
        "{text}"
    );
    node.restart(0);
    let second = loaded();
    assert!((first + 1_000..30_000).contains(&second), "{second}");
    let rest = place.run(&load);
    assert_eq!(rest.code, 0, "{rest:?}");
    // It continues, and loads again what was lost with the node.
    let count = |text: &str| text.replace(',', "").parse::<u64>().unwrap_or(0);
    let words: Vec<&str> = rest.stderr.split_whitespace().collect();
    let of = words.iter().position(|word| *word == "documents").unwrap();
    let new = count(words[of - 1]);
    assert!((30_000 - second..30_000 - first / 2).contains(&new), "{new} {rest:?}");
    assert_eq!(place.ok(&format!("count {to} c")), "30000\n");
    let sorted = |lines: String| lines.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    place.ok("load db c in.jsonl");
    assert_eq!(sorted(place.ok(&format!("export {to} c"))), sorted(place.ok("export db c")));
}

/// Two of three nodes are enough, for the load, and for those who read it from two others.
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_load_goes_on_while_one_of_three_nodes_is_killed() {
    let mut nodes = Nodes::start(Setup::of(3, CommitLog::Periodic));
    let (place, to) = (Place::new(), format!("cql://{}/loads?rf=3", nodes.hosts()));
    place.ok("generate comments --count 40000 --output in.jsonl");
    let count = || place.run(&format!("count {to} c")).stdout.trim().parse().unwrap_or(0_u64);
    let load = || {
        let load = format!("load {to} c in.jsonl --resume");
        place.command(&load).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut running = load();
    let started = Instant::now();
    while count() < 1_000 {
        if running.try_wait().unwrap().is_some_and(|ended| !ended.success()) {
            // The nodes had not told clients of all others yet.
            running = load();
        }
        assert!(started.elapsed() < Duration::from_secs(120));
    }
    nodes.kill(1);
    let mut tries = 0;
    loop {
        let ended = running.wait_with_output().unwrap();
        if ended.status.success() {
            break;
        }
        let text = String::from_utf8_lossy(&ended.stderr);
        assert!(text.contains("the same command loads the rest"), "{text}");
        tries += 1;
        assert!(tries < 20, "{text}");
        running = load();
    }
    // The one that lacks the documents is back, and one that has them is not there.
    nodes.restart(1);
    nodes.kill(2);
    place.ok("load db c in.jsonl");
    let sorted = |lines: String| lines.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let here = sorted(place.ok("export db c"));
    let started = Instant::now();
    loop {
        let read = place.run(&format!("export {to} c"));
        if read.code == 0 {
            assert!(sorted(read.stdout) == here);
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{read:?}");
    }
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn shards_are_loaded_and_exported_side_by_side() {
    let (place, to) = (filled(), address("shards"));
    let loads: Vec<_> = (1..=4)
        .map(|shard| format!("load {to} c in.jsonl --shard {shard}/4 --resume"))
        .map(|load| place.command(&load).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for load in loads {
        let ended = load.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(place.ok(&format!("count {to} c")), "6000\n");
    for of in [2, 3] {
        let mut lines = BTreeSet::new();
        for shard in 1..=of {
            let part = place.ok(&format!("export {to} c --shard {shard}/{of}"));
            assert!(part.lines().count() > 6_000 / of / 2);
            for line in part.lines() {
                assert!(lines.insert(line.to_owned()), "{line} is in two shards");
            }
        }
        assert_eq!(lines.len(), 6_000);
        // As the same shard of a directory, if the filter is the same.
        let sorted = |database: &str, collection: &str| {
            let filter = "{\"score\":{\"$gte\":3}} --sort id --limit 500";
            place.ok(&format!("export {database} {collection} {filter} --shard 2/{of}"))
        };
        assert_eq!(sorted(&to, "c"), sorted("db", "comments"));
    }
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn inserts_keep_what_is_there_and_stats_show_the_buckets() {
    let (place, to) = (Place::new(), address("inserts"));
    place.ok("generate comments --count 1000 --output in.jsonl");
    place.file(
        "few.jsonl",
        "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\n",
    );
    place.ok(&format!("put {to} c a {{\"n\":0}}"));
    let inserted = place.run(&format!("load {to} c few.jsonl --mode insert"));
    assert_eq!(inserted.code, 0, "{inserted:?}");
    assert!(inserted.stderr.contains("2 documents not loaded: their keys exist"), "{inserted:?}");
    assert_eq!(place.ok(&format!("scan {to} c")), "{\"n\":0}\n{\"id\":\"b\",\"n\":1}\n");
    let stops = format!("load {to} c few.jsonl --mode insert --stop-on-error");
    // Of the lines whose keys exist, any writer may be the first.
    place.fails(&stops, 1, ":1: a document with this key exists");
    place.ok(&format!("load {to} c in.jsonl"));
    let shown = place.ok(&format!("stats {to}"));
    let buckets = "c: about 1,002 documents, in 16 buckets of about ";
    assert!(shown.contains(buckets) && shown.contains("; enough for 1.68 GB\n"), "{shown}");
    assert!(shown.contains("commitlog_sync periodic") && !shown.contains("warning"), "{shown}");
    let stats: Value = serde_json::from_str(&place.ok(&format!("stats {to} --json"))).unwrap();
    let bytes = stats["collections"][0]["bucket_bytes"].as_u64().unwrap();
    assert!((10_000..100_000).contains(&bytes), "{stats}");
    let scanned = place.ok(&format!("scan {to} c"));
    let divided = place.run(&format!("rebalance {to} c --buckets 8 --ranges"));
    assert_eq!(divided.code, 0, "{divided:?}");
    let text = "collection \"c\" has 8 ranges of keys; 1,002 documents were copied";
    assert!(divided.stderr.contains(text), "{divided:?}");
    assert_eq!(place.ok(&format!("scan {to} c")), scanned);
    let shown = place.ok(&format!("stats {to}"));
    assert!(shown.contains("documents, in 8 buckets by ranges of keys of about "), "{shown}");
    // Keys decide the shard, whatever the layout.
    let shards = ["1/2", "2/2"].map(|shard| {
        place.ok(&format!("load {to} c in.jsonl --shard {shard}"));
        place.ok(&format!("export {to} c --shard {shard}")).lines().count()
    });
    assert_eq!(shards.iter().sum::<usize>(), 1_002);
    assert!(shards.iter().all(|count| *count > 400), "{shards:?}");
    assert_eq!(place.ok(&format!("count {to} c")).trim(), "1002");
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn update_documents_change_what_a_cluster_has() {
    let (place, to) = (Place::new(), address("updates"));
    place.ok(&format!(r#"put {to} c k {{"n":1,"items":[{{"s":"x","n":1}},{{"s":"y","n":5}}]}}"#));
    place.ok(&format!("index create {to} c by_n n"));
    for (update, expected) in [
        (r#"k --update {"$inc":{"n":1},"$set":{"at.city":"Rome"}}"#, r#""at":{"city":"Rome"}"#),
        (
            r#"k --update {"$mul":{"items.$[i].n":2}} --array-filters [{"i.s":"y"}]"#,
            r#"[{"s":"x","n":1},{"s":"y","n":10}]"#,
        ),
        (r#"k --update {"$pull":{"items":{"n":{"$gt":9}}}}"#, r#""items":[{"s":"x","n":1}]"#),
        (r#"k --update [{"$set":{"sum":{"$add":["$n",1]},"by":"$_id"}}]"#, r#""sum":3,"by":"k""#),
        (r#"--where {"items.s":"x","n":2} --update {"$set":{"items.$.s":"z"}}"#, r#""s":"z""#),
    ] {
        place.ok(&format!("update {to} c {update}"));
        let found = place.ok(&format!("get {to} c k"));
        assert!(found.contains(expected), "{update}: {found}");
    }
    let upsert = format!(r#"update {to} c --where {{"n":7}} --upsert --update"#);
    for said in ["0 documents changed; 1 inserted", "1 document changed"] {
        let ran = place.run(&format!(r#"{upsert} {{"$inc":{{"m":1}},"$setOnInsert":{{"s":2}}}}"#));
        assert_eq!((ran.code, ran.stderr.contains(said)), (0, true), "{ran:?}");
    }
    assert_eq!(place.ok(&format!(r#"find {to} c {{"n":7}}"#)), "{\"n\":7,\"m\":2,\"s\":2}\n");
    place.fails(&format!(r#"update {to} c none --update {{"$inc":{{"n":1}}}}"#), 1, "there is no");
    assert_eq!(place.ok(&format!("count {to} c")), "2\n");
}
