//! Parts of a filter: its alternatives, each by itself, the conditions on other paths, and the
//! values that it requires.

use super::build::Filter;
use super::model::{Comparison, FilterNode, Test, all};
use crate::field_path::FieldPath;
use crate::value::Value;

impl Filter {
    /// Returns the filter as alternatives, for each `$or` that it must meet: each list has filters
    /// of which a document matches one or more if it matches this one, and only then. An `$or` of
    /// more than `most` conditions is left out. Each alternative is made when it is asked for: all
    /// of them together may be as large as the square of the filter.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::parse(r#"{"a":1,"$or":[{"b":2},{"c":3}]}"#)?;
    /// let alternatives = filter.alternatives(10).next().unwrap();
    /// let texts: Vec<String> = alternatives.map(|one| one.to_string()).collect();
    /// assert_eq!(texts, [r#"{"a":1,"b":2}"#, r#"{"a":1,"c":3}"#]);
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn alternatives(&self, most: usize) -> impl Iterator<Item = impl Iterator<Item = Self>> {
        let parts = self.node.conjuncts();
        parts.iter().enumerate().filter_map(move |(at, part)| {
            let FilterNode::Any(alternatives) = part else { return None };
            let with = move |one: &FilterNode| {
                let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
                let others = others.map(|(_, part)| part.clone());
                Self::of(all(others.chain([one.clone()])), self.depth)
            };
            (alternatives.len() <= most).then(|| alternatives.iter().map(with))
        })
    }

    /// Returns the filter without the conditions that read no paths but those for which `is_known`
    /// is true. A document that meets these conditions matches the rest if it matches the filter,
    /// and only then.
    ///
    /// ```
    /// use flagstone_doc::{FieldPath, Filter};
    /// let filter = Filter::parse(r#"{"a":1,"b":{"$gt":2},"$or":[{"a":1},{"c":3}]}"#)?;
    /// let a = FieldPath::parse("a").unwrap();
    /// let rest = filter.without(|path| *path == a);
    /// assert_eq!(rest.to_string(), r#"{"b":{"$gt":2},"$or":[{"a":1},{"c":3}]}"#);
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    #[must_use]
    pub fn without(&self, is_known: impl Fn(&FieldPath) -> bool) -> Self {
        let is_left =
            |part: &&FilterNode| part.is_constant() || !part.all_paths(&mut |path| is_known(path));
        Self::of(all(self.node.conjuncts().iter().filter(is_left).cloned()), self.depth)
    }

    /// Returns the paths that must reach one value, and the values: what an upsert puts into a new
    /// document. Neither alternatives nor negations require a value.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::parse(r#"{"a":1,"$and":[{"b.c":{"$in":[2]}}],"d":{"$gt":3}}"#)?;
    /// let required = filter.equalities().map(|(path, value)| format!("{path} = {value}"));
    /// assert_eq!(required.collect::<Vec<_>>(), ["a = 1", "b.c = 2"]);
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn equalities(&self) -> impl Iterator<Item = (&FieldPath, &Value)> {
        self.node.conjuncts().iter().filter_map(|part| match part {
            FilterNode::Field(path, Test::Compare(Comparison::Equal, operand)) => {
                Some((path, &*operand.value))
            }
            FilterNode::Field(path, Test::In(operands)) => match &**operands {
                [only] => Some((path, &*only.value)),
                _ => None,
            },
            _ => None,
        })
    }
}
