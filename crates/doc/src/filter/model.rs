//! What a filter consists of, in one normal form.

use super::operator;
use super::types::TypeSet;
use super::value_test::ValueTest;
use crate::encode::Encoder;
use crate::field_path::{FieldPath, Step};
use crate::value::Value;
use crate::value_type::ValueType;
use crate::view::View;
use flagstone_base::sorted::sort_by;
use std::cmp::Ordering;
use std::sync::Arc;

/// A condition on a document, or on an element of an array.
///
/// There is no node for what others express: `$ne` is the negation of `$eq`, `$nor` that of an
/// `Any`, `$all` is several `$eq`. [`all`], [`any`] and [`not`] keep the normal form: no `All` in
/// an `All`, no `Any` in an `Any`, neither with one part only, and no two negations.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FilterNode {
    /// All conditions hold; without conditions it always holds.
    All(Vec<FilterNode>),
    /// At least one of two or more conditions holds.
    Any(Vec<FilterNode>),
    Not(Box<FilterNode>),
    /// The test holds for something that the path reaches.
    Field(FieldPath, Test),
}

/// A condition on what a path reaches.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// Any value is there, even null.
    Exists,
    Compare(Comparison, Operand),
    /// The value equals one of these, which are distinct and in ascending order.
    In(Vec<Operand>),
    Value(ValueTest),
    /// An array has this many elements.
    Size(u64),
    /// The condition holds for an element of an array. Its paths begin at the element, and the
    /// empty path is the element itself.
    Element(Box<FilterNode>),
}

impl Test {
    /// The test that no value passes. Its condition keeps its path, unlike
    /// [`FilterNode::nothing`]: in an `$elemMatch` a path other than the empty one means that the
    /// element must be a map.
    pub(super) const fn never() -> Self {
        Self::In(Vec::new())
    }

    /// Makes the test that an element of an array meets `node`. A condition on nothing, such as
    /// that of `{}`, is one on documents: as in MongoDB only maps and arrays meet it.
    pub(super) fn element(node: FilterNode) -> Self {
        if node.names_a_path() {
            return Self::Element(Box::new(node));
        }
        let types = TypeSet::default().with(ValueType::Array).with(ValueType::Map);
        let is_document = FilterNode::Field(FieldPath::root(), Self::Value(ValueTest::Type(types)));
        Self::Element(Box::new(all([node, is_document])))
    }

    /// Returns the name of the operator that expresses the test.
    pub(super) const fn operator(&self) -> &'static str {
        match self {
            Self::Exists => operator::EXISTS,
            Self::Compare(comparison, _) => comparison.operator(),
            Self::In(_) => operator::IN,
            Self::Value(test) => test.name(),
            Self::Size(_) => operator::SIZE,
            Self::Element(_) => operator::ELEMENT,
        }
    }

    /// Returns how many values the test lists, and the weight of a condition in it.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::In(operands) => operands.len(),
            Self::Element(node) => node.weight(),
            _ => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) const fn operator(self) -> &'static str {
        match self {
            Self::Equal => operator::EQUAL,
            Self::Less => operator::LESS,
            Self::LessOrEqual => operator::LESS_OR_EQUAL,
            Self::Greater => operator::GREATER,
            Self::GreaterOrEqual => operator::GREATER_OR_EQUAL,
        }
    }

    pub(super) const fn takes_equal(self) -> bool {
        matches!(self, Self::Equal | Self::LessOrEqual | Self::GreaterOrEqual)
    }

    /// Returns whether the comparison holds for a value that has this order to the operand.
    #[inline]
    pub(super) const fn takes(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// What a condition is tested on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Document,
    /// An element of an array. The empty path is the element itself, and if the element is an
    /// array, its elements do not count.
    Element,
}

/// A value that others are compared with, also in the binary form.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) value: Arc<Value>,
    bytes: Arc<[u8]>,
}

impl Operand {
    /// Makes an operand; the error says what was expected of the value.
    pub(super) fn new(value: Value) -> Result<Self, String> {
        let mut bytes = Vec::new();
        match Encoder::new().encode(&value, None, &mut bytes) {
            Ok(_) => Ok(Self { value: Arc::new(value), bytes: bytes.into() }),
            Err(error) => Err(format!("a value that can be stored ({error})")),
        }
    }

    pub(super) fn view(&self) -> View<'_> {
        // These are bytes of the encoder: the fallback is never used.
        View::of(&self.bytes, None).unwrap_or(View::NULL)
    }

    pub(super) fn is_nan(&self) -> bool {
        matches!(*self.value, Value::Float(float) if float.is_nan())
    }
}

impl PartialEq for Operand {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl FilterNode {
    /// The condition that always holds.
    pub(super) const fn everything() -> Self {
        Self::All(Vec::new())
    }

    /// The condition that never holds.
    pub(super) fn nothing() -> Self {
        Self::Not(Box::new(Self::everything()))
    }

    pub(super) fn is_everything(&self) -> bool {
        matches!(self, Self::All(parts) if parts.is_empty())
    }

    /// Returns the conditions that must all hold.
    pub(super) fn conjuncts(&self) -> &[Self] {
        match self {
            Self::All(parts) => parts,
            other => std::slice::from_ref(other),
        }
    }

    /// Appends all paths that the condition reads. Of a condition on elements it is the path of the
    /// array, because all that the condition reads is in there.
    pub(super) fn collect_paths(&self, out: &mut Vec<FieldPath>) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.collect_paths(out));
            }
            Self::Not(part) => part.collect_paths(out),
            Self::Field(path, _) => out.push(path.clone()),
        }
    }

    /// Returns whether `holds` is true for all paths of [`FilterNode::collect_paths`].
    pub(super) fn all_paths(&self, holds: &mut impl FnMut(&FieldPath) -> bool) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().all(|part| part.all_paths(holds)),
            Self::Not(part) => part.all_paths(holds),
            Self::Field(path, _) => holds(path),
        }
    }

    /// Returns whether the condition reads the path of these steps.
    pub(super) fn reads(&self, steps: &[Step]) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.reads(steps)),
            Self::Not(part) => part.reads(steps),
            Self::Field(array, Test::Element(node)) => {
                let rest = steps.strip_prefix(array.steps());
                rest.is_some_and(|rest| rest.is_empty() || node.reads(rest))
            }
            Self::Field(path, _) => path.steps() == steps,
        }
    }

    /// Returns whether the condition is the same for all documents: it always holds or never does.
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().all(Self::is_constant),
            Self::Not(part) => part.is_constant(),
            Self::Field(_, test) => *test == Test::never(),
        }
    }

    /// Returns whether the condition never holds, whatever the document, as far as its form tells:
    /// a list of no values never does, and neither does what needs such a list.
    pub(super) fn never_holds(&self) -> bool {
        match self {
            Self::All(parts) => parts.iter().any(Self::never_holds),
            Self::Any(parts) => parts.iter().all(Self::never_holds),
            Self::Not(part) => part.always_holds(),
            Self::Field(_, Test::Element(node)) => node.never_holds(),
            Self::Field(_, test) => *test == Test::never(),
        }
    }

    fn always_holds(&self) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(Self::always_holds),
            Self::Any(parts) => parts.iter().any(Self::always_holds),
            Self::Not(part) => part.never_holds(),
            Self::Field(..) => false,
        }
    }

    /// Returns whether the condition tells numbers of equal value apart.
    pub(super) fn tells_numbers(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::tells_numbers),
            Self::Not(part) => part.tells_numbers(),
            Self::Field(_, Test::Element(node)) => node.tells_numbers(),
            Self::Field(_, Test::Value(ValueTest::Type(types))) => types.tells_numbers(),
            Self::Field(..) => false,
        }
    }

    /// Returns how many conditions there are; each value of a list counts as one, too.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                1 + parts.iter().map(Self::weight).sum::<usize>()
            }
            Self::Not(part) => 1 + part.weight(),
            Self::Field(_, test) => 1 + test.weight(),
        }
    }

    /// Returns whether the condition reads the primary key.
    pub(super) fn reads_key(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::reads_key),
            Self::Not(part) => part.reads_key(),
            Self::Field(path, Test::Element(node)) => path.is_primary_key() || node.reads_key(),
            Self::Field(path, _) => path.is_primary_key(),
        }
    }

    /// Returns whether some path in the condition is not the empty one, so that it can hold for
    /// maps alone.
    pub(super) fn names_a_field(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::names_a_field),
            Self::Not(part) => part.names_a_field(),
            Self::Field(path, _) => !path.is_root(),
        }
    }

    /// Returns whether there is a path in the condition, maybe the empty one.
    fn names_a_path(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().any(Self::names_a_path),
            Self::Not(part) => part.names_a_path(),
            Self::Field(..) => true,
        }
    }
}

/// Joins conditions that must all hold. A list at the front grows, so that a chain of many joins
/// takes linear time.
pub(super) fn all(parts: impl IntoIterator<Item = FilterNode>) -> FilterNode {
    let mut out = Vec::new();
    for part in parts {
        match part {
            FilterNode::All(inner) if out.is_empty() => out = inner,
            FilterNode::All(inner) => out.extend(inner),
            other => out.push(other),
        }
    }
    match out.pop() {
        Some(only) if out.is_empty() => only,
        last => {
            out.extend(last);
            FilterNode::All(out)
        }
    }
}

/// Joins conditions of which at least one must hold. Of no conditions none can.
pub(super) fn any(parts: impl IntoIterator<Item = FilterNode>) -> FilterNode {
    let mut out = Vec::new();
    for part in parts {
        match part {
            FilterNode::Any(inner) if out.is_empty() => out = inner,
            FilterNode::Any(inner) => out.extend(inner),
            other => out.push(other),
        }
    }
    match out.pop() {
        None => FilterNode::nothing(),
        Some(only) if out.is_empty() => only,
        Some(last) => {
            out.push(last);
            FilterNode::Any(out)
        }
    }
}

pub(super) fn not(part: FilterNode) -> FilterNode {
    match part {
        FilterNode::Not(inner) => *inner,
        other => FilterNode::Not(Box::new(other)),
    }
}

/// Makes the test for one of these values.
pub(super) fn one_of(mut operands: Vec<Operand>) -> Test {
    sort_by(&mut operands, |a, b| a.value.cmp(&b.value));
    operands.dedup();
    Test::In(operands)
}
