//! The types of columns: the Arrow types that they are, and their text, written and read back.
//!
//! ```text
//! bool  int64  float64  number  text  bytes  timestamp  uuid  objectid  json
//! decimal(10,2)    list(int64)    struct(name: text, "first name": list(text))
//! ```
//! A name of letters, digits and `_` has no quotes; others have them, with the escapes of JSON.

use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field, TimeUnit};
use flagstone::{Document, Error, Result, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The most digits of a decimal column.
pub const PRECISION_MAX: u8 = 76;
/// The most digits that 128 bits hold, and the most of polars and DuckDB.
pub const PRECISION_128: u8 = 38;

/// The most types within one another, as in documents.
const DEPTH_MAX: usize = 512;

/// Arrow's extension types that columns have: without these marks a UUID would come back as bytes,
/// and JSON as text.
pub(crate) const UUID: &str = "arrow.uuid";
pub(crate) const JSON: &str = "arrow.json";

/// The type of a column. All columns are nullable: a missing field is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True and false.
    Bool,
    /// Integers of 64 bits.
    Int64,
    /// Numbers that equal the shortest text of a float, and floats.
    Float64,
    /// Numbers with a precision and a scale: their digits at most, and those after the point.
    Decimal(u8, u8),
    /// Any numbers, as their text.
    NumberText,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// Points in time, in microseconds.
    Timestamp,
    /// UUIDs: 16 bytes.
    Uuid,
    /// ObjectIds, as text of 24 hexadecimal digits.
    ObjectId,
    /// Any values, as JSON text.
    Json,
    /// Arrays of one type.
    List(Box<Kind>),
    /// Maps with these fields and no others.
    Struct(Vec<(String, Kind)>),
}

impl Kind {
    /// Parses the text of a type, as `Display` writes it: `bool`, `int64`, `float64`,
    /// `decimal(10,2)`, `number`, `text`, `bytes`, `timestamp`, `uuid`, `objectid`, `json`,
    /// `list(int64)`, `struct(name: text, tags: list(text))`. A name may be in quotes, as a string
    /// of JSON.
    ///
    /// # Errors
    /// InvalidInput for another text, a decimal of more than 76 digits, and a struct without
    /// fields or with two of one name.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text, why: None };
        if let Some(kind) = parser.kind(DEPTH_MAX)
            && parser.skipped().rest.is_empty()
        {
            return Ok(kind);
        }
        let why = parser.why.map_or_else(
            || {
                format!(
                    "expected bool, int64, float64, decimal(P,S) with P up to {PRECISION_MAX}, \
                     number, text, bytes, timestamp, uuid, objectid, json, list(TYPE) or \
                     struct(NAME: TYPE, ..)"
                )
            },
            str::to_owned,
        );
        Err(Error::invalid(format!("column type {text:?}: {why}, at {:?}", parser.rest)))
    }

    /// Returns the Arrow type. What is inside of it has the marks of UUIDs and JSON.
    pub fn data_type(&self) -> DataType {
        let is_marked = true;
        self.type_of(is_marked)
    }

    /// Returns the Arrow type. UUIDs and JSON inside of it are marked, if they shall be.
    pub(crate) fn type_of(&self, is_marked: bool) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            // The scale is at most 76.
            Self::Decimal(precision, scale) if *precision <= PRECISION_128 => {
                DataType::Decimal128(*precision, *scale as i8)
            }
            Self::Decimal(precision, scale) => DataType::Decimal256(*precision, *scale as i8),
            Self::NumberText | Self::Text | Self::ObjectId | Self::Json => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::List(items) => DataType::List(Arc::new(items.field("item", is_marked))),
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(name, kind)| kind.field(name, is_marked));
                DataType::Struct(fields.collect())
            }
        }
    }

    /// Returns the most digits that a decimal in this type has; 0 without one.
    pub fn digits_max(&self) -> u8 {
        match self {
            Self::Decimal(precision, _) => *precision,
            Self::List(items) => items.digits_max(),
            Self::Struct(fields) => {
                fields.iter().map(|(_, kind)| kind.digits_max()).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Returns whether the values of this type are told by their sort keys: not the text of a
    /// number, nor the order of fields.
    pub(crate) const fn is_of_sort_key(&self) -> bool {
        !matches!(self, Self::NumberText | Self::Json | Self::List(_) | Self::Struct(_))
    }

    /// Returns a nullable field of this type. UUIDs and JSON are marked, if they shall be.
    pub(crate) fn field(&self, name: &str, is_marked: bool) -> Field {
        let field = Field::new(name, self.type_of(is_marked), true);
        let mark = match self {
            Self::Uuid if is_marked => UUID,
            Self::Json if is_marked => JSON,
            _ => return field,
        };
        field.with_metadata(HashMap::from([
            (EXTENSION_TYPE_NAME_KEY.to_owned(), mark.to_owned()),
            (EXTENSION_TYPE_METADATA_KEY.to_owned(), String::new()),
        ]))
    }

    /// Returns a name inside of this type that Arrow cannot carry: its names end at the character
    /// 0.
    pub(crate) fn name_with_nul(&self) -> Option<&str> {
        match self {
            Self::List(items) => items.name_with_nul(),
            Self::Struct(fields) => fields.iter().find_map(|(name, kind)| {
                if has_nul(name) { Some(name.as_str()) } else { kind.name_with_nul() }
            }),
            _ => None,
        }
    }
}

/// Returns whether Arrow cannot carry a name.
pub(crate) fn has_nul(name: &str) -> bool {
    name.contains('\0')
}

/// What is left of a text. After a `None` it begins where the text is wrong.
struct Parser<'a> {
    rest: &'a str,
    /// What is wrong there, if it is more than another text.
    why: Option<&'static str>,
}

impl<'a> Parser<'a> {
    fn kind(&mut self, depth: usize) -> Option<Kind> {
        let depth = depth.checked_sub(1)?;
        let before = self.skipped().rest;
        let kind = match self.word() {
            "bool" => Kind::Bool,
            "int64" => Kind::Int64,
            "float64" => Kind::Float64,
            "number" => Kind::NumberText,
            "text" => Kind::Text,
            "bytes" => Kind::Bytes,
            "timestamp" => Kind::Timestamp,
            "uuid" => Kind::Uuid,
            "objectid" => Kind::ObjectId,
            "json" => Kind::Json,
            "decimal" => {
                self.sign('(')?;
                let precision = self.number().filter(|p| (1..=PRECISION_MAX).contains(p))?;
                self.sign(',')?;
                let scale = self.number().filter(|scale| *scale <= precision)?;
                self.sign(')')?;
                Kind::Decimal(precision, scale)
            }
            "list" => {
                self.sign('(')?;
                let items = self.kind(depth)?;
                self.sign(')')?;
                Kind::List(Box::new(items))
            }
            "struct" => Kind::Struct(self.fields(depth)?),
            _ => {
                self.rest = before;
                return None;
            }
        };
        Some(kind)
    }

    fn fields(&mut self, depth: usize) -> Option<Vec<(String, Kind)>> {
        let mut fields: Vec<(String, Kind)> = Vec::new();
        self.sign('(')?;
        loop {
            let before = self.skipped().rest;
            if fields.is_empty() && before.starts_with(')') {
                self.why = Some("a struct has at least one field");
                return None;
            }
            let name = self.name()?;
            if fields.iter().any(|(other, _)| *other == name) {
                self.rest = before;
                self.why = Some("two fields of a struct have the same name");
                return None;
            }
            if self.sign(':').is_none() {
                self.why =
                    Some("a field of a struct has a name and a type, as in struct(a: int64)");
                return None;
            }
            fields.push((name, self.kind(depth)?));
            if self.sign(',').is_none() {
                self.sign(')')?;
                return Some(fields);
            }
        }
    }

    fn name(&mut self) -> Option<String> {
        if !self.skipped().rest.starts_with('"') {
            return Some(self.word()).filter(|word| !word.is_empty()).map(str::to_owned);
        }
        // The quote that ends it is the first that is not escaped.
        let mut is_escaped = false;
        let end = self.rest[1..].find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        })?;
        let (quoted, rest) = self.rest.split_at(end + 2);
        let document = Document::from_json(quoted).ok()?;
        let name = document.root().as_str()?.to_owned();
        self.rest = rest;
        Some(name)
    }

    fn number(&mut self) -> Option<u8> {
        let before = self.skipped().rest;
        let number = self.word().parse().ok();
        if number.is_none() {
            self.rest = before;
        }
        number
    }

    fn sign(&mut self, sign: char) -> Option<()> {
        self.rest = self.skipped().rest.strip_prefix(sign)?;
        Some(())
    }

    /// Takes the letters, digits and `_` that follow.
    fn word(&mut self) -> &'a str {
        let end = self.skipped().rest.find(|c| !is_plain(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Leaves out spaces.
    fn skipped(&mut self) -> &mut Self {
        self.rest = self.rest.trim_start_matches(' ');
        self
    }
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int64 => f.write_str("int64"),
            Self::Float64 => f.write_str("float64"),
            Self::Decimal(precision, scale) => write!(f, "decimal({precision},{scale})"),
            Self::NumberText => f.write_str("number"),
            Self::Text => f.write_str("text"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Uuid => f.write_str("uuid"),
            Self::ObjectId => f.write_str("objectid"),
            Self::Json => f.write_str("json"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Struct(fields) => {
                f.write_str("struct(")?;
                for (index, (name, kind)) in fields.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    if !name.is_empty() && name.chars().all(is_plain) {
                        f.write_str(name)?
                    } else {
                        // Text shows as a string of JSON.
                        write!(f, "{}", Value::from(name.as_str()))?
                    }
                    write!(f, ": {kind}")?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds that `draw` chooses: each number decides one thing.
    fn kind(draw: &mut impl FnMut(u64) -> u64, depth: u8) -> Kind {
        const NAMES: [&str; 9] =
            ["a", "first name", "", "x: int64, y", "(", "\"quoted\\", "\n\u{1}é", "list", "α_1"];
        match draw(if depth == 0 { 11 } else { 13 }) {
            0 => Kind::Bool,
            1 => Kind::Int64,
            2 => Kind::Float64,
            3 => {
                let precision = 1 + draw(u64::from(PRECISION_MAX)) as u8;
                Kind::Decimal(precision, draw(u64::from(precision) + 1) as u8)
            }
            4 => Kind::NumberText,
            5 => Kind::Text,
            6 => Kind::Bytes,
            7 => Kind::Timestamp,
            8 => Kind::Uuid,
            9 => Kind::Json,
            10 => Kind::ObjectId,
            11 => Kind::List(Box::new(kind(draw, depth - 1))),
            _ => {
                let (first, count) = (draw(9) as usize, 1 + draw(4) as usize);
                let name = |n: usize| NAMES[(first + n) % NAMES.len()].to_owned();
                Kind::Struct((0..count).map(|n| (name(n), kind(draw, depth - 1))).collect())
            }
        }
    }

    #[test]
    fn the_text_of_every_kind_is_read_back() {
        let mut state = 19_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..5_000 {
            let kind = kind(&mut draw, 4);
            let text = kind.to_string();
            assert_eq!(Kind::parse(&text).ok(), Some(kind), "{text}");
        }
    }

    #[test]
    fn spaces_and_quotes_are_free() {
        let parsed = Kind::parse(" struct( a:int64 ,\"b\" : list( decimal( 4 , 2 ) ) ) ");
        assert_eq!(
            parsed.map(|kind| kind.to_string()).ok().as_deref(),
            Some("struct(a: int64, b: list(decimal(4,2)))")
        );
    }

    #[test]
    fn another_text_is_refused_where_it_is_wrong() {
        for (text, at) in [
            ("int32", "int32"),
            ("", ""),
            ("decimal(77,0)", ",0)"),
            ("decimal(2,3)", ")"),
            ("list(int64", ""),
            ("list(int64))", ")"),
            ("struct()", ")"),
            ("struct(a: int64, a: text)", "a: text)"),
            ("struct(a int64)", "int64)"),
            ("struct(a: int64,)", ")"),
            ("struct(\"a: int64)", "\"a: int64)"),
            ("text json", "json"),
        ] {
            let error = Kind::parse(text).map_err(|error| error.to_string()).unwrap_err();
            assert!(error.ends_with(&format!("at {at:?}")), "{text}: {error}");
        }
        for (text, why) in [
            ("struct()", "a struct has at least one field"),
            ("struct(b,b)", "a field of a struct has a name and a type"),
            ("list(struct(a int64))", "a field of a struct has a name and a type"),
            ("list(struct(b: text, b: text))", "two fields of a struct have the same name"),
        ] {
            let error = Kind::parse(text).map_err(|error| error.to_string()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Kind::parse(&"list(".repeat(1_000_000)).is_err());
    }
}
