//! Follows a path through the bytes of a document: the containers on it and their areas.

use super::form::PathSegment;
use crate::layout::form;
use crate::names::Names;
use crate::view::{AreaPositions, Body, ValueBounds, View};
use flagstone_base::Malformed;

/// A container on the path, and the value in it to which the next step leads.
#[derive(Clone, Debug)]
pub(super) struct ContainerOnPath {
    pub(super) container: ContainerLayout,
    pub(super) index: usize,
    pub(super) slot: ValueBounds,
}

/// The form of a container and the positions of its areas.
#[derive(Clone, Debug)]
pub(super) struct ContainerLayout {
    pub(super) form: u8,
    pub(super) count: usize,
    pub(super) areas: AreaPositions,
}

/// The place where a path ends.
#[derive(Debug)]
pub(super) enum End<'a> {
    /// A value.
    Value(View<'a>),
    /// A container that has no value for this step but can get one.
    Missing { container: ContainerLayout, is_last: bool },
    /// A container that is empty or has keys of any value; its bytes are not spliced.
    Other,
    /// A place where the step is impossible.
    Blocked,
}

impl ContainerLayout {
    pub(super) fn of(body: &Body<'_>) -> Self {
        Self { form: body.form, count: body.count, areas: body.areas() }
    }

    /// Returns whether all values share one tag.
    pub(super) const fn has_one_tag(&self) -> bool {
        self.form == form::ARRAY_OF_ONE_TAG
    }

    /// Returns the number of bytes of a name's id; 0 if names are stored inline or there are none.
    pub(super) const fn id_width(&self) -> usize {
        match self.form {
            form::IDS_1 => 1,
            form::IDS_2 => 2,
            _ => 0,
        }
    }
}

/// Follows `steps` from the root of `document`; `levels` receives the containers on the path.
/// `index_of` reads the index of an array from a step.
pub(super) fn follow<'a, 's>(
    document: &'a [u8],
    names: Option<&'a Names>,
    mut steps: impl ExactSizeIterator<Item = PathSegment<'s>>,
    index_of: impl Fn(&str) -> Option<usize>,
    levels: &mut Vec<ContainerOnPath>,
) -> Result<End<'a>, Malformed> {
    levels.clear();
    let mut here = View::of(document, names)?;
    while let Some(step) = steps.next() {
        let index = index_of(step.name);
        if !here.is_full_container() {
            let takes = here.is_map() || here.is_array() && index == Some(0);
            return Ok(if takes { End::Other } else { End::Blocked });
        }
        let body = Body::open(&here)?;
        let found = match body.form {
            form::ARRAY | form::ARRAY_OF_ONE_TAG => match index {
                Some(index) if index <= body.count => Some(index).filter(|i| *i < body.count),
                _ => return Ok(End::Blocked),
            },
            form::PAIRS => return Ok(End::Other),
            _ => find(&body, step)?,
        };
        let Some(index) = found else {
            let container = ContainerLayout::of(&body);
            return Ok(End::Missing { container, is_last: steps.len() == 0 });
        };
        here = enter(&body, index, levels)?;
    }
    Ok(End::Value(here))
}

/// Returns the value `index` of a container, and adds its level.
pub(super) fn enter<'a>(
    body: &Body<'a>,
    index: usize,
    levels: &mut Vec<ContainerOnPath>,
) -> Result<View<'a>, Malformed> {
    let place = body.exact_place(index);
    let slot = body.slot(place)?;
    levels.push(ContainerOnPath { container: ContainerLayout::of(body), index, slot });
    body.value(place)
}

/// Returns the index of a step in a map of names.
fn find(body: &Body<'_>, step: PathSegment<'_>) -> Result<Option<usize>, Malformed> {
    match step.id {
        Some(id) if body.form != form::INLINE_NAMES => Ok(body.find_id(id)),
        _ => body.find(step.name),
    }
}
