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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// From this SeqNo on the index agrees with its documents; `None` while it is being built.
    pub(crate) usable_from: Option<SeqNo>,
    /// What was seen in the documents so far.
    pub(crate) seen: Seen,
}

/// Returns the note of an index.
///
/// # Errors
/// InvalidInput if the filter of a partial index is too long for a document.
pub(crate) fn encode(definition: &Definition, status: Status) -> Result<Vec<u8>> {
    let Definition { fields, is_unique, is_sparse, only, expires, .. } = definition;
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
    let arrays = &status.seen.arrays[..fields.len()];
    if arrays.iter().any(|arrays| !arrays.is_none()) {
        note.set("arrays", arrays.iter().map(|arrays| arrays.bits()).collect::<Value>())?;
    }
    if let Some(usable_from) = status.usable_from {
        note.set("usable_from", usable_from.get())?;
    }
    let document = Document::from_value(&note)?;
    let json = document.to_json().map_err(|error| Error::invalid(error.to_string()))?;
    Ok(json.into_bytes())
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
    let fields =
        fields_of(&document).map_err(|error| error.context(format_args!("index {name:?}")))?;
    let flag = |name: &str| document.get(name).and_then(|view| view.as_bool()).unwrap_or(false);
    let number = |name: &str| document.get(name).and_then(|view| view.as_u64());
    let only = document.get("only").and_then(|view| view.as_str());
    let only = only.map(|text| Only::new(Filter::parse(text)?)).transpose();
    let definition = Definition {
        name: name.to_owned(),
        fields: fields.ok_or_else(|| damaged("the fields"))?,
        is_unique: flag("unique"),
        is_sparse: flag("sparse"),
        only: only.map_err(|error: Error| damaged(&format!("a filter: {error}")))?,
        expires: number("expires_after").map(Duration::from_millis),
    };
    let definition = definition.checked()?;
    let mut seen = Seen { cut: flag("cut"), ..Seen::default() };
    for (at, arrays) in seen.arrays[..definition.fields.len()].iter_mut().enumerate() {
        *arrays = Arrays::from_bits(number(&format!("arrays.{at}")).unwrap_or(0));
    }
    let status = Status { usable_from: number("usable_from").map(SeqNo::new), seen };
    Ok((definition, status))
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

    fn text(definition: &Definition, status: Status) -> String {
        String::from_utf8(encode(definition, status).unwrap()).unwrap()
    }

    #[test]
    fn a_note_has_its_golden_text_and_comes_back() {
        let plain = Definition::new("a", &Index::on("$.subreddit").then("-$.score")).unwrap();
        let golden = r#"{"index":1,"fields":["subreddit","-score"]}"#;
        assert_eq!(text(&plain, Status::default()), golden);
        let all = Index::on("lower($['a.b'])").then("-length(c)").unique().sparse();
        let all = Definition::new("a", &all.only(Filter::field("d").gt(1))).unwrap();
        let mut seen = Seen { cut: true, ..Seen::default() };
        seen.arrays[1] = Arrays::ANY;
        let status = Status { usable_from: Some(SeqNo::new(7)), seen };
        let golden = concat!(
            r#"{"index":1,"fields":["lower($['a.b'])","-length(c)"],"unique":true,"sparse":true,"#,
            r#""cut":true,"only":"{\"d\":{\"$gt\":1}}","arrays":[0,18446744073709551615],"#,
            r#""usable_from":7}"#
        );
        assert_eq!(text(&all, status), golden);
        let expiring = Index::on("$.at").expire_after(Duration::from_secs(90));
        let expiring = Definition::new("a", &expiring).unwrap();
        let golden = r#"{"index":1,"fields":["at"],"expires_after":90000}"#;
        assert_eq!(text(&expiring, Status::default()), golden);
        let expiring = text(&expiring, Status::default());
        for note in [text(&plain, Status::default()), text(&all, status), expiring] {
            let (definition, status) = decode("a", note.as_bytes()).unwrap();
            assert_eq!(text(&definition, status), note);
        }
    }

    #[test]
    fn a_note_that_is_damaged_or_newer_is_refused() {
        let kind = |note: &str| decode("a", note.as_bytes()).err().map(|error| error.kind());
        assert_eq!(kind(r#"{"index":2,"fields":["a"]}"#), Some(ErrorKind::Unsupported));
        assert_eq!(kind(r#"{"index":1"#), Some(ErrorKind::Corruption));
        assert_eq!(kind(r#"{"index":1}"#), Some(ErrorKind::Corruption));
        assert_eq!(kind(r#"{"index":1,"fields":["a"],"only":"{"}"#), Some(ErrorKind::Corruption));
        assert!(kind(r#"{"index":1,"fields":[]}"#).is_some());
        assert!(kind(r#"{"index":1,"fields":["a","a"]}"#).is_some());
    }
}
