//! The note of an index in the catalog: JSON that says what the index holds, how far it is built,
//! and what its documents were like. docs/format/index.md describes it.

use super::definition::{Definition, Only};
use super::entries::Seen;
use super::field::IndexField;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_doc::{Arrays, Document, Filter, Value, View, doc};
use std::time::Duration;

/// The version of notes that this code writes.
const VERSION: i64 = 1;

/// What a note says besides the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// From this SeqNo on the index agrees with its documents; `None` while it is being built.
    pub(crate) usable_from: Option<SeqNo>,
    /// What was seen in the documents so far.
    pub(crate) seen: Seen,
    /// The part of the build that is done, if it was built in parts.
    pub(crate) built: Option<Built>,
}

/// The part of a build that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Built {
    /// The index has the entries of all documents whose stored keys are below this.
    pub(crate) below: Vec<u8>,
    /// The number of these documents when they were read.
    pub(crate) documents: u64,
    /// The number of their entries.
    pub(crate) entries: u64,
}

/// Returns the note of an index.
///
/// # Errors
/// InvalidInput if the filter of a partial index is too long for a document.
pub(crate) fn encode(definition: &Definition, status: &Status) -> Result<Vec<u8>> {
    let Definition { fields, is_unique, is_sparse, only, expires, label, .. } = definition;
    let texts: Value = fields.iter().map(|field| field.to_string()).collect();
    let mut note = doc!({ "index": VERSION, "fields": (texts) });
    let flags = [("unique", *is_unique), ("sparse", *is_sparse), ("cut", status.seen.cut)];
    for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
        note.set(name, true)?;
    }
    if let Some(only) = only {
        note.set("only", only.filter.to_string())?;
    }
    if let Some(time) = expires {
        note.set("expires_after", u64::try_from(time.as_millis()).unwrap_or(u64::MAX))?;
    }
    if let Some(label) = label {
        note.set("label", label.as_str())?;
    }
    let arrays = &status.seen.arrays[..fields.len()];
    if arrays.iter().any(|arrays| !arrays.is_none()) {
        note.set("arrays", arrays.iter().map(|arrays| arrays.bits()).collect::<Value>())?;
    }
    if let Some(Built { below, documents, entries }) = &status.built {
        let below = below.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let built = doc!({ "below": (below), "documents": (*documents), "entries": (*entries) });
        note.set("built", built)?;
    }
    if let Some(usable_from) = status.usable_from {
        note.set("usable_from", usable_from.get())?;
    }
    let document = Document::from_value(&note)?;
    Ok(document.to_json()?.into_bytes())
}

/// Reads the note of the index `name`.
///
/// # Errors
/// Unsupported for a note of another version, Corruption for one that is damaged.
pub(crate) fn decode(name: &str, note: &[u8]) -> Result<(Definition, Status)> {
    let damaged = |what: &str| {
        Error::new(ErrorKind::Corruption, format!("the note of index {name:?}: expected {what}"))
    };
    let document = Document::from_json(note).map_err(|error| damaged(&error.to_string()))?;
    let version = document.get("index").and_then(|view| view.as_i64());
    if version != Some(VERSION) {
        let text =
            format!("the note of index {name:?} has version {version:?}: expected {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let fields = fields_of(&document).map_err(|error| damaged(&format!("fields: {error}")))?;
    let flag = |name: &str| document.get(name).and_then(|view| view.as_bool()).unwrap_or(false);
    let number = |name: &str| document.get(name).and_then(|view| view.as_u64());
    let only = document.get("only").and_then(|view| view.as_str());
    let only = only.map(|text| Only::new(Filter::parse(text)?)).transpose();
    let definition = Definition {
        name: name.to_owned(),
        fields: fields.ok_or_else(|| damaged("a list of fields"))?,
        is_unique: flag("unique"),
        is_sparse: flag("sparse"),
        only: only.map_err(|error: Error| damaged(&format!("a filter: {error}")))?,
        expires: number("expires_after").map(Duration::from_millis),
        label: document.get("label").and_then(|view| view.as_str()).map(str::to_owned),
    };
    let definition = definition
        .checked()
        .map_err(|error| damaged(&format!("a definition that is allowed: {error}")))?;
    let mut seen = Seen { cut: flag("cut"), ..Seen::default() };
    for (at, arrays) in seen.arrays[..definition.fields.len()].iter_mut().enumerate() {
        *arrays = Arrays::from_bits(number(&format!("arrays.{at}")).unwrap_or(0));
    }
    let usable_from = number("usable_from").map(SeqNo::new);
    let below = document.get("built.below").and_then(|view| view.as_str());
    let built = below.map(|below| {
        let below = bytes_of(below).ok_or_else(|| damaged("a key in hexadecimal digits"))?;
        let [documents, entries] =
            ["documents", "entries"].map(|name| number(&format!("built.{name}")).unwrap_or(0));
        Ok::<_, Error>(Built { below, documents, entries })
    });
    Ok((definition, Status { usable_from, seen, built: built.transpose()? }))
}

/// Returns the bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        digits.chars().map(|c| Some(c.to_digit(16)? as u8)).collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| Some(pair[0] << 4 | pair.get(1)?));
    pairs.collect()
}

fn fields_of(document: &Document) -> Result<Option<Vec<IndexField>>> {
    let Some(fields) = document.get("fields").filter(View::is_array) else { return Ok(None) };
    let Ok(items) = fields.items() else { return Ok(None) };
    let mut found = Vec::new();
    for item in items {
        let text = item.ok().and_then(|item| item.as_str());
        let Some(text) = text else { return Ok(None) };
        found.push(IndexField::parse(text)?);
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;

    fn text(definition: &Definition, status: &Status) -> String {
        String::from_utf8(encode(definition, status).unwrap()).unwrap()
    }

    #[test]
    fn a_note_has_its_golden_text_and_comes_back() {
        let plain = Definition::new("a", &Index::on("$.subreddit").then("-$.score")).unwrap();
        let golden = r#"{"index":1,"fields":["subreddit","-score"]}"#;
        assert_eq!(text(&plain, &Status::default()), golden);
        let built = Built { below: vec![0x43, 0x0F], documents: 7, entries: 9 };
        let building = Status { built: Some(built), ..Status::default() };
        let golden = concat!(
            r#"{"index":1,"fields":["subreddit","-score"],"#,
            r#""built":{"below":"430f","documents":7,"entries":9}}"#
        );
        assert_eq!(text(&plain, &building), golden);
        let all = Index::on("lower($['a.b'])").then("-length(c)").unique().sparse();
        let all = Definition::new("a", &all.only(Filter::field("d").gt(1))).unwrap();
        let mut seen = Seen { cut: true, ..Seen::default() };
        seen.arrays[1] = Arrays::ANY;
        let status = Status { usable_from: Some(SeqNo::new(7)), seen, built: None };
        let golden = concat!(
            r#"{"index":1,"fields":["lower($['a.b'])","-length(c)"],"unique":true,"sparse":true,"#,
            r#""cut":true,"only":"{\"d\":{\"$gt\":1}}","arrays":[0,18446744073709551615],"#,
            r#""usable_from":7}"#
        );
        assert_eq!(text(&all, &status), golden);
        let expiring = Index::on("$.at").expire_after(Duration::from_secs(90));
        let expiring = Definition::new("a", &expiring).unwrap();
        let golden = r#"{"index":1,"fields":["at"],"expires_after":90000}"#;
        let expiring = text(&expiring, &Status::default());
        assert_eq!(expiring, golden);
        let labelled = Definition::new("a", &Index::on("a").label("x\"y")).unwrap();
        let golden = r#"{"index":1,"fields":["a"],"label":"x\"y"}"#;
        let labelled = text(&labelled, &Status::default());
        assert_eq!(labelled, golden);
        let plain = [text(&plain, &Status::default()), text(&plain, &building)];
        for note in plain.into_iter().chain([text(&all, &status), expiring, labelled]) {
            let (definition, status) = decode("a", note.as_bytes()).unwrap();
            assert_eq!(text(&definition, &status), note);
        }
    }

    #[test]
    fn a_note_that_is_damaged_or_newer_is_refused() {
        let kind = |note: &str| decode("a", note.as_bytes()).err().map(|error| error.kind());
        assert_eq!(kind(r#"{"index":2,"fields":["a"]}"#), Some(ErrorKind::Unsupported));
        assert_eq!(kind(r#"{"index":1"#), Some(ErrorKind::Corruption));
        assert_eq!(kind(r#"{"index":1}"#), Some(ErrorKind::Corruption));
        assert_eq!(kind(r#"{"index":1,"fields":["a"],"only":"{"}"#), Some(ErrorKind::Corruption));
        for below in ["4", "4g", "\u{e9}0"] {
            let note = format!(r#"{{"index":1,"fields":["a"],"built":{{"below":"{below}"}}}}"#);
            assert_eq!(kind(&note), Some(ErrorKind::Corruption), "{below}");
        }
        for fields in ["[]", r#"["a","a"]"#, r##"["$["]"##, "[1]", r#""a""#] {
            let note = format!(r#"{{"index":1,"fields":{fields}}}"#);
            assert_eq!(kind(&note), Some(ErrorKind::Corruption), "{fields}");
        }
    }
}
