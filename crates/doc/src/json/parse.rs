//! Parses JSON text directly to the binary form: no tree, and no allocation for a known name.
//!
//! The parser first compares a field's name, with its quotes and colon, to the name that followed
//! last time (see [`KeyMemory`](crate::encode)). Only on a miss does it scan and hash the name. A
//! map with the same names as an earlier one copies that map's keys. docs/decisions/json.md has
//! the measurements.

use super::error::JsonError;
use super::options::{JsonOptions, Surrogates};
use super::text::unescape;
use crate::encode::{BuildError, Builder, Container, Duplicates, NONE, forget_large, put_literal};
use crate::layout::tag;
use crate::names::Names;
use crate::number::Literal;
use crate::print::{special, specials};
use crate::value::Value;
use crate::view::View;

/// Parses JSON documents to the binary form. Reuse one parser for many documents, best of one
/// collection: it remembers their field names and keeps its buffers, except those that a document
/// of more than 1 MiB needed.
pub struct JsonParser {
    options: JsonOptions,
    builder: Builder,
    scratch: Vec<u8>,
}

impl Default for JsonParser {
    fn default() -> Self {
        Self::new(JsonOptions::default())
    }
}

/// Parses a JSON value with the default options.
///
/// # Errors
/// If `json` is not valid JSON or exceeds a limit of the options.
pub fn parse(json: impl AsRef<[u8]>) -> Result<Value, JsonError> {
    JsonParser::default().parse_value(json.as_ref())
}

impl JsonParser {
    /// Creates a parser that remembers no names yet. A `depth_max` above
    /// [`DEPTH_MAX`](crate::DEPTH_MAX) is lowered to it; [`JsonOptions::check`] refuses it instead.
    pub fn new(options: JsonOptions) -> Self {
        let depth_max = options.depth_max.min(crate::DEPTH_MAX);
        let bytes_max = options.bytes_max.min(flagstone_base::key::VALUE_BYTES_MAX);
        let options = JsonOptions { depth_max, bytes_max, ..options };
        Self { options, builder: Builder::new(), scratch: Vec::new() }
    }

    /// Appends the document `json` in the binary form. With `names`, fields are stored as ids of
    /// that table and new names are defined in it. Without `names`, the document is self-contained.
    ///
    /// Returns one more than the highest name id used, or 0 if none is used. The definitions of all
    /// ids below it must be logged before the document.
    ///
    /// # Errors
    /// If `json` is not valid JSON or exceeds a limit of the options. Nothing is appended then.
    pub fn parse(
        &mut self,
        json: &[u8],
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32, JsonError> {
        if json.len() > self.options.bytes_max {
            let at = self.options.bytes_max;
            return Err(JsonError::at(json, at, "a document within the limit of its length"));
        }
        if simdutf8::basic::from_utf8(json).is_err() {
            let at = std::str::from_utf8(json).err().map_or(0, |error| error.valid_up_to());
            return Err(JsonError::at(json, at, "text in UTF-8"));
        }
        self.builder.start(names);
        let start = out.len();
        let mut run = Run {
            json,
            names,
            options: &self.options,
            builder: &mut self.builder,
            scratch: &mut self.scratch,
            refusal: (0, ""),
        };
        let parsed = run.document(out);
        let (at, expected) = run.refusal;
        forget_large(&mut self.scratch);
        parsed.map_err(|_stop| {
            self.builder.rest();
            out.truncate(start);
            JsonError::at(json, at, expected)
        })
    }

    /// Parses `json` to a value in memory.
    ///
    /// # Errors
    /// The errors of [`JsonParser::parse`].
    pub fn parse_value(&mut self, json: &[u8]) -> Result<Value, JsonError> {
        let mut bytes = Vec::new();
        self.parse(json, None, &mut bytes)?;
        View::of(&bytes, None)
            .and_then(|view| view.to_value())
            .map_err(|malformed| JsonError::at(json, 0, malformed.expected))
    }
}

/// The document was refused; [`Run`] holds the position and reason.
struct Stop;

/// The parsing of one document. Each method takes the offset at which to read and returns the
/// offset after what it read.
struct Run<'a> {
    json: &'a [u8],
    names: Option<&'a Names>,
    options: &'a JsonOptions,
    builder: &'a mut Builder,
    scratch: &'a mut Vec<u8>,
    refusal: (usize, &'static str),
}

impl Run<'_> {
    /// Returns the byte at `at`; past the end it returns 0, which begins no token.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.json.get(at).copied().unwrap_or(0)
    }

    #[cold]
    fn refuse<T>(&mut self, at: usize, expected: &'static str) -> Result<T, Stop> {
        self.refusal = (at, expected);
        Err(Stop)
    }

    #[inline]
    fn space(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\n' | b'\r' | b'\t') {
            at += 1;
        }
        at
    }

    fn document(&mut self, out: &mut Vec<u8>) -> Result<u32, Stop> {
        let at = self.space(0);
        let (end, root) = match self.byte(at) {
            b'{' => (self.fields(at, 1, NONE)?, Some(self.map())),
            b'[' => (self.items(at, 1, NONE)?, Some(Container::Array)),
            _ => (self.value(at, 0, NONE)?, None),
        };
        let end = self.space(end);
        if end < self.json.len() {
            return self.refuse(end, "the end of the document");
        }
        let finished = self.builder.finish(root, out);
        finished.or_else(|error| self.not_built(error))
    }

    fn map(&self) -> Container {
        Container::Names(self.options.duplicates)
    }

    #[cold]
    fn not_built<T>(&mut self, error: BuildError) -> Result<T, Stop> {
        match error {
            BuildError::TooLarge => self.refuse(0, "a document of at most 512 MiB in binary form"),
            BuildError::Duplicate { at } => {
                self.refuse(at as usize, "a name that is new in its map")
            }
        }
    }

    /// Reads the value at `at`, skipping space. The value is nested in `depth` containers; the
    /// innermost one is the value of the name `parent`.
    #[inline(always)]
    fn value(&mut self, at: usize, depth: usize, parent: u32) -> Result<usize, Stop> {
        match self.byte(at) {
            b'"' => self.text(at + 1),
            b'0'..=b'9' | b'-' => self.number(at),
            b'n' => self.word(at, b"null", tag::NULL),
            b't' => self.word(at, b"true", tag::TRUE),
            b'f' => self.word(at, b"false", tag::FALSE),
            _ => self.other_value(at, depth, parent),
        }
    }

    fn other_value(&mut self, at: usize, depth: usize, parent: u32) -> Result<usize, Stop> {
        match self.byte(at) {
            b'{' => {
                let frame = self.builder.begin();
                let end = self.fields(at, depth + 1, parent)?;
                let built = self.builder.end(frame, self.map());
                built.or_else(|error| self.not_built(error))?;
                Ok(end)
            }
            b'[' => {
                let frame = self.builder.begin();
                let end = self.items(at, depth + 1, parent)?;
                let built = self.builder.end(frame, Container::Array);
                built.or_else(|error| self.not_built(error))?;
                Ok(end)
            }
            b' ' | b'\n' | b'\r' | b'\t' => {
                let at = self.space(at);
                self.value(at, depth, parent)
            }
            _ => self.refuse(at, "a value"),
        }
    }

    #[inline]
    fn word<const N: usize>(
        &mut self,
        at: usize,
        word: &'static [u8; N],
        tag: u8,
    ) -> Result<usize, Stop> {
        if self.json[at..].first_chunk() != Some(word) {
            return self.refuse(at, "null, true or false");
        }
        self.builder.tag(tag);
        Ok(at + N)
    }

    #[inline]
    fn text(&mut self, at: usize) -> Result<usize, Stop> {
        if let Some(block) = self.json.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
            let mask = specials(block);
            if mask != 0 {
                let len = mask.trailing_zeros() as usize;
                if block[len & 15] == b'"' {
                    self.builder.short_text(block, len & 15);
                    return Ok(at + len + 1);
                }
            }
        }
        self.long_text(at)
    }

    fn long_text(&mut self, at: usize) -> Result<usize, Stop> {
        let end = special(self.json, at);
        if self.byte(end) == b'"' && end < self.json.len() {
            self.builder.text(&self.json[at..end]);
            return Ok(end + 1);
        }
        let end = self.unescaped(at)?;
        self.builder.text(self.scratch);
        Ok(end)
    }

    /// Reads a string with escapes into `scratch`.
    fn unescaped(&mut self, at: usize) -> Result<usize, Stop> {
        self.scratch.clear();
        let surrogates: Surrogates = self.options.surrogates;
        match unescape(self.json, at, surrogates, self.scratch) {
            Ok(end) => Ok(end),
            Err((at, expected)) => self.refuse(at, expected),
        }
    }

    #[inline]
    fn number(&mut self, at: usize) -> Result<usize, Stop> {
        let negative = self.json[at] == b'-';
        let start = at + usize::from(negative);
        let mut end = start;
        let mut value = 0_i64;
        loop {
            let digit = self.byte(end).wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(digit.into());
            end += 1;
        }
        let digits = end - start;
        let odd = self.byte(start) == b'0' && (digits > 1 || negative);
        if digits == 0 || digits > 18 || odd || matches!(self.byte(end), b'.' | b'e' | b'E') {
            return self.long_number(at);
        }
        self.builder.int(if negative { -value } else { value });
        Ok(end)
    }

    fn long_number(&mut self, at: usize) -> Result<usize, Stop> {
        let rest = &self.json[at..];
        match Literal::scan(rest) {
            Ok(literal) => {
                put_literal(self.builder, &literal, &rest[..literal.len]);
                Ok(at + literal.len)
            }
            Err((offset, expected)) => self.refuse(at + offset, expected),
        }
    }

    fn deeper(&mut self, at: usize, depth: usize) -> Result<(), Stop> {
        if depth > self.options.depth_max {
            return self.refuse(at, "nesting of at most depth_max levels");
        }
        Ok(())
    }

    /// Reads the array whose bracket is at `at`.
    fn items(&mut self, at: usize, depth: usize, parent: u32) -> Result<usize, Stop> {
        self.deeper(at, depth)?;
        let mut at = self.space(at + 1);
        if self.byte(at) == b']' {
            return Ok(at + 1);
        }
        loop {
            at = self.value(at, depth, parent)?;
            at = self.space(at);
            match self.byte(at) {
                b',' => at += 1,
                b']' => return Ok(at + 1),
                _ => return self.refuse(at, "',' or ']'"),
            }
        }
    }

    /// Reads the map whose brace is at `at`; the map is the value of the name `parent`.
    fn fields(&mut self, at: usize, depth: usize, parent: u32) -> Result<usize, Stop> {
        self.deeper(at, depth)?;
        let mut at = self.space(at + 1);
        if self.byte(at) == b'}' {
            return Ok(at + 1);
        }
        let mut previous = NONE;
        let mut likely = self.builder.keys.memory.likely(parent, NONE);
        loop {
            let predicted = self.builder.keys.memory.matches(likely, &self.json[at..]);
            let behind = if let Some((len, next)) = predicted {
                self.key(likely, at);
                (previous, likely) = (likely, next);
                at + len
            } else {
                let (slot, behind) = self.other_name(at, parent, previous)?;
                previous = slot;
                likely = self.builder.keys.memory.likely(parent, slot);
                behind
            };
            at = self.value(behind, depth, previous)?;
            if !matches!(self.byte(at), b',' | b'}') {
                at = self.space(at);
            }
            match self.byte(at) {
                b',' => at += 1,
                b'}' => return Ok(at + 1),
                _ => return self.refuse(at, "',' or '}'"),
            }
        }
    }

    #[inline]
    fn key(&mut self, slot: u32, at: usize) {
        self.builder.keys.slots.push(slot);
        if self.options.duplicates == Duplicates::Error {
            self.builder.keys.places.push(at as u32 + 1);
        }
    }

    /// Reads a name that was not predicted, from the space before its quote up to its value.
    fn other_name(&mut self, at: usize, parent: u32, previous: u32) -> Result<(u32, usize), Stop> {
        let at = self.space(at);
        if self.byte(at) != b'"' {
            return self.refuse(at, "a name in quotes");
        }
        let at = at + 1;
        let mut end = special(self.json, at);
        let slot = if self.json.get(end) == Some(&b'"') {
            let name = &self.json[at..end];
            end += 1;
            self.builder.keys.memory.slot(name, self.names)
        } else {
            end = self.unescaped(at)?;
            self.builder.keys.memory.slot(self.scratch, self.names)
        };
        self.builder.keys.memory.learn(parent, previous, slot);
        self.key(slot, at - 1);
        let colon = self.space(end);
        if self.byte(colon) != b':' {
            return self.refuse(colon, "':'");
        }
        Ok((slot, self.space(colon + 1)))
    }
}
