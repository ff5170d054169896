//! One node: a process of Java, and the shell that ends it.

use super::config::{Config, logback};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts the command after the folder, prints its process id, waits for a line and kills it. At
/// the end of the input, which is also the end of the process that writes it, it removes the folder
/// of the node too, and the one around it with the last. Signals for the group of processes, such
/// as that of Ctrl-C, do not end it before that.
const SHELL: &str = r#"
trap '' INT TERM HUP
dir=$1; shift
"$@" </dev/null >>"$dir/output" 2>&1 &
pid=$!
echo $pid
read -r line; ended=$?
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
[ $ended = 0 ] || { rm -rf "$dir"; rmdir "$(dirname "$dir")" 2>/dev/null; }
"#;

/// What Cassandra opens of Java's own classes, as far as a small node needs.
const OPENS: [&str; 4] = ["java.io", "java.nio", "sun.nio.ch", "jdk.internal.ref"];
const EXPORTS: [&str; 2] = ["jdk.internal.misc", "jdk.internal.ref"];

/// What a node logs when clients can use it.
const UP: &str = "Startup complete";

#[derive(Debug)]
pub(super) struct Node {
    address: SocketAddr,
    dir: PathBuf,
    jars: PathBuf,
    /// How often it was started. Each start has a log of its own.
    starts: u32,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    shell: Child,
    /// That of Java.
    pid: u32,
}

impl Node {
    /// Makes the files of node `n`.
    pub(super) fn new(n: u8, dir: &Path, jars: &Path, config: &Config) -> Self {
        let dir = dir.join(n.to_string());
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("cassandra.yaml"), config.yaml(n, &dir)).unwrap();
        let address = config.addresses.of(n);
        Self { address, dir, jars: jars.to_owned(), starts: 0, running: None }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn start(&mut self) {
        assert!(self.running.is_none(), "the node {} runs already", self.address);
        self.starts += 1;
        let config = self.dir.join("logback.xml");
        std::fs::write(&config, logback(&self.log_file())).unwrap();
        self.running = Some(Running::new(&self.dir, &self.words(&config)));
    }

    /// Kills it, and keeps its files.
    pub(super) fn kill(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.end(b"kill\n");
    }

    pub(super) fn signal(&self, name: &str) {
        let running = self.running.as_ref().expect("the node runs");
        let pid = running.pid.to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(status.success(), "the node {} has ended\n{}", self.address, self.told());
    }

    /// Waits until it is up and sees the nodes `others`.
    ///
    /// # Panics
    /// If the process ends, or at the time `until`.
    pub(super) fn wait(&self, others: &[IpAddr], until: Instant) {
        let seen: Vec<String> = others.iter().map(|ip| format!("/{ip}:")).collect();
        loop {
            let log = self.log();
            let sees = |other: &String| {
                let mut lines = log.lines();
                lines.any(|line| line.contains(other) && line.contains("is now UP"))
            };
            let is_up = log.contains(UP) && TcpStream::connect(self.address).is_ok();
            if is_up && seen.iter().all(sees) {
                return;
            }
            assert!(
                self.running.as_ref().is_some_and(Running::is_alive),
                "the node {} ended\n{}",
                self.address,
                self.told()
            );
            assert!(
                Instant::now() < until,
                "the node {} does not start\n{}",
                self.address,
                self.told()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the command.
    fn words(&self, logback: &Path) -> Vec<String> {
        let dir = self.dir.display();
        let fixed = ["java", "-Xmx320M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let mut words: Vec<String> = fixed.map(String::from).into();
        words.extend(OPENS.map(|name| format!("--add-opens=java.base/{name}=ALL-UNNAMED")));
        words.extend(EXPORTS.map(|name| format!("--add-exports=java.base/{name}=ALL-UNNAMED")));
        words.extend([
            format!("-Dcassandra.config=file:{dir}/cassandra.yaml"),
            format!("-Dcassandra.storagedir={dir}"),
            "-Dcassandra.ring_delay_ms=2000".into(),
            "-Dcassandra.skip_wait_for_gossip_to_settle=0".into(),
            "-Dcassandra.superuser_setup_delay_ms=0".into(),
            format!("-Dlogback.configurationFile={}", logback.display()),
            "-cp".into(),
            format!("{}/*", self.jars.display()),
            "org.apache.cassandra.service.CassandraDaemon".into(),
        ]);
        words
    }

    fn log_file(&self) -> PathBuf {
        self.dir.join(format!("log{}", self.starts))
    }

    /// Returns the log since the last start. Empty before there is one.
    fn log(&self) -> String {
        let bytes = std::fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the end of the log and of what Java printed.
    fn told(&self) -> String {
        let output = std::fs::read(self.dir.join("output")).unwrap_or_default();
        let text = self.log() + &String::from_utf8_lossy(&output);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Running {
    fn new(dir: &Path, words: &[String]) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", SHELL, "sh"]).arg(dir).args(words);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("sh can be started");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = line.trim().parse().expect("the shell prints a process id");
        Self { shell, pid }
    }

    /// Returns whether the command still runs. One that has ended but was not waited for is a
    /// zombie. Its words say nothing: one that begins has none for a moment.
    fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        // The state is behind the name, which is in parentheses.
        let state = |stat: &str| stat.rsplit(')').next()?.split_whitespace().next()?.chars().next();
        stat.is_ok_and(|stat| state(&stat).is_some_and(|state| !matches!(state, 'Z' | 'X')))
    }

    /// Ends the input of the shell with `last`, and waits until the command has ended.
    fn end(&mut self, last: &[u8]) {
        // An error: the shell has ended before.
        let _ended = self.shell.stdin.take().map(|mut input| input.write_all(last));
        let _ended = self.shell.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        match self.running.take() {
            Some(mut running) => running.end(b""),
            None => {
                let _gone = std::fs::remove_dir_all(&self.dir);
                let _last = self.dir.parent().map(std::fs::remove_dir);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_with_the_pipe_from_its_process_and_its_files_only_without_a_word() {
        for (last, is_kept) in [(&b"kill\n"[..], true), (b"", false)] {
            let around = tempfile::tempdir().unwrap();
            let dir = around.path().join("0");
            std::fs::create_dir(&dir).unwrap();
            let mut running = Running::new(&dir, &["sleep".into(), "1000".into()]);
            assert!(running.is_alive());
            running.end(last);
            assert!(!running.is_alive());
            assert_eq!(dir.exists(), is_kept);
            assert_eq!(around.path().exists(), is_kept);
        }
    }
}
