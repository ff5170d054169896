//! How a keyspace of Cassandra is reached, and which ones are refused.

use crate::nodes::one;
use flagstone::ErrorKind;
use flagstone_base::Result;
use flagstone_cluster::Cluster;
use flagstone_cluster::cql::{Cql, Facts, Told};
use flagstone_cluster::store::{Freshness, Partition, Store};
use scylla::client::session_builder::SessionBuilder;
use std::time::Duration;

fn connect(keyspace: &str) -> Result<Cql> {
    Cql::connect(&format!("cql://{}/{keyspace}", one().hosts()))
}

/// Runs statements as another program would.
fn execute(statements: &[&str]) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let session = SessionBuilder::new().known_node(one().hosts()).build().await.unwrap();
        for statement in statements {
            session.query_unpaged(*statement, ()).await.unwrap();
        }
    });
}

#[track_caller]
fn refused(keyspace: &str, kind: ErrorKind, said: &str) {
    let error = connect(keyspace).err().expect("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn what_cannot_be_reached_is_unavailable_and_named() {
    for address in ["cql://127.0.0.1:1/shop", "cql://no.such.host.invalid,127.0.0.1:1/shop"] {
        let error = Cluster::connect(address).err().expect("nobody is there");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = error.to_string();
        assert!(text.contains("127.0.0.1:1: ") && text.contains("native_transport_port"), "{text}");
    }
    let error = Cluster::connect("cql://host").err().expect("it is no address");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn a_keyspace_of_another_program_is_refused() {
    execute(&[
        "CREATE KEYSPACE theirs WITH replication = \
         {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
        "CREATE TABLE theirs.orders (id int PRIMARY KEY)",
    ]);
    refused("theirs", ErrorKind::InvalidInput, "another program, whose table theirs.orders");
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn an_empty_keyspace_is_taken_and_one_that_was_changed_is_refused() {
    execute(&["CREATE KEYSPACE changed WITH replication = \
               {'class': 'SimpleStrategy', 'replication_factor': 1}"]);
    connect("changed").unwrap();
    connect("changed?rf=1").unwrap();
    refused("changed?rf=2", ErrorKind::InvalidInput, "has not 2 copies of each row");
    execute(&["ALTER TABLE changed.rows WITH comment = 'flagstone cluster, format 2'"]);
    refused("changed", ErrorKind::Unsupported, "table changed.rows has format 2");
    execute(&[
        "ALTER TABLE changed.rows WITH comment = 'flagstone cluster, format 1'",
        "ALTER TABLE changed.catalog DROP version",
    ]);
    refused(
        "changed",
        ErrorKind::Unsupported,
        "table changed.catalog: column version is not there",
    );
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn more_copies_than_nodes_are_refused_before_anything_is_created() {
    for keyspace in ["scarce", "scarce?rf=3"] {
        let said = "is to have 3 copies of each row, and the cluster at ";
        refused(keyspace, ErrorKind::InvalidInput, said);
    }
    connect("scarce?rf=1").unwrap();
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn several_processes_may_create_a_keyspace_at_once() {
    // They begin one after the other, so that each meets another step of the first.
    let keyspaces = 4;
    for number in 0..keyspaces {
        let keyspace = format!("crowded{number}?rf=1");
        std::thread::scope(|scope| {
            let connecting = [0, 30, 60, 90, 120, 150].map(|delay| {
                let keyspace = &keyspace;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(delay));
                    connect(keyspace)
                })
            });
            connecting.into_iter().for_each(|thread| drop(thread.join().unwrap().unwrap()));
        });
    }
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn the_facts_of_a_cluster_are_told() {
    let Facts { copies, home, nodes } = connect("facts?rf=1").unwrap().facts().unwrap();
    assert_eq!(home, None);
    assert_eq!(copies.into_iter().collect::<Vec<_>>(), [("datacenter1".to_owned(), 1)]);
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].ip, one().address(0).ip());
    let Told { version, commitlog_sync, clock_ahead, largest_partition } =
        nodes[0].told.clone().unwrap();
    assert!(version.starts_with("5."), "{version}");
    assert_eq!(commitlog_sync, "periodic");
    assert!((0..100).contains(&largest_partition), "{largest_partition}");
    // On the same machine they have the same clock.
    assert!(clock_ahead.abs() < 60_000, "{clock_ahead}");
}

#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn calls_after_the_end_fail_and_those_of_another_runtime_do_not_panic() {
    let store = connect("closing?rf=1").unwrap();
    let place = Partition { generation: 1, bucket: 1 };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        assert!(store.note("n", Freshness::Serial).unwrap().is_none());
        store.close();
        let error = store.note("n", Freshness::Serial).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(store.set_epoch(place, None, 1).unwrap_err().kind(), ErrorKind::Closed);
        drop(store);
    });
}
