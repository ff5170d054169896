//! Follows a path in a stored document, through arrays.

use super::path::{FieldPath, Step};
use crate::view::View;
use flagstone_base::Malformed;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// What a path finds at one of its ends.
#[derive(Clone, Copy, Debug)]
pub enum Reached<'a> {
    /// A value. An array is given as a whole.
    Value(View<'a>),
    /// No value: a map on the way lacks the field, or a scalar is on the way.
    Missing,
}

/// Where on a path there are arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arrays(u64);

impl Arrays {
    /// No arrays: the path reaches one value at most.
    pub const NONE: Self = Self(0);
    /// There may be arrays anywhere.
    pub const ANY: Self = Self(u64::MAX);

    /// Returns the arrays that these bits describe: bit `n` is set if there may be an array after
    /// `n` steps. Bit 63 is for all steps from there on.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits that [`Arrays::from_bits`] reads.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether there are none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the places of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the arrays with one more after `steps` steps.
    #[must_use]
    pub(crate) const fn with(self, steps: usize) -> Self {
        Self(self.0 | 1 << if steps < 63 { steps } else { 63 })
    }

    /// Returns the places inside of the elements of an array that is `steps` steps away. An
    /// element that is a map is no array itself.
    #[must_use]
    pub(crate) const fn inside(self, steps: usize) -> Self {
        // The last bit stays: its arrays may be any number of steps further.
        let last = self.0 & 1 << 63;
        if steps < 63 { Self((self.0 >> steps | last) & !1) } else { Self::ANY }
    }
}

/// What happened on all the ways of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The arrays that the path passed through. One at its end does not count.
    pub arrays: Arrays,
    /// Whether something was missing: see [`Reached::Missing`].
    pub missing: bool,
    /// The number of values reached.
    pub values: usize,
}

/// The result of a visit: whether to go on.
pub(crate) type Flow = Result<ControlFlow<()>, Malformed>;

impl FieldPath {
    /// Calls `visit` for each value that the path reaches in the value of `root`, in the order of
    /// the document, and where something is missing, until `visit` breaks. Decodes nothing else.
    ///
    /// An array on the way is crossed, one level at a time:
    /// - a name is looked up in each element that is a map; it is missing where such a map lacks
    ///   it, and other elements give nothing, not even something missing;
    /// - an index leads to the element there; a step of digits in a dotted path also leads to the
    ///   field of this name in each element that is a map. Beyond the end there is nothing. Where
    ///   several such steps lead to one array in several ways, it is crossed once.
    ///
    /// So `a.b` reaches nothing at all in `{"a":[]}` and in `{"a":[1]}`.
    ///
    /// # Errors
    /// If the bytes read are malformed, and the errors of `visit`.
    pub fn reach<'a>(
        &self,
        root: &View<'a>,
        visit: impl FnMut(Reached<'a>) -> Result<ControlFlow<()>, Malformed>,
    ) -> Result<Trace, Malformed> {
        let mut forks = self.steps().iter().filter(|step| matches!(step, Step::Either(..)));
        let crossed = forks.nth(1).map(|_second| HashSet::new());
        let mut walk = PathWalk { visit, trace: Trace::default(), len: self.len(), crossed };
        let _complete_or_not = walk.follow(*root, self.steps())?;
        Ok(walk.trace)
    }
}

struct PathWalk<V> {
    visit: V,
    trace: Trace,
    /// The number of all steps of the path.
    len: usize,
    /// The arrays that were crossed, by their offsets, and the steps that were left. A step of
    /// digits has two ways, so several such steps lead to one place in many ways: 2^n for n arrays
    /// in one another. `None` if the path has at most one such step.
    crossed: Option<HashSet<(usize, usize)>>,
}

impl<'a, V: FnMut(Reached<'a>) -> Flow> PathWalk<V> {
    /// Follows `steps` from `view`. It calls itself once at most for each step.
    fn follow(&mut self, mut view: View<'a>, mut steps: &[Step]) -> Flow {
        while let Some((step, rest)) = steps.split_first() {
            if view.is_array() {
                return self.cross(&view, step, rest);
            }
            let next = step.name().map_or(Ok(None), |name| view.field(name))?;
            let Some(next) = next else {
                self.trace.missing = true;
                return (self.visit)(Reached::Missing);
            };
            (view, steps) = (next, rest);
        }
        self.trace.values += 1;
        (self.visit)(Reached::Value(view))
    }

    /// Follows `step`, then `rest`, in the elements of an array.
    fn cross(&mut self, array: &View<'a>, step: &Step, rest: &[Step]) -> Flow {
        self.trace.arrays = self.trace.arrays.with(self.len - 1 - rest.len());
        if let Some(crossed) = &mut self.crossed
            && array.is_full_container()
            && !crossed.insert((array.offset(), rest.len()))
        {
            return Ok(ControlFlow::Continue(()));
        }
        if let Step::Index(index) | Step::Either(index, _) = step
            && let Some(item) = array.at(*index)?
            && self.follow(item, rest)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let Some(name) = step.name() else { return Ok(ControlFlow::Continue(())) };
        for item in array.items()? {
            let item = item?;
            if !item.is_map() {
                continue;
            }
            let flow = match item.field(name)? {
                Some(value) => self.follow(value, rest)?,
                None if matches!(step, Step::Either(..)) => continue,
                None => {
                    self.trace.missing = true;
                    (self.visit)(Reached::Missing)?
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
