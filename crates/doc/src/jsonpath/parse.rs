//! Parses a JSONPath into a compiled query, and checks its types.

use super::model::{
    CacheSlot, Comparable, ComparisonOperator, FilterExpression, FilterQuery, FilterSelector,
    Origin, PatternArgument, Query, Segment, Selector, Slice,
};
use super::regexp::{Extent, Refused, Regexp};
use super::scan::Scanner;
use crate::encode::Encoder;
use crate::path_error::PathError;
use crate::value::Value;

/// The longest query, in bytes.
pub(super) const BYTES_MAX: usize = 65_536;
/// The deepest nesting of filters, parentheses and function calls.
pub(super) const NESTING_MAX: usize = 64;

/// A whole query, and the number of slots that its parts use.
pub(super) struct Parsed {
    pub(super) query: Query,
    pub(super) slots: CacheSlot,
}

/// Parses the text of a whole query.
pub(super) fn parse(text: &str) -> Result<Parsed, PathError> {
    let mut parser = QueryParser { scan: Scanner::new(text), depth: 0, slots: 0 };
    if text.len() > BYTES_MAX {
        return Err(parser.scan.refuse("at most 65,536 bytes"));
    }
    parser.scan.expect("$", "'$', the root")?;
    let (query, _) = parser.segments()?;
    match parser.scan.peek() {
        None => Ok(Parsed { query, slots: parser.slots }),
        Some(_) => Err(parser.scan.refuse("'.', '[' or the end of the query")),
    }
}

/// Whether the grammar takes a query for one that selects one value at most. It allows no blanks
/// inside of the brackets of such a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Singular {
    Yes,
    No,
}

/// A part of a filter that is a value, a query or a test, as what surrounds it requires.
enum Term {
    Operand(Comparable),
    Query(FilterQuery, Singular),
    Test(FilterExpression),
}

struct QueryParser<'t> {
    scan: Scanner<'t>,
    /// The number of filters, parentheses and calls around the current position.
    depth: usize,
    slots: CacheSlot,
}

impl QueryParser<'_> {
    fn slot(&mut self) -> CacheSlot {
        self.slots += 1;
        self.slots - 1
    }

    /// Parses what `inside` parses, one level deeper.
    fn nested<R>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<R, PathError>,
    ) -> Result<R, PathError> {
        if self.depth == NESTING_MAX {
            return Err(self.scan.refuse("filters, parentheses and calls at most 64 deep"));
        }
        self.depth += 1;
        let parsed = inside(self);
        self.depth -= 1;
        parsed
    }

    /// Parses the segments of a query after its `$` or `@`.
    fn segments(&mut self) -> Result<(Query, Singular), PathError> {
        let mut segments = Vec::new();
        let mut has_blanks = false;
        while self.scan.blanks_before(&[".", "["]) {
            let descends = self.scan.eat("..");
            let selectors = if self.scan.peek() == Some(b'[') {
                self.scan.expect("[", "'['")?;
                let (selectors, blanks) = self.brackets()?;
                has_blanks |= blanks;
                selectors
            } else {
                if !descends {
                    self.scan.expect(".", "'.' or '['")?;
                }
                vec![self.shorthand()?]
            };
            segments.push(Segment { descends, selectors: selectors.into() });
        }
        let query = Query { segments: segments.into() };
        let is_singular = query.is_single() && !has_blanks;
        Ok((query, if is_singular { Singular::Yes } else { Singular::No }))
    }

    /// Parses what follows a point: a name or `*`.
    fn shorthand(&mut self) -> Result<Selector, PathError> {
        if self.scan.eat("*") {
            return Ok(Selector::All);
        }
        self.scan.name().map(|name| Selector::Name(name.into()))
    }

    /// Parses the selectors after an opening bracket; returns also whether there were blanks.
    fn brackets(&mut self) -> Result<(Vec<Selector>, bool), PathError> {
        let mut has_blanks = self.scan.blanks();
        let mut selectors = Vec::new();
        loop {
            selectors.push(self.selector()?);
            has_blanks |= self.scan.blanks();
            if self.scan.eat("]") {
                return Ok((selectors, has_blanks));
            }
            self.scan.expect(",", "',' or ']'")?;
            has_blanks |= self.scan.blanks();
        }
    }

    fn selector(&mut self) -> Result<Selector, PathError> {
        match self.scan.peek() {
            Some(b'\'' | b'"') => Ok(Selector::Name(self.scan.string()?.into())),
            Some(b'*') => self.scan.expect("*", "'*'").map(|()| Selector::All),
            Some(b'-' | b':' | b'0'..=b'9') => self.index_or_slice(),
            Some(b'?') => {
                self.scan.expect("?", "'?'")?;
                self.filter()
            }
            _ => Err(self.scan.refuse("a name in quotes, an index, a slice, '*' or a filter")),
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, PathError> {
        let start = self.scan.optional_int()?;
        if let (Some(index), false) = (start, self.scan.blanks_before(&[":"])) {
            return Ok(Selector::Index(index));
        }
        self.scan.expect(":", "':'")?;
        self.scan.blanks();
        let end = self.scan.optional_int()?;
        let mut step = None;
        if self.scan.blanks_before(&[":"]) {
            self.scan.expect(":", "':'")?;
            self.scan.blanks();
            step = self.scan.optional_int()?;
        }
        Ok(Selector::Slice(Slice { start, end, step: step.unwrap_or(1) }))
    }

    /// Parses a filter after its question mark.
    fn filter(&mut self) -> Result<Selector, PathError> {
        let slot = self.slot();
        self.scan.blanks();
        let test = self.nested(Self::any)?;
        Ok(Selector::Filter(FilterSelector { test, slot }))
    }

    /// Parses tests joined by `||`.
    fn any(&mut self) -> Result<FilterExpression, PathError> {
        let first = self.all()?;
        let mut tests = vec![first];
        while self.scan.blanks_before(&["||"]) {
            self.scan.expect("||", "'||'")?;
            self.scan.blanks();
            tests.push(self.all()?);
        }
        Ok(one_or(tests, FilterExpression::Any))
    }

    /// Parses tests joined by `&&`.
    fn all(&mut self) -> Result<FilterExpression, PathError> {
        let first = self.basic()?;
        let mut tests = vec![first];
        while self.scan.blanks_before(&["&&"]) {
            self.scan.expect("&&", "'&&'")?;
            self.scan.blanks();
            tests.push(self.basic()?);
        }
        Ok(one_or(tests, FilterExpression::All))
    }

    /// Parses a test in parentheses, a comparison, a query or a call, or what `!` negates.
    fn basic(&mut self) -> Result<FilterExpression, PathError> {
        if self.scan.eat("!") {
            self.scan.blanks();
            let negated = if self.scan.peek() == Some(b'(') {
                self.parentheses()?
            } else {
                let term = self.term()?;
                self.as_test(term)?
            };
            return Ok(FilterExpression::Not(Box::new(negated)));
        }
        if self.scan.peek() == Some(b'(') {
            return self.parentheses();
        }
        let start = self.scan.position();
        let left = self.term()?;
        if !self.scan.blanks_before(&["==", "!=", "<", ">"]) {
            return self.as_test(left);
        }
        let left = self.as_operand(left, start)?;
        let operator = self.operator()?;
        self.scan.blanks();
        let start = self.scan.position();
        let right = self.term()?;
        Ok(FilterExpression::Compare(left, operator, self.as_operand(right, start)?))
    }

    fn parentheses(&mut self) -> Result<FilterExpression, PathError> {
        self.scan.expect("(", "'('")?;
        self.scan.blanks();
        let test = self.nested(Self::any)?;
        self.scan.blanks();
        self.scan.expect(")", "'&&', '||' or ')'")?;
        Ok(test)
    }

    fn operator(&mut self) -> Result<ComparisonOperator, PathError> {
        for (token, operator) in [
            ("==", ComparisonOperator::Equal),
            ("!=", ComparisonOperator::NotEqual),
            ("<=", ComparisonOperator::LessOrEqual),
            (">=", ComparisonOperator::GreaterOrEqual),
            ("<", ComparisonOperator::Less),
            (">", ComparisonOperator::Greater),
        ] {
            if self.scan.eat(token) {
                return Ok(operator);
            }
        }
        Err(self.scan.refuse("a comparison"))
    }

    /// Parses a literal, a query or a call.
    fn term(&mut self) -> Result<Term, PathError> {
        const TERM: &str = "a query, a function, a literal, '!' or '('";
        match self.scan.peek() {
            Some(b'\'' | b'"') => {
                let text = self.scan.string()?;
                self.literal(&Value::Text(text))
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.scan.number()?;
                self.literal(&number)
            }
            Some(b'@') => {
                self.scan.expect("@", TERM)?;
                self.query(Origin::Candidate)
            }
            Some(b'$') => {
                self.scan.expect("$", TERM)?;
                let slot = self.slot();
                self.query(Origin::Root(slot))
            }
            _ => {
                let start = self.scan.position();
                let word = self.scan.word();
                if self.scan.eat("(") {
                    return self.nested(|parser| parser.call(word, start));
                }
                match word {
                    "true" => self.literal(&Value::Bool(true)),
                    "false" => self.literal(&Value::Bool(false)),
                    "null" => self.literal(&Value::Null),
                    _ => Err(self.scan.refuse_at(start, TERM)),
                }
            }
        }
    }

    fn literal(&self, value: &Value) -> Result<Term, PathError> {
        let mut bytes = Vec::new();
        match Encoder::new().encode(value, None, &mut bytes) {
            Ok(_) => Ok(Term::Operand(Comparable::Literal(bytes.into()))),
            Err(_too_long) => Err(self.scan.refuse("a shorter literal")),
        }
    }

    fn query(&mut self, origin: Origin) -> Result<Term, PathError> {
        let (query, singular) = self.segments()?;
        let is_single = query.is_single();
        Ok(Term::Query(FilterQuery { origin, query, is_single }, singular))
    }

    /// Parses the arguments of the function `name`, which begins at `start`, and checks them.
    fn call(&mut self, name: &str, start: usize) -> Result<Term, PathError> {
        self.scan.blanks();
        let term = match name {
            "length" => Term::Operand(Comparable::Length(Box::new(self.value_argument()?))),
            "count" => Term::Operand(Comparable::Count(self.nodes_argument()?)),
            "value" => Term::Operand(Comparable::Value(self.nodes_argument()?)),
            "match" => Term::Test(self.matches(Extent::Whole)?),
            "search" => Term::Test(self.matches(Extent::Part)?),
            _ => {
                let known = "one of the functions length, count, match, search and value";
                return Err(self.scan.refuse_at(start, known));
            }
        };
        self.scan.blanks();
        self.scan.expect(")", "')' after the last argument")?;
        Ok(term)
    }

    fn value_argument(&mut self) -> Result<Comparable, PathError> {
        let start = self.scan.position();
        let term = self.term()?;
        self.as_operand(term, start)
    }

    fn nodes_argument(&mut self) -> Result<FilterQuery, PathError> {
        let start = self.scan.position();
        match self.term()? {
            Term::Query(inner, _) => Ok(inner),
            _ => Err(self.scan.refuse_at(start, "a query as the argument")),
        }
    }

    /// Parses the arguments of `match` and `search`.
    fn matches(&mut self, extent: Extent) -> Result<FilterExpression, PathError> {
        if !cfg!(feature = "regex") {
            let at = self.scan.position();
            return Err(self.scan.refuse_at(
                at,
                "another function: this program has regular expressions not built in",
            ));
        }
        let text = self.value_argument()?;
        self.scan.blanks();
        self.scan.expect(",", "',' and a pattern")?;
        self.scan.blanks();
        let start = self.scan.position();
        if !matches!(self.scan.peek(), Some(b'\'' | b'"')) {
            let pattern = self.value_argument()?;
            let slot = self.slot();
            return Ok(FilterExpression::Matches(
                text,
                PatternArgument::Given { pattern, extent, slot },
            ));
        }
        let pattern = self.scan.string()?;
        match Regexp::new(&pattern, extent) {
            Ok(regexp) => {
                Ok(FilterExpression::Matches(text, PatternArgument::Literal(Some(regexp))))
            }
            Err(Refused::NotRegexp) => {
                Ok(FilterExpression::Matches(text, PatternArgument::Literal(None)))
            }
            Err(Refused::TooLarge) => Err(self.scan.refuse_at(
                start,
                "a pattern of at most 4,096 bytes, compiled at most 1 MiB, groups at most 100 deep",
            )),
        }
    }

    /// Takes a term for a value; `start` is where it begins.
    fn as_operand(&self, term: Term, start: usize) -> Result<Comparable, PathError> {
        let expected = match term {
            Term::Operand(operand) => return Ok(operand),
            Term::Query(inner, Singular::Yes) => return Ok(Comparable::Single(inner)),
            Term::Query(_, Singular::No) => {
                "a value, or a query of names and indexes alone, without blanks in brackets"
            }
            Term::Test(_) => "a value: this function returns true or false, and is no operand",
        };
        Err(self.scan.refuse_at(start, expected))
    }

    /// Takes a term for a test.
    fn as_test(&self, term: Term) -> Result<FilterExpression, PathError> {
        match term {
            Term::Test(test) => Ok(test),
            Term::Query(inner, _) => Ok(FilterExpression::Exists(inner)),
            Term::Operand(_) => Err(self.scan.refuse("a comparison of the value")),
        }
    }
}

/// Returns the only test, or all of them joined.
fn one_or(
    mut tests: Vec<FilterExpression>,
    join: fn(Vec<FilterExpression>) -> FilterExpression,
) -> FilterExpression {
    match tests.pop() {
        Some(only) if tests.is_empty() => only,
        last => {
            tests.extend(last);
            join(tests)
        }
    }
}
