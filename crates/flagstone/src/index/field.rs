//! One field of an index: a path, what is computed from the value there, and a direction. Its text
//! is `$.score`, `-$.score`, `length($.title)` or `-lower($.author.name)`.

use flagstone_base::{Error, Result};
use flagstone_doc::{Direction, FieldPath};
use std::fmt;

/// What an index holds of the value at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Computed {
    /// The value itself; of an array each element.
    Value,
    /// The number of characters of a text, of bytes, of the elements of an array, or of the fields
    /// of a map. Other values have none.
    Length,
    /// A text in lower case, and any other value unchanged; of an array each element.
    Lower,
}

/// One field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexField {
    pub(crate) path: FieldPath,
    pub(crate) computed: Computed,
    pub(crate) direction: Direction,
}

impl Computed {
    /// Returns the name of the function in a text; `None` for the value itself.
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Value => None,
            Self::Length => Some("length"),
            Self::Lower => Some("lower"),
        }
    }
}

impl IndexField {
    /// Parses the text of a field.
    ///
    /// # Errors
    /// InvalidInput with the position in characters and what was expected there.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (direction, rest) = match text.strip_prefix('-') {
            Some(rest) => (Direction::Descending, rest),
            None => (Direction::Ascending, text),
        };
        let (computed, path) = function(text, rest)?;
        let path = FieldPath::parse(path)
            .map_err(|error| Error::from(error).context(format_args!("index field {text:?}")))?;
        Ok(Self { path, computed, direction })
    }
}

/// Returns the function at the start of `rest`, the end of `text`, and the path in its parentheses.
fn function<'a>(text: &str, rest: &'a str) -> Result<(Computed, &'a str)> {
    for computed in [Computed::Length, Computed::Lower] {
        let inside = computed.name().and_then(|name| rest.strip_prefix(name)?.strip_prefix('('));
        let Some(inside) = inside else { continue };
        let Some(path) = inside.strip_suffix(')') else {
            return Err(refused(text, text.len(), "')' after the path"));
        };
        return Ok((computed, path));
    }
    if !rest.starts_with('$')
        && let Some(at) = rest.find('(')
    {
        let at = text.len() - rest.len() + at;
        return Err(refused(text, at, "a path, or one of the functions length and lower"));
    }
    Ok((Computed::Value, rest))
}

#[cold]
fn refused(text: &str, at: usize, expected: &str) -> Error {
    let position = 1 + text.get(..at).map_or(0, |before| before.chars().count());
    Error::invalid(format!("index field {text:?}, character {position}: expected {expected}"))
}

impl IndexField {
    fn text(&self, path: fmt::Arguments<'_>) -> String {
        let sign = if self.direction == Direction::Descending { "-" } else { "" };
        match self.computed.name() {
            Some(name) => format!("{sign}{name}({path})"),
            None => format!("{sign}{path}"),
        }
    }
}

impl fmt::Display for IndexField {
    /// Writes the text that [`IndexField::parse`] reads back: the catalog keeps it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text(format_args!("{}", self.path));
        // The name of a field may begin with `-`, or look like a function.
        match Self::parse(&text) {
            Ok(field) if field == *self => f.write_str(&text),
            _ => f.write_str(&self.text(format_args!("{:#}", self.path))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_field_comes_back() {
        for text in ["a", "-a.b", "length(title)", "-lower(author.name)"] {
            assert_eq!(IndexField::parse(text).unwrap().to_string(), text);
        }
        for text in ["$['-a']", "-$['-a'].b", "$['length(x)']", "-$['lower(x)']", "$['f(x)']"] {
            let field = IndexField::parse(text).unwrap();
            assert_eq!(field.computed, Computed::Value, "{text}");
            assert_eq!(IndexField::parse(&field.to_string()).unwrap(), field, "{text}: {field}");
        }
        let field = IndexField::parse("-length($.a.b)").unwrap();
        assert_eq!((field.computed, field.direction), (Computed::Length, Direction::Descending));
        assert_eq!(field.path, FieldPath::parse("a.b").unwrap());
    }

    #[test]
    fn a_malformed_field_is_refused_with_its_place() {
        let text = |field: &str| IndexField::parse(field).unwrap_err().to_string();
        assert_eq!(
            text("-lower($.a"),
            "index field \"-lower($.a\", character 11: expected ')' after the path"
        );
        assert_eq!(
            text("upper($.a)"),
            "index field \"upper($.a)\", character 6: expected a path, or one of the functions \
             length and lower"
        );
        assert!(text("$..a").starts_with("index field \"$..a\": "), "{}", text("$..a"));
    }
}
