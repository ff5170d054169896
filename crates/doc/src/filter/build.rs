//! Builds filters in Rust.

use super::error::FilterError;
use super::matcher::Matcher;
use super::model::{Comparison, FilterNode, Operand, Test, all, any, not, one_of};
use super::pattern::Pattern;
use super::types::TypeSet;
use super::value_test::{Contains, Prefix, Remainder, ValueTest};
use crate::field_path::FieldPath;
use crate::path_error::PathError;
use crate::value::Value;
use crate::value_type::ValueType;
use std::fmt;

/// The deepest nesting of conditions in a filter.
pub const FILTER_NESTING_MAX: usize = 100;

/// A condition on documents, in the manner of MongoDB.
///
/// A filter is built in Rust, or parsed from a [document of conditions](Filter::parse). Its text is
/// such a document. It is compiled once, for any number of documents: see [`Filter::compile`].
///
/// A condition on a field holds if it holds for any of the values that the path reaches; an array
/// at the end of the path counts as itself and as its elements. Values of different types are
/// neither equal nor less nor greater: `gt(5)` holds for no text. Numbers compare exactly, whatever
/// their form. The guide to queries says all.
///
/// ```
/// use flagstone_doc::{Document, Filter};
/// let hot = Filter::field("subreddit").eq("rust").and(Filter::field("score").gte(10));
/// assert_eq!(hot.to_string(), r#"{"subreddit":"rust","score":{"$gte":10}}"#);
/// assert_eq!(Filter::parse(&hot.to_string())?, hot);
///
/// let matcher = hot.compile()?;
/// let comment = Document::from_json(r#"{"subreddit":"rust","score":10.0}"#)?;
/// assert!(comment.matches(&matcher));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Filter {
    pub(super) node: FilterNode,
    /// The number of negations, alternatives and elements in one another.
    pub(super) depth: usize,
    /// The first error of the builder.
    fault: Option<Box<FilterError>>,
}

impl Filter {
    pub(super) const fn of(node: FilterNode, depth: usize) -> Self {
        Self { node, depth, fault: None }
    }

    fn faulty(place: &str, expected: String) -> Self {
        let fault = FilterError {
            what: "filter",
            offset: None,
            place: place.to_owned(),
            expected: expected.into(),
            found: String::new(),
        };
        Self { node: FilterNode::nothing(), depth: 1, fault: Some(Box::new(fault)) }
    }

    /// Puts conditions that are at most `depth` deep one level deeper.
    fn nested(
        depth: usize,
        fault: Option<Box<FilterError>>,
        node: impl FnOnce() -> FilterNode,
    ) -> Self {
        if fault.is_none() && depth >= FILTER_NESTING_MAX {
            return Self::faulty("", format!("conditions at most {FILTER_NESTING_MAX} deep"));
        }
        if fault.is_some() {
            return Self { node: FilterNode::nothing(), depth: 1, fault };
        }
        Self { node: node(), depth: depth + 1, fault }
    }

    /// The filter that every document matches: `{}`.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// assert_eq!(Filter::everything().to_string(), "{}");
    /// assert!(Filter::everything().is_everything() && Filter::nothing().is_nothing());
    /// assert_eq!(Filter::everything().and(Filter::field("a").eq(1)), Filter::field("a").eq(1));
    /// ```
    pub const fn everything() -> Self {
        Self::of(FilterNode::everything(), 0)
    }

    /// The filter that no document matches.
    ///
    /// ```
    /// use flagstone_doc::{Document, Filter};
    /// let document = Document::from_json("{}")?;
    /// assert!(!document.matches(&Filter::nothing().compile()?));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub fn nothing() -> Self {
        Self::of(FilterNode::nothing(), 1)
    }

    /// Begins a condition on the field at `path`: a [`FieldPath`] or the text of one. If the text
    /// is not that of a path, [`Filter::check`] and [`Filter::compile`] return the error.
    pub fn field<P: TryInto<FieldPath, Error: Into<PathError>>>(path: P) -> FieldTest {
        FieldTest { path: path.try_into().map_err(Into::into) }
    }

    /// Begins a condition on the primary key of the document: `$key` in the text. Only queries and
    /// writes by filter know the key; [`Filter::compile`] refuses such a filter.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::key().gte(10).and(Filter::field("score").lt(5));
    /// assert_eq!(filter.to_string(), r#"{"$key":{"$gte":10},"score":{"$lt":5}}"#);
    /// assert_eq!(Filter::parse(&filter.to_string())?, filter);
    /// assert!(filter.compile().is_err());
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn key() -> FieldTest {
        FieldTest { path: Ok(FieldPath::primary_key()) }
    }

    /// Begins a condition on the element itself, for [`FieldTest::elem_match`].
    ///
    /// ```
    /// use flagstone_doc::{Document, Filter};
    /// let in_range = Filter::value().gte(1).and(Filter::value().lte(5));
    /// let filter = Filter::field("votes").elem_match(in_range);
    /// assert_eq!(filter.to_string(), r#"{"votes":{"$elemMatch":{"$gte":1,"$lte":5}}}"#);
    /// let matcher = filter.compile()?;
    /// assert!(Document::from_json(r#"{"votes":[0,3]}"#)?.matches(&matcher));
    /// assert!(!Document::from_json(r#"{"votes":[0,9]}"#)?.matches(&matcher));   // no vote is both
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub fn value() -> FieldTest {
        FieldTest { path: Ok(FieldPath::root()) }
    }

    /// The filter that documents match if they match all of `filters`.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let wanted = [("author", "ada"), ("state", "open")];
    /// let filter = Filter::all(wanted.map(|(path, value)| Filter::field(path).eq(value)));
    /// assert_eq!(filter.to_string(), r#"{"author":"ada","state":"open"}"#);
    /// assert!(Filter::all([]).is_everything());
    /// ```
    #[must_use]
    pub fn all(filters: impl IntoIterator<Item = Self>) -> Self {
        filters.into_iter().fold(Self::everything(), Self::and)
    }

    /// The filter that documents match if they match any of `filters`.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::any([Filter::field("a").eq(1), Filter::field("b").eq(2)]);
    /// assert_eq!(filter.to_string(), r#"{"$or":[{"a":1},{"b":2}]}"#);
    /// assert!(Filter::any([]).is_nothing());
    /// ```
    #[must_use]
    pub fn any(filters: impl IntoIterator<Item = Self>) -> Self {
        let (mut nodes, mut depth, mut fault) = (Vec::new(), 0, None);
        for filter in filters {
            fault = fault.or(filter.fault);
            depth = depth.max(filter.depth);
            nodes.push(filter.node);
        }
        Self::nested(depth, fault, || any(nodes))
    }

    /// The filter that documents match if they match none of `filters`.
    ///
    /// ```
    /// use flagstone_doc::{Document, Filter};
    /// let filter = Filter::none([Filter::field("a").eq(1), Filter::field("b").eq(2)]).compile()?;
    /// assert!(Document::from_json(r#"{"a":2,"b":1}"#)?.matches(&filter));
    /// assert!(!Document::from_json(r#"{"a":2,"b":2}"#)?.matches(&filter));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    #[must_use]
    pub fn none(filters: impl IntoIterator<Item = Self>) -> Self {
        !Self::any(filters)
    }

    /// Returns the filter that documents match if they match both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let depth = self.depth.max(other.depth);
        let fault = self.fault.or(other.fault);
        Self { node: all([self.node, other.node]), depth, fault }
    }

    /// Returns the filter that documents match if they match one of the two, or both.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::field("a").eq(1).or(Filter::field("b").eq(2)).or(Filter::key().lt(3));
    /// assert_eq!(filter.to_string(), r#"{"$or":[{"a":1},{"b":2},{"$key":{"$lt":3}}]}"#);
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        // A chain of alternatives has one level.
        let is_chain = matches!(self.node, FilterNode::Any(_));
        let depth = self.depth.saturating_sub(is_chain.into()).max(other.depth);
        let fault = self.fault.or(other.fault);
        Self::nested(depth, fault, || any([self.node, other.node]))
    }

    /// Returns whether every document matches, as no condition is given.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// assert!(Filter::parse("{}")?.is_everything());
    /// assert!(!Filter::parse(r#"{"a":{"$nin":[]}}"#)?.is_everything());    // it has a condition
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn is_everything(&self) -> bool {
        self.fault.is_none() && self.node.is_everything()
    }

    /// Returns whether the form of the filter tells that no document matches, as that of
    /// `{"a":{"$in":[]}}` does. False is not certain.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::parse(r#"{"$or":[{"a":{"$in":[]}},{"a":{"$all":[]},"b":1}]}"#)?;
    /// assert!(filter.is_nothing());
    /// assert!(!Filter::parse(r#"{"a":{"$nin":[]}}"#)?.is_nothing());
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn is_nothing(&self) -> bool {
        self.node.never_holds()
    }

    /// Returns whether the filter tells numbers of equal value apart, as `{"a":{"$type":"long"}}`
    /// does. A sort key does not hold what it asks for.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// assert!(Filter::parse(r#"{"a":{"$type":["int","text"]}}"#)?.tells_numbers_apart());
    /// assert!(!Filter::parse(r#"{"a":{"$type":"number"}}"#)?.tells_numbers_apart());
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn tells_numbers_apart(&self) -> bool {
        self.node.tells_numbers()
    }

    /// Returns how many conditions the filter has; each value of a list counts as one, too.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let (one, few) = (Filter::field("a").eq(1), Filter::field("a").one_of([1, 2, 3]));
    /// assert!(few.weight() >= one.weight() + 2);
    /// ```
    pub fn weight(&self) -> usize {
        self.node.weight()
    }

    /// Returns the first error that was made in building the filter.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::field("a").matches("(").and(Filter::field("b").eq(1));
    /// let error = filter.check().unwrap_err();
    /// assert!(error.to_string().contains("at a"), "{error}");
    /// assert!(filter.compile().is_err());
    /// ```
    ///
    /// # Errors
    /// If a path or a pattern is not well-formed, or the filter is nested deeper than
    /// [`FILTER_NESTING_MAX`].
    pub fn check(&self) -> Result<(), FilterError> {
        self.fault.as_ref().map_or(Ok(()), |fault| Err((**fault).clone()))
    }

    /// Compiles the filter for any number of documents.
    ///
    /// # Errors
    /// The errors of [`Filter::check`]; also if the filter reads the [primary key](Filter::key).
    pub fn compile(&self) -> Result<Matcher, FilterError> {
        if self.node.reads_key() {
            return Err(FilterError {
                what: "filter",
                offset: None,
                place: "$key".to_owned(),
                expected: "conditions on the document alone".into(),
                found: "one on its key, which only queries know".to_owned(),
            });
        }
        self.compile_with_key()
    }

    /// Compiles the filter for documents whose keys are known: see [`Matcher::matches_with_key`].
    ///
    /// ```
    /// use flagstone_doc::{Direction, Document, Filter, sort_key};
    /// let matcher = Filter::key().gte(10).compile_with_key()?;
    /// let document = Document::from_json("{}")?;
    /// let matches = |key: i64| {
    ///     let mut bytes = Vec::new();
    ///     sort_key::encode(&key.into(), Direction::Ascending, &mut bytes);
    ///     matcher.matches_with_key(&document.root(), &bytes)
    /// };
    /// assert_eq!((matches(9), matches(10)), (Ok(false), Ok(true)));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Filter::check`].
    pub fn compile_with_key(&self) -> Result<Matcher, FilterError> {
        self.check().map(|()| Matcher::new(&self.node))
    }
}

impl std::ops::Not for Filter {
    type Output = Self;

    /// Returns the filter that documents match if they do not match this one.
    fn not(self) -> Self {
        if let FilterNode::Not(inner) = self.node {
            return Self { node: *inner, depth: self.depth.saturating_sub(1), fault: self.fault };
        }
        Self::nested(self.depth, self.fault, || not(self.node))
    }
}

impl PartialEq for Filter {
    /// Two filters are equal if they have the same text.
    fn eq(&self, other: &Self) -> bool {
        self.fault == other.fault && self.to_string() == other.to_string()
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Some(fault) => write!(f, "Filter(<{fault}>)"),
            None => write!(f, "Filter({self})"),
        }
    }
}

impl TryFrom<&str> for FieldPath {
    type Error = PathError;

    fn try_from(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl TryFrom<&String> for FieldPath {
    type Error = PathError;

    fn try_from(text: &String) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl From<&Self> for FieldPath {
    fn from(path: &Self) -> Self {
        path.clone()
    }
}

/// A condition on a field that lacks its operator: see [`Filter::field`].
///
/// ```
/// use flagstone_doc::{Document, Filter, ValueType};
/// let post = r#"{"id":7,"title":"On weaving","tags":["a","b"],"votes":[1,9]}"#;
/// let post = Document::from_json(post)?;
/// let field = |path: &str| Filter::field(path);
/// let holds = [
///     field("id").ne(8),
///     field("id").lt(8),
///     field("id").modulo(4, 3),
///     field("title").prefix("On ").and(field("title").contains("weav")),
///     field("tags").all_of(["b", "a"]).and(field("tags").size(2)),
///     field("tags").none_of(["x", "y"]),
///     field("votes").is_of_type([ValueType::Array]),
///     field("draft").is_missing().and(field("id").exists()),
/// ];
/// for filter in holds {
///     assert!(post.matches(&filter.compile()?), "{filter}");
/// }
/// // An array matches by any of its elements, each condition by another one.
/// assert!(post.matches(&field("votes").gt(8).and(field("votes").lte(1)).compile()?));
/// // Values of other types are neither less nor greater.
/// assert!(!post.matches(&field("title").gt(0).or(field("title").lt(0)).compile()?));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
///
/// `elem_match` asks one element to meet all conditions:
///
/// ```
/// use flagstone_doc::{Document, Filter};
/// let post = Document::from_json(r#"{"lines":[{"n":1,"by":"x"},{"n":9,"by":"y"}]}"#)?;
/// let by_x = Filter::field("by").eq("x").and(Filter::field("n").gte(5));
/// let apart = Filter::field("lines.by").eq("x").and(Filter::field("lines.n").one_of([9, 10]));
/// assert!(post.matches(&apart.compile()?));                   // two lines, one condition each
/// assert!(!post.matches(&Filter::field("lines").elem_match(by_x).compile()?));
/// assert!(post.matches(&Filter::field("lines.by").matches("^[a-x]$").compile()?));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FieldTest {
    path: Result<FieldPath, PathError>,
}

impl FieldTest {
    fn test(self, test: Test) -> Filter {
        match self.path {
            Ok(path) => Filter::of(FilterNode::Field(path, test), 0),
            Err(error) => Filter::faulty("", format!("a path ({error})")),
        }
    }

    fn value_test(self, test: ValueTest) -> Filter {
        self.test(Test::Value(test))
    }

    fn place(&self) -> String {
        self.path.as_ref().map_or(String::new(), ToString::to_string)
    }

    fn compare(self, comparison: Comparison, value: impl Into<Value>) -> Filter {
        match Operand::new(value.into()) {
            Ok(operand) => self.test(Test::Compare(comparison, operand)),
            Err(expected) => Filter::faulty(&self.place(), expected),
        }
    }

    /// The value equals `value`. A missing value equals null.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Equal, value)
    }

    /// No value equals `value`: the negation of [`FieldTest::eq`]. It holds where all is missing.
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        !self.eq(value)
    }

    /// The value is of the type of `value` and less.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Less, value)
    }

    /// The value is of the type of `value` and at most `value`.
    pub fn lte(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::LessOrEqual, value)
    }

    /// The value is of the type of `value` and greater.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Greater, value)
    }

    /// The value is of the type of `value` and at least `value`.
    pub fn gte(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    /// The value equals one of `values`.
    pub fn one_of<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        let operands: Result<_, _> =
            values.into_iter().map(|value| Operand::new(value.into())).collect();
        match operands {
            Ok(operands) => self.test(one_of(operands)),
            Err(expected) => Filter::faulty(&self.place(), expected),
        }
    }

    /// No value equals one of `values`.
    pub fn none_of<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        !self.one_of(values)
    }

    /// Each of `values` equals the value, or an element of the array.
    pub fn all_of<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        let parts: Vec<Filter> = values.into_iter().map(|value| self.clone().eq(value)).collect();
        if parts.is_empty() { self.test(Test::never()) } else { Filter::all(parts) }
    }

    /// There is a value, even null.
    pub fn exists(self) -> Filter {
        self.test(Test::Exists)
    }

    /// There is no value.
    pub fn is_missing(self) -> Filter {
        !self.exists()
    }

    /// The value has one of these types.
    pub fn is_of_type(self, types: impl IntoIterator<Item = ValueType>) -> Filter {
        let types = types.into_iter().fold(TypeSet::default(), TypeSet::with);
        if types == TypeSet::default() {
            return self.test(Test::never());
        }
        self.value_test(ValueTest::Type(types))
    }

    /// The value is text that begins with `prefix`.
    pub fn prefix(self, prefix: &str) -> Filter {
        self.value_test(ValueTest::Prefix(Prefix(prefix.into())))
    }

    /// The value is text that contains `part`.
    pub fn contains(self, part: &str) -> Filter {
        self.value_test(ValueTest::Contains(Contains::new(part)))
    }

    /// The value is text, and the regular expression `pattern` matches a part of it. Its syntax is
    /// that of the crate `regex`.
    pub fn matches(self, pattern: &str) -> Filter {
        match Pattern::new(pattern, "") {
            Ok(pattern) => self.value_test(ValueTest::Regex(pattern)),
            Err(expected) => Filter::faulty(&self.place(), expected),
        }
    }

    /// The value is a number whose integer part leaves `remainder` when divided by `divisor`. The
    /// remainder has the sign of the number.
    pub fn modulo(self, divisor: i64, remainder: i64) -> Filter {
        match Remainder::new(divisor, remainder) {
            Some(test) => self.value_test(ValueTest::Remainder(test)),
            None => Filter::faulty(&self.place(), "a divisor other than 0".to_owned()),
        }
    }

    /// The value is an array of this many elements.
    pub fn size(self, elements: u64) -> Filter {
        self.test(Test::Size(elements))
    }

    /// The value is an array, and one of its elements matches `filter`, whose paths begin at the
    /// element. [`Filter::value`] is the element itself. A filter without any condition, as
    /// [`Filter::everything`], is one for documents: only elements that are maps or arrays match.
    pub fn elem_match(self, filter: Filter) -> Filter {
        // The condition holds for any element; only an error of the path counts.
        let array = self.test(Test::element(FilterNode::everything()));
        let fault = array.fault.or(filter.fault);
        if fault.is_none() && filter.node.reads_key() {
            return Filter::faulty("$key", "a path, since an element has no key".to_owned());
        }
        Filter::nested(filter.depth, fault, || match array.node {
            FilterNode::Field(path, _) => FilterNode::Field(path, Test::element(filter.node)),
            other => other,
        })
    }
}
