//! What is known of a cluster: how safe its writes are, and whether its clocks agree.

use super::Inner;
use super::schema::{ask, replication};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone_base::{Error, ErrorKind, Result};
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is known of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How many nodes of each data centre have a row.
    pub copies: BTreeMap<String, u32>,
    /// The data centre whose nodes alone reads and writes wait for, if it is one.
    pub home: Option<String>,
    pub nodes: Vec<NodeFacts>,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    pub ip: IpAddr,
    pub datacenter: String,
    /// What it has told, or why it could not be asked.
    pub told: Result<Told, String>,
}

/// What a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The version of Cassandra.
    pub version: String,
    /// `periodic`: a write is acknowledged before it is on the disk, and a power cut may undo it.
    /// `group` and `batch`: after that.
    pub commitlog_sync: String,
    /// How many milliseconds the clock of the node is ahead of that of this process. As exact as
    /// half the time of an answer.
    pub clock_ahead: i64,
    /// The bytes of the largest partition of the documents that its disk has, in MiB.
    pub largest_partition: i64,
}

impl Facts {
    /// Returns the facts as a value.
    pub(super) fn to_value(&self) -> Value {
        let mut copies = Map::new();
        for (datacenter, count) in &self.copies {
            copies.insert(datacenter, *count);
        }
        let node = |node: &NodeFacts| {
            let mut map = Map::new();
            map.insert("node", node.ip.to_string());
            map.insert("datacenter", node.datacenter.as_str());
            match &node.told {
                Ok(Told { version, commitlog_sync, clock_ahead, largest_partition }) => {
                    map.insert("version", version.as_str());
                    map.insert("commitlog_sync", commitlog_sync.as_str());
                    map.insert("clock_ahead_ms", *clock_ahead);
                    map.insert(
                        "largest_partition_bytes",
                        largest_partition.saturating_mul(1 << 20),
                    );
                }
                Err(error) => _ = map.insert("error", error.as_str()),
            }
            Value::Map(map)
        };
        let mut map = Map::new();
        map.insert("copies", Value::Map(copies));
        if let Some(home) = &self.home {
            map.insert("home", home.as_str());
        }
        map.insert("nodes", self.nodes.iter().map(node).collect::<Value>());
        Value::Map(map)
    }
}

pub(super) async fn of(inner: Arc<Inner>) -> Result<Facts> {
    let copies = replication(&inner.session, &inner.keyspace).await?;
    let mut nodes = Vec::new();
    for node in inner.session.get_cluster_state().get_nodes_info() {
        nodes.push(NodeFacts {
            ip: node.address.ip(),
            datacenter: node.datacenter.clone().unwrap_or_default(),
            told: told(&inner, node).await.map_err(|error| error.to_string()),
        });
    }
    nodes.sort_by_key(|node| node.ip);
    Ok(Facts { copies, home: inner.home.clone(), nodes })
}

async fn told(inner: &Inner, node: &Arc<Node>) -> Result<Told> {
    let to_node = |text: &str| {
        let mut statement = Statement::new(text);
        let target = NodeIdentifier::Node(Arc::clone(node));
        let policy = SingleTargetLoadBalancingPolicy::new(target, None);
        statement.set_load_balancing_policy(Some(policy));
        statement.set_is_idempotent(true);
        statement
    };
    let what = |table: &str| format!("node {}, table {table}", node.address.ip());
    let text = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'";
    let place = what("system_views.settings");
    let rows = ask::<(String,)>(&inner.session, &place, to_node(text), ()).await?;
    let (commitlog_sync,) = one(&place, rows)?;
    let text = "SELECT release_version, toUnixTimestamp(now()) FROM system.local";
    let place = what("system.local");
    let before = now();
    let rows = ask::<(String, i64)>(&inner.session, &place, to_node(text), ()).await?;
    let (version, clock) = one(&place, rows)?;
    let clock_ahead = clock - (before + (now() - before) / 2);
    let text = "SELECT mebibytes FROM system_views.max_partition_size WHERE keyspace_name = ? \
                AND table_name = 'rows'";
    let place = what("system_views.max_partition_size");
    let keyspace = (inner.keyspace.as_str(),);
    let rows = ask::<(i64,)>(&inner.session, &place, to_node(text), keyspace).await?;
    let largest_partition = rows.first().map_or(0, |(mebibytes,)| *mebibytes);
    Ok(Told { version, commitlog_sync, clock_ahead, largest_partition })
}

fn one<T>(what: &str, mut rows: Vec<T>) -> Result<T> {
    rows.pop().ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("{what}: no row")))
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
