//! HTTP on the port of the messages. Nothing is served by it yet.

use super::limits::Limits;
use super::line::Line;
use super::refusal::Refusal;
use crate::wire::MessageReader;
use std::io;

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Returns whether a stream that begins so has HTTP: a method in capitals, and a space. As the
/// length of a message this is far beyond the longest.
pub(super) fn is_http(first: &[u8]) -> bool {
    let method = first.split(|byte| *byte == b' ').next().unwrap_or_default();
    (3..=7).contains(&method.len())
        && method.len() < first.len()
        && method.iter().all(u8::is_ascii_uppercase)
}

/// Reads the head of a request and answers it; `refusal` if the client is refused anyway.
pub(super) fn answer(
    line: &mut Line,
    reader: &mut MessageReader,
    limits: &Limits,
    refusal: Option<&Refusal>,
) -> io::Result<()> {
    let mut len = 0;
    let method = loop {
        let head = reader.peek(line, len + 1)?;
        let is_whole = head.windows(4).any(|end| end == b"\r\n\r\n");
        if is_whole || head.len() <= len || len >= HEAD_BYTES_MAX {
            break head.split(|byte| *byte == b' ').next().unwrap_or_default().to_vec();
        }
        len = head.len();
    };
    let (status, text) = match refusal {
        Some(refusal) => (refusal.status, refusal.text.as_str()),
        None => ("501 Not Implemented", "this port speaks the protocol of MongoDB drivers"),
    };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len() + 1
    );
    if method != b"HEAD" {
        out.push_str(text);
        out.push('\n');
    }
    line.send(out.as_bytes(), limits.reply)
}

#[cfg(test)]
mod tests {
    use super::is_http;

    #[test]
    fn a_request_is_told_by_its_method() {
        for yes in ["GET / HTTP/1.1\r\n\r", "OPTIONS * HTTP/1.", "PATCH /v1/a/b/c "] {
            assert!(is_http(yes.as_bytes()), "{yes}");
        }
        for no in
            [&b"\x1E\0\0\0\x01\0\0\0\0\0\0\0\xDD\x07\0\0"[..], b"GET", b"get / HTTP", b"", b" "]
        {
            assert!(!is_http(no), "{no:?}");
        }
    }
}
