//! Clients that mean harm, or are broken.

use super::{Running, ask, command, ended, limits, reply, works};
use flagstone_server::net::ServeOptions;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_client_that_sends_byte_by_byte_is_ended() {
    let running = Running::new(limits(|limits| limits.message = SHORT));
    let mut stream = running.connect();
    works(&mut stream);
    let sent = command("ping", &"x".repeat(5000));
    let mut writer = stream.try_clone().unwrap();
    let told = std::thread::scope(|threads| {
        threads.spawn(move || {
            // With its header, which an answer needs.
            writer.write_all(&sent[..20]).unwrap();
            for byte in sent.into_iter().skip(20) {
                if writer.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            panic!("the server took all");
        });
        reply(&mut stream).unwrap()
    });
    assert!(told.contains("expected a whole message within 0.3 s (--message-timeout)"), "{told}");
    running.wait_for("message_timeouts", 1);
    works(&mut running.connect());
}

#[test]
fn a_client_that_stops_within_a_message_is_ended() {
    let running = Running::new(limits(|limits| limits.message = SHORT));
    let mut stream = running.connect();
    works(&mut stream);
    stream.write_all(&command("ping", "")[..30]).unwrap();
    let told = reply(&mut stream).unwrap();
    assert!(told.contains("--message-timeout"), "{told}");
    ended(&mut stream);
    assert!(running.log().contains("--message-timeout"));
}

#[test]
fn a_client_that_never_reads_is_ended() {
    let running = Running::new(limits(|limits| limits.reply = SHORT));
    let mut stream = running.connect();
    for _ in 0..4 {
        stream.write_all(&command("large", "")).unwrap();
    }
    running.wait_for("reply_timeouts", 1);
    assert!(running.log().contains("--reply-timeout"));
}

#[test]
fn an_idle_client_is_ended_if_there_is_a_limit() {
    let running = Running::new(limits(|limits| limits.idle = Some(SHORT)));
    let mut stream = running.connect();
    works(&mut stream);
    ended(&mut stream);
    running.wait_for("idle_timeouts", 1);
}

#[test]
fn messages_have_a_longest_length_that_may_be_less() {
    let running = Running::new(limits(|limits| limits.message_bytes = 1000));
    let mut stream = running.connect();
    works(&mut stream);
    stream.write_all(&command("insert", &"x".repeat(1000))).unwrap();
    let told = reply(&mut stream).unwrap();
    assert!(told.contains("from 16 to 1000") && told.contains("(--message-bytes)"), "{told}");
    ended(&mut stream);
}

#[test]
fn who_does_not_log_in_has_short_messages_and_little_time() {
    let options = limits(|limits| {
        limits.login = Duration::from_millis(1500);
        limits.login_bytes = 1000;
    });
    let running = Running::with_users(options);
    let mut stream = running.connect();
    stream.write_all(&command("insert", &"x".repeat(1000))).unwrap();
    let told = reply(&mut stream).unwrap();
    assert!(told.contains("from 16 to 1000") && told.contains("(--login-bytes)"), "{told}");
    ended(&mut stream);

    // Says nothing.
    let mut silent = running.connect();
    // Half a message.
    let mut half = running.connect();
    half.write_all(&command("hello", "")[..20]).unwrap();
    // Begins to log in, and does not end that.
    let mut begun = running.connect();
    assert!(ask(&mut begun, "begin").is_some());
    // Watches the server, as drivers do without logging in.
    let mut watching = running.connect();
    works(&mut watching);
    // Has logged in.
    let mut known = running.connect();
    assert!(ask(&mut known, "begin").is_some() && ask(&mut known, "login").is_some());

    ended(&mut silent);
    assert!(reply(&mut half).unwrap().contains("--login-timeout"));
    ended(&mut half);
    ended(&mut begun);
    running.wait_for("login_timeouts", 3);
    works(&mut watching);
    known.write_all(&command("insert", &"x".repeat(100_000))).unwrap();
    assert!(reply(&mut known).is_some());
}

/// Messages of a login that never ends do not make it longer.
#[test]
fn a_login_that_goes_on_and_on_is_ended() {
    let running = Running::with_users(limits(|limits| limits.login = Duration::from_millis(1500)));
    let mut stream = running.connect();
    let mut count = 0;
    while ask(&mut stream, "begin").is_some() {
        count += 1;
        assert!(count < 6000, "the login went on");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.wait_for("login_timeouts", 1);
}

/// Halves of long messages.
#[test]
fn all_clients_share_the_memory_of_messages() {
    let running = Running::new(limits(|limits| {
        limits.messages = 1 << 20;
        limits.message = Duration::from_secs(2);
    }));
    let long = command("ping", &"x".repeat(800_000));
    let mut first = running.connect();
    first.write_all(&long[..700_000]).unwrap();
    // It waits, until the first has its answer.
    let mut second = running.connect();
    let mut writer = second.try_clone().unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| writer.write_all(&long).unwrap());
        std::thread::sleep(SHORT);
        works(&mut running.connect());
        first.write_all(&long[700_000..]).unwrap();
        assert!(reply(&mut first).is_some());
    });
    assert!(reply(&mut second).is_some());
    // There is none in time.
    first.write_all(&long[..20]).unwrap();
    running.wait_for("bad_messages", 0);
    std::thread::sleep(SHORT);
    second.write_all(&long[..20]).unwrap();
    let told = [reply(&mut first).unwrap(), reply(&mut second).unwrap()].concat();
    assert!(told.contains("--message-timeout") && told.contains("(--message-memory)"), "{told}");
    running.wait_for("refused_messages", 1);
    works(&mut running.connect());
}

/// The connection was closed while the client still sent: it saw a reset, and not why.
#[test]
fn a_message_that_never_has_room_is_answered_when_it_was_sent() {
    let running = Running::new(limits(|limits| limits.messages = 1 << 20));
    let mut stream = running.connect();
    stream.write_all(&command("ping", &"x".repeat(20_000_000))).unwrap();
    let told = reply(&mut stream).unwrap();
    assert!(told.contains("(--message-memory)"), "{told}");
    ended(&mut stream);
    let mut stream = running.connect();
    let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n";
    stream.write_all(format!("{head}{}", "x".repeat(16_000_000)).as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("(--message-memory)"), "{told}");
    running.wait_for("refused_messages", 2);
}

#[test]
fn a_damaged_message_ends_one_connection() {
    let running = Running::new(ServeOptions::default());
    let mut other = running.connect();
    works(&mut other);
    let whole = command("ping", "");
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, expected) in [
        (changed(3, 0x7F), "a length from 16 to 48000000"),
        (changed(0, 3), "a length from 16 to 48000000, found 3"),
        (changed(16, 4), "flags that this version knows"),
        (changed(12, 0xDC), "a message without compression"),
        (changed(20, 9), "a section of kind 0 or 1"),
    ] {
        let mut stream = running.connect();
        stream.write_all(&bytes).unwrap();
        let told = reply(&mut stream).unwrap();
        assert!(told.contains(expected) && told.contains(r#""code":17"#), "{told}");
        ended(&mut stream);
    }
    let mut stream = running.connect();
    stream.write_all(&whole[..40]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(reply(&mut stream).unwrap().contains("before the connection ends"));
    running.wait_for("bad_messages", 6);
    works(&mut other);
}

/// 48 MB are announced and do not come.
#[test]
fn garbage_does_no_harm() {
    let running = Running::new(limits(|limits| limits.message = SHORT));
    let mut random = crate::random("garbage_does_no_harm");
    let whole = command("ping", "more");
    for round in 0..60 {
        let mut bytes = whole.clone();
        if round % 3 == 0 {
            bytes = (0..random.index(200)).map(|_| random.index(256) as u8).collect();
        } else {
            crate::mutate(&mut random, &mut bytes);
        }
        let mut stream = running.connect();
        // The server may end the connection before all is sent.
        let _ended = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let _ended = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(running.count("panics"), 0);
    works(&mut running.connect());
}

#[test]
fn tls_on_a_port_without_it_is_a_line_in_the_log() {
    let running = Running::new(ServeOptions::default());
    let mut stream = running.connect();
    let hello = [&[22, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3][..], &[7; 506]].concat();
    stream.write_all(&hello).unwrap();
    ended(&mut stream);
    running.wait_for("failed_tls", 1);
    assert!(running.log().contains("has no certificate (--tls-cert)"));
    works(&mut running.connect());
}

#[test]
fn a_panic_ends_one_connection() {
    let running = Running::new(ServeOptions::default());
    let mut other = running.connect();
    works(&mut other);
    let mut stream = running.connect();
    let told = ask(&mut stream, "panic").unwrap();
    assert!(told.contains(r#""codeName":"InternalError""#), "{told}");
    ended(&mut stream);
    running.wait_for("panics", 1);
    works(&mut other);
    drop(other);
    assert!(running.log().contains("reason=\"a command panicked\""));
}

/// A body in chunks took the room of the longest body from its begin: a few clients took all, and
/// where there was less, none was answered.
#[test]
fn a_body_in_chunks_takes_room_as_it_comes() {
    let running = Running::new(limits(|limits| limits.messages = 1 << 20));
    let begin = |bytes: usize| {
        let mut stream = running.connect();
        let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = format!("{head}{bytes:x}\r\n{}\r\n", "x".repeat(bytes));
        stream.write_all(chunk.as_bytes()).unwrap();
        stream
    };
    let status = |mut stream: TcpStream| {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        String::from_utf8(status[9..].to_vec()).unwrap()
    };
    let mut open: Vec<_> = (0..20).map(|_| begin(30_000)).collect();
    for stream in &mut open {
        stream.write_all(b"0\r\n\r\n").unwrap();
    }
    open.into_iter().for_each(|stream| assert_eq!(status(stream), "200"));
    let mut whole = begin(900_000);
    whole.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(status(whole), "200");
    assert_eq!(status(begin(1_200_000)), "503");
    assert_eq!(running.count("refused_messages"), 1);
}
