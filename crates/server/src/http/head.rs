//! The head of a request, read strictly.

use super::refusal::BadRequest;

/// The longest head, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most fields of a head.
const FIELDS_MAX: usize = 100;
/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunks,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The method, as it came.
    pub method: String,
    /// The path and the query, as they came.
    pub target: String,
    pub(super) framing: Framing,
    /// HTTP/1.0: it neither knows chunks nor goes on by itself.
    is_old: bool,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads the head that `bytes` begin with, up to its empty line; returns its length, too.
    /// `None` if it is not whole yet.
    ///
    /// ```
    /// use flagstone_server::http::Head;
    /// let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET";
    /// let (head, len) = Head::parse(request)?.unwrap();
    /// assert_eq!((head.method.as_str(), head.target.as_str(), len), ("GET", "/healthz", 42));
    /// assert!(Head::parse(b"GET /healthz HTTP/1.1\r\nHo")?.is_none());
    /// # Ok::<(), flagstone_server::http::BadRequest>(())
    /// ```
    ///
    /// # Errors
    /// If it is no head, is too long, or says in two ways where the body ends.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, BadRequest> {
        let whole = bytes;
        let bytes = after_blank_lines(whole);
        let blank = whole.len() - bytes.len();
        let end = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
        let Some(len) = end.filter(|len| *len <= HEAD_BYTES_MAX) else {
            if bytes.len() > HEAD_BYTES_MAX || end.is_some() {
                let text = format!("expected at most {HEAD_BYTES_MAX} bytes before the body");
                return Err(BadRequest::new(431, text));
            }
            // Its lines would never end.
            check_lines(bytes)?;
            return Ok(None);
        };
        let bytes = &bytes[..len];
        check_lines(bytes)?;
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut parsed = httparse::Request::new(&mut fields);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(found)) if found == len => {}
            Ok(_) => return Err(BadRequest::malformed("expected one head before an empty line")),
            Err(error) => return Err(refused(error)),
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = parsed.headers.iter();
        let mut head = Self {
            method: parsed.method.unwrap_or_default().to_owned(),
            target: parsed.path.unwrap_or_default().to_owned(),
            framing: Framing::Length(0),
            is_old: parsed.version == Some(0),
            fields: fields.map(|field| (field.name.to_lowercase(), text(field.value))).collect(),
        };
        let framing = head.read_framing()?;
        head.check_host()?;
        head.take_authority()?;
        Ok(Some((Self { framing, ..head }, blank + len)))
    }

    /// Makes a target that is a whole URL, as proxies send it, a path; its host counts instead of
    /// the field Host.
    fn take_authority(&mut self) -> Result<(), BadRequest> {
        let Some((scheme, rest)) = self.target.split_once("://") else { return Ok(()) };
        if !(scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")) {
            return Ok(());
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.is_empty() || host.contains('@') {
            let text = format!("expected a target with a host, found {:?}", self.target);
            return Err(BadRequest::malformed(text));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let (host, target) = (host.to_owned(), format!("{slash}{path}"));
        self.fields.retain(|(name, _)| name != "host");
        self.fields.push(("host".to_owned(), host));
        self.target = target;
        Ok(())
    }

    /// Returns the values of all fields of this name, which is in small letters.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let fields = self.fields.iter().filter(move |(other, _)| other == name);
        fields.map(|(_, value)| value.as_str())
    }

    /// Returns the value of the only field of this name.
    ///
    /// # Errors
    /// If there are several.
    pub fn field(&self, name: &str) -> Result<Option<&str>, BadRequest> {
        let mut all = self.all(name);
        match (all.next(), all.next()) {
            (first, None) => Ok(first),
            _ => Err(BadRequest::malformed(format!("expected one field {name}"))),
        }
    }

    /// Returns whether the body is what it says to be, without a coding.
    pub(super) fn is_plain(&self) -> bool {
        self.list("content-encoding").all(|coding| coding.eq_ignore_ascii_case("identity"))
    }

    /// Returns the type of the body, in small letters and without its parameters.
    pub(super) fn content_type(&self) -> String {
        let kind = self.list("content-type").next().unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns the parts of all fields of this name, which commas separate.
    pub(super) fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.all(name).flat_map(|value| value.split(',')).map(str::trim)
    }

    fn read_framing(&self) -> Result<Framing, BadRequest> {
        let (length, encoding) = (self.field("content-length")?, self.field("transfer-encoding")?);
        match (length, encoding) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(_), Some(_)) => {
                let text = "expected either Content-Length or Transfer-Encoding";
                Err(BadRequest::malformed(text))
            }
            (None, Some(_)) if self.is_old => {
                Err(BadRequest::malformed("expected no Transfer-Encoding in HTTP/1.0"))
            }
            (None, Some(encoding)) if encoding.eq_ignore_ascii_case("chunked") => {
                Ok(Framing::Chunks)
            }
            (None, Some(encoding)) => {
                let text = format!("expected Transfer-Encoding: chunked, found {encoding:?}");
                Err(BadRequest::new(501, text))
            }
            (Some(length), None) => {
                let is_number = (1..=19).contains(&length.len())
                    && length.bytes().all(|digit| digit.is_ascii_digit());
                match length.parse() {
                    Ok(bytes) if is_number => Ok(Framing::Length(bytes)),
                    _ => {
                        let text = format!("expected Content-Length: NUMBER, found {length:?}");
                        Err(BadRequest::malformed(text))
                    }
                }
            }
        }
    }

    fn check_host(&self) -> Result<(), BadRequest> {
        if self.field("host")?.is_none() && !self.is_old {
            return Err(BadRequest::malformed("expected a field Host"));
        }
        Ok(())
    }

    /// Returns whether there is a body.
    pub fn has_body(&self) -> bool {
        self.framing != Framing::Length(0)
    }

    /// Returns the length of the body, if it is announced.
    pub(crate) const fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(bytes) => Some(bytes),
            Framing::Chunks => None,
        }
    }

    /// Returns whether the answer may come in chunks.
    pub const fn takes_chunks(&self) -> bool {
        !self.is_old
    }

    /// Returns whether the client does not know that the connection goes on unless it is told so.
    pub fn is_told_to_stay(&self) -> bool {
        self.is_old && !self.closes()
    }

    /// Returns whether the connection ends after the answer.
    pub fn closes(&self) -> bool {
        let has = |option: &str| self.list("connection").any(|is| is.eq_ignore_ascii_case(option));
        has("close") || self.is_old && !has("keep-alive")
    }

    /// Returns whether the client waits until it is told to send the body.
    ///
    /// # Errors
    /// If it expects something else.
    pub fn waits(&self) -> Result<bool, BadRequest> {
        match self.field("expect")? {
            None => Ok(false),
            Some(_) if self.is_old => Ok(false),
            Some(what) if what.eq_ignore_ascii_case("100-continue") => Ok(self.has_body()),
            Some(what) => {
                let text = format!("expected Expect: 100-continue, found {what:?}");
                Err(BadRequest::new(417, text))
            }
        }
    }
}

/// The most empty lines before a request that are skipped: some clients send one after a body.
const BLANK_LINES_MAX: usize = 4;

/// Returns what comes after the empty lines at the beginning.
pub(crate) fn after_blank_lines(mut bytes: &[u8]) -> &[u8] {
    for _line in 0..BLANK_LINES_MAX {
        bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    }
    bytes
}

/// Refuses bare line ends and zeros: some end lines at a bare \n or \r, and would see other fields.
fn check_lines(bytes: &[u8]) -> Result<(), BadRequest> {
    let is_bare = |at: usize| match bytes[at] {
        b'\n' => at == 0 || bytes[at - 1] != b'\r',
        b'\r' => bytes.get(at + 1).is_some_and(|next| *next != b'\n'),
        byte => byte == 0,
    };
    if (0..bytes.len()).any(is_bare) {
        return Err(BadRequest::malformed("expected lines that end with \\r\\n"));
    }
    Ok(())
}

#[cold]
fn refused(error: httparse::Error) -> BadRequest {
    use httparse::Error;
    match error {
        Error::Version => BadRequest::new(505, "expected HTTP/1.1 or HTTP/1.0"),
        Error::TooManyHeaders => {
            BadRequest::new(431, format!("expected at most {FIELDS_MAX} fields in a head"))
        }
        error => BadRequest::malformed(format!("expected the head of a request: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<Head, BadRequest> {
        let text = format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        Head::parse(text.as_bytes()).map(|found| found.unwrap().0)
    }

    /// What a proxy and the server could read differently is refused.
    #[test]
    fn a_body_that_ends_in_two_places_is_refused() {
        assert_eq!(parse("Content-Length: 5\r\n").unwrap().framing, Framing::Length(5));
        assert_eq!(parse("Transfer-Encoding: Chunked\r\n").unwrap().framing, Framing::Chunks);
        for (fields, status) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
            ("Content-Length: 5\r\ncontent-length: 6\r\n", 400),
            ("Content-Length: 5, 5\r\n", 400),
            ("Content-Length: +5\r\n", 400),
            ("Content-Length: -5\r\n", 400),
            ("Content-Length: 0x5\r\n", 400),
            ("Content-Length:\r\n", 400),
            ("Content-Length: 99999999999999999999\r\n", 400),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Transfer-Encoding: gzip, chunked\r\n", 501),
            ("Transfer-Encoding: \x0bchunked\r\n", 400),
            ("Transfer-Encoding : chunked\r\n", 400),
            (" Transfer-Encoding: chunked\r\n", 400),
            ("X: a\r\n Transfer-Encoding: chunked\r\n", 400),
            ("X: a\nTransfer-Encoding: chunked\r\n", 400),
            ("X: a\rTransfer-Encoding: chunked\r\n", 400),
            ("X: \0\r\n", 400),
            ("Host: y\r\n", 400),
            ("no colon\r\n", 400),
        ] {
            assert_eq!(parse(fields).map_err(|bad| bad.status), Err(status), "{fields:?}");
        }
    }

    /// Both were refused, the first as a message of a driver.
    #[test]
    fn an_empty_line_before_a_request_and_a_whole_url_are_taken() {
        let head = |text: &str| Head::parse(text.as_bytes());
        let (plain, len) = head("\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\nGET").unwrap().unwrap();
        assert_eq!((plain.target.as_str(), len), ("/a", 4 + 28));
        assert_eq!(head("\r\n\r\n"), Ok(None));
        assert_eq!(head(&"\r\n".repeat(9)).unwrap_err().status, 400);
        for (target, path, host) in [
            ("http://db.example:80/a?b=1", "/a?b=1", "db.example:80"),
            ("HTTPS://[::1]", "/", "[::1]"),
            ("http://y?b", "/?b", "y"),
            ("/http://y/", "/http://y/", "x"),
        ] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            let (head, _) = head(&text).unwrap().unwrap();
            assert_eq!((head.target.as_str(), head.field("host")), (path, Ok(Some(host))));
        }
        for bad in ["http://", "http:///a", "http://localhost@evil.example/"] {
            let text = format!("GET {bad} HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(head(&text).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn a_head_has_an_end_and_a_version() {
        let status = |text: &str| Head::parse(text.as_bytes()).unwrap_err().status;
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), 400, "no Host");
        assert_eq!(status("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
        assert_eq!(status("GET /\r\n\r\n"), 400);
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD_BYTES_MAX))), 431);
        assert_eq!(status("GET / HTTP/1.1\nHost: x\n\n"), 400, "it would not end");
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(status(&many), 431);
        assert_eq!(Head::parse(b"GET / HTTP/1.1\r\nHost: x\r\n\r").unwrap(), None);
        let old = Head::parse(b"GET / HTTP/1.0\r\n\r\n").unwrap().unwrap().0;
        assert!(old.closes() && !old.takes_chunks());
        assert!(parse("Connection: keep-alive, Close\r\n").unwrap().closes());
        assert_eq!(parse("Expect: a miracle\r\n").unwrap().waits().unwrap_err().status, 417);
        assert!(parse("Expect: 100-continue\r\nContent-Length: 1\r\n").unwrap().waits().unwrap());
    }
}
