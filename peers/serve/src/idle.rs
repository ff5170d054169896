//! Connections that do nothing.

use crate::args::Options;
use crate::bodies::{Bodies, Body};
use crate::clock::resident_bytes;
use crate::connection::{Connection, Failed};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Opens connections, waits, and returns the memory of the server before and then as JSON.
pub(crate) fn run(options: &Options) -> Result<String, Failed> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let before = resident_bytes(options.pid).ok_or("idle needs the --pid of a server")?;
    let (mut open, mut error) = (Vec::new(), String::new());
    while open.len() < options.connections {
        match Connection::open(options.address) {
            Ok(connection) => open.push(connection),
            Err(failed) => {
                error = failed.to_string();
                break;
            }
        }
    }
    std::thread::sleep(options.time);
    let after = resident_bytes(options.pid).ok_or("the server has ended")?;
    let mut ping = Bodies::new(Body::Ping, 1, 1);
    for connection in open.iter_mut().step_by(100) {
        connection.ask(&mut ping)?;
    }
    Ok(format!(
        "{{\"connections\": {}, \"bytes\": {after}, \"more_bytes\": {}, \"error\": {error:?}}}",
        open.len(),
        after.saturating_sub(before),
    ))
}
