//! The lexical parts of a JSONPath: names, integers, numbers, strings, blanks.

use crate::number::NumberLiteral;
use crate::path_error::PathError;
use crate::value::Value;

/// The largest magnitude of an index: what a binary float holds exactly, as the standard asks.
const INDEX_MAX: i64 = (1 << 53) - 1;

/// A position in the text of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scanner<'t> {
    text: &'t str,
    /// The offset in bytes; always at a character.
    at: usize,
}

impl<'t> Scanner<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// Makes the error at the current position.
    pub(super) fn refuse(&self, expected: &'static str) -> PathError {
        self.refuse_at(self.at, expected)
    }

    /// Makes the error at byte `at`.
    pub(super) fn refuse_at(&self, at: usize, expected: &'static str) -> PathError {
        PathError::at("JSONPath", self.text, at, expected)
    }

    /// Returns the byte at the current position.
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Moves past `token` if it is next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// Moves past `token`, or refuses what is there instead.
    pub(super) fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), PathError> {
        if self.eat(token) { Ok(()) } else { Err(self.refuse(expected)) }
    }

    /// Moves past blanks, if there are any, and returns whether there were.
    pub(super) fn blanks(&mut self) -> bool {
        let rest = self.rest();
        let after = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.at += rest.len() - after.len();
        after.len() < rest.len()
    }

    /// Moves past blanks if one of `tokens` follows them, and returns whether one does.
    pub(super) fn blanks_before(&mut self, tokens: &[&str]) -> bool {
        let mut ahead = *self;
        ahead.blanks();
        let follows = tokens.iter().any(|token| ahead.rest().starts_with(token));
        if follows {
            *self = ahead;
        }
        follows
    }

    /// Scans the run of characters for which `belongs` holds.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let len = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Scans a name as it may follow a point.
    pub(super) fn name(&mut self) -> Result<&'t str, PathError> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        if !self.rest().starts_with(is_first) {
            return Err(self.refuse("a name or '*'"));
        }
        Ok(self.run(|c| is_first(c) || c.is_ascii_digit()))
    }

    /// Scans a word as functions and constants have; empty if there is none.
    pub(super) fn word(&mut self) -> &'t str {
        if !self.rest().starts_with(|c: char| c.is_ascii_lowercase()) {
            return "";
        }
        self.run(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    }

    /// Scans an index or a part of a slice.
    pub(super) fn int(&mut self) -> Result<i64, PathError> {
        let start = self.at;
        let is_negative = self.eat("-");
        let digits = self.run(|c| c.is_ascii_digit());
        let is_plain = !digits.starts_with('0') || digits == "0" && !is_negative;
        if digits.is_empty() || !is_plain {
            let at = if digits.is_empty() { self.at } else { start };
            return Err(self.refuse_at(at, "an integer without leading zeros"));
        }
        match digits.parse::<i64>() {
            Ok(int) if int <= INDEX_MAX => Ok(if is_negative { -int } else { int }),
            _ => Err(self.refuse_at(start, "an integer within ±(2^53-1)")),
        }
    }

    /// Scans an integer if one is next.
    pub(super) fn optional_int(&mut self) -> Result<Option<i64>, PathError> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.int().map(Some),
            _ => Ok(None),
        }
    }

    /// Scans a number.
    pub(super) fn number(&mut self) -> Result<Value, PathError> {
        let rest = self.rest();
        let literal = NumberLiteral::scan(rest.as_bytes())
            .map_err(|(offset, expected)| self.refuse_at(self.at + offset, expected))?;
        let number = Value::number(&rest[..literal.len]);
        self.at += literal.len;
        number.ok_or_else(|| self.refuse("a number"))
    }

    /// Scans a string in single or double quotes.
    pub(super) fn string(&mut self) -> Result<String, PathError> {
        let quote = if self.eat("'") { '\'' } else { '"' };
        if quote == '"' {
            self.expect("\"", "a string")?;
        }
        let mut out = String::new();
        loop {
            out.push_str(self.run(|c| c != quote && c != '\\' && c >= ' '));
            match self.peek() {
                None => return Err(self.refuse("the quote that ends the string")),
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape(quote)?);
                }
                Some(byte) if byte < b' ' => {
                    return Err(self.refuse("a control character to be escaped"));
                }
                Some(_) => {
                    self.at += 1;
                    return Ok(out);
                }
            }
        }
    }

    /// Scans what follows a backslash.
    fn escape(&mut self, quote: char) -> Result<char, PathError> {
        let next = self.rest().chars().next();
        let found = match next {
            Some('b') => '\u{8}',
            Some('f') => '\u{C}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(same @ ('/' | '\\')) => same,
            Some(same) if same == quote => same,
            Some('u') => return self.unicode(),
            _ => return Err(self.refuse("one of b f n r t u / \\ or the quote after '\\'")),
        };
        self.at += 1;
        Ok(found)
    }

    /// Scans `u` and four hexadecimal digits, or two of these for a surrogate pair.
    fn unicode(&mut self) -> Result<char, PathError> {
        let start = self.at;
        let first = self.hex()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        let whole = "a whole surrogate pair";
        if first >= 0xDC00 || !self.eat("\\") {
            return Err(self.refuse_at(start, whole));
        }
        let second = self.hex()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(self.refuse_at(start, whole));
        }
        let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        char::from_u32(code).ok_or_else(|| self.refuse_at(start, whole))
    }

    /// Scans `u` and four hexadecimal digits.
    fn hex(&mut self) -> Result<u32, PathError> {
        self.expect("u", "a whole surrogate pair")?;
        let digits = self
            .rest()
            .get(..4)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.refuse("four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }
}
