//! The alternatives of a filter, each by itself.

use super::build::Filter;
use super::model::{Node, all};

impl Filter {
    /// Returns the filter as alternatives, for each `$or` that it must meet: each list has filters
    /// of which a document matches one or more if it matches this one, and only then. An `$or` of
    /// more than `most` conditions is left out.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::parse(r#"{"a":1,"$or":[{"b":2},{"c":3}]}"#)?;
    /// let alternatives = filter.alternatives(10);
    /// let texts: Vec<String> = alternatives[0].iter().map(Filter::to_string).collect();
    /// assert_eq!(texts, [r#"{"a":1,"b":2}"#, r#"{"a":1,"c":3}"#]);
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn alternatives(&self, most: usize) -> Vec<Vec<Self>> {
        let parts = self.node.conjuncts();
        let mut found = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let Node::Any(alternatives) = part else { continue };
            if alternatives.len() > most {
                continue;
            }
            let others = || {
                let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
                others.map(|(_, part)| part.clone())
            };
            let with = |one: &Node| Self::of(all(others().chain([one.clone()])), self.depth);
            found.push(alternatives.iter().map(with).collect());
        }
        found
    }
}
