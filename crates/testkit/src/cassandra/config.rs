//! The configuration of a node: small, since several run on one machine beside the tests.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// When the commit log reaches the disk: Cassandra's `commitlog_sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitLog {
    /// Every ten seconds: a killed process loses nothing, a power cut does.
    Periodic,
    /// Before a write is acknowledged, for several at once.
    Group,
}

/// Where the nodes listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) nodes: u8,
    /// For clients; the next one is for the other nodes. The same for all nodes, as drivers expect.
    pub(super) port: u16,
    pub(super) is_behind_proxy: bool,
    pub(super) are_apart: bool,
}

impl Addresses {
    pub(super) fn of(&self, n: u8) -> SocketAddr {
        (self.ip(0, n), self.port).into()
    }

    pub(super) fn announced(&self, n: u8) -> SocketAddr {
        (self.ip(u8::from(self.is_behind_proxy), n), self.port).into()
    }

    /// Returns the address of node `n`, or for `net` 1 that of its proxy. The second number is the
    /// data centre.
    const fn ip(&self, net: u8, n: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, if self.are_apart { n } else { 0 }, net, n + 1)
    }
}

/// What the nodes of a cluster have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    pub(super) addresses: Addresses,
    pub(super) commit_log: CommitLog,
}

/// What is the same for every node. Timeouts are long, so that a slow machine fails no test; those
/// of tests are the client's.
const COMMON: &str = "\
cluster_name: flagstone
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
auto_bootstrap: false
dynamic_snitch: false
commitlog_segment_size: 32MiB
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
memtable:
  configurations:
    trie:
      class_name: TrieMemtable
    default:
      inherits: trie
sstable:
  selected_format: bti
storage_compatibility_mode: NONE
key_cache_size: 8MiB
file_cache_size: 32MiB
networking_cache_size: 16MiB
concurrent_reads: 8
concurrent_writes: 16
concurrent_compactors: 1
paxos_variant: v2
paxos_state_purging: repaired
read_request_timeout: 10s
write_request_timeout: 10s
request_timeout: 10s
range_request_timeout: 20s
cas_contention_timeout: 5s
truncate_request_timeout: 60s
auto_snapshot: false
";

impl Config {
    /// Returns the text of `cassandra.yaml` of node `n`, whose files are in `dir`.
    pub(super) fn yaml(&self, n: u8, dir: &Path) -> String {
        let addresses = &self.addresses;
        let (dir, storage_port) = (dir.display(), addresses.port + 1);
        // Each node knows all: with one seed alone, nodes that start at once may miss each other.
        let seeds: Vec<String> = (0..addresses.nodes)
            .map(|n| format!("{}:{storage_port}", addresses.of(n).ip()))
            .collect();
        let mut text = String::from(COMMON);
        let log = match self.commit_log {
            CommitLog::Periodic => "commitlog_sync: periodic\ncommitlog_sync_period: 10s",
            CommitLog::Group => "commitlog_sync: group\ncommitlog_sync_group_window: 10ms",
        };
        let (ip, announced) = (addresses.of(n).ip(), addresses.announced(n).ip());
        writeln!(
            text,
            "{log}\n\
             endpoint_snitch: {}\n\
             initial_token: {}\n\
             listen_address: {ip}\n\
             rpc_address: {ip}\n\
             broadcast_rpc_address: {announced}\n\
             native_transport_port: {}\n\
             storage_port: {storage_port}\n\
             seed_provider:\n  \
             - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    \
             parameters:\n      \
             - seeds: \"{}\"\n\
             data_file_directories: [\"{dir}/data\"]\n\
             commitlog_directory: \"{dir}/commitlog\"\n\
             hints_directory: \"{dir}/hints\"\n\
             saved_caches_directory: \"{dir}/saved_caches\"\n\
             cdc_raw_directory: \"{dir}/cdc_raw\"",
            if addresses.are_apart { "RackInferringSnitch" } else { "SimpleSnitch" },
            token(n, addresses.nodes),
            addresses.port,
            seeds.join(",")
        )
        .unwrap();
        text
    }
}

/// Returns the text of `logback.xml`, with which a node logs into `file`.
pub(super) fn logback(file: &Path) -> String {
    format!(
        "<configuration>\n\
         <appender name=\"FILE\" class=\"ch.qos.logback.core.FileAppender\">\n\
         <file>{}</file>\n\
         <encoder><pattern>%date{{ISO8601}} %level %logger{{0}}: %msg%n</pattern></encoder>\n\
         </appender>\n\
         <root level=\"INFO\"><appender-ref ref=\"FILE\"/></root>\n\
         </configuration>\n",
        file.display()
    )
}

/// Returns the token from which on node `n` of so many has the rows.
fn token(n: u8, nodes: u8) -> i128 {
    i128::from(i64::MIN) + i128::from(n) * (1 << 64) / i128::from(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_the_ring_evenly_and_know_each_other() {
        let tokens: Vec<_> = (0..3).map(|n| token(n, 3)).collect();
        let third = 6_148_914_691_236_517_205;
        let first = -9_223_372_036_854_775_808;
        assert_eq!(tokens, [first, first + third, first + 2 * third]);
        let addresses =
            Addresses { nodes: 3, port: 20_000, is_behind_proxy: true, are_apart: false };
        let config = Config { addresses, commit_log: CommitLog::Group };
        let text = config.yaml(1, Path::new("/x"));
        for line in [
            "initial_token: -3074457345618258603\n",
            "rpc_address: 127.0.0.2\n",
            "broadcast_rpc_address: 127.0.1.2\n",
            "- seeds: \"127.0.0.1:20001,127.0.0.2:20001,127.0.0.3:20001\"\n",
            "commitlog_sync: group\n",
            "data_file_directories: [\"/x/data\"]\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let apart = Config { addresses: Addresses { are_apart: true, ..addresses }, ..config };
        let text = apart.yaml(1, Path::new("/x"));
        assert!(text.contains("RackInferringSnitch\n") && text.contains("127.1.0.2"), "{text}");
    }
}
