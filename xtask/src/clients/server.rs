//! Servers for the clients: processes of the tool that listen on this machine alone.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a server may take to stop.
const STOP_TIME: Duration = Duration::from_secs(60);

/// A server that runs.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// Adds the user `ada`, who may do everything, to the users of a database.
pub(super) fn add_user(tool: &Path, data: &Path) -> Result<(), String> {
    let mut add = Command::new(tool);
    add.args(["user", "add"]).arg(data).args(["ada", "--role", "root"]);
    let spawned = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| format!("{}: {error}", tool.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(b"secret\n");
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("the user could not be added".to_owned()),
    }
}

impl Server {
    /// Starts a server on a free port.
    pub(super) fn start(tool: &Path, data: &Path, more: &[&Path]) -> Result<Self, String> {
        let mut serve = Command::new(tool);
        serve.arg("serve").arg(data).args(["--listen", "127.0.0.1:0", "--keep", "256MiB"]);
        serve.args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = serve.spawn().map_err(|error| format!("{}: {error}", tool.display()))?;
        let stderr = child.stderr.take().ok_or("a server without a log")?;
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(stderr).lines();
        let mut port = None;
        while port.is_none() {
            let Some(Ok(line)) = lines.next() else { break };
            port = port_of(&line);
            let mut log = log.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
        let Some(port) = port else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the server did not start: {}", log.lock().unwrap()));
        };
        let written = Arc::clone(&log);
        // What is logged later must not fill the pipe.
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = written.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Ok(Self { child, port, log, reader: Some(reader) })
    }

    /// Asks the server to stop, by its id, and waits for that.
    pub(super) fn stop(mut self) -> Result<(), String> {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if begun.elapsed() < STOP_TIME => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => break None,
            }
        };
        if status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let log = self.log.lock().unwrap();
        match status {
            Some(status) if status.success() && !log.contains("panicked") => Ok(()),
            Some(status) => Err(format!("the server ended with {status}: {log}")),
            None => Err(format!("the server did not stop: {log}")),
        }
    }
}

/// An error on the way must not leave a process.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the port that a line of the log names.
fn port_of(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("listening").and(line.split_once("127.0.0.1:"))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_line_that_says_where_the_server_listens() {
        assert_eq!(port_of("x listening on 127.0.0.1:4711 (plain)"), Some(4711));
        assert_eq!(port_of("x from 127.0.0.1:4711"), None);
        assert_eq!(port_of("listening on unix:x"), None);
    }
}
