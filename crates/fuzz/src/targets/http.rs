//! Requests of HTTP: a head is whole or not, a body is the same however it arrives, and each
//! request that is taken has an answer.

use super::served::with_service;
use super::{bounded, note};
use flagstone_server::http::{
    Arrived, BodyReader, Content, Counted, Exchange, Head, Part, Request, Response, Takes,
};
use flagstone_server::net::Handler;
use std::time::Instant;

const MEMORY: usize = 400 << 20;

/// Reads a request: its head, its body, and what follows.
pub(super) fn body(bytes: &[u8]) {
    let parsed = bounded(bytes.len(), 40, "a head", || Head::parse(bytes));
    let (head, len) = match parsed {
        Ok(Some(found)) => found,
        Ok(None) => return note("a part of a head"),
        Err(bad) => {
            assert!((400..600).contains(&bad.status), "{bad:?}");
            return note(bad.text.split(" found ").next().unwrap_or_default());
        }
    };
    assert!(len <= bytes.len(), "a head ends within the bytes");
    // It is not whole a byte earlier.
    assert!(Head::parse(&bytes[..len - 1]).is_ok_and(|head| head.is_none()));
    assert_eq!(Head::parse(&bytes[..len]), Ok(Some((head.clone(), len))));
    note(format_args!("{:?} {} {:?}", head.closes(), head.has_body(), head.waits().is_ok()));
    let rest = &bytes[len..];
    with_service(|service, _| {
        let mut client = service.client("fuzz".to_owned(), "fuzz".to_owned(), true);
        let takes = match service.admit(&mut client, &head) {
            Ok(takes) => takes,
            Err(refused) => return check(refused, None),
        };
        let Some(body) = read_body(&head, rest, takes) else { return };
        let (whole, streamed) = match takes {
            Takes::Nothing => (Vec::new(), None),
            Takes::Whole => (body, None),
            Takes::Stream => (Vec::new(), Some(body)),
        };
        let counted = || Counted::default();
        let request = Request { head: &head, body: &whole, counted: &counted };
        bounded(MEMORY, 1, "a request", || check(service.respond(&mut client, &request), streamed));
    });
}

/// Returns the body, if it is whole.
fn read_body(head: &Head, bytes: &[u8], takes: Takes) -> Option<Vec<u8>> {
    let (mut whole, mut slow) = match (BodyReader::new(head, takes), BodyReader::new(head, takes)) {
        (Ok(whole), Ok(slow)) => (whole, slow),
        (Err(bad), _) | (_, Err(bad)) => {
            assert_eq!(bad.status, 413, "{bad:?}");
            note("a body that is too large");
            return None;
        }
    };
    let mut body = Vec::new();
    let taken = whole.take(bytes, &mut body);
    // Byte by byte it is the same.
    let (mut other, mut count) = (Vec::new(), 0);
    let mut fault = None;
    for byte in bytes {
        match slow.take(&[*byte], &mut other) {
            Ok(0) => break,
            Ok(n) => count += n,
            Err(bad) => {
                fault = Some(bad);
                break;
            }
        }
    }
    match taken {
        Ok(len) => {
            assert_eq!((fault, count), (None, len));
            assert_eq!((whole.missing() == 0, &body), (slow.missing() == 0, &other));
            (whole.missing() == 0).then_some(body)
        }
        Err(bad) => {
            assert_eq!(
                fault.as_ref().map(|fault| fault.status),
                Some(bad.status),
                "{bad:?} {fault:?}"
            );
            note(bad.text.split(" found ").next().unwrap_or_default());
            None
        }
    }
}

/// A body that is there, and lines that nobody reads.
struct Streamed(Option<Vec<u8>>);

impl Exchange for Streamed {
    fn read(&mut self, _until: Instant) -> Arrived {
        match self.0.take() {
            Some(bytes) if !bytes.is_empty() => Arrived::Bytes(bytes),
            _ => Arrived::End,
        }
    }

    fn is_taking(&self) -> bool {
        true
    }

    fn send(&mut self, lines: &[u8]) {
        assert!(lines.ends_with(b"\n"), "lines are whole");
    }
}

fn check(response: Response<'_>, streamed: Option<Vec<u8>>) {
    let Response { status, fields, content, .. } = response;
    assert!((200..600).contains(&status), "{status}");
    for (name, value) in &fields {
        assert!(!value.contains(['\r', '\n']), "{name}: {value:?} ends no line");
    }
    note(status);
    let is_json =
        fields.iter().any(|(name, value)| *name == "Content-Type" && value == "application/json");
    match content {
        Content::Whole(bytes) => {
            if is_json && !bytes.is_empty() {
                let text = str::from_utf8(&bytes).expect("JSON is UTF-8");
                flagstone::Document::from_json(text).expect("an answer is JSON");
            }
        }
        Content::Parts(mut parts) => {
            let mut part = Vec::new();
            for n in 0.. {
                part.clear();
                // A stream of changes goes on until its connection ends.
                if parts(&mut part) != Part::More {
                    break;
                }
                assert!(n < 100_000, "an answer ends");
            }
        }
        Content::Exchange(exchange) => {
            let (status, last) = exchange(&mut Streamed(streamed));
            assert!((200..600).contains(&status), "{status}");
            assert!(last.ends_with(b"\n"), "the last line is whole");
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let request = |start: &str, fields: &str, body: &str| {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        format!("{start} HTTP/1.1\r\nHost: localhost\r\n{length}{fields}\r\n{body}").into_bytes()
    };
    let chunked = "Transfer-Encoding: chunked\r\n";
    let chunks = "POST /v1/command HTTP/1.1\r\nHost: localhost\r\n".to_owned()
        + chunked
        + "\r\n1b;x=y\r\n{\"db\":\"shop\",\"command\":{\"pi\r\n8\r\nng\":1}}\n\r\n"
        + "0\r\nX: y\r\n\r\nGET";
    vec![
        request("GET /healthz", "", ""),
        request("GET /metrics", "Connection: close\r\n", ""),
        request("OPTIONS *", "", ""),
        request(
            "POST /v1/command",
            "",
            r#"{"db":"shop","command":{"find":"c","filter":{"a":{"$gt":1}}}}"#,
        ),
        request("GET /v1/shop/c/1", "If-None-Match: \"1\", W/\"2\"\r\n", ""),
        request("GET /v1/shop/c/1", "Range: bytes=0-\r\nAccept: application/json\r\n", ""),
        request(
            "PUT /v1/shop/c/%22text%20key%22",
            "If-None-Match: *\r\n",
            r#"{"a":{"$numberLong":"5"}}"#,
        ),
        request(
            "PATCH /v1/shop/c/2",
            "Content-Type: application/merge-patch+json\r\n",
            r#"{"a":null,"z":{"y":1}}"#,
        ),
        request(
            "PATCH /v1/shop/c/2",
            "Content-Type: application/json-patch+json\r\n",
            r#"[{"op":"add","path":"/n","value":1},{"op":"test","path":"/n","value":1}]"#,
        ),
        request("DELETE /v1/shop/c/3", "If-Match: *\r\n", ""),
        request("GET /v1/shop/c/export?filter=%7B%22a%22%3A1%7D&fields=a,b&sort=-a", "", ""),
        request("HEAD /v1/shop/c/export", "Authorization: Basic YWRhOnA=\r\n", ""),
        request("GET /v1/shop/c/1", "Origin: http://evil.example\r\nExpect: 100-continue\r\n", ""),
        chunks.into_bytes(),
        b"GET /readyz HTTP/1.0\r\n\r\n".to_vec(),
    ]
}
