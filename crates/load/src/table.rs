//! Records of a table, CSV or TSV, as JSON documents.

use flagstone::Number;
use std::fmt;

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
    /// Whether every field stays text. Otherwise a field that is a number in JSON is a number.
    pub is_text: bool,
    /// Whether empty fields are left out of documents. Otherwise they are empty texts.
    pub ignores_blanks: bool,
}

impl TableFormat {
    /// Comma-separated values (RFC 4180): quotes, numbers recognized, names in the first record.
    pub const fn csv() -> Self {
        Self::separated(b',', true)
    }

    /// Tab-separated values: as [`TableFormat::csv`], with tabs and without quotes.
    pub const fn tsv() -> Self {
        Self::separated(b'\t', false)
    }

    const fn separated(delimiter: u8, has_quotes: bool) -> Self {
        Self { delimiter, has_quotes, fields: None, is_text: false, ignores_blanks: false }
    }

    /// Refuses a record with a quote that is not closed, or with text after a closing quote: the
    /// parser would take the rest of the file for a field, or drop the quotes. A quote inside of a
    /// field that does not begin with one is text.
    fn check_quotes(&self, record: &[u8]) -> Result<(), BadRecord> {
        let mut at = 0;
        while self.has_quotes && at < record.len() {
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

/// The columns of a table, and where their fields are in the documents.
#[derive(Debug)]
pub(crate) struct Table {
    format: TableFormat,
    columns: usize,
    root: Node,
}

/// A part of the documents.
#[derive(Debug)]
enum Node {
    /// The field of this column.
    Column(usize),
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
            root.add(name, name, column).map_err(|why| format!("column {}: {why}", column + 1))?;
        }
        Ok(Self { format: format.clone(), columns: names.len(), root })
    }

    /// Returns the table whose names of columns are the fields of `record`.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub(crate) fn with_header(format: &TableFormat, record: &[u8]) -> Result<Self, String> {
        let record = std::str::from_utf8(record)
            .map_err(|_not_utf8| "expected names of fields in UTF-8".to_owned())?;
        format.check_quotes(record.as_bytes()).map_err(|bad| bad.reason)?;
        let mut parser = RecordParser::new(format);
        parser.parse(record.as_bytes());
        let names: Vec<String> =
            (0..parser.fields).map(|n| parser.field(n).trim().to_owned()).collect();
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
        self.format.check_quotes(record)?;
        parser.parse(record);
        let found = parser.fields;
        if found > self.columns {
            let expected = self.columns;
            let reason = format!("expected at most {expected} fields, found {found}");
            return Err(BadRecord { at: 0, reason });
        }
        if !self.append(&self.root, parser, out) {
            out.extend_from_slice(b"{}");
        }
        Ok(())
    }

    /// Appends a part of the document. Returns false if nothing is there: then nothing is appended.
    fn append(&self, node: &Node, record: &RecordParser, out: &mut Vec<u8>) -> bool {
        match node {
            Node::Column(column) => {
                if *column >= record.fields {
                    return false;
                }
                let field = record.field(*column);
                if field.is_empty() && self.format.ignores_blanks {
                    return false;
                }
                if self.format.is_text || !is_number(field) {
                    append_text(field, out);
                } else {
                    out.extend_from_slice(field.as_bytes());
                }
                true
            }
            Node::Map(children) => {
                let start = out.len();
                for (name, child) in children {
                    let before = out.len();
                    out.push(if before == start { b'{' } else { b',' });
                    out.extend_from_slice(name.as_bytes());
                    if !self.append(child, record, out) {
                        out.truncate(before);
                    }
                }
                if out.len() == start {
                    return false;
                }
                out.push(b'}');
                true
            }
        }
    }
}

impl Node {
    /// Adds the column `whole`, of which `path` is the rest that leads on from here.
    fn add(&mut self, whole: &str, path: &str, column: usize) -> Result<(), String> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        if name.is_empty() {
            return Err(format!("expected the name of a field, found {whole:?}"));
        }
        let Self::Map(children) = self else {
            return Err(format!("{whole:?} is inside of a field that is a column itself"));
        };
        let mut quoted = Vec::new();
        append_text(name, &mut quoted);
        quoted.push(b':');
        let quoted = String::from_utf8(quoted).unwrap_or_default();
        let known = children.iter().position(|(known, _)| *known == quoted);
        match (known, rest) {
            (None, None) => children.push((quoted, Self::Column(column))),
            (None, Some(rest)) => {
                let mut child = Self::Map(Vec::new());
                child.add(whole, rest, column)?;
                children.push((quoted, child));
            }
            (Some(at), Some(rest)) => children[at].1.add(whole, rest, column)?,
            (Some(_), None) => return Err(format!("the name {whole:?} is there twice")),
        }
        Ok(())
    }
}

impl RecordParser {
    pub(crate) fn new(format: &TableFormat) -> Self {
        Self { reader: format.reader(), text: Vec::new(), ends: Vec::new(), fields: 0 }
    }

    /// Splits a record, which is UTF-8, into its fields.
    fn parse(&mut self, record: &[u8]) {
        self.reader.reset();
        // Fields are never longer than their text. Two bytes more: neither buffer is ever full.
        let len = record.len() + 2;
        self.text.resize(self.text.len().max(len), 0);
        self.ends.resize(self.ends.len().max(len), 0);
        let (mut read, mut fields, mut rest) = (0, 0, record);
        loop {
            let (result, taken, written, ended) =
                self.reader.read_record(rest, &mut self.text[read..], &mut self.ends[fields..]);
            (read, fields) = (read + written, fields + ended);
            let is_end = rest.is_empty();
            rest = &rest[taken..];
            if is_end || matches!(result, csv_core::ReadRecordResult::Record) {
                break;
            }
        }
        self.fields = fields;
    }

    /// Returns a field of the record.
    fn field(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        let text = self.text.get(start..self.ends[number]).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// Returns whether `field` is a number by the grammar of JSON.
fn is_number(field: &str) -> bool {
    let first = field.as_bytes().first();
    first.is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit())
        && Number::parse(field).is_some()
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
            ("\"12\"", "12"),
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
    }

    #[test]
    fn bad_headers_and_records_are_refused_with_a_reason() {
        let csv = TableFormat::csv();
        for (header, record, reason) in [
            ("a,b", "1,2,3", "expected at most 2 fields, found 3"),
            ("a,,b", "", "column 2: expected the name of a field, found \"\""),
            ("a.,b", "", "column 1: expected the name of a field, found \"a.\""),
            ("a,b,a", "", "column 3: the name \"a\" is there twice"),
            ("a,a.b", "", "column 2: \"a.b\" is inside of a field that is a column itself"),
            ("a,b", "1,\"2\n", "a quote is not closed"),
            ("a,b", "\"1\",\"2\"\"", "a quote is not closed"),
            ("a,\"b", "", "a quote is not closed"),
            ("a.b,a", "", "column 2: the name \"a\" is there twice"),
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
