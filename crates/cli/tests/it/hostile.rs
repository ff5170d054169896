//! Clients that mean harm to a server that has documents: what they get, and what they cost. The
//! memory is that of the process.

use crate::crashes::{Connection, Server, message};
use crate::run::Place;
use flagstone::{Value, doc};
use flagstone_server::bson::BsonWriter;
use std::io::{Read, Write};
use std::net::Shutdown;

const MIB: u64 = 1 << 20;

fn ping() -> Value {
    doc!({ "ping": 1 })
}

impl Server {
    /// Returns the bytes of memory that the process has.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    }

    /// Asserts that the memory is at most `bytes` above `before`, and that others are served.
    fn is_well(&self, before: u64, bytes: u64) {
        let grown = self.memory().saturating_sub(before);
        assert!(grown <= bytes, "{} MiB more", grown / MIB);
        self.connect().ok(&ping());
    }
}

impl Connection {
    /// Asserts that the server ends the connection. Returns the bytes that came before.
    fn ended(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _reset = self.stream.read_to_end(&mut bytes);
        bytes
    }
}

#[test]
fn lengths_that_are_announced_take_no_memory() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let before = server.memory();
    let mut header = 48_000_000_i32.to_le_bytes().to_vec();
    header.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 0xDD, 7, 0, 0]);
    let mut all: Vec<_> = (0..400).map(|_| server.connect()).collect();
    for connection in &mut all {
        connection.stream.write_all(&header).unwrap();
    }
    server.is_well(before, 64 * MIB);
}

/// Replies of some 14 MB each, of which nothing is read.
#[test]
fn a_client_that_never_reads_costs_one_reply() {
    let place = Place::new();
    let server = Server::start(&place, "--reply-timeout 2s --memory 16MiB");
    let text = "x".repeat(1 << 20);
    for id in 0..14 {
        let documents = doc!([{ "_id": id, "text": (text.as_str()) }]);
        server.connect().ok(&doc!({ "insert": "large", "documents": documents }));
    }
    let before = server.memory();
    let mut greedy: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut greedy {
        let all = message(&doc!({ "find": "large", "batchSize": 100 }), false).repeat(50);
        connection.stream.write_all(&all).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(700));
    // A reply and its growth for each, and what the allocator keeps.
    server.is_well(before, 4 * 64 * MIB);
    let is_ended = |_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        place.read("log").matches("a reply not taken in time").count() == greedy.len()
    };
    assert!((0..6000).any(is_ended), "a minute has passed");
    for connection in &mut greedy {
        // What was under way.
        assert!(connection.ended().len() < 14 << 20);
    }
    server.is_well(before, 4 * 64 * MIB);
}

#[test]
fn what_was_sent_before_a_half_close_is_answered() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut connection = server.connect();
    let insert = doc!({ "insert": "c", "documents": [{ "_id": 1 }] });
    let all = [message(&insert, false), message(&ping(), false), message(&ping(), false)].concat();
    connection.stream.write_all(&all).unwrap();
    connection.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(connection.reply().unwrap().int("n"), Some(1));
    assert_eq!(connection.reply().unwrap().float("ok"), Some(1.0));
    assert_eq!(connection.reply().unwrap().float("ok"), Some(1.0));
    assert!(connection.reply().is_none());
}

#[test]
fn a_connection_has_one_protocol() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut connection = server.connect();
    connection.ok(&ping());
    connection.stream.write_all(request).unwrap();
    let refused = connection.reply().unwrap();
    assert!(refused.str("errmsg").unwrap().contains("a length from 16"), "{refused}");
    assert!(connection.ended().is_empty());

    let mut connection = server.connect();
    connection.stream.write_all(request).unwrap();
    let mut answer = [0; 12];
    connection.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    connection.stream.write_all(&message(&ping(), false)).unwrap();
    connection.stream.shutdown(Shutdown::Write).unwrap();
    let rest = String::from_utf8_lossy(&connection.ended()).into_owned();
    assert!(rest.contains("HTTP/1.1 400") && !rest.contains("\"ok\":1"), "{rest}");
    server.connect().ok(&ping());
}

/// Messages that want no reply, and a client that would take several for one.
#[test]
fn flags_of_messages_are_obeyed_or_refused() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut connection = server.connect();
    let before = server.memory();
    let mut many = Vec::new();
    for id in 0..5000 {
        let insert =
            doc!({ "insert": "c", "documents": [{ "_id": id }], "writeConcern": { "w": 0 } });
        many.extend_from_slice(&message(&insert, true));
    }
    connection.stream.write_all(&many).unwrap();
    assert_eq!(connection.ok(&doc!({ "count": "c" })).int("n"), Some(5000));
    server.is_well(before, 64 * MIB);
    // Several replies may come for one message: only one does.
    let mut exhaust = message(&doc!({ "hello": 1 }), false);
    exhaust[18] = 1;
    connection.stream.write_all(&exhaust).unwrap();
    assert_eq!(connection.reply().unwrap().float("ok"), Some(1.0));
    connection.ok(&ping());
    // A checksum that is wrong, or not there.
    let mut sent = message(&ping(), false);
    sent[16] |= 1;
    connection.stream.write_all(&sent).unwrap();
    let refused = connection.reply().unwrap();
    assert_eq!(refused.int("code"), Some(17), "{refused}");
    assert!(connection.ended().is_empty());
}

#[test]
fn cursors_and_sessions_have_limits() {
    let place = Place::new();
    let server = Server::start(&place, "--max-cursors 1000 --max-sessions 500");
    let mut connection = server.connect();
    let documents: Vec<Value> = (0..5).map(|id| doc!({ "_id": id })).collect();
    connection.ok(&doc!({ "insert": "c", "documents": (Value::Array(documents)) }));
    let find = doc!({ "find": "c", "batchSize": 1 });
    let before = server.memory();
    let mut last = 0;
    for _ in 0..1000 {
        last = connection.ok(&find).int("cursor.id").unwrap();
    }
    let refused = connection.ask(&find).unwrap();
    assert!(refused.str("errmsg").unwrap().contains("(--max-cursors)"), "{refused}");
    server.is_well(before, 64 * MIB);
    connection.ok(&doc!({ "killCursors": "c", "cursors": [last] }));
    connection.ok(&find);

    let write = |n: u32| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        doc!({ "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } } }],
            "lsid": { "id": (Value::Uuid(id)) }, "txnNumber": 1 })
    };
    for n in 0..500 {
        connection.ok(&write(n));
    }
    let refused = connection.ask(&write(500)).unwrap();
    assert!(refused.str("errmsg").unwrap().contains("(--max-sessions)"), "{refused}");
    let lsid = doc!([{ "id": (Value::Uuid([0; 16])) }]);
    connection.ok(&doc!({ "endSessions": lsid }));
    connection.ok(&write(500));
    server.is_well(before, 64 * MIB);
}

#[test]
fn long_lists_are_answered_and_deep_documents_refused() {
    let place = Place::new();
    let server = Server::start(&place, "");
    let mut connection = server.connect();
    connection.ok(
        &doc!({ "insert": "c", "documents": [{ "_id": 1, "a": 999_999 }, { "_id": 2, "a": -1 }] }),
    );
    let list = Value::Array((0..1_000_000).map(Value::Int).collect());
    for filter in [doc!({ "a": { "$in": (list.clone()) } }), doc!({ "_id": { "$in": list } })] {
        let found = connection.ok(&doc!({ "find": "c", "filter": filter }));
        let first = found.int("cursor.firstBatch.0._id");
        assert!(first.is_some(), "{found}");
    }
    // {"insert": "c", "documents": [{"a": {"a": {.. 10,000 deep
    let mut deep = vec![5, 0, 0, 0, 0];
    for _ in 0..10_000 {
        let mut outer = (deep.len() as i32 + 8).to_le_bytes().to_vec();
        outer.extend_from_slice(b"\x03a\0");
        outer.append(&mut deep);
        outer.push(0);
        deep = outer;
    }
    for name in ["insert", "find"] {
        let mut sent = Vec::new();
        flagstone_server::wire::put_message(&mut sent, (1, 0), false, false, |out| {
            let mut command = BsonWriter::new(out);
            command.begin();
            command.text(name, "c")?;
            command.text("$db", "shop")?;
            if name == "insert" {
                command.begin_array("documents")?;
                command.raw_document("", &deep)?;
                command.end()?;
            } else {
                command.raw_document("filter", &deep)?;
            }
            command.end()
        })
        .unwrap();
        connection.stream.write_all(&sent).unwrap();
        let refused = connection.reply().unwrap().to_json().unwrap();
        assert!(refused.contains("512") || refused.contains("nested"), "{refused}");
    }
    connection.ok(&ping());
    let mut http = server.connect();
    let body = format!("{{\"db\":\"shop\",\"command\":{{\"find\":{}1", "[".repeat(10_000));
    let request = format!(
        "POST /v1/command HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    http.stream.write_all(request.as_bytes()).unwrap();
    http.stream.shutdown(Shutdown::Write).unwrap();
    let answer = String::from_utf8_lossy(&http.ended()).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

/// Connections that come and go, more than there may be at a time.
#[test]
fn a_flood_of_connections_is_outlived() {
    let place = Place::new();
    let server = Server::start(&place, "--max-connections 100");
    let before = server.memory();
    for _ in 0..5 {
        let mut all: Vec<_> = (0..300).map(|_| server.connect()).collect();
        for connection in &mut all {
            let _closed = connection.send(&ping(), false);
        }
        let answered = all.iter_mut().filter_map(Connection::reply);
        let served = answered.filter(|reply| reply.float("ok") == Some(1.0)).count();
        assert!(served <= 100, "{served}");
    }
    // Those that were closed are gone soon.
    let is_served = |_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        server.connect().ask(&ping()).is_some_and(|reply| reply.float("ok") == Some(1.0))
    };
    assert!((0..6000).any(is_served), "a minute has passed");
    server.is_well(before, 64 * MIB);
}
