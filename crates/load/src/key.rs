//! Where the primary keys of documents come from.

use crate::ids;
use crate::marks::{LoadId, Position};
use flagstone::doc::FieldPath;
use flagstone::internal::{is_one_path, split_paths};
use flagstone::load::{DocumentParser, ParsedDocument, Refused};
use flagstone::{Document, Error, ErrorKind, Value};

/// Where the primary keys of documents come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// The value at this dotted path of the document.
    Path(String),
    /// A compound key: the array of the values at these paths.
    Paths(Vec<String>),
    /// A new key for each document, which has none: a UUID as text, as those of
    /// [`new_key`](crate::new_key), of the time of the load and the place of the document in the
    /// input. So keys ascend in the order of the input, and a load that continues gives the
    /// documents the keys that they would have had.
    Auto,
}

/// The most inputs, and the longest text of one, whose documents get keys of their own.
const INPUTS_MAX: usize = 1 << 12;
const TEXT_MAX: u64 = 1 << 40;

impl Key {
    /// Reads a key as people write it: a path, with or without `$.`, several with commas between
    /// them, or `auto`. A field that is named so is `$.auto`, and one with a comma `$['a,b']`.
    pub fn parse(text: &str) -> Self {
        if text == "auto" {
            return Self::Auto;
        }
        let mut paths: Vec<String> = split_paths(text).map(dotted).collect();
        match paths.pop() {
            Some(path) if paths.is_empty() => Self::Path(path),
            last => Self::Paths(paths.into_iter().chain(last).collect()),
        }
    }

    /// Returns the key as people write it.
    pub(crate) fn text(&self) -> String {
        let text = |path: &String| match FieldPath::parse(path) {
            Ok(parsed) if !is_one_path(path) => format!("{parsed:#}"),
            _ => path.clone(),
        };
        match self {
            Self::Path(path) if path == "auto" => "$.auto".to_owned(),
            Self::Path(path) => text(path),
            Self::Paths(paths) => paths.iter().map(text).collect::<Vec<_>>().join(","),
            Self::Auto => "auto".to_owned(),
        }
    }

    /// Returns the paths in a document at which its key is.
    pub fn paths(&self) -> &[String] {
        match self {
            Self::Path(path) => std::slice::from_ref(path),
            Self::Paths(paths) => paths,
            Self::Auto => &[],
        }
    }

    /// Refuses a key that names nothing, and new keys if documents are merged.
    ///
    /// # Errors
    /// What was expected.
    pub fn check(&self, inputs: usize, merges: bool) -> Result<(), String> {
        if *self == Self::Auto && merges {
            let text = "with keys auto every document is new: expected mode upsert or insert";
            return Err(text.to_owned());
        }
        if *self == Self::Auto && inputs > INPUTS_MAX {
            return Err(format!("{inputs} inputs: expected at most {INPUTS_MAX} with keys auto"));
        }
        if let Some(path) = self.paths().iter().find(|path| path.starts_with("$[")) {
            return Err(format!("the key {path:?}: expected a path of names without points"));
        }
        if self.paths().iter().any(String::is_empty) {
            let text = self.text();
            return Err(format!(
                "the key {text:?}: expected the paths of fields, found an empty one"
            ));
        }
        Ok(())
    }

    /// Parses the document at `place`, and finds its key.
    pub(crate) fn parse_document<'p>(
        &self,
        parser: &'p mut DocumentParser,
        json: &[u8],
        place: Position,
        load: LoadId,
    ) -> Result<ParsedDocument<'p>, Refused> {
        match self {
            Self::Path(path) => parser.parse(json, path),
            Self::Paths(paths) => parser.parse_compound(json, paths),
            Self::Auto => parser.parse_as(json, Self::made_at(place, load)?),
        }
    }

    /// Returns the key of a document that was parsed.
    pub(crate) fn of(
        &self,
        document: &Document,
        place: Position,
        load: LoadId,
    ) -> Result<Value, Refused> {
        let root = document.root();
        let value = |path: &str| -> Result<Value, Refused> {
            let malformed = |error: flagstone::doc::Malformed| {
                Refused::Batch(Error::new(ErrorKind::Corruption, error.to_string()))
            };
            let value = root.path(path).map_err(malformed)?;
            let value = value.ok_or_else(|| Refused::NoKey(path.to_owned()))?;
            value.to_value().map_err(malformed)
        };
        match self {
            Self::Path(path) => value(path),
            Self::Paths(paths) => {
                paths.iter().map(|path| value(path)).collect::<Result<_, _>>().map(Value::Array)
            }
            Self::Auto => Self::made_at(place, load).map(Value::from),
        }
    }

    /// Returns the key that the document at `place` gets.
    pub(crate) fn made_at(place: Position, load: LoadId) -> Result<String, Refused> {
        if place.offset < TEXT_MAX {
            return Ok(made(place, load));
        }
        let text = "a document after the first TiB of an input: expected an input of at most that \
                    with keys auto";
        Err(Refused::Batch(Error::new(ErrorKind::InvalidInput, text)))
    }
}

/// Returns the dotted form of a path, if it has one.
fn dotted(text: &str) -> String {
    let text = text.trim();
    let is_json_path = text.starts_with("$.") || text.starts_with("$[");
    match FieldPath::parse(text).map(|path| path.to_string()) {
        Ok(path) if is_json_path && !path.starts_with('$') => path,
        _ => text.strip_prefix("$.").unwrap_or(text).to_owned(),
    }
}

/// Returns the key of the document at `place`.
fn made(place: Position, load: LoadId) -> String {
    let rest = (place.input as u64 & 0xFFF) << 50 | place.offset << 10 | load.number & 0x3FF;
    ids::key(load.began, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_people_write_them() {
        let paths = |paths: &[&str]| Key::Paths(paths.iter().map(|&path| path.into()).collect());
        for (text, key) in [
            ("id", Key::Path("id".into())),
            ("$.a.b", Key::Path("a.b".into())),
            ("title, $.year", Key::Paths(vec!["title".into(), "year".into()])),
            ("$['a,b']", Key::Path("a,b".into())),
            (" $.x['a,b'].c , $[\"d\"],it's", paths(&["x.a,b.c", "d", "it's"])),
            ("size (cm,year", paths(&["size (cm", "year"])),
            ("$['size [cm'],kg]", paths(&["size [cm", "kg]"])),
            ("auto", Key::Auto),
            ("$.auto", Key::Path("auto".into())),
        ] {
            assert_eq!(Key::parse(text), key);
            assert_eq!(Key::parse(&key.text()), key);
        }
        for text in ["$['a.b']", "x,$['a.b']", "$[0]"] {
            assert!(
                Key::parse(text).check(1, false).unwrap_err().contains("without points"),
                "{text}"
            );
        }
        assert!(
            Key::parse("").check(1, false).is_err() && Key::parse("a,").check(1, false).is_err()
        );
        assert!(Key::Auto.check(1, true).is_err());
        assert!(Key::Auto.check(INPUTS_MAX, false).is_ok());
        assert!(Key::Auto.check(INPUTS_MAX + 1, false).is_err());
    }

    #[test]
    fn keys_of_a_load_ascend_with_the_input_and_are_uuids_of_version_7() {
        let load = LoadId { began: 0x0012_3456_789A_BCDE, number: u64::MAX };
        let places = [(0, 0), (0, 1), (0, TEXT_MAX - 1), (1, 0), (4095, 7)];
        let keys = places.map(|(input, offset)| made(Position { input, offset }, load));
        assert_eq!(keys[0], "01234567-89ab-7cde-8000-0000000003ff");
        assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == 36), "{keys:?}");
        let later = made(Position::default(), LoadId { began: load.began + 1, number: 0 });
        assert!(keys[4] < later);
        let (first, second) = (LoadId::now(), LoadId::now());
        let end = Position { input: 4095, offset: TEXT_MAX - 1 };
        assert!(made(end, first) < made(Position::default(), second), "they began in a moment");
        assert!(made(end, second) < crate::new_key());
    }
}
