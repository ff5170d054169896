//! Cassandra nodes for tests, on loopback addresses, with their files in a temporary folder.
//!
//! `cargo xtask cluster` gets the program and names its folder in [`PROGRAM`]. No node outlives the
//! process that started it, however that ends: a shell beside each node waits for the end of a pipe
//! from that process, and then kills the node by its id and removes its files.

mod config;
mod node;
mod proxy;

use config::{Addresses, Config};
use node::Node;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use config::CommitLog;
pub use proxy::{Ask, Fate, Proxy, Rule};

/// The environment variable with the folder of Cassandra's jars.
pub const PROGRAM: &str = "FLAGSTONE_CASSANDRA";

/// How long a node may take to start.
const START: Duration = Duration::from_secs(120);

/// What nodes are started.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How many, at most 9.
    pub nodes: u8,
    /// When the commit log reaches the disk.
    pub commit_log: CommitLog,
    /// Nodes tell clients that they are at [`Nodes::announced`], where a proxy can listen.
    pub is_behind_proxy: bool,
    /// Each node is in a data centre of its own, whose name is the number of the node. Otherwise
    /// all are in `datacenter1`.
    pub are_apart: bool,
}

impl Setup {
    /// Returns so many nodes, in one data centre and without a proxy.
    pub const fn of(nodes: u8, commit_log: CommitLog) -> Self {
        Self { nodes, commit_log, is_behind_proxy: false, are_apart: false }
    }
}

/// Nodes of one cluster, numbered from 0. They end with this value.
#[derive(Debug)]
pub struct Nodes {
    addresses: Addresses,
    nodes: Vec<Node>,
}

impl Nodes {
    /// Starts nodes, and returns when each sees all others.
    ///
    /// # Panics
    /// If [`PROGRAM`] is not set, or a node does not start. Then the text has the end of its log.
    pub fn start(setup: Setup) -> Self {
        let jars = std::env::var_os(PROGRAM).map(PathBuf::from);
        let jars = jars.unwrap_or_else(|| panic!("{PROGRAM} is not set: run cargo xtask cluster"));
        let dir = tempfile::Builder::new().prefix("flagstone-cassandra-").tempdir().unwrap();
        // The nodes remove it: this process may not come to it.
        let dir = dir.keep();
        let Setup { nodes, is_behind_proxy, are_apart, .. } = setup;
        let addresses = free(Addresses { nodes, port: 0, is_behind_proxy, are_apart });
        let config = Config { addresses, commit_log: setup.commit_log };
        let nodes = (0..setup.nodes).map(|n| Node::new(n, &dir, &jars, &config)).collect();
        let mut nodes = Self { addresses, nodes };
        nodes.nodes.iter_mut().for_each(Node::start);
        nodes.wait(0..setup.nodes);
        nodes
    }

    /// Returns where node `n` listens.
    pub fn address(&self, n: u8) -> SocketAddr {
        self.addresses.of(n)
    }

    /// Returns where clients look for node `n`: its address, or that of a proxy.
    pub fn announced(&self, n: u8) -> SocketAddr {
        self.addresses.announced(n)
    }

    /// Returns the addresses for clients with commas between them, as a user writes them.
    pub fn hosts(&self) -> String {
        let all = (0..self.addresses.nodes).map(|n| self.announced(n).to_string());
        all.collect::<Vec<_>>().join(",")
    }

    /// Kills node `n` by SIGKILL. Its files stay.
    pub fn kill(&mut self, n: u8) {
        self.nodes[usize::from(n)].kill();
    }

    /// Starts node `n`, which was killed, and returns when it and all running ones see each other.
    pub fn restart(&mut self, n: u8) {
        self.restart_all(&[n]);
    }

    /// The same for several, at the same time.
    pub fn restart_all(&mut self, all: &[u8]) {
        all.iter().for_each(|&n| self.nodes[usize::from(n)].start());
        self.wait(all.iter().copied());
    }

    /// Stops node `n` in the middle of what it does, by SIGSTOP: its connections stay open.
    pub fn pause(&self, n: u8) {
        self.nodes[usize::from(n)].signal("STOP");
    }

    /// Lets node `n`, which was paused, go on.
    pub fn resume(&self, n: u8) {
        self.nodes[usize::from(n)].signal("CONT");
    }

    /// Waits until these nodes are up, and see all others that run.
    fn wait(&mut self, started: impl Iterator<Item = u8>) {
        let until = Instant::now() + START;
        let running: Vec<u8> = (0..self.addresses.nodes)
            .filter(|&n| self.nodes[usize::from(n)].is_running())
            .collect();
        for n in started {
            let others = running.iter().filter(|&&other| other != n);
            let others: Vec<IpAddr> = others.map(|&other| self.address(other).ip()).collect();
            self.nodes[usize::from(n)].wait(&others, until);
        }
    }
}

/// Returns these addresses with a port that is free at all of them, and the next one too. Outside
/// of the range of which systems give ports to connections.
fn free(addresses: Addresses) -> Addresses {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 6_000;
    let start = std::process::id() % u32::from(COUNT);
    let ports = (0..COUNT).map(|n| {
        let n = (start + u32::from(n)) % u32::from(COUNT);
        FIRST + 2 * u16::try_from(n).unwrap()
    });
    let is_free = |addresses: &Addresses| {
        (0..addresses.nodes).all(|n| {
            let ip = addresses.of(n).ip();
            let ports = [addresses.port, addresses.port + 1];
            ports.iter().all(|port| TcpListener::bind((ip, *port)).is_ok())
        })
    };
    let mut all = ports.into_iter().map(|port| Addresses { port, ..addresses });
    all.find(is_free).expect("no two free ports")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_at_one_of_the_addresses_is_not_taken() {
        let any = Addresses { nodes: 3, port: 0, is_behind_proxy: false, are_apart: true };
        let found = free(any);
        let _used = TcpListener::bind((found.of(2).ip(), found.port + 1)).unwrap();
        assert_ne!(free(any).port, found.port);
    }
}
