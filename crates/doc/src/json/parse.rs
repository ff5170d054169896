//! Parses JSON text directly to the binary form: no tree, and no allocation for a known name.
//!
//! The parser first compares a field's name, with its quotes and colon, to the name that followed
//! last time (see [`KeyMemory`](crate::encode)). Only on a miss does it scan and hash the name. A
//! map with the same names as an earlier one copies that map's keys. docs/decisions/json.md has
//! the measurements.

use super::error::JsonError;
use super::extended;
use super::options::{JsonMode, JsonOptions, Surrogates};
use super::text::unescape;
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::encode::{BuildError, Container, Duplicates, Encoder, NONE, forget_large, put_literal};
use crate::layout::tag;
use crate::names::Names;
use crate::number::NumberLiteral;
use crate::print::{special, specials};
use crate::value::Value;
use crate::view::View;

/// Parses JSON documents to the binary form. Reuse one parser for many documents, best of one
/// collection: it remembers their field names and keeps its buffers, except those that a document
/// of more than 1 MiB needed.
pub struct JsonParser {
    options: JsonOptions,
    encoder: Encoder,
    scratch: Vec<u8>,
    /// Parses the forms of Extended JSON.
    of_forms: Option<Box<JsonParser>>,
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
        let depth_max = options.depth_max.min(DEPTH_MAX);
        let bytes_max = options.bytes_max.min(flagstone_base::key::VALUE_BYTES_MAX);
        let options = JsonOptions { depth_max, bytes_max, ..options };
        Self { options, encoder: Encoder::new(), scratch: Vec::new(), of_forms: None }
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
            return Err(JsonError::at(
                json,
                at,
                "a document of at most 16 MiB, or of what bytes_max allows",
            ));
        }
        if simdutf8::basic::from_utf8(json).is_err() {
            let at = std::str::from_utf8(json).err().map_or(0, |error| error.valid_up_to());
            return Err(JsonError::at(json, at, "text in UTF-8"));
        }
        self.encoder.builder.start(names);
        let start = out.len();
        let mut run = ParseState {
            json,
            names,
            options: &self.options,
            encoder: &mut self.encoder,
            scratch: &mut self.scratch,
            of_forms: &mut self.of_forms,
            refusal: (0, ""),
        };
        let parsed = run.document(out);
        let (at, expected) = run.refusal;
        forget_large(&mut self.scratch);
        parsed.map_err(|_stop| {
            self.encoder.builder.rest();
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

/// What is expected of a text that is nested deeper.
const fn too_deep(depth_max: usize) -> &'static str {
    match depth_max {
        128 => "nesting of at most 128 levels (depth_max)",
        256 => "nesting of at most 256 levels",
        DEPTH_MAX => TOO_DEEP,
        _ => "nesting of at most depth_max levels",
    }
}

/// The document was refused; [`Run`] holds the position and reason.
struct Stop;

/// The parsing of one document. Each method takes the offset at which to read and returns the
/// offset after what it read.
struct ParseState<'a> {
    json: &'a [u8],
    names: Option<&'a Names>,
    options: &'a JsonOptions,
    encoder: &'a mut Encoder,
    scratch: &'a mut Vec<u8>,
    of_forms: &'a mut Option<Box<JsonParser>>,
    refusal: (usize, &'static str),
}

impl ParseState<'_> {
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
            b'{' if self.options.mode == JsonMode::Extended => self.extended_root(at)?,
            b'{' => (self.fields(at, 1, NONE)?, Some(self.map())),
            b'[' => (self.items(at, 1, NONE)?, Some(Container::Array)),
            _ => (self.value(at, 0, NONE)?, None),
        };
        let end = self.space(end);
        if end < self.json.len() {
            return self.refuse(end, "the end of the document");
        }
        let finished = self.encoder.builder.finish(root, out);
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
            b'{' if self.options.mode == JsonMode::Extended => self.extended_map(at, depth, parent),
            b'{' => {
                let frame = self.encoder.builder.begin();
                let end = self.fields(at, depth + 1, parent)?;
                let built = self.encoder.builder.end(frame, self.map());
                built.or_else(|error| self.not_built(error))?;
                Ok(end)
            }
            b'[' => {
                let frame = self.encoder.builder.begin();
                let end = self.items(at, depth + 1, parent)?;
                let built = self.encoder.builder.end(frame, Container::Array);
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
        self.encoder.builder.tag(tag);
        Ok(at + N)
    }

    #[inline]
    fn text(&mut self, at: usize) -> Result<usize, Stop> {
        if let Some(block) = self.json.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
            let mask = specials(block);
            if mask != 0 {
                let len = mask.trailing_zeros() as usize;
                if block[len & 15] == b'"' {
                    self.encoder.builder.short_text(block, len & 15);
                    return Ok(at + len + 1);
                }
            }
        }
        self.long_text(at)
    }

    fn long_text(&mut self, at: usize) -> Result<usize, Stop> {
        let end = special(self.json, at);
        if self.byte(end) == b'"' && end < self.json.len() {
            self.encoder.builder.text(&self.json[at..end]);
            return Ok(end + 1);
        }
        let end = self.unescaped(at)?;
        self.encoder.builder.text(self.scratch);
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
        self.encoder.builder.int(if negative { -value } else { value });
        Ok(end)
    }

    fn long_number(&mut self, at: usize) -> Result<usize, Stop> {
        let rest = &self.json[at..];
        match NumberLiteral::scan(rest) {
            Ok(literal) => {
                put_literal(&mut self.encoder.builder, &literal, &rest[..literal.len]);
                Ok(at + literal.len)
            }
            Err((offset, expected)) => self.refuse(at + offset, expected),
        }
    }

    fn deeper(&mut self, at: usize, depth: usize) -> Result<(), Stop> {
        if depth > self.options.depth_max {
            return self.refuse(at, too_deep(self.options.depth_max));
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
        let mut likely = self.encoder.builder.keys.memory.likely(parent, NONE);
        loop {
            let predicted = self.encoder.builder.keys.memory.matches(likely, &self.json[at..]);
            let behind = if let Some((len, next)) = predicted {
                self.key(likely, at);
                (previous, likely) = (likely, next);
                at + len
            } else {
                let (slot, behind) = self.other_name(at, parent, previous)?;
                previous = slot;
                likely = self.encoder.builder.keys.memory.likely(parent, slot);
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

    /// Reads the map whose brace is at `at` and which is the document. It may be a form of Extended
    /// JSON.
    fn extended_root(&mut self, at: usize) -> Result<(usize, Option<Container>), Stop> {
        if !self.begins_form(at) {
            let end = self.fields(at, 1, NONE)?;
            self.check_names(at, 0)?;
            return Ok((end, Some(self.map())));
        }
        let (end, value) = self.form(at, 0)?;
        let root = match &value {
            Value::Map(map) => self.encoder.entries(map, self.names, NONE, 1).map(Some),
            scalar => self.encoder.put(scalar, self.names, NONE, 0).map(|()| None),
        };
        Ok((end, root.or_else(|_too_large| self.not_built(BuildError::TooLarge))?))
    }

    /// Reads the map whose brace is at `at`, as [`Run::other_value`] does. It may be a form of
    /// Extended JSON.
    fn extended_map(&mut self, at: usize, depth: usize, parent: u32) -> Result<usize, Stop> {
        if self.begins_form(at) {
            let (end, value) = self.form(at, depth)?;
            let put = self.encoder.put(&value, self.names, NONE, depth);
            put.or_else(|_too_large| self.not_built(BuildError::TooLarge))?;
            return Ok(end);
        }
        let frame = self.encoder.builder.begin();
        let end = self.fields(at, depth + 1, parent)?;
        self.check_names(at, frame.keys)?;
        let built = self.encoder.builder.end(frame, self.map());
        built.or_else(|error| self.not_built(error))?;
        Ok(end)
    }

    /// Returns whether the first name of the map whose brace is at `at` is that of a form. In the
    /// old form of `$binary`, `$type` may be before it.
    fn begins_form(&mut self, at: usize) -> bool {
        let at = self.space(at + 1);
        let is_quoted = self.byte(at) == b'"' && matches!(self.byte(at + 1), b'$' | b'\\');
        if !is_quoted || self.unescaped(at + 1).is_err() {
            return false;
        }
        match str::from_utf8(self.scratch) {
            Ok("$type") => {
                let colon = self.space(end_of_text(self.json, at + 1));
                let value = self.space(colon + 1);
                let rest = self.json.get(value..).unwrap_or_default();
                let end = match rest.first() {
                    Some(b'"') => end_of_text(self.json, value + 1),
                    _ => value + rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
                };
                let name = self.space(self.space(end) + 1);
                self.json.get(name..).is_some_and(|rest| rest.starts_with(b"\"$binary\""))
            }
            Ok(name) => extended::is_form(name),
            Err(_) => false,
        }
    }

    /// Returns the end and the value of the form whose brace is at `at`. It is nested in `depth`
    /// containers.
    fn form(&mut self, at: usize, depth: usize) -> Result<(usize, Value), Stop> {
        // A form has up to two levels of its own where its value has none.
        let depth_max = self.options.depth_max.saturating_sub(depth);
        let options = self.options.mode(JsonMode::Plain).depth_max(depth_max + 2);
        let end = end_of_map(self.json, at);
        let parser = self.of_forms.get_or_insert_with(|| Box::new(JsonParser::new(options)));
        parser.options.depth_max = options.depth_max.min(DEPTH_MAX);
        let parsed = parser.parse_value(&self.json[at..end]);
        match parsed.map(|value| extended::read(value, options.refuses_zeros)) {
            Ok(Ok(value)) if value.is_within_depth(depth_max) => Ok((end, value)),
            Ok(Ok(_)) => self.refuse(at, too_deep(self.options.depth_max)),
            Ok(Err(extended::ALONE)) => self.refuse(at, extended::ALONE),
            Ok(Err(expected)) => {
                let at = self.operand(at);
                self.refuse(at, expected)
            }
            Err(error) => self.refuse(at + error.offset, error.expected),
        }
    }

    /// Returns the place of the first value in the map whose brace is at `at`.
    fn operand(&self, at: usize) -> usize {
        let name = self.space(at + 1);
        let colon = self.space(end_of_text(self.json, name + 1));
        self.space(colon + 1)
    }

    /// Refuses the map at `at`, which is no form and whose names are those from `first` on, if one
    /// of them is that of a form.
    fn check_names(&mut self, at: usize, first: usize) -> Result<(), Stop> {
        let keys = &self.encoder.builder.keys;
        let is_form = |slot: &u32| {
            let name = keys.memory.name(*slot);
            name.first() == Some(&b'$') && str::from_utf8(name).is_ok_and(extended::is_form)
        };
        if keys.slots.get(first..).unwrap_or_default().iter().any(is_form) {
            return self.refuse(at, extended::ALONE);
        }
        Ok(())
    }

    #[inline]
    fn key(&mut self, slot: u32, at: usize) {
        self.encoder.builder.keys.slots.push(slot);
        if self.options.duplicates == Duplicates::Error {
            self.encoder.builder.keys.places.push(at as u32 + 1);
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
            self.encoder.builder.keys.memory.slot(name, self.names)
        } else {
            end = self.unescaped(at)?;
            if self.options.refuses_zeros && self.scratch.contains(&0) {
                return self.refuse(at, extended::NO_ZERO);
            }
            self.encoder.builder.keys.memory.slot(self.scratch, self.names)
        };
        self.encoder.builder.keys.memory.learn(parent, previous, slot);
        self.key(slot, at - 1);
        let colon = self.space(end);
        if self.byte(colon) != b':' {
            return self.refuse(colon, "':'");
        }
        Ok((slot, self.space(colon + 1)))
    }
}

/// Returns the offset after the map whose brace is at `at`; the end of the text if it does not end.
fn end_of_map(json: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            b'"' => at = end_of_text(json, at),
            _ => {}
        }
    }
    at
}

/// Returns the offset after the closing quote of the string whose first byte is at `at`.
fn end_of_text(json: &[u8], mut at: usize) -> usize {
    loop {
        at = special(json, at);
        match json.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return at.min(json.len()),
        }
    }
}
