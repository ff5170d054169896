//! Which nodes a request goes to, and which requests are sent again.

use scylla::cluster::metadata::Strategy;
use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::load_balancing::{FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};
use scylla::routing::Shard;

/// Sends the requests of a partition to its replicas in the order of the ring, those without a
/// connection last: the same for all clients. Conditional batches of one partition that go through
/// different nodes get in each other's way, and may end without an answer.
#[derive(Debug)]
pub(super) struct InOrder {
    /// The data centre whose nodes alone get requests. Another node would wait for its own.
    pub(super) home: Option<String>,
}

impl LoadBalancingPolicy for InOrder {
    /// Nothing: the other plan has them all.
    fn pick<'a>(
        &'a self,
        _request: &'a RoutingInfo<'_>,
        _cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        None
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let mut nodes: Vec<NodeRef<'a>> = Vec::new();
        if let (Some(token), Some(table)) = (request.token, request.table) {
            let keyspace = cluster.get_keyspace(table.ks_name());
            let strategy = keyspace.map_or(&Strategy::LocalStrategy, |known| &known.strategy);
            let locator = cluster.replica_locator();
            let replicas = locator.replicas_for_token(token, strategy, self.home.as_deref(), table);
            nodes.extend(replicas.into_replicas_ordered().into_iter().map(|(node, _)| node));
        }
        let is_here = |node: &NodeRef<'a>| self.home.is_none() || node.datacenter == self.home;
        for node in cluster.get_nodes_info().iter().filter(is_here) {
            if !nodes.iter().any(|known| known.host_id == node.host_id) {
                nodes.push(node);
            }
        }
        nodes.sort_by_key(|node| !node.is_connected());
        Box::new(nodes.into_iter().map(|node| (node, None)))
    }

    fn name(&self) -> String {
        "in the order of the ring".into()
    }
}

/// How often a read is sent again.
const AGAIN: u32 = 2;

/// Sends a read again, to the next node, unless it would be refused there too.
#[derive(Debug)]
pub(super) struct ReadAgain;

struct Tries(u32);

impl RetryPolicy for ReadAgain {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Tries(0))
    }
}

impl RetrySession for Tries {
    fn decide_should_retry(&mut self, info: RequestInfo<'_>) -> RetryDecision {
        let is_final = matches!(
            info.error,
            RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
                | RequestAttemptError::DbError(
                    DbError::SyntaxError
                        | DbError::Invalid
                        | DbError::ConfigError
                        | DbError::AuthenticationError
                        | DbError::Unauthorized,
                    _
                )
        );
        if is_final || self.0 == AGAIN {
            return RetryDecision::DontRetry;
        }
        self.0 += 1;
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}
