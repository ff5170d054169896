//! Records of a table, CSV or TSV, as JSON documents.

use flagstone::doc::Number;
use std::fmt;

/// The mark that some editors put in front of UTF-8 text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// How a file of records with fields is read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableFormat {
    /// The byte between fields.
    pub delimiter: u8,
    /// Whether a field may be in double quotes, in which delimiters and line ends are text and `""`
    /// is a quote.
    pub has_quotes: bool,
    /// The names of the fields. `None`: the first record of each file names them.
    pub fields: Option<Vec<String>>,
    /// Whether every field stays text. Otherwise a field without quotes that is a number in JSON is
    /// a number.
    pub is_text: bool,
    /// The types of columns, by the names of the columns. Fields of others are numbers or text.
    pub types: Vec<(String, FieldType)>,
    /// Whether empty fields without quotes are left out of documents. Otherwise they are empty
    /// texts.
    pub ignores_blanks: bool,
}

impl TableFormat {
    /// Comma-separated values (RFC 4180): quotes, numbers recognized, names in the first record.
    pub const fn csv() -> Self {
        Self {
            delimiter: b',',
            has_quotes: true,
            fields: None,
            is_text: false,
            types: Vec::new(),
            ignores_blanks: false,
        }
    }

    /// Tab-separated values: as [`TableFormat::csv`], with tabs and without quotes.
    pub const fn tsv() -> Self {
        let mut tsv = Self::csv();
        (tsv.delimiter, tsv.has_quotes) = (b'\t', false);
        tsv
    }

    /// Refuses a record with a quote that is not closed, or with text after a closing quote: the
    /// parser would take the rest of the file for a field, or drop the quotes. A quote inside of a
    /// field that does not begin with one is text. Appends to `starts` where each field begins.
    fn check_quotes(&self, record: &[u8], starts: &mut Vec<usize>) -> Result<(), BadRecord> {
        let mut at = 0;
        while self.has_quotes && at < record.len() {
            starts.push(at);
            if record[at] != b'"' {
                // Up to the next field. What follows the end of the line was taken for a record.
                let Some(end) = memchr::memchr(self.delimiter, &record[at..]) else { break };
                at += end + 1;
                continue;
            }
            let open = at;
            at += 1;
            loop {
                let Some(quote) = memchr::memchr(b'"', &record[at..]) else {
                    let reason = "a quote is not closed".to_owned();
                    return Err(BadRecord { at: open, reason });
                };
                at += quote + 1;
                match record.get(at) {
                    Some(b'"') => at += 1,
                    Some(byte) if *byte == self.delimiter => {
                        at += 1;
                        break;
                    }
                    None | Some(b'\r' | b'\n') => return Ok(()),
                    Some(_) => {
                        let reason = "text after a closing quote: expected the end of the field \
                                      there, or each quote inside of it twice";
                        return Err(BadRecord { at, reason: reason.to_owned() });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns a parser of records.
    pub(crate) fn reader(&self) -> csv_core::Reader {
        csv_core::ReaderBuilder::new().delimiter(self.delimiter).quoting(self.has_quotes).build()
    }
}

impl fmt::Display for TableFormat {
    /// The options of the tool that make it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = if self.has_quotes { Self::csv() } else { Self::tsv() };
        f.write_str(if self.has_quotes { "CSV" } else { "TSV" })?;
        if self.delimiter != usual.delimiter {
            write!(f, " --delimiter '{}'", self.delimiter.escape_ascii())?;
        }
        if let Some(fields) = &self.fields {
            write!(f, " --fields {}", fields.join(","))?;
        }
        for (at, (column, kind)) in self.types.iter().enumerate() {
            let before = if at == 0 { " --types " } else { "," };
            write!(f, "{before}{column}={}", kind.name())?;
        }
        f.write_str(if self.is_text { " --all-text" } else { "" })?;
        f.write_str(if self.ignores_blanks { " --ignore-blanks" } else { "" })
    }
}

/// What the fields of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldType {
    /// Text as it is: `007` and `12` stay that.
    Text,
    /// A whole number. Zeros before it, a plus and spaces around it are left out; so are fields of
    /// no or of blank text.
    Int,
    /// Any number, exact as in JSON; else as [`FieldType::Int`].
    Number,
    /// `true`, `false`, `1`, `0`, `t`, `f`, `yes`, `no`, `y` or `n`, in any case.
    Bool,
    /// A JSON value, such as `[1,2]`.
    Json,
}

impl FieldType {
    const NAMES: [(&str, Self); 5] = [
        ("text", Self::Text),
        ("int", Self::Int),
        ("number", Self::Number),
        ("bool", Self::Bool),
        ("json", Self::Json),
    ];

    /// Returns the type of this name: text, int, number, bool or json.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Appends `field` as JSON. Returns false if there is nothing in it, which is left out.
    ///
    /// # Errors
    /// What was expected.
    fn append(self, field: &str, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        let trimmed = field.trim();
        match self {
            Self::Text => append_text(field, out),
            _ if trimmed.is_empty() => return Ok(false),
            Self::Int => {
                let number = canonical(trimmed).filter(|n| !n.contains(['.', 'e', 'E']));
                out.extend_from_slice(number.ok_or("a whole number")?.as_bytes());
            }
            Self::Number => {
                out.extend_from_slice(canonical(trimmed).ok_or("a number")?.as_bytes());
            }
            Self::Bool => {
                let is = |words: [&str; 4]| words.iter().any(|w| w.eq_ignore_ascii_case(trimmed));
                let text = match () {
                    () if is(["true", "1", "t", "yes"]) || trimmed.eq_ignore_ascii_case("y") => {
                        "true"
                    }
                    () if is(["false", "0", "f", "no"]) || trimmed.eq_ignore_ascii_case("n") => {
                        "false"
                    }
                    () => return Err("true or false"),
                };
                out.extend_from_slice(text.as_bytes());
            }
            // It is parsed with the document.
            Self::Json => {
                flagstone::doc::json::parse(trimmed).map_err(|_not_json| "a JSON value")?;
                let line = trimmed.bytes().map(|byte| if byte < 0x20 { b' ' } else { byte });
                out.extend(line);
            }
        }
        Ok(true)
    }
}

/// Returns a number as JSON writes it, without a plus and zeros before it, but with one before a
/// point; `None` for other text.
fn canonical(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let zeros = digits.bytes().take_while(|byte| *byte == b'0').count();
    let is_zero = !digits.as_bytes().get(zeros).is_some_and(u8::is_ascii_digit);
    let kept = if is_zero { zeros.saturating_sub(1) } else { zeros };
    let whole = if digits.starts_with('.') { "0" } else { "" };
    let number = format!("{sign}{whole}{}", &digits[kept..]);
    is_number(&number).then_some(number)
}

/// The columns of a table, and where their fields are in the documents.
#[derive(Debug)]
pub(crate) struct Table {
    format: TableFormat,
    columns: usize,
    root: Node,
    /// The names of the columns, one a line.
    names: String,
}

/// A part of the documents.
#[derive(Debug)]
enum Node {
    /// The field of this column, and its type, if it has one.
    Column(usize, Option<FieldType>),
    /// A map: each child with its name as JSON, a colon after it.
    Map(Vec<(String, Node)>),
}

/// A parser of single records, with its buffers.
pub(crate) struct RecordParser {
    reader: csv_core::Reader,
    /// The text of the fields, one after another; what follows is old.
    text: Vec<u8>,
    /// The ends of the first `fields` fields in `text`; what follows is old.
    ends: Vec<usize>,
    fields: usize,
    /// Where the fields begin in the record, if the table has quotes.
    starts: Vec<usize>,
    /// Which fields were in quotes.
    quoted: Vec<bool>,
}

/// Why a record is no document.
#[derive(Debug)]
pub(crate) struct BadRecord {
    /// The byte of the record at which it is wrong.
    pub(crate) at: usize,
    pub(crate) reason: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Table {
    /// Returns the table with these names of columns. A dot in a name leads into a map:
    /// `author.name`.
    ///
    /// # Errors
    /// A text that says which name is wrong.
    pub(crate) fn new(format: &TableFormat, names: &[String]) -> Result<Self, String> {
        let mut root = Node::Map(Vec::new());
        for (column, name) in names.iter().enumerate() {
            let kind = format.types.iter().find(|(typed, _)| typed == name).map(|(_, kind)| *kind);
            let node = Node::Column(column, kind);
            root.add(name, name, node).map_err(|why| format!("column {}: {why}", column + 1))?;
        }
        let types = &format.types;
        let is_again = |at: &usize| types[..*at].iter().any(|(name, _)| *name == types[*at].0);
        if let Some(again) = (0..types.len()).find(is_again) {
            return Err(format!("the column {:?} has two types: expected one", types[again].0));
        }
        let is_unknown = |(name, _): &&(String, FieldType)| !names.contains(name);
        if let Some((name, _)) = format.types.iter().find(is_unknown) {
            let names = names.join(", ");
            return Err(format!("there is no column {name:?} to have a type: found {names}"));
        }
        Ok(Self { format: format.clone(), columns: names.len(), root, names: names.join("\n") })
    }

    /// Refuses a table whose documents cannot have a value at the dotted `path`, at which their
    /// keys are.
    ///
    /// # Errors
    /// A text that says which columns there are.
    pub(crate) fn check_key(&self, path: &str) -> Result<(), String> {
        let mut node = &self.root;
        for name in path.split('.') {
            node = match node {
                // It may be a map itself.
                Node::Column(_, Some(FieldType::Json)) => return Ok(()),
                Node::Column(..) => return Err(self.no_key(path)),
                Node::Map(children) => {
                    let is_named = |(known, _): &&(String, Node)| *known == member(name);
                    let child = children.iter().find(is_named);
                    child.map(|(_, child)| child).ok_or_else(|| self.no_key(path))?
                }
            };
        }
        Ok(())
    }

    fn no_key(&self, path: &str) -> String {
        let names = self.names.replace('\n', ", ");
        let why = match self.columns {
            1 => "; if it should be several, the delimiter is another one",
            _ => "",
        };
        format!("there is no column {path:?} to take the key from: found {names}{why}")
    }

    /// Returns the names of the columns as text.
    pub(crate) fn names(&self) -> &[u8] {
        self.names.as_bytes()
    }

    /// Returns the table whose names of columns are the fields of `record`.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub(crate) fn with_header(format: &TableFormat, record: &[u8]) -> Result<Self, String> {
        let record = std::str::from_utf8(record)
            .map_err(|_not_utf8| "expected names of fields in UTF-8".to_owned())?;
        let mut parser = RecordParser::new(format);
        format.check_quotes(record.as_bytes(), &mut parser.starts).map_err(|bad| bad.reason)?;
        parser.parse(record.as_bytes());
        let mut names: Vec<String> =
            (0..parser.fields).map(|n| parser.field(n).trim().to_owned()).collect();
        // pandas writes its index as a first column without a name.
        if names.len() > 1 && names[0].is_empty() {
            names[0] = INDEX.to_owned();
        }
        Self::new(format, &names)
    }

    /// Returns a parser of this table's records.
    pub(crate) fn record_parser(&self) -> RecordParser {
        RecordParser::new(&self.format)
    }

    /// Appends the document of `record` as JSON to `out`.
    pub(crate) fn append_json(
        &self,
        parser: &mut RecordParser,
        record: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BadRecord> {
        if let Err(error) = std::str::from_utf8(record) {
            let reason = "expected text in UTF-8".to_owned();
            return Err(BadRecord { at: error.valid_up_to(), reason });
        }
        parser.starts.clear();
        self.format.check_quotes(record, &mut parser.starts)?;
        parser.parse(record);
        let found = parser.fields;
        if found > self.columns {
            let expected = self.columns;
            let reason = format!("expected at most {expected} fields, found {found}");
            return Err(BadRecord { at: 0, reason });
        }
        let is_there = self.append(&self.root, parser, out).map_err(|(column, reason)| {
            let at = self.start_of(column, parser, record);
            BadRecord { at, reason }
        })?;
        if !is_there {
            out.extend_from_slice(b"{}");
        }
        Ok(())
    }

    /// Returns the byte of the record at which the field of a column begins.
    fn start_of(&self, column: usize, parser: &RecordParser, record: &[u8]) -> usize {
        let before = column.checked_sub(1).and_then(|n| {
            memchr::memchr_iter(self.format.delimiter, record).nth(n).map(|at| at + 1)
        });
        parser.starts.get(column).copied().or(before).unwrap_or(0)
    }

    /// Appends a part of the document. Returns false if nothing is there: then nothing is appended.
    ///
    /// # Errors
    /// The column of a field that is not of its type, and the reason.
    fn append(
        &self,
        node: &Node,
        record: &RecordParser,
        out: &mut Vec<u8>,
    ) -> Result<bool, (usize, String)> {
        match node {
            Node::Column(column, kind) => {
                if *column >= record.fields {
                    return Ok(false);
                }
                let field = record.field(*column);
                let is_blank = field.is_empty() && !record.is_quoted(*column);
                if is_blank && self.format.ignores_blanks {
                    return Ok(false);
                }
                if let Some(kind) = kind {
                    return kind.append(field, out).map_err(|expected| {
                        let name = self.names.lines().nth(*column).unwrap_or_default();
                        (*column, format!("column {name:?}: expected {expected}, found {field:?}"))
                    });
                }
                if self.format.is_text || record.is_quoted(*column) || !is_number(field) {
                    append_text(field, out);
                } else {
                    out.extend_from_slice(field.as_bytes());
                }
                Ok(true)
            }
            Node::Map(children) => {
                let start = out.len();
                for (name, child) in children {
                    let before = out.len();
                    out.push(if before == start { b'{' } else { b',' });
                    out.extend_from_slice(name.as_bytes());
                    if !self.append(child, record, out)? {
                        out.truncate(before);
                    }
                }
                if out.len() == start {
                    return Ok(false);
                }
                out.push(b'}');
                Ok(true)
            }
        }
    }
}

impl Node {
    /// Adds `column`, named `whole`, of which `path` is the rest that leads on from here.
    fn add(&mut self, whole: &str, path: &str, column: Self) -> Result<(), String> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        if whole.is_empty() {
            return Err("it has no name: give the names of all columns as fields".to_owned());
        }
        if name.is_empty() {
            return Err(format!("expected the name of a field, found {whole:?}"));
        }
        let Self::Map(children) = self else {
            return Err(format!("{whole:?} is inside of a field that is a column itself"));
        };
        let quoted = member(name);
        let known = children.iter().position(|(known, _)| *known == quoted);
        match (known, rest) {
            (None, None) => children.push((quoted, column)),
            (None, Some(rest)) => {
                let mut child = Self::Map(Vec::new());
                child.add(whole, rest, column)?;
                children.push((quoted, child));
            }
            (Some(at), Some(rest)) => children[at].1.add(whole, rest, column)?,
            (Some(at), None) if matches!(children[at].1, Self::Map(_)) => {
                return Err(format!("{whole:?} is a column, and others are inside of it"));
            }
            (Some(_), None) => return Err(format!("the name {whole:?} is there twice")),
        }
        Ok(())
    }
}

impl RecordParser {
    pub(crate) fn new(format: &TableFormat) -> Self {
        let (text, ends) = (Vec::new(), Vec::new());
        let (starts, quoted) = (Vec::new(), Vec::new());
        Self { reader: format.reader(), text, ends, fields: 0, starts, quoted }
    }

    /// Splits a record, which is UTF-8, into its fields.
    fn parse(&mut self, record: &[u8]) {
        self.reader.reset();
        self.quoted.clear();
        self.quoted.extend(self.starts.iter().map(|at| record.get(*at) == Some(&b'"')));
        // Fields are never longer than their text. Two bytes more: neither buffer is ever full.
        let len = record.len() + 2;
        self.text.resize(self.text.len().max(len), 0);
        self.ends.resize(self.ends.len().max(len), 0);
        let (mut read, mut fields, mut rest) = (0, 0, record);
        // The reader would drop a mark from each record, as if it began a file.
        let mut has_mark = record.starts_with(BYTE_ORDER_MARK);
        loop {
            let part = if std::mem::take(&mut has_mark) { &rest[..1] } else { rest };
            let (result, taken, written, ended) =
                self.reader.read_record(part, &mut self.text[read..], &mut self.ends[fields..]);
            (read, fields) = (read + written, fields + ended);
            let is_end = rest.is_empty();
            rest = &rest[taken..];
            if is_end || matches!(result, csv_core::ReadRecordResult::Record) {
                break;
            }
        }
        self.fields = fields;
    }

    /// Returns whether a field was in quotes.
    fn is_quoted(&self, number: usize) -> bool {
        self.quoted.get(number).copied().unwrap_or(false)
    }

    /// Returns a field of the record.
    fn field(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let text = self.text.get(start..self.ends[number]).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// The name of a first column that has none.
const INDEX: &str = "index";

/// Returns whether `field` is a number by the grammar of JSON.
fn is_number(field: &str) -> bool {
    let first = field.as_bytes().first();
    first.is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit())
        && Number::parse(field).is_some()
}

/// Returns a name as JSON, a colon after it.
fn member(name: &str) -> String {
    let mut quoted = Vec::new();
    append_text(name, &mut quoted);
    quoted.push(b':');
    String::from_utf8(quoted).unwrap_or_default()
}

/// Appends `text` as JSON.
fn append_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[high], DIGITS[low]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(format: &TableFormat, header: &str, record: &str) -> Result<String, String> {
        let table = Table::with_header(format, header.as_bytes())?;
        let (mut parser, mut out) = (RecordParser::new(format), Vec::new());
        let done = table.append_json(&mut parser, record.as_bytes(), &mut out);
        done.map_err(|bad| bad.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn numbers_of_json_are_numbers_and_all_else_is_text() {
        let csv = TableFormat::csv();
        for (field, expected) in [
            ("1", "1"),
            ("-0", "-0"),
            ("1.10", "1.10"),
            ("1e400", "1e400"),
            ("18446744073709551617", "18446744073709551617"),
            ("\"12\"", "\"12\""),
            ("\"007\"", "\"007\""),
            ("007", "\"007\""),
            ("+1", "\"+1\""),
            (" 1", "\" 1\""),
            ("1.", "\"1.\""),
            ("NaN", "\"NaN\""),
            ("0x10", "\"0x10\""),
            ("true", "\"true\""),
            ("null", "\"null\""),
            ("", "\"\""),
        ] {
            let expected = format!("{{\"a\":{expected},\"b\":\"x\"}}");
            assert_eq!(json(&csv, "a,b", &format!("{field},x")), Ok(expected), "{field}");
        }
        let text = TableFormat { is_text: true, ..TableFormat::csv() };
        assert_eq!(json(&text, "a", "12"), Ok("{\"a\":\"12\"}".into()));
    }

    #[test]
    fn quotes_protect_delimiters_line_ends_and_quotes() {
        let csv = TableFormat::csv();
        assert_eq!(
            json(&csv, "a,\"b,c\"", "\"x,\r\n\"\"y\"\"\",\"\u{e9}\t\\\"\r\n"),
            Ok("{\"a\":\"x,\\u000d\\u000a\\\"y\\\"\",\"b,c\":\"\u{e9}\\u0009\\\\\"}".into())
        );
        assert_eq!(
            json(&csv, "a,b", "5\" x 7\",\"\"\r\n"),
            Ok("{\"a\":\"5\\\" x 7\\\"\",\"b\":\"\"}".into()),
            "a quote inside of a field that does not begin with one"
        );
        let tsv = TableFormat::tsv();
        assert_eq!(
            json(&tsv, "a\tb", "\"x\t1"),
            Ok("{\"a\":\"\\\"x\",\"b\":1}".into()),
            "no quotes in TSV"
        );
    }

    /// A mark that began a record was dropped, not only one that began the file: the text lost a
    /// character, became a number, or was the key of another document.
    #[test]
    fn a_byte_order_mark_in_a_record_is_text() {
        for (format, header, tail) in
            [(TableFormat::csv(), "a,b", ",2"), (TableFormat::tsv(), "a\tb", "\t2")]
        {
            for field in ["\u{feff}1", "\u{feff}k", "\u{feff}", "\u{feff}\u{feff}x", "x\u{feff}"] {
                let expected = format!("{{\"a\":\"{field}\",\"b\":2}}");
                assert_eq!(json(&format, header, &format!("{field}{tail}")), Ok(expected));
            }
        }
        let quoted = json(&TableFormat::csv(), "a,b", "\"\u{feff}1\",2");
        assert_eq!(quoted, Ok("{\"a\":\"\u{feff}1\",\"b\":2}".to_owned()));
    }

    #[test]
    fn dots_in_names_lead_into_maps_wherever_their_columns_are() {
        let csv = TableFormat::csv();
        let header = "id, by.name ,n,by.at.year";
        assert_eq!(
            json(&csv, header, "1,x,2,1999"),
            Ok("{\"id\":1,\"by\":{\"name\":\"x\",\"at\":{\"year\":1999}},\"n\":2}".into())
        );
        assert_eq!(json(&csv, header, "1"), Ok("{\"id\":1}".into()), "a short record");
        let blanks = TableFormat { ignores_blanks: true, ..TableFormat::csv() };
        assert_eq!(json(&blanks, header, ",,2,"), Ok("{\"n\":2}".into()));
        assert_eq!(json(&blanks, header, ",,,"), Ok("{}".into()));
        let quoted = json(&blanks, header, "1,\"\",,2");
        assert_eq!(quoted, Ok("{\"id\":1,\"by\":{\"name\":\"\",\"at\":{\"year\":2}}}".into()));
    }

    /// Quoted fields were numbers, too, and nothing but all text could help.
    #[test]
    fn columns_have_the_types_that_they_are_given() {
        let typed = |types: &[(&str, FieldType)]| {
            let types = types.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
            TableFormat { types, ..TableFormat::csv() }
        };
        let all = typed(&[
            ("zip", FieldType::Text),
            ("n", FieldType::Int),
            ("x.y", FieldType::Number),
            ("ok", FieldType::Bool),
            ("tags", FieldType::Json),
        ]);
        let header = "zip,n,x.y,ok,tags,rest";
        for (record, expected) in [
            (
                "12,\"007\",+1.50,Yes,\"[1, \"\"a\"\"]\",12",
                r#"{"zip":"12","n":7,"x":{"y":1.50},"ok":true,"tags":[1, "a"],"rest":12}"#,
            ),
            (",, ,,,", r#"{"zip":"","rest":""}"#),
            (
                "007,-0,1e9,F,null,x",
                r#"{"zip":"007","n":-0,"x":{"y":1e9},"ok":false,"tags":null,"rest":"x"}"#,
            ),
            (
                "a, 00 ,0.5,0,{},",
                r#"{"zip":"a","n":0,"x":{"y":0.5},"ok":false,"tags":{},"rest":""}"#,
            ),
            ("a,1,-.5,,,", r#"{"zip":"a","n":1,"x":{"y":-0.5},"rest":""}"#),
            ("a,1,00.5,,,", r#"{"zip":"a","n":1,"x":{"y":0.5},"rest":""}"#),
        ] {
            assert_eq!(json(&all, header, record), Ok(expected.to_owned()), "{record}");
        }
        for (record, reason) in [
            ("1,x,1,1,1", "column \"n\": expected a whole number, found \"x\""),
            ("1,1.0,1,1,1", "column \"n\": expected a whole number, found \"1.0\""),
            ("1,1,0x1,1,1", "column \"x.y\": expected a number, found \"0x1\""),
            ("1,1,1,2,1", "column \"ok\": expected true or false, found \"2\""),
            ("1,1,1,1,[", "column \"tags\": expected a JSON value, found \"[\""),
        ] {
            assert_eq!(json(&all, header, record), Err(reason.to_owned()));
        }
        let twice = json(&typed(&[("a", FieldType::Int), ("a", FieldType::Text)]), "a", "1");
        assert_eq!(twice.unwrap_err(), "the column \"a\" has two types: expected one");
        let missing = json(&typed(&[("b", FieldType::Int)]), "a,c", "1,2").unwrap_err();
        assert_eq!(missing, "there is no column \"b\" to have a type: found a, c");
        let places = Table::with_header(&all, header.as_bytes()).unwrap();
        let (mut parser, mut out) = (RecordParser::new(&all), Vec::new());
        let bad = places.append_json(&mut parser, b"\"a,b\",1,1,7,1", &mut out).unwrap_err();
        assert_eq!(bad.at, 10);
        assert_eq!(FieldType::parse("int"), Some(FieldType::Int));
        assert_eq!(FieldType::parse("date"), None);
    }

    /// The message of a load that cannot be continued showed the struct.
    #[test]
    fn a_format_is_shown_by_the_options_that_make_it() {
        assert_eq!(TableFormat::csv().to_string(), "CSV");
        assert_eq!(TableFormat::tsv().to_string(), "TSV");
        let tabs = TableFormat { delimiter: b'\t', is_text: true, ..TableFormat::csv() };
        assert_eq!(tabs.to_string(), "CSV --delimiter '\\t' --all-text");
        let types = vec![("zip".to_owned(), FieldType::Text), ("n".to_owned(), FieldType::Int)];
        let fields = Some(vec!["zip".to_owned(), "n".to_owned()]);
        let typed = TableFormat { types, fields, ignores_blanks: true, ..TableFormat::tsv() };
        assert_eq!(typed.to_string(), "TSV --fields zip,n --types zip=text,n=int --ignore-blanks");
    }

    /// Each record was refused instead, or copied to the file of bad lines.
    #[test]
    fn a_table_has_a_column_for_the_key() {
        let types = vec![("j".to_owned(), FieldType::Json)];
        let format = TableFormat { types, ..TableFormat::csv() };
        let table = Table::with_header(&format, b"id,a.b,j").unwrap();
        for path in ["id", "a.b", "a", "j", "j.x.y"] {
            assert_eq!(table.check_key(path), Ok(()), "{path}");
        }
        for path in ["x", "id.x", "a.c", "a.b.c", "Id"] {
            let refused = table.check_key(path).unwrap_err();
            assert!(refused.ends_with("take the key from: found id, a.b, j"), "{refused}");
        }
        let one = Table::with_header(&TableFormat::csv(), b"id;n").unwrap();
        assert!(one.check_key("id").unwrap_err().ends_with("the delimiter is another one"));
    }

    #[test]
    fn a_first_column_without_a_name_is_the_index_of_pandas() {
        let csv = TableFormat::csv();
        assert_eq!(json(&csv, ",a", "0,x"), Ok("{\"index\":0,\"a\":\"x\"}".into()));
        let semicolons = TableFormat { delimiter: b';', ..TableFormat::csv() };
        assert_eq!(json(&semicolons, "a;b", "1,5;2"), Ok("{\"a\":\"1,5\",\"b\":2}".into()));
    }

    #[test]
    fn bad_headers_and_records_are_refused_with_a_reason() {
        let csv = TableFormat::csv();
        for (header, record, reason) in [
            ("a,b", "1,2,3", "expected at most 2 fields, found 3"),
            ("a,,b", "", "column 2: it has no name: give the names of all columns as fields"),
            (",a,index", "", "column 3: the name \"index\" is there twice"),
            ("a.,b", "", "column 1: expected the name of a field, found \"a.\""),
            ("a,b,a", "", "column 3: the name \"a\" is there twice"),
            ("a,a.b", "", "column 2: \"a.b\" is inside of a field that is a column itself"),
            ("a,b", "1,\"2\n", "a quote is not closed"),
            ("a,b", "\"1\",\"2\"\"", "a quote is not closed"),
            ("a,\"b", "", "a quote is not closed"),
            ("a.b,a", "", "column 2: \"a\" is a column, and others are inside of it"),
        ] {
            assert_eq!(json(&csv, header, record), Err(reason.into()), "{header}");
        }
        for record in ["\"x\"y,1", "1,\"x\" ", "1,\"x\" \"y\"", "\"a\"\"\"b,1"] {
            let refused = json(&csv, "a,b", record).unwrap_err();
            assert!(refused.starts_with("text after a closing quote"), "{record}: {refused}");
        }
        let table = Table::with_header(&csv, b"a,b").unwrap();
        let (mut parser, mut out) = (RecordParser::new(&csv), Vec::new());
        let bad = table.append_json(&mut parser, b"x,\xFF", &mut out).unwrap_err();
        assert_eq!((bad.at, out.len()), (2, 0));
    }
}
