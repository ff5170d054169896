//! The way to a value in the bytes of a document: the containers on it, and where their areas lie.

use super::form::{Step, Steps};
use crate::layout::form;
use crate::names::Names;
use crate::view::{Areas, Body, Slot, View};
use flagstone_base::Malformed;

/// A container on the way, and the value in it that is the next one on the way.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) container: Container,
    pub(super) index: usize,
    pub(super) slot: Slot,
}

/// Where the parts of a container lie.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) form: u8,
    pub(super) count: usize,
    pub(super) areas: Areas,
}

/// Where a way ends.
#[derive(Debug)]
pub(super) enum End<'a> {
    /// At a value.
    Value(View<'a>),
    /// In a container without this step, which could be given it.
    Missing { container: Container, is_last: bool },
    /// In a container that is empty or has keys of any value: its bytes are not spliced.
    Other,
    /// Where no step can lead on.
    Blocked,
}

impl Container {
    pub(super) fn of(body: &Body<'_>) -> Self {
        Self { form: body.form, count: body.count, areas: body.areas() }
    }

    /// Whether its values share one tag.
    pub(super) const fn has_one_tag(&self) -> bool {
        self.form == form::ARRAY_OF_ONE_TAG
    }

    /// How many bytes the id of a name takes; 0 where names stand inline or there are none.
    pub(super) const fn id_width(&self) -> usize {
        match self.form {
            form::IDS_1 => 1,
            form::IDS_2 => 2,
            _ => 0,
        }
    }
}

/// Walks `steps` from the root of `document`; `levels` are the containers that were left behind.
pub(super) fn follow<'a>(
    document: &'a [u8],
    names: Option<&'a Names>,
    mut steps: Steps<'a>,
    levels: &mut Vec<Level>,
) -> Result<End<'a>, Malformed> {
    levels.clear();
    let mut here = View::of(document, names)?;
    while let Some(step) = steps.next() {
        let index = step.name.parse::<usize>().ok();
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
        let container = Container::of(&body);
        let Some(index) = found else {
            return Ok(End::Missing { container, is_last: steps.left() == 0 });
        };
        let place = body.exact_place(index);
        let slot = body.slot(place)?;
        levels.push(Level { container, index, slot });
        here = body.value(place)?;
    }
    Ok(End::Value(here))
}

/// The place of a step in a map that has names.
fn find(body: &Body<'_>, step: Step<'_>) -> Result<Option<usize>, Malformed> {
    match step.id {
        Some(id) if body.form != form::INLINE_NAMES => Ok(body.find_id(id)),
        _ => body.find(step.name),
    }
}
