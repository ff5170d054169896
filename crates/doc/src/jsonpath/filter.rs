//! Tests the candidates of filters, and evaluates the queries and functions inside.
//!
//! What does not depend on the candidate is evaluated once. Where a filter may meet an array or map
//! again, its answer is kept. So filters in filters do not multiply the work.

use super::children;
use super::compare::{Comparand, equal, less};
use super::model::{
    CacheSlot, Comparable, ComparisonOperator, FilterExpression, FilterQuery, FilterSelector,
    Origin, PatternArgument,
};
use super::regexp::Regexp;
use super::walk::{Position, QueryWalk, Tests, follow};
use crate::view::{Body, View};
use flagstone_base::Malformed;
use std::collections::HashMap;

/// What an evaluation remembers in a slot.
#[derive(Clone, Debug)]
enum CachedResult<'a> {
    Exists(bool),
    Comparand(Comparand<'a>),
    /// The last pattern from the document, compiled; `None` if it is none.
    Pattern(Box<str>, Option<Regexp>),
}

/// One evaluation of a query on one document.
#[derive(Debug)]
pub(super) struct Evaluation<'a> {
    root: View<'a>,
    slots: Vec<Option<CachedResult<'a>>>,
    /// The results of filters, by the start of the candidate in the document.
    results: HashMap<(CacheSlot, usize), bool>,
}

impl<'a> Tests<'a> for Evaluation<'a> {
    fn holds(
        &mut self,
        filter: &FilterSelector,
        candidate: &View<'a>,
        again: bool,
    ) -> Result<bool, Malformed> {
        // A scalar is tested faster than it is looked up, and may share its place with another.
        if !again || !candidate.is_full_container() {
            return self.test(&filter.test, candidate);
        }
        let key = (filter.slot, candidate.range().start);
        if let Some(answer) = self.results.get(&key) {
            return Ok(*answer);
        }
        let answer = self.test(&filter.test, candidate)?;
        self.results.insert(key, answer);
        Ok(answer)
    }
}

impl<'a> Evaluation<'a> {
    /// Creates the evaluation of a query that uses `slots` slots.
    pub(super) fn new(root: &View<'a>, slots: CacheSlot) -> Self {
        Self { root: *root, slots: vec![None; slots], results: HashMap::new() }
    }

    fn test(&mut self, test: &FilterExpression, candidate: &View<'a>) -> Result<bool, Malformed> {
        match test {
            FilterExpression::All(tests) => {
                for test in tests {
                    if !self.test(test, candidate)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            FilterExpression::Any(tests) => {
                for test in tests {
                    if self.test(test, candidate)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            FilterExpression::Not(test) => Ok(!self.test(test, candidate)?),
            FilterExpression::Exists(inner) => self.exists(inner, candidate),
            FilterExpression::Compare(left, operator, right) => {
                let left = self.operand(left, candidate)?;
                let right = self.operand(right, candidate)?;
                compared(&left, *operator, &right)
            }
            FilterExpression::Matches(text, pattern) => self.matches(text, pattern, candidate),
        }
    }

    fn exists(&mut self, inner: &FilterQuery, candidate: &View<'a>) -> Result<bool, Malformed> {
        let (start, slot) = self.start(inner, candidate);
        if let Some(CachedResult::Exists(exists)) = self.known(slot) {
            return Ok(*exists);
        }
        let exists = if inner.is_single {
            follow(&inner.query, &start)?.is_some()
        } else {
            QueryWalk::new(&inner.query, &start, Position::Inner).next(self)?.is_some()
        };
        self.keep(slot, CachedResult::Exists(exists));
        Ok(exists)
    }

    /// Returns where a query starts, and the slot for its result if all candidates share it.
    fn start(&self, inner: &FilterQuery, candidate: &View<'a>) -> (View<'a>, Option<CacheSlot>) {
        match inner.origin {
            Origin::Candidate => (*candidate, None),
            Origin::Root(slot) => (self.root, Some(slot)),
        }
    }

    fn known(&self, slot: Option<CacheSlot>) -> Option<&CachedResult<'a>> {
        self.slots.get(slot?)?.as_ref()
    }

    fn keep(&mut self, slot: Option<CacheSlot>, result: CachedResult<'a>) {
        if let Some(kept) = slot.and_then(|slot| self.slots.get_mut(slot)) {
            *kept = Some(result);
        }
    }

    fn operand<'v>(
        &mut self,
        operand: &'v Comparable,
        candidate: &View<'a>,
    ) -> Result<Comparand<'v>, Malformed>
    where
        'a: 'v,
    {
        match operand {
            Comparable::Literal(bytes) => View::of(bytes, None).map(Comparand::Value),
            Comparable::Length(of) => {
                let of = self.operand(of, candidate)?;
                length(&of)
            }
            Comparable::Single(inner) | Comparable::Count(inner) | Comparable::Value(inner) => {
                let (start, slot) = self.start(inner, candidate);
                if let Some(CachedResult::Comparand(comparand)) = self.known(slot) {
                    return Ok(*comparand);
                }
                let comparand = if let Comparable::Count(_) = operand {
                    let count =
                        QueryWalk::new(&inner.query, &start, Position::Inner).count(self)?;
                    Comparand::Int(i64::try_from(count).unwrap_or(i64::MAX))
                } else {
                    self.only(inner, &start)?
                };
                self.keep(slot, CachedResult::Comparand(comparand));
                Ok(comparand)
            }
        }
    }

    /// Returns the value that a query selects, if it is exactly one.
    fn only(&mut self, inner: &FilterQuery, start: &View<'a>) -> Result<Comparand<'a>, Malformed> {
        let found = if inner.is_single {
            follow(&inner.query, start)?
        } else {
            let mut walk = QueryWalk::new(&inner.query, start, Position::Inner);
            let first = walk.next(self)?;
            if first.is_some() && walk.next(self)?.is_some() { None } else { first }
        };
        Ok(found.map_or(Comparand::Nothing, |found| Comparand::Value(found.value)))
    }

    fn matches(
        &mut self,
        text: &Comparable,
        pattern: &PatternArgument,
        candidate: &View<'a>,
    ) -> Result<bool, Malformed> {
        let text = self.operand(text, candidate)?;
        let Some(text) = as_str(&text)? else { return Ok(false) };
        let (pattern, extent, slot) = match pattern {
            PatternArgument::Literal(regexp) => {
                return Ok(regexp.as_ref().is_some_and(|regexp| regexp.matches(text)));
            }
            PatternArgument::Given { pattern, extent, slot } => (pattern, *extent, *slot),
        };
        let pattern = self.operand(pattern, candidate)?;
        let Some(pattern) = as_str(&pattern)? else { return Ok(false) };
        if let Some(CachedResult::Pattern(last, regexp)) = self.known(Some(slot))
            && **last == *pattern
        {
            return Ok(regexp.as_ref().is_some_and(|regexp| regexp.matches(text)));
        }
        let regexp = Regexp::new(pattern, extent).ok();
        let matches = regexp.as_ref().is_some_and(|regexp| regexp.matches(text));
        self.keep(Some(slot), CachedResult::Pattern(pattern.into(), regexp));
        Ok(matches)
    }
}

fn compared(
    left: &Comparand<'_>,
    operator: ComparisonOperator,
    right: &Comparand<'_>,
) -> Result<bool, Malformed> {
    match operator {
        ComparisonOperator::Equal => equal(left, right),
        ComparisonOperator::NotEqual => equal(left, right).map(|is_equal| !is_equal),
        ComparisonOperator::Less => Ok(less(left, right)),
        ComparisonOperator::Greater => Ok(less(right, left)),
        ComparisonOperator::LessOrEqual => Ok(less(left, right) || equal(left, right)?),
        ComparisonOperator::GreaterOrEqual => Ok(less(right, left) || equal(left, right)?),
    }
}

/// Returns the number of characters, elements or fields; nothing for other values.
fn length<'a>(of: &Comparand<'_>) -> Result<Comparand<'a>, Malformed> {
    let Comparand::Value(view) = of else { return Ok(Comparand::Nothing) };
    let length = if let Some(text) = as_str(of)? {
        text.chars().count()
    } else if view.is_full_container() {
        children::count(&Body::open(view)?)?
    } else if view.is_array() || view.is_map() {
        0
    } else {
        return Ok(Comparand::Nothing);
    };
    Ok(Comparand::Int(length as i64))
}

/// Returns the text, if the value is text.
fn as_str<'v>(comparand: &Comparand<'v>) -> Result<Option<&'v str>, Malformed> {
    let Comparand::Value(view) = comparand else { return Ok(None) };
    if view.as_text_bytes().is_none() {
        return Ok(None);
    }
    view.as_str().map(Some).ok_or(view.malformed("text in UTF-8"))
}
