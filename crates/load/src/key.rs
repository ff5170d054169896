//! Where the primary keys of documents come from.

use crate::marks::{LoadId, Position};
use flagstone::{DocumentParser, ParsedDocument, Refused};

/// Where the primary keys of documents come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// The value at this dotted path of the document.
    Path(String),
    /// A compound key: the array of the values at these paths.
    Paths(Vec<String>),
    /// A new key for each document, which has none: a UUID as text that begins with the time of the
    /// load, then the place of the document in the input. So keys ascend in the order of the input,
    /// and a load that continues gives the documents the keys that they would have had.
    Auto,
}

/// The most inputs, and the longest text of one, whose documents get keys of their own.
const INPUTS_MAX: usize = 1 << 12;
const TEXT_MAX: u64 = 1 << 40;

impl Key {
    /// Reads a key as people write it: a path, with or without `$.`, several with commas between
    /// them, or `auto`. A field that is named so is `$.auto`.
    pub fn parse(text: &str) -> Self {
        let path = |text: &str| text.strip_prefix("$.").unwrap_or(text).to_owned();
        match text {
            "auto" => Self::Auto,
            _ if text.contains(',') => {
                Self::Paths(text.split(',').map(|t| path(t.trim())).collect())
            }
            _ => Self::Path(path(text)),
        }
    }

    /// Returns the key as people write it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Path(path) if path == "auto" => "$.auto".to_owned(),
            Self::Path(path) => path.clone(),
            Self::Paths(paths) => paths.join(","),
            Self::Auto => "auto".to_owned(),
        }
    }

    /// Refuses a key that names nothing.
    pub(crate) fn check(&self, inputs: usize) -> Result<(), String> {
        let paths = match self {
            Self::Path(path) => std::slice::from_ref(path),
            Self::Paths(paths) => paths,
            Self::Auto if inputs > INPUTS_MAX => {
                return Err(format!(
                    "{inputs} inputs: expected at most {INPUTS_MAX} with keys auto"
                ));
            }
            Self::Auto => &[],
        };
        if paths.iter().any(String::is_empty) {
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
            Self::Auto if place.offset >= TEXT_MAX => {
                let text = "a document after the first TiB of an input: expected an input of at \
                            most that with keys auto";
                Err(Refused::Batch(flagstone::Error::new(flagstone::ErrorKind::InvalidInput, text)))
            }
            Self::Auto => parser.parse_as(json, uuid(place, load)),
        }
    }
}

/// Returns a UUID of version 7: its time is that of the load, what follows is the place of the
/// document and a part of the load's number.
///
/// ```text
/// 48 bits  milliseconds since 1970     12 bits  the number of the input
/// 40 bits  the offset in its text      22 bits  random, the same in the whole load
/// ```
fn uuid(place: Position, load: LoadId) -> String {
    let high = load.began << 16 | 0x7000 | place.input as u64 & 0xFFF;
    let low = 1 << 63 | place.offset << 22 | load.number & 0x3F_FFFF;
    let (a, b, c) = (high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xFFFF_FFFF_FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_people_write_them() {
        for (text, key) in [
            ("id", Key::Path("id".into())),
            ("$.a.b", Key::Path("a.b".into())),
            ("title, $.year", Key::Paths(vec!["title".into(), "year".into()])),
            ("auto", Key::Auto),
            ("$.auto", Key::Path("auto".into())),
        ] {
            assert_eq!(Key::parse(text), key);
            assert_eq!(Key::parse(&key.text()), key);
        }
        assert!(Key::parse("").check(1).is_err() && Key::parse("a,").check(1).is_err());
        assert!(Key::Auto.check(INPUTS_MAX).is_ok() && Key::Auto.check(INPUTS_MAX + 1).is_err());
    }

    #[test]
    fn keys_of_a_load_ascend_with_the_input_and_are_uuids_of_version_7() {
        let load = LoadId { began: 0x0123_4567_89AB, number: u64::MAX };
        let places = [(0, 0), (0, 1), (0, TEXT_MAX - 1), (1, 0), (4095, 7)];
        let keys = places.map(|(input, offset)| uuid(Position { input, offset }, load));
        assert_eq!(keys[0], "01234567-89ab-7000-8000-0000003fffff");
        assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == 36), "{keys:?}");
        let later = uuid(Position::default(), LoadId { began: load.began + 1, number: 0 });
        assert!(keys[4] < later);
    }
}
