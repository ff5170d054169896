//! What groups are formed by, and what they accumulate.

use crate::collection::query::ask::Wanted;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, Result};
use flagstone_doc::{FieldPath, split_calls, split_once_outside};
use std::fmt;

/// How documents are grouped, and what each group accumulates: for [`Find::group`](crate::Find).
///
/// A group is a map: each path that it is formed by with its value, then the accumulators by their
/// names. Groups come in the order of their values.
///
/// - The value of a path is that of the document, an array as a whole. A missing value counts as
///   null. A path through an array gives the array of the values that it reaches.
/// - `sum`, `min`, `max` and `avg` take each value that their path reaches, and each element of an
///   array there. `sum` and `avg` leave out what is no number, `min` and `max` null.
/// - Sums are exact, of any numbers: `0.1 + 0.2` is `0.3`. A float counts as the shortest decimal
///   that reads back as it. The sum of nothing is 0; `min`, `max` and `avg` of nothing are null.
/// - An average is exact if 34 digits suffice, and rounded to 34 digits if not.
/// - In the values by which groups are formed, a number is in its shortest form: `1.1` for `1.10`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Group, Json, Space};
/// # let comments = db.collection("comments")?;
/// comments.put("a", Json(r#"{"subreddit":"rust","score":7}"#))?;
/// comments.put("b", Json(r#"{"subreddit":"rust","score":2.5}"#))?;
/// comments.put("c", Json(r#"{"subreddit":"cats","score":1}"#))?;
/// let by_subreddit = Group::by("subreddit").count("n").sum("total", "score");
/// let mut groups = comments.find("{}").sort("-n").group(&by_subreddit)?;
/// let first = groups.next().expect("there are two")?;
/// assert_eq!(first.to_string(), r#"{"subreddit":"rust","n":2,"total":9.5}"#);
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Group, Space, doc};
/// let sales = db.collection("sales")?;
/// for (n, (shop, item, price)) in
///     [("a", "pen", 2), ("a", "pen", 3), ("a", "ink", 9), ("b", "pen", 1)].into_iter().enumerate()
/// {
///     sales.put(n, doc!({ "shop": shop, "item": item, "price": price }))?;
/// }
/// let each = Group::by("shop").then_by("item").avg("mean", "price");
/// let rows: Vec<_> = sales.find("{}").group(&each)?.collect::<flagstone::Result<_>>()?;
/// assert_eq!(rows[1].to_string(), r#"{"shop":"a","item":"pen","mean":2.5}"#);
/// assert_eq!(rows.len(), 3);
///
/// let whole = Group::all().min("least", "price").max("most", "price").count("n");
/// let row = sales.find("{}").group(&whole)?.next().expect("there are sales")?;
/// assert_eq!(row.to_string(), r#"{"least":1,"most":9,"n":4}"#);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a group does nothing until it is passed to a query"]
pub struct Group {
    pub(super) by: Vec<FieldPath>,
    pub(super) accumulators: Vec<Accumulator>,
    /// The first error of a setter.
    fault: Option<Error>,
}

/// One accumulator.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The path of the values; that of the document for a count.
    pub(super) path: FieldPath,
}

/// What an accumulator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    Sum,
    Least,
    Greatest,
    Mean,
}

impl Kind {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Count, "count"),
        (Self::Sum, "sum"),
        (Self::Least, "min"),
        (Self::Greatest, "max"),
        (Self::Mean, "avg"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl Group {
    /// One group of all documents; there is none if no document is found.
    pub const fn all() -> Self {
        Self { by: Vec::new(), accumulators: Vec::new(), fault: None }
    }

    /// A group of the documents with each value at `path`.
    pub fn by(path: &str) -> Self {
        Self::all().then_by(path)
    }

    /// Divides the groups further, by the values at `path`.
    pub fn then_by(mut self, path: &str) -> Self {
        match FieldPath::parse(path) {
            Ok(path) => self.by.push(path),
            Err(error) => drop(self.fault.get_or_insert(error.into())),
        }
        self
    }

    /// Counts the documents.
    pub fn count(self, name: impl Into<String>) -> Self {
        self.accumulated(name.into(), Kind::Count, "$")
    }

    /// Adds up the numbers at `path`.
    pub fn sum(self, name: impl Into<String>, path: &str) -> Self {
        self.accumulated(name.into(), Kind::Sum, path)
    }

    /// Finds the least value at `path`, in the total order of values.
    pub fn min(self, name: impl Into<String>, path: &str) -> Self {
        self.accumulated(name.into(), Kind::Least, path)
    }

    /// Finds the greatest value at `path`, in the total order of values.
    pub fn max(self, name: impl Into<String>, path: &str) -> Self {
        self.accumulated(name.into(), Kind::Greatest, path)
    }

    /// Divides the sum of the numbers at `path` by how many there are.
    pub fn avg(self, name: impl Into<String>, path: &str) -> Self {
        self.accumulated(name.into(), Kind::Mean, path)
    }

    fn accumulated(mut self, name: String, kind: Kind, path: &str) -> Self {
        match FieldPath::parse(path) {
            Ok(path) => self.accumulators.push(Accumulator { name, kind, path }),
            Err(error) => drop(self.fault.get_or_insert(error.into())),
        }
        self
    }

    /// Reads a group from its text: paths, then, after a colon, accumulators, both with commas
    /// between. An accumulator is `count`, or `sum`, `min`, `max` or `avg` with a path; a name may
    /// follow, without one it is the accumulator's text.
    ///
    /// ```
    /// # use flagstone::Group;
    /// let group = Group::parse("subreddit, author: count, avg(score) as mean")?;
    /// assert_eq!(group.to_string(), "subreddit, author: count, avg(score) as mean");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput with the position of what is not as it should be.
    pub fn parse(text: &str) -> Result<Self> {
        let (by, accumulators) = match split_once_outside(text, ":") {
            Some((by, rest)) => (by, Some(rest)),
            None => (text, None),
        };
        let mut group = Self::all();
        if !by.trim().is_empty() {
            for path in split_calls(by) {
                if path.trim().is_empty() {
                    return Err(refuse(text, path, "a path"));
                }
                // Taken for a path, it would be null in all documents.
                if accumulators.is_none() && is_accumulator(path) {
                    let expected = "paths, a colon, and what to compute, as in \
                                    'subreddit: count as n', or ': count' for one group of all";
                    return Err(refuse(text, path, expected));
                }
                group = group.then_by(path.trim());
                group.check_at(text, path)?;
            }
        }
        for part in accumulators.into_iter().flat_map(split_calls) {
            group = group.parse_accumulator(text, part)?;
            group.check_at(text, part)?;
        }
        group.check()?;
        Ok(group)
    }

    fn parse_accumulator(self, text: &str, part: &str) -> Result<Self> {
        let (call, name) = match split_once_outside(part, " as ") {
            Some((call, name)) => (call.trim(), name.trim()),
            None => (part.trim(), part.trim()),
        };
        let (function, path) = match call.split_once('(') {
            Some((function, rest)) => (function.trim(), rest.strip_suffix(')')),
            None => (call, Some("$")),
        };
        let known = Kind::ALL.iter().find(|(_, known)| *known == function);
        let (Some((kind, _)), Some(path)) = (known, path) else {
            return Err(refuse(text, part, "count, sum(path), min(path), max(path) or avg(path)"));
        };
        let has_path = call.contains('(');
        match (*kind == Kind::Count, has_path) {
            (true, true) => Err(refuse(text, part, "count without a path")),
            (false, false) => Err(refuse(text, part, "a path in parentheses")),
            _ => Ok(self.accumulated(name.to_owned(), *kind, path.trim())),
        }
    }

    /// Reports the first error of a setter as one at `part` of `text`.
    fn check_at(&self, text: &str, part: &str) -> Result<()> {
        match &self.fault {
            Some(error) => Err(refuse(text, part, &format!("a path ({error})"))),
            None => Ok(()),
        }
    }

    /// Refuses malformed paths, and names that are not distinct.
    pub(in crate::collection::query) fn check(&self) -> Result<()> {
        if let Some(error) = &self.fault {
            return Err(error.clone());
        }
        if self.by.is_empty() && self.accumulators.is_empty() {
            return Err(Error::invalid("a group: expected a path or an accumulator"));
        }
        let mut names: Vec<String> = self.names().collect();
        sort_by(&mut names, Ord::cmp);
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::invalid(format!(
                "a group with two fields {:?}: expected distinct names",
                pair[0]
            ))),
            None => Ok(()),
        }
    }

    /// What the groups take from each document: the values that they are formed by, then those of
    /// the accumulators other than counts.
    pub(in crate::collection::query) fn wanted(&self) -> Wanted {
        let taking = || self.accumulators.iter().filter(|one| one.kind != Kind::Count);
        let paths = taking().map(|accumulator| &accumulator.path);
        let paths = self.by.iter().chain(paths).cloned().collect();
        Wanted::Values { paths, equal: taking().next().is_none() }
    }

    /// The names of the fields of a group.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let accumulators = self.accumulators.iter().map(|accumulator| accumulator.name.clone());
        self.by.iter().map(FieldPath::to_string).chain(accumulators)
    }
}

/// Returns whether this is the text of an accumulator rather than a path without quotes.
fn is_accumulator(part: &str) -> bool {
    let (call, name) = match split_once_outside(part, " as ") {
        Some((call, _)) => (call.trim(), true),
        None => (part.trim(), false),
    };
    let is_call = |kind: &(Kind, &str)| {
        call.strip_prefix(kind.1).is_some_and(|rest| rest.trim_start().starts_with('('))
    };
    name || call == Kind::Count.name() || Kind::ALL.iter().any(is_call)
}

/// The error that `expected` is not at `part`, which is a part of `text`.
#[cold]
fn refuse(text: &str, part: &str, expected: &str) -> Error {
    let spaces = part.len() - part.trim_start().len();
    let at = part.as_ptr() as usize - text.as_ptr() as usize + spaces;
    Error::invalid(format!("a group, byte {at}: expected {expected}, found {:?}", part.trim()))
}

/// Returns whether the parser of a group reads `text` as one part, whatever comes before and after
/// it.
fn is_one_part(text: &str) -> bool {
    let is_split_by = |mark: &&str| split_once_outside(text, mark).is_some();
    // What is not closed may be closed by what follows.
    let is_whole = ![",", ":", "(", ")", "[", "]"].iter().any(is_split_by);
    is_whole && !text.is_empty() && text.trim() == text
}

/// Returns the text of a path as a part of that of a group.
fn text_of(path: &FieldPath) -> String {
    let text = path.to_string();
    if is_one_part(&text) { text } else { format!("{path:#}") }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, path) in self.by.iter().enumerate() {
            let mut text = text_of(path);
            if self.accumulators.is_empty() && is_accumulator(&text) {
                text = format!("{path:#}");
            }
            write!(f, "{}{text}", if i > 0 { ", " } else { "" })?;
        }
        for (i, Accumulator { name, kind, path }) in self.accumulators.iter().enumerate() {
            let before = match (i, self.by.len()) {
                (0, _) => ": ",
                _ => ", ",
            };
            let call = match kind {
                Kind::Count => kind.name().to_owned(),
                _ => format!("{}({})", kind.name(), text_of(path)),
            };
            write!(f, "{before}{call}")?;
            if *name != call {
                write!(f, " as {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_comes_back_from_its_text() {
        for text in [
            "subreddit",
            "subreddit, author.name: count, avg(score) as mean, max(a.b)",
            ": count",
            "a: sum(b), min(b), max(b), avg(b)",
        ] {
            assert_eq!(Group::parse(text).unwrap().to_string(), text);
        }
    }

    /// A path whose name holds a comma was printed without its quotes: as two paths, or as none.
    /// And `as` in a name, or a quote in quotes, ended what they were a part of.
    #[test]
    fn names_with_the_marks_of_a_group_are_quoted() {
        for text in [
            "$[',']",
            "$['a:b'], $['']: sum($['x) as y'])",
            "$[' a'], it's, $['it\\'s[']: min($['(']), count",
            "$['size [cm'], $['kg]']: sum(size (cm, m)), avg($['(x'])",
            "a b: sum(a as b), max(c[d]) as (e",
        ] {
            assert_eq!(Group::parse(text).unwrap().to_string(), text);
        }
        // Alone, these would be what is computed.
        for name in ["count", "sum(n)", "n as m"] {
            let group = Group::by(name);
            assert_eq!(
                group.to_string(),
                FieldPath::parse(name).map(|it| format!("{it:#}")).unwrap()
            );
            assert_eq!(Group::parse(&group.to_string()).unwrap().by, group.by);
            assert!(Group::parse(name).is_err());
            assert_eq!(Group::parse(&format!("{name}: count as c")).unwrap().by, group.by);
        }
        let paths = |group: Group| group.by.iter().map(FieldPath::to_string).collect::<Vec<_>>();
        assert_eq!(paths(Group::parse("$['a,b'], c").unwrap()), ["a,b", "c"]);
        assert_eq!(paths(Group::parse("$['\\',\\''], c").unwrap()), ["','", "c"]);
    }

    #[test]
    fn a_malformed_group_is_refused_with_its_position() {
        for (text, expected) in [
            ("", "expected a path or an accumulator"),
            ("a, : count", "byte 3: expected a path"),
            ("a: count, total(b)", "byte 10: expected count, sum(path), min(path)"),
            ("a: sum(b", "byte 3: expected count, sum(path)"),
            ("a: sum", "byte 3: expected a path in parentheses"),
            ("a: count(b)", "byte 3: expected count without a path"),
            ("a: sum($..b)", "byte 3: expected a path ("),
            ("a: count as a", "two fields \"a\""),
        ] {
            let refused = Group::parse(text).unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
        let refused = Group::by("$[").count("n").check().unwrap_err();
        assert_eq!(refused.kind(), flagstone_base::ErrorKind::InvalidInput);
    }
}
