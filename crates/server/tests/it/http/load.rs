//! Loads of a body that is taken while it comes.

use super::{ADA, BOB, Connection, Reply, Serving};
use crate::net::limits;
use flagstone::{Document, Space};
use flagstone_server::net::ServeOptions;
use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

const LOAD: &str = "POST /v1/shop/things/load";

/// Returns the last line of an answer.
fn last(reply: &Reply) -> Document {
    let line = reply.body.lines().last().unwrap_or_else(|| panic!("{reply:?}"));
    Document::from_json(line).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
}

fn count(serving: &Serving) -> u64 {
    serving.service.database().collection("shop.things").unwrap().find("{}").count().unwrap()
}

/// Sends the head of a load whose body comes in chunks.
fn begin(connection: &mut Connection, query: &str, fields: &str) {
    let text = format!(
        "{LOAD}{query} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{fields}\r\n"
    );
    connection.stream.write_all(text.as_bytes()).unwrap();
}

fn chunk(connection: &mut Connection, bytes: &[u8]) {
    let size = format!("{:x}\r\n", bytes.len());
    connection.stream.write_all(&[size.as_bytes(), bytes, b"\r\n"].concat()).unwrap();
}

#[test]
fn a_body_is_loaded_by_the_rules_of_the_tool() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let mut load = |query: &str, fields: &str, body: &str| {
        let reply = connection.ask(&format!("{LOAD}{query}"), fields, body);
        assert_eq!(reply.field("content-type"), Some("application/x-ndjson"), "{reply:?}");
        (reply.status, last(&reply))
    };
    let (status, end) = load("", "", "{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":1}\n{\"id\":1,\"n\":2}");
    assert_eq!((status, end.int("loaded"), end.int("bad_documents")), (200, Some(3), Some(0)));
    let (_, end) = load("?mode=insert", "", "{\"id\":1}\n{\"id\":3}\n");
    assert_eq!((end.int("loaded"), end.int("existing_documents")), (Some(1), Some(1)));
    let (_, end) = load("?mode=merge&key=id", "", "[{\"id\":3,\"m\":1},{\"id\":2,\"m\":1}]");
    assert_eq!(end.int("loaded"), Some(2));
    let csv = "Content-Type: text/csv; charset=utf-8\r\n";
    let (_, end) = load("?types=zip=text", csv, "id,zip,n\n4,007,1.5\n5,008,2\n");
    assert_eq!(end.int("loaded"), Some(2));
    let (_, end) = load("?type=tsv&fields=id,n&key=n", "", "6\t60\n");
    assert_eq!(end.int("loaded"), Some(1));
    let (_, end) =
        load("?key=auto&extended-json", "", "{\"at\":{\"$date\":\"1970-01-01T00:00:00Z\"}}");
    assert_eq!(end.int("loaded"), Some(1));
    let (status, end) =
        load("?mode=insert&stop-on-error=true", "", "{\"id\":9}\n{\"id\":1}\n{\"id\":8}");
    assert_eq!((status, end.int("$error.code")), (409, Some(11000)), "{end}");
    let (_, end) = load("", "", "");
    assert_eq!(end.int("loaded"), Some(0));
    let text = connection.ask("GET /v1/shop/things/export?sort=%7B%22_id%22:1%7D", "", "").body;
    for line in [
        r#"{"_id":1,"id":1,"n":2}"#,
        r#"{"_id":2,"id":2,"n":1,"m":1}"#,
        r#"{"_id":3,"id":3,"m":1}"#,
        r#"{"_id":4,"id":4,"zip":"007","n":1.5}"#,
        r#"{"_id":60,"id":6,"n":60}"#,
        r#""at":{"$date":"1970-01-01T00:00:00Z"}"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_bad_line_is_named_and_may_be_returned() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let body = "{\"id\":1}\n{\"id\":\n{\"n\":1}\n{\"id\":2}\n";
    let reply = connection.ask(LOAD, "", body);
    assert_eq!(reply.status, 400);
    let end = last(&reply);
    assert!(end.str("$error.errmsg").unwrap().starts_with("the body:2:"), "{end}");
    assert_eq!((end.int("$error.code"), end.int("loaded")), (Some(9), Some(1)));
    let reply = connection.ask(&format!("{LOAD}?bad-lines=skip"), "", body);
    let end = last(&reply);
    assert_eq!(
        (reply.status, end.int("loaded"), end.int("bad_documents")),
        (200, Some(2), Some(2))
    );
    assert_eq!(reply.body.lines().count(), 1);
    let reply = connection.ask(&format!("{LOAD}?bad-lines=return"), "", body);
    let lines: Vec<_> = reply.body.lines().map(|line| Document::from_json(line).unwrap()).collect();
    assert_eq!((reply.status, lines.len()), (200, 3), "{reply:?}");
    let bad = |at: usize| (lines[at].str("$bad").unwrap(), lines[at].str("text").unwrap());
    assert!(bad(0).0.starts_with("the body:2:") && bad(0).1 == "{\"id\":", "{:?}", bad(0));
    assert!(bad(1).0.starts_with("the body:3:") && bad(1).1 == "{\"n\":1}", "{:?}", bad(1));
    assert_eq!((lines[2].int("loaded"), lines[2].int("bad_documents")), (Some(2), Some(2)));
    // More than are held for a client: the rest is counted.
    let many = format!("{{\"id\":1,\"x\":{}\n", "y".repeat(1000)).repeat(3000);
    let reply = connection.ask(&format!("{LOAD}?bad-lines=return&progress=none"), "", &many);
    let (end, returned) = (last(&reply), reply.body.lines().count() as i64 - 1);
    assert_eq!(end.int("bad_documents"), Some(3000));
    assert_eq!(end.int("bad_documents_not_returned"), Some(3000 - returned));
    assert!((500..1100).contains(&returned), "{returned}");
}

fn has_collection(serving: &Serving) -> bool {
    serving.service.database().keyspaces().iter().any(|info| info.name == "shop.things")
}

/// A load that failed left an empty collection: first every one, then one of a table, of an array
/// or of a compressed body, of which no line was looked at before the collection was created.
#[test]
fn a_load_that_fails_before_its_first_document_leaves_no_collection() {
    let serving = Serving::new(ServeOptions::default());
    for (query, body, place) in [
        ("", "{\"n\":1}", "1:1"),
        ("", "{\"id\":1,}\n{\"id\":2}\n", "1:"),
        ("", "id=1\n", "1:1"),
        ("", "{\"a\\u0000\":1,\"id\":1}", "1:"),
        ("", "[{\"n\":1}]", "1:2"),
        ("", "[\n{\"id\"", "2:"),
        ("", "\n\n{\"n\":1}", "3:1"),
        ("?resume", "{\"n\":1}", "1:1"),
        ("?type=csv", "n\n1\n", "1:1"),
        ("?type=csv&types=n=int", "id,n\n1,x\n", "2:3"),
        ("?type=tsv&fields=id,a%00b", "1\t2\n", "1:1"),
        ("?mode=merge", "{\"n\":1}", "1:1"),
    ] {
        let reply = serving.ask(&format!("{LOAD}{query}"), "", body);
        assert_eq!(reply.status, 400, "{query} {body} {reply:?}");
        let end = last(&reply);
        let text = end.str("$error.errmsg").unwrap();
        assert!(text.starts_with(&format!("the body:{place}")), "{query} {body}: {text}");
        assert_eq!(end.int("loaded"), Some(0));
        assert!(!has_collection(&serving), "{query} {body}");
    }
    let ask = |fields: &str, body: &[u8]| {
        let mut connection = serving.connect();
        let len = body.len();
        let head = format!(
            "{LOAD}?key=n HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n{fields}\r\n"
        );
        connection.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(!has_collection(&serving), "{fields}");
    };
    let (gzip, zstd) = packed();
    for body in [&gzip[..], &zstd, &gzip[..15], b"\x1F\x8B\x08"] {
        ask("", body);
    }
    ask("Content-Encoding: gzip\r\n", b"{\"n\":1}");
    // A client that goes away.
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    connection.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 400);
    assert!(!has_collection(&serving));
    // One that comes in parts, and has several lines.
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    for part in ["{\n", " \"id\"", ": 1\n", "}\n{\"id\":2}"] {
        chunk(&mut connection, part.as_bytes());
        std::thread::sleep(Duration::from_millis(20));
    }
    connection.stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(last(&connection.reply(false).unwrap()).int("loaded"), Some(2));
    // One that was there stays, also if it is empty.
    serving.service.database().collection("shop.things").unwrap().clear().unwrap();
    assert_eq!(serving.ask(LOAD, "", "bad").status, 400);
    assert!(has_collection(&serving));
}

/// The collection that a load has created is not its own as soon as others use it.
#[test]
fn a_load_that_fails_leaves_what_others_have_done_meanwhile() {
    for other in ["load", "insert", "index"] {
        let serving = Serving::new(ServeOptions::default());
        let mut connection = serving.connect();
        begin(&mut connection, "", "");
        while !has_collection(&serving) {
            std::thread::yield_now();
        }
        let mut second = serving.connect();
        let command = |command: &str| {
            let body = format!(r#"{{"db":"shop","command":{command}}}"#);
            assert_eq!(serving.ask("POST /v1/command", "", &body).status, 200);
        };
        match other {
            "load" => {
                begin(&mut second, "", "");
                wait_for(&serving, 2);
            }
            "insert" => command(r#"{"insert":"things","documents":[{"_id":1}]}"#),
            _ => command(r#"{"createIndexes":"things","indexes":[{"key":{"n":1},"name":"n"}]}"#),
        }
        chunk(&mut connection, b"bad\n");
        connection.stream.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(connection.reply(false).unwrap().status, 400);
        assert!(has_collection(&serving), "{other}");
        if other == "load" {
            chunk(&mut second, b"{\"id\":1}\n");
            second.stream.write_all(b"0\r\n\r\n").unwrap();
            assert_eq!(second.reply(false).unwrap().status, 200);
        }
        let expected = u64::from(other != "index");
        assert_eq!(count(&serving), expected, "{other}");
    }
}

/// Drivers could not read a collection with a name that has a zero, which a load had stored.
#[test]
fn a_name_with_a_zero_is_a_bad_line() {
    let serving = Serving::new(ServeOptions::default());
    let zero = "{\"id\":1,\"x\":{\"a\\u0000b\":1}}";
    let body = format!("{{\"id\":2}}\n{zero}\n{{\"id\":3,\"x\":\"\\u0000\"}}\n");
    let reply = serving.ask(&format!("{LOAD}?bad-lines=return"), "", &body);
    let lines: Vec<_> = reply.body.lines().map(|line| Document::from_json(line).unwrap()).collect();
    assert_eq!((lines[0].str("text"), lines[1].int("loaded")), (Some(zero), Some(2)));
    assert!(lines[0].str("$bad").unwrap().contains("without the character U+0000"), "{reply:?}");
    assert_eq!(serving.ask("PUT /v1/shop/things/9", "", &zero.replace('1', "9")).status, 400);
    // What the library has stored is read.
    let things = serving.service.database().collection("shop.things").unwrap();
    things.put(1, flagstone::Json(zero)).unwrap();
    things.put(4, flagstone::Json("{\"a\\u0000\":1}")).unwrap();
    let find = r#"{"db":"shop","command":{"find":"things"}}"#;
    let reply = serving.ask("POST /v1/command", "", find);
    for document in [
        r#"{"_id":1,"id":1,"x":{"$literal":{"$pairs":[["a\u0000b",1]]}}}"#,
        r#"{"$literal":{"_id":4,"$pairs":[["a\u0000",1]]}}"#,
    ] {
        assert!(reply.body.contains(document), "{document} {reply:?}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_the_body() {
    let serving = Serving::new(ServeOptions::default());
    for (query, fields, status) in [
        ("?kee=id", "", 400),
        ("?key=a&key=b", "", 400),
        ("?mode=replace", "", 400),
        ("?type=parquet", "", 400),
        ("?fields=a", "", 400),
        ("?type=csv&delimiter=xx", "", 400),
        ("?type=csv&types=a", "", 400),
        ("?type=csv&all-text=1", "", 400),
        ("?stop-on-error", "", 400),
        ("?bad-lines=file", "", 400),
        ("?bad-lines=skip&resume", "", 400),
        ("?progress=bar", "", 400),
        ("?long=40", "", 400),
        ("", "Content-Encoding: br\r\n", 415),
        ("", "Content-Encoding: gzip, gzip\r\n", 415),
        ("", "Content-Encoding: gzip\r\nContent-Encoding: zstd\r\n", 415),
    ] {
        let mut connection = serving.connect();
        // The client waits for a word before it sends anything.
        begin(&mut connection, query, &format!("Expect: 100-continue\r\n{fields}"));
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.status, status, "{query} {fields} {reply:?}");
        connection.ended();
    }
    let mut connection = serving.connect();
    begin(&mut connection, "", "Expect: 100-continue\r\n");
    assert_eq!(connection.reply(false).unwrap().status, 100);
    chunk(&mut connection, b"{\"id\":1}");
    connection.stream.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(last(&connection.reply(false).unwrap()).int("loaded"), Some(1));
    assert_eq!(connection.ask("GET /v1/shop/things/load", "", "").status, 405);
    let serving = Serving::with_users();
    assert_eq!(serving.ask(LOAD, ADA, "{\"id\":1}").status, 403);
    assert_eq!(serving.ask(LOAD, BOB, "{\"id\":1}").status, 200);
    assert_eq!(serving.ask("POST /v1/stock/a/load", BOB, "{\"id\":1}").status, 403);
    assert_eq!(serving.ask(LOAD, "", "{\"id\":1}").status, 401);
    assert_eq!(serving.ask("POST /v1/shop/system.users/load", BOB, "{\"id\":1}").status, 403);
}

/// 40 MB, in chunks of changing sizes that end anywhere in a line.
#[test]
fn a_long_body_is_loaded_in_chunks() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let documents = 100_000;
    let mut text = Vec::new();
    for n in 0..documents {
        writeln!(text, "{{\"id\":{n},\"text\":\"{}\"}}", "x".repeat(n % 700)).unwrap();
    }
    begin(&mut connection, "", "");
    let (mut at, mut size) = (0, 1);
    while at < text.len() {
        let end = (at + size).min(text.len());
        chunk(&mut connection, &text[at..end]);
        (at, size) = (end, (size * 7 + 3) % 200_000);
    }
    connection.stream.write_all(b"0\r\n\r\n").unwrap();
    let reply = connection.reply(false).unwrap();
    let end = last(&reply);
    assert_eq!(
        (end.int("loaded"), end.int("input_bytes")),
        (Some(documents as i64), Some(text.len() as i64))
    );
    assert_eq!(count(&serving), documents as u64);
    // The connection goes on.
    assert_eq!(connection.ask("GET /healthz", "", "").status, 200);
}

#[test]
fn a_line_a_second_says_how_far_a_load_is() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    chunk(&mut connection, &b"{\"id\":1}\n".repeat(200_000));
    let mut size = String::new();
    let status = connection.line().unwrap();
    assert!(status.starts_with("HTTP/1.1 200 "), "{status}");
    while connection.line().is_some_and(|line| !line.is_empty()) {}
    std::io::BufRead::read_line(&mut connection.reader, &mut size).unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut connection.reader, &mut line).unwrap();
    let progress = Document::from_json(&line).unwrap();
    assert!(progress.int("documents").is_some() && progress.float("seconds").is_some(), "{line}");
    assert_eq!(usize::from_str_radix(size.trim(), 16).unwrap(), line.len());
    // What fails now is in the last line.
    chunk(&mut connection, b"{\"id\":2}\nbad\n");
    connection.stream.write_all(b"0\r\n\r\n").unwrap();
    let mut rest = String::new();
    while !rest.contains("$error") {
        std::io::BufRead::read_line(&mut connection.reader, &mut rest).unwrap();
    }
    assert!(rest.contains("the body:200002:"), "{rest}");
    assert_eq!(connection.line().as_deref(), Some(""));
    assert_eq!(connection.line().as_deref(), Some("0"));
}

#[test]
fn a_body_may_be_compressed() {
    let serving = Serving::new(ServeOptions::default());
    let ask = |fields: &str, body: &[u8]| {
        let mut connection = serving.connect();
        let head = format!(
            "{LOAD} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{fields}\r\n",
            body.len()
        );
        connection.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let reply = connection.reply(false).unwrap();
        (reply.status, last(&reply))
    };
    let (gzip, zstd) = packed();
    for (fields, body, status) in [
        ("Content-Encoding: gzip\r\n", &gzip, 200),
        ("Content-Encoding: X-GZIP\r\n", &gzip, 200),
        ("Content-Type: application/gzip\r\n", &gzip, 200),
        ("", &gzip, 200),
        ("Content-Encoding: zstd\r\n", &zstd, 200),
        ("Content-Type: application/zstd\r\n", &zstd, 200),
        ("Content-Encoding: zstd\r\n", &gzip, 400),
        ("Content-Encoding: gzip\r\n", &b"{\"id\":1}\n{\"id\":2}\n".to_vec(), 400),
        ("Content-Encoding: identity\r\n", &b"{\"id\":1}\n{\"id\":2}\n".to_vec(), 200),
        ("Content-Encoding: gzip\r\n", &gzip[..gzip.len() - 9].to_vec(), 400),
    ] {
        let (found, end) = ask(fields, body);
        assert_eq!(found, status, "{fields} {end}");
        if status == 200 {
            assert_eq!(end.int("loaded"), Some(2), "{fields}");
        } else {
            assert!(end.str("$error.errmsg").unwrap().contains("the body"), "{end}");
        }
    }
    // Other requests take no codings.
    let coded = "Content-Encoding: gzip\r\n";
    assert_eq!(serving.ask("PUT /v1/a/b/c", coded, "{}").status, 415);
}

/// Two documents, by gzip without compression and by zstd as it is.
fn packed() -> (Vec<u8>, Vec<u8>) {
    let text = b"{\"id\":1}\n{\"id\":2}\n";
    let len = text.len() as u16;
    let mut crc = !0_u32;
    for byte in text {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ 0xEDB8_8320 & 0_u32.wrapping_sub(crc & 1);
        }
    }
    let head = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 1];
    let lens = [len.to_le_bytes(), (!len).to_le_bytes()].concat();
    let end = [(!crc).to_le_bytes(), u32::from(len).to_le_bytes()].concat();
    let gzip = [&head[..], &lens, text, &end].concat();
    // A frame with its length, and one raw block, which is the last.
    let block = (u32::from(len) << 3 | 1).to_le_bytes();
    let zstd = [&[0x28, 0xB5, 0x2F, 0xFD, 0x20, len as u8], &block[..3], &text[..]].concat();
    (gzip, zstd)
}

/// A frame of zstd whose content is `head`, and then `count` times 128 KiB of one byte: four bytes
/// for each.
fn zstd_bomb(head: &[u8], byte: u8, count: usize) -> Vec<u8> {
    let header = |len: u32, kind: u32, is_last: bool| {
        let bits = len << 3 | kind << 1 | u32::from(is_last);
        bits.to_le_bytes()[..3].to_vec()
    };
    // Without a checksum, and with a window of 128 KiB.
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 7 << 3];
    frame.extend(header(head.len() as u32, 0, false));
    frame.extend_from_slice(head);
    for at in 1..=count {
        frame.extend(header(128 << 10, 1, at == count));
        frame.push(byte);
    }
    frame
}

/// A stream of gzip whose content is `head`, and then `count` times 258 bytes like its last one: 13
/// bits for each. It has no end.
fn gzip_bomb(head: &[u8], count: usize) -> Vec<u8> {
    let mut bits = Vec::new();
    // The last block, with fixed codes.
    bits.extend([true, true, false]);
    let mut put = |code: u32, len: u32| bits.extend((0..len).rev().map(|bit| code >> bit & 1 == 1));
    for byte in head {
        // All are below 144.
        put(0x30 + u32::from(*byte), 8);
    }
    for _ in 0..count {
        put(0b1100_0101, 8);
        put(0, 5);
    }
    let bytes = bits.chunks(8).map(|bits| {
        let bits = bits.iter().enumerate();
        bits.map(|(at, bit)| u8::from(*bit) << at).sum::<u8>()
    });
    [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3].into_iter().chain(bytes).collect()
}

/// The most memory that the process has had, in KiB; 0 where the system does not tell.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_body_that_grows_without_end_takes_no_more_memory_than_its_longest_line() {
    const BLOCKS: usize = 32 << 10;
    let serving = Serving::new(ServeOptions::default());
    let before = peak();
    let line = b"{\"id\":1,\"t\":\"x";
    // 4 GiB each, but for that of gzip with some 500 MiB.
    let text = zstd_bomb(line, b'x', BLOCKS);
    let deep = zstd_bomb(b"{\"id\":", b'[', BLOCKS);
    let list = zstd_bomb(b"[{\"id\":1,\"t\":\"", b'x', BLOCKS);
    let table = zstd_bomb(b"id\n\"", b'x', BLOCKS);
    let gzip = gzip_bomb(line, 2 << 20);
    assert!(text.len() < 200 << 10 && gzip.len() < 4 << 20);
    for (query, body) in [("", &text), ("", &deep), ("", &list), ("?type=csv", &table), ("", &gzip)]
    {
        let mut connection = serving.connect();
        let length = body.len();
        let head = format!(
            "{LOAD}{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!((reply.status, last(&reply).int("loaded")), (400, Some(0)), "{reply:?}");
    }
    // Blank lines without end are read, and held nowhere: 256 MiB.
    let blank = zstd_bomb(b"{\"id\":1}\n", b'\n', 2 << 10);
    let mut connection = serving.connect();
    let length = blank.len();
    let head = format!("{LOAD} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    connection.stream.write_all(&[head.as_bytes(), &blank].concat()).unwrap();
    let reply = connection.reply(false).unwrap();
    assert_eq!((reply.status, last(&reply).int("loaded")), (200, Some(1)), "{reply:?}");
    let grown = peak() - before;
    assert!(grown < 512 << 10, "{grown} KiB");
    let metrics = serving.ask("GET /metrics", "", "").body;
    assert!(metrics.contains("\nflagstone_running_loads 0\n"), "{metrics}");
}

/// The beginning of a line that is too long was refused when its end had come: a client that sent
/// no end had a load for ever. And what it sent after an answer was read for ever.
#[test]
fn a_line_without_end_is_refused_while_it_comes() {
    let serving = Serving::new(limits(|limits| limits.message = Duration::from_secs(2)));
    for start in ["{\"id\":1,\"t\":\"", "[{\"id\":1,\"t\":\"", "\n[["] {
        let mut connection = serving.connect();
        begin(&mut connection, "", "");
        chunk(&mut connection, start.as_bytes());
        let mut other = connection.stream.try_clone().unwrap();
        let sends = std::thread::spawn(move || {
            let piece = vec![b'x'; 1 << 20];
            let size = format!("{:x}\r\n", piece.len());
            let chunk = [size.as_bytes(), &piece, b"\r\n"].concat();
            while other.write_all(&chunk).is_ok() {}
        });
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(last(&reply).str("$error.errmsg").unwrap().contains("the body:"), "{reply:?}");
        // The server ends the connection.
        sends.join().unwrap();
    }
}

/// What was cut is not taken for all.
#[test]
fn a_body_that_is_cut_is_an_error_and_what_came_before_is_loaded_at_most_once() {
    let serving = Serving::new(limits(|limits| limits.message = Duration::from_millis(300)));
    let line = b"{\"id\":1}\n{\"id\":2}\n";
    // The client ends the connection within a chunk, and between two.
    for bytes in [&b"100\r\n{\"id\":1}\n"[..], b"9\r\n{\"id\":1}\n\r\n"] {
        let mut connection = serving.connect();
        begin(&mut connection, "", "");
        connection.stream.write_all(bytes).unwrap();
        connection.stream.shutdown(Shutdown::Write).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.status, 400, "{reply:?}");
        let end = last(&reply);
        assert!(end.str("$error.errmsg").unwrap().contains("ended in it"), "{end}");
        connection.ended();
    }
    // It sends nothing more.
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    chunk(&mut connection, line);
    let told = connection.reply(false).unwrap();
    assert!(told.body.contains("--message-timeout"), "{told:?}");
    connection.ended();
    // It sends what is no chunk.
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    connection.stream.write_all(b"2\r\n{}x\r\n").unwrap();
    let told = connection.reply(false).unwrap();
    assert_eq!(told.status, 400);
    assert!(told.body.contains("where its size says"), "{told:?}");
    connection.ended();
    assert!(count(&serving) <= 2);
    assert_eq!(serving.count("panics"), 0);
}

/// A client that sends everything before it reads must get the answer as well.
#[test]
fn the_rest_of_a_body_is_read_after_an_error() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let body = format!("bad\n{}", "{\"id\":1}\n".repeat(2_000_000));
    let reply = connection.ask(LOAD, "", &body);
    assert_eq!(reply.status, 400);
    assert!(last(&reply).str("$error.errmsg").unwrap().contains("the body:1:"));
}

#[test]
fn a_load_that_was_cut_is_continued() {
    let serving = Serving::new(ServeOptions::default());
    let text: String =
        (0..50_000).map(|n| format!("{{\"id\":{n},\"t\":\"{n:0100}\"}}\n")).collect();
    let mut connection = serving.connect();
    begin(&mut connection, "?resume", "");
    let half = text.len() / 2;
    chunk(&mut connection, &text.as_bytes()[..half]);
    connection.stream.shutdown(Shutdown::Write).unwrap();
    let cut = connection.reply(false).unwrap();
    let loaded = last(&cut).int("loaded").unwrap();
    assert!((1..50_000).contains(&loaded), "{cut:?}");
    let reply = serving.ask(&format!("{LOAD}?resume"), "", &text);
    let end = last(&reply);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(end.int("resumed_at").unwrap() > 0, "{end}");
    assert_eq!(end.int("loaded"), Some(50_000 - loaded));
    assert_eq!(count(&serving), 50_000);
}

/// Waits until so many loads run.
fn wait_for(serving: &Serving, loads: usize) {
    let line = format!("flagstone_running_loads {loads}\n");
    let is_so = (0..1000).any(|_| serving.ask("GET /metrics", "", "").body.contains(&line));
    assert!(is_so, "{line}");
}

/// How far a load has come is stored for the collection: of two, the second would continue where
/// the first was.
#[test]
fn a_load_that_can_be_continued_runs_alone() {
    let serving = Serving::new(ServeOptions::default());
    for (first, second) in [("?resume", ""), ("", "?resume"), ("?resume", "?resume")] {
        let mut connection = serving.connect();
        begin(&mut connection, first, "");
        wait_for(&serving, 1);
        let refused = serving.ask(&format!("{LOAD}{second}"), "", "{\"id\":1}");
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(refused.body.contains("resume"), "{refused:?}");
        let other = format!("POST /v1/shop/others/load{second}");
        let reply = serving.ask(&other, "", "{\"id\":1}");
        assert_eq!(reply.status, 200, "{reply:?}");
        drop(connection);
        wait_for(&serving, 0);
    }
    assert_eq!(serving.ask(LOAD, "", "{\"id\":1}").status, 200);
}

#[test]
fn few_loads_run_at_a_time_and_they_end_with_the_server() {
    let serving = Serving::new(ServeOptions::default());
    let mut loads: Vec<_> = (0..4)
        .map(|n| {
            let mut connection = serving.connect();
            begin(&mut connection, "", "");
            chunk(&mut connection, format!("{{\"id\":{n}}}\n").as_bytes());
            connection
        })
        .collect();
    wait_for(&serving, 4);
    let refused = serving.ask(LOAD, "", "{\"id\":9}");
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("5")), "{refused:?}");
    assert!(refused.body.contains("--max-loads"));
    drop(loads.pop());
    wait_for(&serving, 3);
    assert_eq!(serving.ask(LOAD, "", "{\"id\":9}").status, 200);
    assert_eq!(serving.server.stop(Duration::from_secs(30)), 0);
    for mut load in loads {
        let reply = load.reply(false).unwrap();
        let end = last(&reply);
        assert_eq!(end.int("$error.code"), Some(11600), "{reply:?}");
        load.ended();
    }
}

/// The client was told that its documents were bad, if they had no collection yet.
#[test]
fn a_load_that_waits_for_its_first_line_ends_with_the_server() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    chunk(&mut connection, b"{\"id\":1");
    wait_for(&serving, 1);
    assert_eq!(serving.server.stop(Duration::from_secs(30)), 0);
    let reply = connection.reply(false).unwrap();
    assert_eq!(last(&reply).int("$error.code"), Some(11600), "{reply:?}");
    assert_ne!(reply.status, 400, "{reply:?}");
}

/// A load went on with the rights that its user had when it began.
#[test]
fn a_load_ends_with_the_rights_of_its_user() {
    let serving = Serving::with_users();
    let mut connection = serving.connect();
    begin(&mut connection, "?progress=none", &format!("Expect: 100-continue\r\n{BOB}"));
    assert_eq!(connection.reply(false).unwrap().status, 100, "it has begun");
    chunk(&mut connection, b"{\"id\":1}\n");
    serving.service.users().update("bob", None, Some(Vec::new())).unwrap();
    // It comes on, until the answer says why not.
    let mut sender = connection.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let line = b"9\r\n{\"id\":2}\n\r\n";
        while sender.write_all(line).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let reply = connection.reply(false).unwrap();
    assert_eq!((reply.status, last(&reply).int("$error.code")), (403, Some(13)), "{reply:?}");
    let _ended = connection.stream.shutdown(Shutdown::Both);
    sending.join().unwrap();
}

/// The collection was created before the key was looked at.
#[test]
fn a_key_that_cannot_be_leaves_no_collection() {
    let serving = Serving::new(ServeOptions::default());
    for query in ["?key=", "?key=a,,b", "?key=auto&mode=merge"] {
        let reply = serving.ask(&format!("{LOAD}{query}"), "", "{\"id\":1}");
        assert_eq!(reply.status, 400, "{query} {reply:?}");
    }
    assert!(!has_collection(&serving));
}
