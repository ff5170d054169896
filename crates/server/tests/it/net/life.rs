//! How a server stops.

use super::{Running, ask, command, ended, eventually, reply, works};
use flagstone_server::net::ServeOptions;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_command_that_runs_is_answered_before_the_server_stops() {
    let running = Running::new(ServeOptions::default());
    let (mut idle, mut busy) = (running.connect(), running.connect());
    works(&mut idle);
    // Another one follows it, which nobody has promised anything.
    let both = [command("wait", ""), command("ping", "")].concat();
    busy.write_all(&both).unwrap();
    running.toy.gate.wait_for_one();
    std::thread::scope(|threads| {
        let stop = threads.spawn(|| running.server.stop(super::LONG));
        ended(&mut idle);
        // Who comes meanwhile is told so.
        let mut late = running.connect();
        assert!(ask(&mut late, "ping").unwrap().contains("shutting down"));
        let mut asks = running.connect();
        asks.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        asks.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("shutting down"), "{answer}");
        running.toy.gate.open();
        assert!(reply(&mut busy).unwrap().contains(r#""ok":1.0"#));
        let told = reply(&mut busy);
        assert!(told.is_none_or(|told| told.contains("shutting down")));
        assert_eq!(stop.join().unwrap(), 0);
    });
    let log = running.log();
    assert!(log.contains(" stopping connections=2\n"), "{log}");
    assert!(log.contains("reason=\"the server stops\""), "{log}");
}

#[test]
fn a_command_that_does_not_end_is_left_after_the_grace() {
    let running = Running::new(ServeOptions::default());
    let mut busy = running.connect();
    busy.write_all(&command("wait", "")).unwrap();
    running.toy.gate.wait_for_one();
    assert_eq!(running.server.stop(Duration::from_millis(100)), 1);
    ended(&mut busy);
    running.toy.gate.open();
    assert_eq!(running.server.stop(super::LONG), 0);
}

/// The connection was closed without a word.
#[test]
fn a_command_that_is_told_to_end_is_answered() {
    let running = Running::new(ServeOptions::default());
    running.toy.ends.store(true, Ordering::Relaxed);
    let mut busy = running.connect();
    busy.write_all(&command("wait", "")).unwrap();
    running.toy.gate.wait_for_one();
    assert_eq!(running.server.stop(Duration::from_millis(300)), 1);
    assert!(reply(&mut busy).unwrap().contains(r#""ok":1.0"#));
}

#[test]
fn a_server_that_is_dropped_stops() {
    let running = Running::new(ServeOptions::default());
    let address = running.address();
    let mut stream = running.connect();
    works(&mut stream);
    drop(running);
    ended(&mut stream);
    assert!(TcpStream::connect(address).is_err());
    assert_eq!(ask(&mut stream, "ping"), None);
}

#[test]
fn silent_clients_are_woken_and_end_with_the_server() {
    let running = Running::new(ServeOptions::default());
    let mut clients: Vec<_> = (0..20).map(|_| running.connect()).collect();
    for round in 1..=2 {
        clients.iter_mut().for_each(works);
        let rests = || running.toy.rests.load(Ordering::Relaxed);
        eventually("all are silent", || rests() >= round * clients.len());
    }
    assert_eq!(running.server.connections(), 20);
    // One that goes while it is silent.
    drop(clients.pop());
    eventually("it is gone", || running.server.connections() == 19);
    assert_eq!(running.server.stop(super::LONG), 0);
    clients.iter_mut().for_each(ended);
}
