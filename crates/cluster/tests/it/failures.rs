//! Writes to Cassandra while nodes are killed and paused, and while requests and answers are lost.
//! Afterwards every acknowledged write is there, none that failed for good, and every index entry
//! has its document.

use crate::linear::history;
use crate::nodes::{KEYSPACE, Load, PATIENCE, connect, three};
use crate::support::{Hooked, Hooks, by_n, fill, found, n_of};
use flagstone::{ErrorKind, Group, Index, Json, Space, Value};
use flagstone_base::interrupt;
use flagstone_cluster::cql::Cql;
use flagstone_cluster::store::Store;
use flagstone_cluster::{Cluster, Layout};
use flagstone_testkit::cassandra::{Ask, CommitLog, Fate, Nodes, Proxy, Setup};
use flagstone_testkit::{Rng, seed};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

fn seconds(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn writes_are_exact_though_requests_and_answers_are_lost() {
    let commit_log = CommitLog::Periodic;
    let nodes = Nodes::start(Setup { is_behind_proxy: true, ..Setup::of(1, commit_log) });
    let proxy = Proxy::new(&nodes);
    let address = format!("cql://{}/{KEYSPACE}?rf=1", nodes.hosts());
    let patience = Duration::from_millis(800);
    let stores: Vec<Arc<dyn Store>> = (0..2)
        .map(|_| Arc::new(Cql::connect_impatiently(&address, patience).unwrap()) as _)
        .collect();
    let load = Load::start(&stores);
    seconds(2);
    let mut rng = Rng::new(seed("failures", 1));
    proxy.set(move |ask, _| match (ask, rng.below(40)) {
        (Ask::Batch, 0..4) => Fate::LoseAnswer,
        (Ask::Batch, 4..6) => Fate::Lose,
        (Ask::Batch, 6..8) => Fate::Delay(Duration::from_millis(1200)),
        (Ask::Batch, 8) => Fate::Cut,
        (Ask::Execute, 0) => Fate::Lose,
        (Ask::Execute, 1) => Fate::LoseAnswer,
        _ => Fate::Pass,
    });
    seconds(20);
    proxy.pass();
    seconds(3);
    let told = load.end();
    told.check(&stores[0]);
    assert!(told.acknowledged > 100, "{told:?}");
    assert!(told.unknown * 20 < told.acknowledged, "{told:?}");
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_killed_and_a_paused_node_lose_no_acknowledged_write() {
    let mut nodes = three(CommitLog::Periodic);
    let stores = [connect(&nodes, 3, PATIENCE), connect(&nodes, 3, PATIENCE)];
    let load = Load::start(&stores);
    seconds(4);
    nodes.kill(1);
    seconds(8);
    let while_one_was_gone = load.acknowledged();
    seconds(4);
    assert!(load.acknowledged() > while_one_was_gone, "two of three nodes are enough");
    nodes.restart(1);
    seconds(4);
    nodes.pause(2);
    seconds(8);
    nodes.resume(2);
    seconds(6);
    let told = load.end();
    told.check(&stores[0]);
    assert!(told.acknowledged > 200, "{told:?}");
}

/// Repeats a call until it is done.
fn until_done<T>(mut call: impl FnMut() -> flagstone::Result<T>) -> T {
    for _ in 0..60 {
        match call() {
            Ok(done) => return done,
            Err(error) => {
                use ErrorKind::{Busy, Conflict, Unavailable, Unknown};
                let kind = error.kind();
                assert!(matches!(kind, Busy | Conflict | Unavailable | Unknown), "{error}");
                seconds(1);
            }
        }
    }
    panic!("a call was not done in 60 attempts");
}

/// Builds of indexes, also of a unique one, and copies into other layouts, beside writers.
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_killed_node_harms_no_build_and_no_rebalance() {
    let mut nodes = three(CommitLog::Periodic);
    let stores = [connect(&nodes, 3, PATIENCE), connect(&nodes, 3, PATIENCE)];
    let load = Load::start(&stores);
    let cluster = Cluster::over(connect(&nodes, 3, PATIENCE)).unwrap();
    let collection = cluster.collection(load.name()).unwrap();
    seconds(3);
    std::thread::scope(|scope| {
        let nodes = &mut nodes;
        let kills = scope.spawn(move || {
            nodes.kill(1);
            seconds(6);
            nodes.restart(1);
            nodes.kill(2);
            seconds(6);
            nodes.restart(2);
        });
        let own = || Index::on("own").unique().sparse();
        until_done(|| collection.create_index("own", own()));
        until_done(|| collection.create_index("by count", Index::on("count")));
        for layout in [Layout::Ranges(8), Layout::Hash(32)] {
            let goes_on = |_| ControlFlow::Continue(());
            assert!(until_done(|| cluster.rebalance(load.name(), layout, goes_on)).is_continue());
        }
        kills.join().unwrap();
    });
    seconds(2);
    let told = load.end();
    told.check(&stores[0]);
    assert_eq!(collection.verify_indexes().unwrap().indexes, 3);
    assert!(told.acknowledged > 100, "{told:?}");
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn histories_beside_a_killed_node_are_linearizable() {
    let mut nodes = three(CommitLog::Periodic);
    let clusters = [(); 2].map(|()| Cluster::over(connect(&nodes, 3, PATIENCE)).unwrap());
    clusters.iter().for_each(|cluster| drop(cluster.collection("c").unwrap()));
    std::thread::scope(|scope| {
        let nodes = &mut nodes;
        let kills = scope.spawn(move || {
            seconds(2);
            nodes.kill(1);
            seconds(8);
            nodes.restart(1);
        });
        history(&clusters, seed("histories", 1), 300, || kills.join().unwrap());
    });
}

/// A call that waits for a node is ended when its time is over, except where it may have written.
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn reads_of_a_node_that_does_not_answer_are_interrupted() {
    static SINCE: OnceLock<Instant> = OnceLock::new();
    let nodes = Nodes::start(Setup::of(1, CommitLog::Periodic));
    let cluster = Cluster::over(connect(&nodes, 1, PATIENCE)).unwrap();
    let collection = cluster.collection("c").unwrap();
    collection.create_index("by n", by_n()).unwrap();
    fill(&collection, 5);
    nodes.pause(0);
    SINCE.set(Instant::now()).unwrap();
    let is_over = || SINCE.get().unwrap().elapsed() > Duration::from_millis(500);
    let kind = interrupt::interruptible(is_over, || {
        let get = collection.get(1_u64).map(drop).unwrap_err();
        let find = collection.find(r#"{"n":2}"#).first().map(drop).unwrap_err();
        assert_eq!((get.kind(), find.kind()), (ErrorKind::Interrupted, ErrorKind::Interrupted));
        assert!(SINCE.get().unwrap().elapsed() < PATIENCE, "they waited for the node");
        collection.put(1_u64, Json(r#"{"n":7}"#)).unwrap_err().kind()
    });
    assert_ne!(kind, ErrorKind::Interrupted, "as if it were certain that nothing was written");
    nodes.resume(0);
}

/// Two data centres with one node each. A keyspace with a home waits for that node alone; one
/// without waits for both.
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_keyspace_with_a_home_goes_on_without_the_other_data_centre() {
    let setup = Setup::of(2, CommitLog::Periodic);
    let mut nodes = Nodes::start(Setup { are_apart: true, ..setup });
    // The node of the other data centre is named first.
    let hosts = format!("{},{}", nodes.announced(1), nodes.announced(0));
    let open = |rest: &str| Cluster::connect(&format!("cql://{hosts}/{rest}"));
    let refused = |rest: &str, said: &str| {
        let error = open(rest).err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    };
    // A node that is up may not tell clients of the other yet.
    for n in 0..2 {
        let none = format!("cql://{}/none?rf=1&home=2", nodes.announced(n));
        while !Cluster::connect(&none).err().unwrap().to_string().contains("these: 0, 1") {
            seconds(1);
        }
    }
    refused("none?rf=1&home=2", "has these: 0, 1");
    let (local, both) = (open("local?rf=1&home=0").unwrap(), open("both?rf=1").unwrap());
    refused("local?home=1", "has the home 0, and not 1");
    refused("both?home=0", "has no home, and not 0");
    let copies = local.facts().unwrap();
    assert_eq!(copies.get("home").and_then(Value::as_str), Some("0"));
    let (here, everywhere) = (local.collection("c").unwrap(), both.collection("c").unwrap());
    for collection in [&here, &everywhere] {
        collection.create_index("by n", by_n()).unwrap();
        fill(collection, 20);
    }

    nodes.kill(1);
    // No call waits until the nodes have noticed it.
    for key in 0..20_u64 {
        here.update(key, |document| document.inc("n", 100)).unwrap();
    }
    here.put(20_u64, Json(r#"{"n":120}"#)).unwrap();
    assert_eq!(found(&here, r#"{"n":{"$gte":100}}"#).len(), 21);
    // A client that comes now, and names no home, has it too.
    let late = open("local").unwrap();
    let late = late.collection("c").unwrap();
    assert_eq!(n_of(&late, 7), Some(107));
    late.delete(7_u64).unwrap();
    let started = Instant::now();
    loop {
        match everywhere.put(1_u64, Json(r#"{"n":1}"#)).unwrap_err().kind() {
            ErrorKind::Unavailable => break,
            // Until the node is known to be gone.
            kind => assert_eq!(kind, ErrorKind::Unknown),
        }
        assert!(started.elapsed() < Duration::from_secs(90), "one of two copies is not enough");
    }

    nodes.restart(1);
    nodes.kill(0);
    // What the home has not confirmed is not told by others.
    let error = here.get(3_u64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(here.put(3_u64, Json("{}")).is_err());
    nodes.restart(0);
    let started = Instant::now();
    while here.get(3_u64).is_err() {
        assert!(started.elapsed() < Duration::from_secs(60), "the home is there again");
        seconds(1);
    }
    let mut there = found(&here, r#"{"n":{"$gte":100}}"#);
    there.retain(|key| *key != 3);
    let expected: Vec<u64> = (0..21).filter(|key| ![3, 7].contains(key)).collect();
    assert_eq!(there, expected);
}

/// All nodes die before the second reading of pages.
struct Dies(Arc<Mutex<Nodes>>, AtomicU64);

impl Hooks for Dies {
    fn before_pages(&self) {
        if self.1.fetch_add(1, Ordering::SeqCst) == 1 {
            self.0.lock().unwrap().kill(0);
        }
    }
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_group_in_whose_middle_all_nodes_die_says_what_to_look_at() {
    let commit_log = CommitLog::Periodic;
    let nodes = Nodes::start(Setup::of(1, commit_log));
    let store = connect(&nodes, 1, PATIENCE);
    let nodes = Arc::new(Mutex::new(nodes));
    let dies = Dies(Arc::clone(&nodes), AtomicU64::new(0));
    let cluster = Cluster::over(Hooked::over(store, dies)).unwrap();
    let documents = cluster.collection("grouped").unwrap();
    fill(&documents, 1000);
    // A killed process loses what its commit log has not marked: with `periodic`, for 100 ms.
    seconds(1);
    let groups = || -> flagstone::Result<usize> {
        let group = Group::by("n").count("count");
        let groups = documents.find("{}").group(&group)?;
        groups.map(|group| group.map(drop)).try_fold(0, |count, group| group.map(|()| count + 1))
    };
    let began = Instant::now();
    let error = groups().unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{text}");
    assert!(text.contains("table shop.rows, c = ") && text.contains("nodetool status"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(60));
    nodes.lock().unwrap().restart(0);
    let again = (0..60).find_map(|_| groups().map_err(|_unavailable| seconds(1)).ok());
    assert_eq!(again, Some(1000));
}

/// Not only what the operating system keeps of a commit log, but also what `group` waits for.
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn nodes_that_are_all_killed_lose_no_acknowledged_write() {
    for commit_log in [CommitLog::Periodic, CommitLog::Group] {
        all_are_killed(three(commit_log));
    }
}

fn all_are_killed(mut nodes: Nodes) {
    let stores = [connect(&nodes, 3, PATIENCE), connect(&nodes, 3, PATIENCE)];
    let load = Load::start(&stores);
    seconds(5);
    (0..3).for_each(|n| nodes.kill(n));
    seconds(1);
    nodes.restart_all(&[0, 1, 2]);
    seconds(8);
    let told = load.end();
    told.check(&connect(&nodes, 3, PATIENCE));
    assert!(told.acknowledged > 50, "{told:?}");
}
