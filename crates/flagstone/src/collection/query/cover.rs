//! Whether the entries of an index have all that a query takes from its documents.
//!
//! An entry proves what its document holds only if
//! - no document has an array on a path of the index, so that the entry is the only one of its
//!   document. Distinct values need that only of the paths of the filter;
//! - none of its components is cut, and, where the text of a number counts, none differs from what
//!   the document holds;
//! - for a projection: a missing field of a field is not enough, since the outer one may be there,
//!   and one component at least has a value, since the document may be no map.
//!
//! Of an entry that does not prove it the document is read.

use super::ask::{Ask, Need, Wanted};
use super::known::Known;
use super::spec::Spec;
use crate::index::{Computed, EntryParts, Flags, IndexField};
use flagstone_doc::sort_key::{END, MISSING, is_container};
use flagstone_doc::{Composer, Direction, FieldPath};

/// How the entries of an index serve a query without documents.
#[derive(Clone, Debug)]
pub(super) struct Cover {
    /// Where the values are that the query takes, in its order.
    pub(super) wanted: Vec<CoveredField>,
    /// What is composed of each entry: paths, and where their values are.
    pub(super) paths: Vec<FieldPath>,
    pub(super) places: Vec<CoveredField>,
    /// The whole filter is checked on what is composed.
    pub(super) is_checked: bool,
    /// What is composed is what the projection keeps.
    pub(super) is_projected: bool,
    /// For a projection: the fields of which one has a value if the document is a map with any of
    /// them.
    pub(super) of_maps: Option<Vec<CoveredField>>,
    /// The order of fields counts, so that of an array or a map the document is read.
    pub(super) is_ordered: bool,
    /// Of an entry with this flag the document is read.
    pub(super) unless: Flags,
}

/// Where a value is in the entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoveredField {
    pub(super) field: usize,
    pub(super) direction: Direction,
    /// The path has more than one step.
    pub(super) is_inner: bool,
}

/// What is known of an access when it is asked whether it covers the query.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) is_exact: bool,
    pub(super) is_key_ordered: bool,
    pub(super) has_order: bool,
}

/// Returns how an index covers the query; `None` if it does not.
pub(super) fn cover(known: &Known<'_>, spec: &Spec, ask: &Ask, given: Given) -> Option<Cover> {
    let wanted = ask.wanted.paths()?;
    // A count by exact bounds needs not even the values.
    if !ask.wanted.reads_documents() && given.is_exact {
        return None;
    }
    if matches!(ask.need, Need::Keys(_)) && !given.is_key_ordered {
        return None;
    }
    // An entry has values, and not the forms of numbers.
    if !given.is_exact && spec.filter.tells_numbers_apart() {
        return None;
    }
    let mut filtered = if given.is_exact { Vec::new() } else { spec.filter.paths() };
    // Every entry has the key of its document.
    filtered.retain(|path| !path.is_primary_key());
    let fields = &known.definition.fields;
    let place = |path: &FieldPath| {
        let field = fields
            .iter()
            .position(|field| field.path == *path && field.computed == Computed::Value)?;
        Some(CoveredField { field, direction: fields[field].direction, is_inner: path.len() > 1 })
    };
    // An index has few fields, so what has many paths is refused here: the rest compares each path
    // with the others.
    let wanted_places = wanted.iter().map(place).collect::<Option<Vec<CoveredField>>>()?;
    if filtered.iter().any(|path| place(path).is_none()) {
        return None;
    }
    let is_single = |field: usize| known.arrays(field).is_none();
    let is_proof = match &ask.wanted {
        Wanted::Distinct { .. } => {
            spec.filter.paths().iter().filter_map(place).all(|place| is_single(place.field))
        }
        _ => (0..fields.len()).all(is_single),
    };
    if !is_proof {
        return None;
    }
    let mut paths = Vec::new();
    let mut add = |path: &FieldPath| {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    };
    let is_projection = matches!(ask.wanted, Wanted::Fields(_));
    if is_projection {
        wanted.iter().for_each(&mut add);
    }
    filtered.iter().for_each(&mut add);
    if let (Need::Sort | Need::Any, Some(sort), false) = (ask.need, &spec.sort, given.has_order)
        && is_projection
    {
        // Every entry has the key, as above.
        let paths = sort.parts().iter().map(|(path, _)| path);
        paths.filter(|path| !path.is_primary_key()).for_each(add);
    }
    Composer::new(&paths)?;
    let is_equal = matches!(
        ask.wanted,
        Wanted::Key
            | Wanted::Columns(_)
            | Wanted::Distinct { .. }
            | Wanted::Values { equal: true, .. }
    );
    Some(Cover {
        wanted: wanted_places,
        places: paths.iter().map(place).collect::<Option<_>>()?,
        is_projected: is_projection && paths.len() == wanted.len(),
        paths,
        is_checked: !given.is_exact && !spec.filter.is_everything(),
        of_maps: is_projection.then(|| of_maps(known)),
        is_ordered: matches!(ask.wanted, Wanted::Distinct { ordered: true, .. }),
        unless: if is_equal { Flags::CUT } else { Flags::INEXACT },
    })
}

/// The fields whose values only maps have.
fn of_maps(known: &Known<'_>) -> Vec<CoveredField> {
    let fields = known.definition.fields.iter().enumerate();
    let of_maps =
        fields.filter(|(_, field)| Composer::new(std::slice::from_ref(&field.path)).is_some());
    let place = |(at, field): (usize, &IndexField)| CoveredField {
        field: at,
        direction: field.direction,
        is_inner: field.path.len() > 1,
    };
    of_maps.map(place).collect()
}

impl Cover {
    /// Returns whether the entry has all that the query takes.
    #[inline]
    pub(super) fn is_proof(&self, entry: &EntryParts<'_>) -> bool {
        if entry.flags.has(self.unless) {
            return false;
        }
        if self.is_ordered && self.wanted.iter().any(|place| place.is_full_container(entry)) {
            return false;
        }
        let Some(of_maps) = &self.of_maps else { return true };
        let is_missing = |place: &CoveredField| place.is_missing(entry);
        !of_maps.iter().all(is_missing)
            && !self.wanted.iter().any(|place| place.is_inner && place.is_missing(entry))
    }
}

impl CoveredField {
    /// Returns the component of an entry there.
    #[inline]
    pub(super) fn of<'e>(&self, entry: &EntryParts<'e>) -> (&'e [u8], Direction) {
        (entry.component(self.field), self.direction)
    }

    /// Returns whether the component is that of an array or a map that is not empty.
    fn is_full_container(&self, entry: &EntryParts<'_>) -> bool {
        let mask = if self.direction == Direction::Descending { 0xFF } else { 0 };
        let component = entry.component(self.field);
        let is_container = component.first().is_some_and(|class| is_container(class ^ mask));
        is_container && component.get(1).is_none_or(|end| end ^ mask != END)
    }

    fn is_missing(&self, entry: &EntryParts<'_>) -> bool {
        let mask = if self.direction == Direction::Descending { 0xFF } else { 0 };
        entry.component(self.field).first() == Some(&(MISSING ^ mask))
    }
}
