//! Clients that mean well.

use super::{LONG, Running, Toy, ask, command, ended, eventually, limits, patient, reply, works};
use flagstone_server::net::{Address, Listen, Listener, ServeOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn messages_are_answered_one_after_the_other() {
    let running = Running::new(ServeOptions::default());
    let mut stream = running.connect();
    for _ in 0..3 {
        works(&mut stream);
    }
    // Several at once, in pieces, and one that wants no answer.
    let many = [command("ping", ""), command("quiet", ""), command("ping", &"x".repeat(200_000))];
    for piece in many.concat().chunks(70_001) {
        stream.write_all(piece).unwrap();
    }
    assert!(reply(&mut stream).is_some() && reply(&mut stream).is_some());
    works(&mut stream);
    assert!(running.toy.bytes.load(Ordering::Relaxed) > 200_000);
    drop(stream);
    let log = running.log();
    assert_eq!(log.matches(" connection opened connection=1 peer=127.0.0.1:").count(), 1, "{log}");
    assert!(log.contains("reason=\"the client closed it\""), "{log}");
}

/// An idle client has no buffers, and must be answered after that.
#[test]
fn a_client_is_answered_after_a_pause() {
    let running = Running::new(ServeOptions::default());
    let mut stream = running.connect();
    assert!(ask(&mut stream, "large").unwrap().len() > 8 << 20);
    eventually("silence", || running.toy.rests.load(Ordering::Relaxed) > 0);
    works(&mut stream);
    let half = command("ping", "");
    stream.write_all(&half[..5]).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    stream.write_all(&half[5..]).unwrap();
    assert!(reply(&mut stream).is_some());
}

#[test]
fn clients_are_asked_to_come_again_while_the_database_is_recovered() {
    let running = Running::recovering(ServeOptions::default(), Toy::default());
    let mut stream = running.connect();
    let told = ask(&mut stream, "hello").unwrap();
    assert!(told.contains(r#""code":13436"#) && told.contains("being recovered"), "{told}");
    ended(&mut stream);
    let mut stream = running.connect();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("being recovered"), "{text}");
    running.server.ready(Arc::clone(&running.toy));
    works(&mut running.connect());
    assert_eq!(running.count("refused_not_ready"), 2);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let running = Running::new(limits(|limits| limits.connections = 5));
    let mut open: Vec<_> = (0..5).map(|_| running.connect()).collect();
    open.iter_mut().for_each(works);
    let mut one_more = running.connect();
    let told = ask(&mut one_more, "hello").unwrap();
    assert!(told.contains("at most 5 connections") && told.contains("--max-connections"), "{told}");
    ended(&mut one_more);
    assert_eq!(running.count("refused_connections"), 1);
    open.iter_mut().for_each(works);
    drop(open.pop());
    eventually("a place", || running.server.connections() < 5);
    works(&mut running.connect());
}

#[test]
fn five_hundred_clients_at_once_are_answered() {
    let running = Running::new(ServeOptions::default());
    std::thread::scope(|threads| {
        for _ in 0..10 {
            threads.spawn(|| {
                let mut open: Vec<_> = (0..50).map(|_| running.connect()).collect();
                open.iter_mut().for_each(works);
                open.iter_mut().for_each(works);
            });
        }
    });
    assert_eq!(running.count("accepted"), 500);
}

#[test]
fn a_socket_in_the_file_system_belongs_to_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listen = format!("unix:{}", path.display());
    // What a killed server left.
    drop(UnixListener::bind(&path).unwrap());
    let running = Running::at(&[listen.as_str()], ServeOptions::default(), Toy::default());
    running.server.ready(Arc::clone(&running.toy));
    assert_eq!(running.server.addresses(), [Address::Unix(Some(path.clone()))]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    works(&mut stream);
    // One that answers is not replaced.
    let refused = Listener::bind(&listen.parse::<Listen>().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("a server answers at"), "{refused}");
    assert!(running.log_after(stream).contains("peer=unix"));
    running.server.stop(Duration::ZERO);
    assert!(!path.exists());
    // Nor is another file.
    std::fs::write(&path, "mine").unwrap();
    let refused = Listener::bind(&listen.parse::<Listen>().unwrap()).unwrap_err();
    assert!(refused.to_string().contains("expected a socket or no file"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

impl Running {
    fn log_after<T>(&self, stream: T) -> String {
        drop(stream);
        self.log()
    }
}

/// Returns an address of this machine that others reach, if it has one. No packet is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn clients_from_elsewhere_need_users() {
    let Some(address) = own_address() else {
        eprintln!("this machine has no address beside loopback");
        return;
    };
    for has_users in [false, true] {
        let toy = Toy { has_users, ..Toy::default() };
        let running = Running::at(&["0.0.0.0:0"], ServeOptions::default(), toy);
        running.server.ready(Arc::clone(&running.toy));
        let mut stream = patient(TcpStream::connect((address, running.address().port())).unwrap());
        if has_users {
            works(&mut stream);
        } else {
            let told = ask(&mut stream, "hello").unwrap();
            assert!(told.contains("clients of its own machine only"), "{told}");
            ended(&mut stream);
            assert_eq!(running.count("refused_remote"), 1);
            works(&mut patient(
                TcpStream::connect(("127.0.0.1", running.address().port())).unwrap(),
            ));
        }
    }
}

#[test]
fn http_is_answered_on_the_same_port() {
    let running = Running::new(ServeOptions::default());
    let text_of = |request: &str| {
        let mut stream = running.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let fields = "Host: localhost\r\nConnection: close\r\n\r\n";
    let text = text_of(&format!("GET /x HTTP/1.1\r\n{fields}"));
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Length: 2\r\n") && body == "/x", "{text}");
    let text = text_of(&format!("HEAD /x HTTP/1.1\r\n{fields}"));
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "");
    // A head without an end.
    assert!(text_of(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000))).contains(" 431 "));
    let text = text_of("GET /panic HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 500 "), "{text}");
    running.wait_for("http", 4);
    running.wait_for("panics", 1);
    works(&mut running.connect());
}

#[test]
fn a_slow_command_is_logged_without_its_values() {
    let options = ServeOptions { slow: Some(Duration::ZERO), ..ServeOptions::default() };
    let running = Running::new(options);
    let mut stream = running.connect();
    stream.write_all(&command("insert", "a-secret")).unwrap();
    reply(&mut stream).unwrap();
    let log = running.log_after(stream);
    let line = log.lines().find(|line| line.contains(" slow command ")).unwrap();
    assert!(line.ends_with(" command=insert database=shop collection=things"), "{line}");
    assert!(!log.contains("a-secret"));
    assert_eq!(running.count("slow_commands"), 1);
}

/// Clients that are refused stay a while, until they have read why. They took the places of others.
#[test]
fn who_is_refused_takes_no_place() {
    let running = Running::new(limits(|limits| limits.connections = 3));
    let mut open: Vec<_> = (0..3).map(|_| running.connect()).collect();
    open.iter_mut().for_each(works);
    let _silent: Vec<_> = (0..5).map(|_| running.connect()).collect();
    running.wait_for("refused_connections", 5);
    assert_eq!(running.server.connections(), 8);
    drop(open.pop());
    eventually("a place", || running.server.connections() == 7);
    works(&mut running.connect());
    open.iter_mut().for_each(works);
}

/// A client of HTTP that kept its connection open kept a thread, too.
#[cfg(target_os = "linux")]
#[test]
fn a_silent_client_of_http_has_no_thread() {
    let running = Running::new(ServeOptions::default());
    let mut stream = running.connect();
    let mut ask = || {
        stream.write_all(b"GET /thread HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b")") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            text.extend_from_slice(&byte);
        }
        text
    };
    let (first, second) = (ask(), ask());
    assert_eq!(first, second, "one thread answers while the client speaks");
    eventually("rest", || running.toy.rests.load(Ordering::Relaxed) == 1);
    assert_ne!(ask(), first, "another thread went on");
}
