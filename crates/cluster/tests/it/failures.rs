//! Writes to Cassandra while nodes are killed and paused, and while requests and answers are lost.
//! Afterwards every acknowledged write is there, none that failed for good, and every index entry
//! has its document.

use crate::nodes::{KEYSPACE, Load, PATIENCE, connect, three};
use crate::support::{Hooked, Hooks, fill};
use flagstone::{ErrorKind, Group};
use flagstone_cluster::Cluster;
use flagstone_cluster::cql::Cql;
use flagstone_cluster::store::Store;
use flagstone_testkit::cassandra::{Ask, CommitLog, Fate, Nodes, Proxy, Setup};
use flagstone_testkit::{Rng, seed};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn seconds(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn writes_are_exact_though_requests_and_answers_are_lost() {
    let commit_log = CommitLog::Periodic;
    let nodes = Nodes::start(Setup { nodes: 1, commit_log, is_behind_proxy: true });
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
    let nodes = Nodes::start(Setup { nodes: 1, commit_log, is_behind_proxy: false });
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
