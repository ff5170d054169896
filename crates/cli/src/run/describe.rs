//! `describe`: the fields of a collection, their types, the share of documents that have them, and
//! examples.

use super::lookup;
use super::source::{self, How, Range};
use crate::args::DescribeArgs;
use crate::failure::Failure;
use crate::grid;
use crate::interrupt;
use crate::output::{Output, note};
use crate::units::{counted, grouped};
use flagstone::doc::{FieldPath, ValueType};
use flagstone::{Document, Value};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Maps with keys of data, such as ids, have no end of fields: this many are described.
const FIELDS: usize = 2000;
/// Examples of a field.
const EXAMPLES: usize = 3;
/// The most characters of an example.
const CHARACTERS: usize = 32;

pub(super) fn run(args: &DescribeArgs) -> Result<(), Failure> {
    let source = source::open(&args.collection.database, How::Read, args.memory)?;
    let documents_of = lookup::collection(&*source, &args.collection)?;
    let mut described = Described::default();
    let about = documents_of.about()?;
    let is_all = args.all || about <= args.sample;
    if is_all {
        described.add_all(documents_of.scan(&Range::all())?, None)?;
    } else {
        let half = |documents: u64, range: Range<'_>| {
            let limit = Some(usize::try_from(documents).unwrap_or(usize::MAX));
            documents_of.scan(&Range { limit, ..range })
        };
        let first = described.add_all(half(args.sample.div_ceil(2), Range::all())?, None)?;
        let reversed = Range { reverse: true, ..Range::all() };
        described.add_all(half(args.sample / 2, reversed)?, first.as_ref())?;
    }
    let documents = described.documents;
    let size = if is_all {
        format!("all {}", counted(documents, "document"))
    } else {
        format!(
            "a sample of {}, half the first and half the last of about {}",
            counted(documents, "document"),
            grouped(about)
        )
    };
    let mut output = Output::new();
    if args.json {
        for (path, field) in &described.fields {
            output.line(&field.to_json(path, documents).to_string())?;
        }
        output.flush()?;
    } else {
        described.draw().iter().try_for_each(|line| output.line(line))?;
        output.flush()?;
    }
    note(&format!("{}: {size}", documents_of.name()));
    if described.left_out {
        note(&format!(
            "only the first {} fields that were found are shown",
            grouped(FIELDS as u64)
        ));
    }
    Ok(())
}

/// What is known of a collection.
#[derive(Default)]
struct Described {
    documents: u64,
    /// The fields by path, in the order in which they were found.
    fields: Vec<(String, Field)>,
    places: BTreeMap<String, usize>,
    left_out: bool,
}

/// What is known of a field.
#[derive(Default)]
struct Field {
    /// The number of documents that have it.
    documents: u64,
    /// The number of the last document that had it, from 1.
    last: u64,
    types: BTreeMap<ValueType, u64>,
    examples: Vec<String>,
}

impl Described {
    /// Adds documents, up to the one of the key `end`. Returns the last key.
    fn add_all(
        &mut self,
        documents: impl Iterator<Item = Result<(Value, Document), Failure>>,
        end: Option<&Value>,
    ) -> Result<Option<Value>, Failure> {
        let mut last = None;
        for entry in documents {
            interrupt::check()?;
            let (key, document) = entry?;
            if end == Some(&key) {
                break;
            }
            self.add(&key, document.root().to_value().map_err(Failure::from))?;
            last = Some(key);
        }
        Ok(last)
    }

    fn add(&mut self, key: &Value, document: Result<Value, Failure>) -> Result<(), Failure> {
        let document = document.map_err(|failure| failure.of_document(key))?;
        self.documents += 1;
        match &document {
            Value::Map(_) => self.add_fields(&document, &ValuePlace::default()),
            other => self.add_value("(the document)".to_owned(), other),
        }
        Ok(())
    }

    fn add_fields(&mut self, value: &Value, above: &ValuePlace<'_>) {
        match value {
            Value::Map(map) => {
                for (name, value) in map.iter() {
                    // A key that is no text is shown as it is.
                    let text = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
                    let place = ValuePlace { name: Some(&text), above: Some(above) };
                    self.add_value(place.path(), value);
                    self.add_fields(value, &place);
                }
            }
            Value::Array(items) => {
                let place = ValuePlace { name: None, above: Some(above) };
                for item in items {
                    self.add_value(place.path(), item);
                    self.add_fields(item, &place);
                }
            }
            _ => {}
        }
    }

    fn add_value(&mut self, path: String, value: &Value) {
        let place = match self.places.get(&path) {
            Some(place) => *place,
            None if self.fields.len() == FIELDS => {
                self.left_out = true;
                return;
            }
            None => {
                self.places.insert(path.clone(), self.fields.len());
                self.fields.push((path, Field::default()));
                self.fields.len() - 1
            }
        };
        let documents = self.documents;
        let field = &mut self.fields[place].1;
        field.documents += u64::from(field.last != documents);
        field.last = documents;
        *field.types.entry(type_of(value)).or_default() += 1;
        // A null shows nothing that the types do not say.
        let is_shown = !matches!(value, Value::Map(_) | Value::Array(_) | Value::Null);
        if field.examples.len() < EXAMPLES && is_shown {
            let example = example(value);
            if !field.examples.contains(&example) {
                field.examples.push(example);
            }
        }
    }

    fn draw(&self) -> Vec<String> {
        let documents = self.documents;
        let rows = self.fields.iter().map(|(path, field)| {
            let path = path.replace(char::is_control, " ");
            [path, field.share(documents), field.types(), field.examples.join(", ")]
        });
        let head = ["field", "documents", "types", "examples"].map(str::to_owned);
        let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
        grid::aligned(&rows, &[1])
    }
}

impl Field {
    /// The share of documents that have the field. One that few lack is not shown as all.
    fn share(&self, documents: u64) -> String {
        let percent = self.documents as f64 * 100.0 / documents.max(1) as f64;
        match percent {
            _ if self.documents == documents => "100 %".to_owned(),
            _ if percent > 99.9 => "> 99.9 %".to_owned(),
            _ if percent < 0.1 => "< 0.1 %".to_owned(),
            _ => format!("{percent:.1} %"),
        }
    }

    /// The types, the most frequent one first, with their shares if there are several.
    fn types(&self) -> String {
        let all: u64 = self.types.values().sum();
        let mut types: Vec<_> = self.types.iter().collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let is_one = types.len() == 1;
        let shown = types.into_iter().map(|(of, count)| {
            if is_one {
                of.to_string()
            } else {
                format!("{of} {:.1} %", *count as f64 * 100.0 / all as f64)
            }
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn to_json(&self, path: &str, documents: u64) -> Json {
        let types: serde_json::Map<String, Json> =
            self.types.iter().map(|(of, count)| (of.to_string(), (*count).into())).collect();
        json!({
            "field": path,
            "documents": self.documents,
            "share": self.documents as f64 / documents.max(1) as f64,
            "types": types,
            "examples": self.examples,
        })
    }
}

/// Where a value is: the names above it, from the last to the first. An element of an array has
/// none.
#[derive(Default)]
struct ValuePlace<'a> {
    name: Option<&'a str>,
    above: Option<&'a ValuePlace<'a>>,
}

impl ValuePlace<'_> {
    /// Returns the path as commands take it, with `[]` for elements of arrays.
    fn path(&self) -> String {
        let Some(above) = self.above else { return String::new() };
        let before = above.path();
        match self.name {
            None => format!("{before}[]"),
            Some(name) => {
                // The text of a path with this name alone: quoted if it has to be.
                let path = FieldPath::of_names([name]).to_string();
                match (path.strip_prefix('$'), before.is_empty()) {
                    (_, true) => path,
                    (Some(quoted), false) => format!("{before}{quoted}"),
                    (None, false) => format!("{before}.{path}"),
                }
            }
        }
    }
}

fn type_of(value: &Value) -> ValueType {
    match value {
        Value::Null => ValueType::Null,
        Value::Bool(_) => ValueType::Bool,
        Value::Int(_) | Value::Number(_) | Value::Float(_) => ValueType::Number,
        Value::Text(_) => ValueType::Text,
        Value::Bytes(_) => ValueType::Bytes,
        Value::ObjectId(_) => ValueType::ObjectId,
        Value::DateTime(_) => ValueType::DateTime,
        Value::Uuid(_) => ValueType::Uuid,
        Value::Array(_) => ValueType::Array,
        Value::Map(_) => ValueType::Map,
    }
}

/// Returns a value as text for people, cut to a few characters.
fn example(value: &Value) -> String {
    let text = value.to_string().replace(|c: char| c.is_control(), " ");
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_quotes_where_its_names_need_them() {
        let root = ValuePlace::default();
        let path = |names: &[Option<&str>]| {
            fn at(above: &ValuePlace<'_>, names: &[Option<&str>]) -> String {
                let Some((name, rest)) = names.split_first() else { return above.path() };
                at(&ValuePlace { name: *name, above: Some(above) }, rest)
            }
            at(&root, names)
        };
        assert_eq!(path(&[Some("a"), Some("b")]), "a.b");
        assert_eq!(path(&[Some("a"), None, Some("b")]), "a[].b");
        assert_eq!(path(&[Some("a.b")]), "$['a.b']");
        assert_eq!(path(&[Some("a"), Some("b.c")]), "a['b.c']");
    }

    #[test]
    fn a_share_near_all_is_not_all() {
        let field = |documents| Field { documents, ..Field::default() };
        assert_eq!(field(10_000).share(10_000), "100 %");
        assert_eq!(field(9_999).share(10_000), "> 99.9 %");
        assert_eq!(field(1).share(10_000), "< 0.1 %");
        assert_eq!(field(1).share(3), "33.3 %");
    }
}
