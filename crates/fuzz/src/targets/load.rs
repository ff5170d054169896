//! Files that are loaded: JSON and tables, plain or compressed. The result does not depend on the
//! number of threads, and a table of text is what a plain reader finds in it.

use super::note;
use flagstone::doc::Map;
use flagstone::{Collection, Database, Options, Space, Value};
use flagstone_load::{BadDocuments, FieldType, Format, Input, Key, Plan, TableFormat, Unwatched};
use flagstone_testkit::world::World;
use std::fs;
use std::sync::OnceLock;
use tempfile::TempDir;

struct Place {
    _world: World,
    database: Database,
    folder: TempDir,
}

/// What a load leaves behind.
#[derive(Debug, PartialEq)]
struct Loaded {
    documents: Vec<Value>,
    /// The file of bad documents.
    bad: Vec<u8>,
    failure: Option<String>,
}

/// The bits of the first byte, which says how a file is read.
const IS_TABLE: u8 = 1;
const HAS_QUOTES: u8 = 2;
const HAS_NUMBERS: u8 = 4;
const HAS_TYPES: u8 = 8;
const IGNORES_BLANKS: u8 = 16;
/// The names of the columns of a table with types.
const COLUMNS: [(&str, FieldType); 5] = [
    ("id", FieldType::Int),
    ("a.b", FieldType::Number),
    ("flag", FieldType::Bool),
    ("j", FieldType::Json),
    ("t", FieldType::Text),
];
/// Compressed, a few bytes may be a gigabyte of text. These are some megabytes at most.
const PACKED_MAX: usize = 400;

fn place() -> &'static Place {
    static PLACE: OnceLock<Place> = OnceLock::new();
    PLACE.get_or_init(|| {
        let world = World::new(5);
        let builder = Database::builder(World::dir()).environment(world.environment_with_threads());
        let options = Options::new().memory_budget(8 << 20).compaction_workers(1);
        let database = builder.options(options).open().unwrap();
        Place { _world: world, database, folder: tempfile::tempdir().unwrap() }
    })
}

/// Reads a byte that says how the file is read, the byte between fields, and the file.
pub(super) fn body(bytes: &[u8]) {
    let Some(([how, delimiter], text)) = bytes.split_first_chunk::<2>() else { return };
    let is_packed = [&[0x28, 0xB5][..], b"\x1F\x8B"].iter().any(|head| text.starts_with(head))
        || text.get(1..4) == Some(b"\x2A\x4D\x18");
    let text = if is_packed { &text[..text.len().min(PACKED_MAX)] } else { text };
    let format = format_of(*how, *delimiter);
    let path = place().folder.path().join("file");
    fs::write(&path, text).unwrap();
    let one = load(&format, (1, 1, 1));
    let many = load(&format, (2, 3, 2));
    assert_eq!(one, many, "one thread and many");
    let (failure, documents) = (one.failure.as_deref(), one.documents.len());
    let failure = failure.map(|text| text.rsplit(path.to_str().unwrap()).next().unwrap_or(text));
    let about = failure.or_else(|| str::from_utf8(&one.bad).ok()?.split_once(": ")?.1.get(..20));
    note(format_args!("{} {}", about.unwrap_or("all"), "d".repeat(documents.min(4))));
    if let Format::Table(table) = format
        && table.is_text
        && one.bad.is_empty()
        && !is_packed
        && failure.is_none()
        && let Some(expected) = plain_reading(&table, text)
    {
        assert_eq!(one.documents, expected);
    }
}

fn format_of(how: u8, delimiter: u8) -> Format {
    if how & IS_TABLE == 0 {
        return Format::Json;
    }
    let mut table = TableFormat::csv();
    // What the tool and Python take.
    table.delimiter =
        if delimiter.is_ascii() && !b"\"\r\n".contains(&delimiter) { delimiter } else { b',' };
    table.has_quotes = how & HAS_QUOTES != 0;
    table.is_text = how & HAS_NUMBERS == 0;
    table.ignores_blanks = how & IGNORES_BLANKS != 0;
    if how & HAS_TYPES != 0 {
        table.is_text = false;
        table.fields = Some(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect());
        table.types = COLUMNS.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    }
    Format::Table(table)
}

/// Loads the file with keys in the order of its documents.
fn load(format: &Format, (readers, parsers, writers): (u16, u16, u16)) -> Loaded {
    let Place { database, folder, .. } = place();
    let (path, bad) = (folder.path().join("file"), folder.path().join("bad"));
    let input = match Input::open_as(&path, format.clone()) {
        Ok(input) => input,
        Err(error) => return Loaded::refused(&error.to_string()),
    };
    let collection = database.collection("documents").unwrap();
    let plan = Plan {
        key: Key::Auto,
        bad: BadDocuments::copy_to(&bad, &[]).unwrap(),
        readers,
        parsers,
        writers,
        ..Plan::new(database, &collection, vec![input.window_log(20)])
    };
    let outcome = plan.run(&mut Unwatched).unwrap_or_else(|error| panic!("{error}"));
    let documents = all(&collection);
    let copies = fs::read(&bad).unwrap();
    assert_eq!(documents.len() as u64, outcome.count.documents, "acknowledged documents are there");
    assert_eq!(copies.is_empty(), outcome.count.bad == 0, "bad documents are copied");
    collection.clear().unwrap();
    Loaded { documents, bad: copies, failure: outcome.failure.map(|error| error.to_string()) }
}

fn all(collection: &Collection) -> Vec<Value> {
    collection.scan(..).map(|entry| entry.unwrap().1.to_value()).collect()
}

impl Loaded {
    fn refused(why: &str) -> Self {
        Self { documents: Vec::new(), bad: Vec::new(), failure: Some(why.to_owned()) }
    }
}

/// Returns the documents of a table whose fields are all text, as RFC 4180 has them. `None` if its
/// names are not those of fields side by side.
fn plain_reading(table: &TableFormat, text: &[u8]) -> Option<Vec<Value>> {
    let text = str::from_utf8(text).ok()?;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (record, after) = record_of(rest, char::from(table.delimiter), table.has_quotes);
        // A line without any character is none.
        if !rest.starts_with(['\r', '\n']) {
            records.push(record);
        }
        rest = after;
    }
    let mut records = records.into_iter();
    let names = records.next()?;
    if names.iter().any(|name| name.contains('.') || name.trim() != name) {
        return None;
    }
    let is_index = names[0].is_empty();
    let documents = records.map(|record| {
        let fields = names.iter().zip(record).enumerate();
        let kept = fields.filter(|(_, (_, field))| !(table.ignores_blanks && field.is_empty()));
        let mut map = Map::new();
        for (column, (name, field)) in kept {
            let name = if column == 0 && is_index { "index" } else { name };
            map.insert(name, field);
        }
        Value::Map(map)
    });
    Some(documents.collect())
}

/// Returns the fields of the first record of `text`, and what follows its end.
fn record_of(text: &str, delimiter: char, has_quotes: bool) -> (Vec<String>, &str) {
    let (mut fields, mut rest) = (Vec::new(), text);
    loop {
        let mut field = String::new();
        if has_quotes && rest.starts_with('"') {
            // Two quotes inside of quotes stand for one.
            while let Some(quoted) = rest.strip_prefix('"') {
                let (part, after) = quoted.split_once('"').unwrap_or((quoted, ""));
                field.push_str(part);
                rest = after;
                if rest.starts_with('"') {
                    field.push('"');
                }
            }
        }
        let end = rest.find([delimiter, '\r', '\n']).unwrap_or(rest.len());
        field.push_str(&rest[..end]);
        fields.push(field);
        rest = &rest[end..];
        match rest.strip_prefix(delimiter) {
            Some(next) => rest = next,
            None => {
                rest = rest.strip_prefix('\r').unwrap_or(rest);
                return (fields, rest.strip_prefix('\n').unwrap_or(rest));
            }
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let json = b"{\"id\":1,\"t\":\"a b\"}\n{\"id\":[2,{}]}\n\n{\"id\":1}\n";
    let array = b"[{\"id\":1},\n {\"id\":2} , 3]";
    let table = b"id,name,\"x\"\"y\"\r\n1,\"a, b\",\n\n2,\"c\nd\"\r\n3,\xC3\xA9,\"\",\n";
    let typed = b"7,1.50,yes,\"[1,{}]\",007\n-0,,f,,\"x\"\n+5,1e3,N,null,";
    // Compressed, but as it is: a frame with its length, and one block.
    let packed = |text: &[u8]| {
        let len = text.len() as u8;
        let head = [0x28, 0xB5, 0x2F, 0xFD, 0x20, len, len << 3 | 1, len >> 5, 0];
        [&head, text].concat()
    };
    let skipped = [b"\x52\x2A\x4D\x18\x02\0\0\0ab".as_slice(), &packed(json)].concat();
    // The same in gzip, with its checksum, and zeros after it.
    let gzip = b"\x1F\x8B\x08\0\0\0\0\0\0\x03\x01\x03\0\xFC\xFF{}\n\x06\xB0\xA1\xDD\x03\0\0\0\0\0";
    let of = |how: u8, delimiter: u8, text: &[u8]| [&[how, delimiter], text].concat();
    vec![
        of(0, 0, json),
        of(0, 0, array),
        of(0, 0, b"{\n\"id\":1\n}\n{\n\"id\":2\n}\n"),
        of(0, 0, &packed(json)),
        of(0, 0, &skipped),
        of(0, 0, &packed(array)),
        of(0, 0, gzip),
        of(IS_TABLE | HAS_QUOTES, b',', table),
        of(IS_TABLE, b'\t', b"id\tname\n1\ta\"b\n2\t\n"),
        of(IS_TABLE | HAS_QUOTES | HAS_NUMBERS, b';', b",n\n1;2.50\n-0;\"1\"\n"),
        of(IS_TABLE | HAS_QUOTES | HAS_TYPES, b',', typed),
        of(IS_TABLE | HAS_QUOTES | IGNORES_BLANKS, b',', &packed(table)),
        of(IS_TABLE | HAS_QUOTES | IGNORES_BLANKS, b',', b"\xEF\xBB\xBFa.b,a.c\n1,\n"),
    ]
}
