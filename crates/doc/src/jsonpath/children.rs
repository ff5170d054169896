//! The children of an array or a map, as selectors choose them: by name, index, slice, or all.
//!
//! A pair of a map whose key is not text has no place in a JSONPath, so it is no child.

use super::model::Slice;
use crate::layout::form;
use crate::view::{Body, ValueOffset, View};
use flagstone_base::Malformed;

/// A value, and its index in the array or map that holds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    pub(super) index: usize,
    pub(super) value: View<'a>,
}

const fn is_array(body: &Body<'_>) -> bool {
    body.form <= form::ARRAY_OF_ONE_TAG
}

/// Returns the field `name` of a map; `None` if there is none or the container is an array.
pub(super) fn named<'a>(body: &Body<'a>, name: &str) -> Result<Option<Child<'a>>, Malformed> {
    if is_array(body) {
        return Ok(None);
    }
    if body.form == form::PAIRS {
        let mut place = body.start();
        while place.index < body.count {
            let key = body.value(place)?;
            body.step(&mut place);
            if key.as_text_bytes() == Some(name.as_bytes()) {
                return child(body, place).map(Some);
            }
            body.step(&mut place);
        }
        return Ok(None);
    }
    body.find(name)?.map(|index| child(body, body.place(index))).transpose()
}

/// Returns the element `index` of an array; a negative index counts from the end. Returns `None`
/// beyond the ends, or if the container is a map.
pub(super) fn at<'a>(body: &Body<'a>, index: i64) -> Result<Option<Child<'a>>, Malformed> {
    if !is_array(body) {
        return Ok(None);
    }
    let index = usize::try_from(from_start(index, body.count as i64)).ok();
    let index = index.filter(|index| *index < body.count);
    index.map(|index| child(body, body.place(index))).transpose()
}

/// Returns the number of children.
pub(super) fn count(body: &Body<'_>) -> Result<usize, Malformed> {
    if body.form != form::PAIRS {
        return Ok(body.count);
    }
    let mut all = Children::all(body);
    let mut count = 0;
    while all.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Returns the child whose value is at `place`.
fn child<'a>(body: &Body<'a>, place: ValueOffset) -> Result<Child<'a>, Malformed> {
    let index = if body.form == form::PAIRS { place.index / 2 } else { place.index };
    Ok(Child { index, value: body.value(place)? })
}

/// Turns an index that may count from the end into one that counts from the start; it may lie
/// beyond either end.
const fn from_start(index: i64, count: i64) -> i64 {
    if index < 0 { index + count } else { index }
}

/// Those children of one container that a selector chooses, in its order.
#[derive(Clone, Debug)]
pub(super) enum Children<'a> {
    One(Option<Child<'a>>),
    /// Every `step`-th value from `place` up to, but without, the index `end`.
    Forward {
        body: Body<'a>,
        place: ValueOffset,
        step: usize,
        end: usize,
    },
    /// The values at `places`, the last one first.
    Backward {
        body: Body<'a>,
        places: Vec<ValueOffset>,
    },
}

impl<'a> Children<'a> {
    /// Returns all children.
    pub(super) const fn all(body: &Body<'a>) -> Self {
        Self::Forward { body: *body, place: body.start(), step: 1, end: body.count }
    }

    /// Returns the elements of a slice of an array; none of a map.
    pub(super) fn slice(body: &Body<'a>, slice: Slice) -> Self {
        let count = body.count as i64;
        let Slice { start, end, step } = slice;
        if !is_array(body) || step == 0 {
            return Self::One(None);
        }
        if step > 0 {
            let start = from_start(start.unwrap_or(0), count).clamp(0, count);
            let end = from_start(end.unwrap_or(count), count).clamp(0, count);
            if start >= end {
                return Self::One(None);
            }
            let place = body.exact_place(start as usize);
            return Self::Forward { body: *body, place, step: step as usize, end: end as usize };
        }
        let first = start.map_or(count - 1, |start| from_start(start, count)).clamp(-1, count - 1);
        let last = end.map_or(-1, |end| from_start(end, count)).clamp(-1, count - 1);
        let mut places = Vec::new();
        let mut place = body.start();
        while (place.index as i64) <= first {
            let index = place.index as i64;
            if index > last && (first - index) % step == 0 {
                places.push(place);
            }
            body.step(&mut place);
        }
        Self::Backward { body: *body, places }
    }

    /// Returns the next child. There is no further one after an error.
    pub(super) fn next(&mut self) -> Result<Option<Child<'a>>, Malformed> {
        match self {
            Self::One(one) => Ok(one.take()),
            Self::Forward { body, place, end, .. } if body.form == form::PAIRS => {
                while place.index < *end {
                    let key = body.value(*place)?;
                    body.step(place);
                    let value = *place;
                    body.step(place);
                    if key.as_text_bytes().is_some() {
                        return child(body, value).map(Some);
                    }
                }
                Ok(None)
            }
            Self::Forward { body, place, step, end } => {
                if place.index >= *end {
                    return Ok(None);
                }
                let found = child(body, *place)?;
                let next = place.index.saturating_add(*step).min(*end);
                while place.index < next {
                    body.step(place);
                }
                Ok(Some(found))
            }
            Self::Backward { body, places } => {
                places.pop().map(|place| child(body, place)).transpose()
            }
        }
    }
}
