//! What a query needs of its plan, and takes from the documents that it finds.

use flagstone_doc::{Direction, FieldPath, Projection};

/// What a query needs of its plan.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) need: Need,
    pub(super) wanted: Wanted,
    /// Positions are asked for, to continue there.
    pub(super) is_paged: bool,
    /// All documents may be read, and they are more than the cache should hold.
    pub(super) is_bulk: bool,
}

impl Ask {
    pub(super) const fn new(need: Need, wanted: Wanted) -> Self {
        Self { need, wanted, is_paged: false, is_bulk: false }
    }
}

/// The order that a query needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The documents in any order.
    Any,
    /// In the order of their stored keys.
    Keys(Direction),
    /// In the order of the sort, which has fields, if an index has it; the caller sorts if not.
    Sort,
}

impl Need {
    /// The direction of the stored keys, if they are the order.
    pub(super) const fn by_key(self) -> Option<Direction> {
        match self {
            Self::Keys(direction) => Some(direction),
            Self::Any | Self::Sort => None,
        }
    }
}

/// What a query takes from each document that matches.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// Its key alone.
    Key,
    /// All of it.
    Document,
    /// The fields that a projection keeps.
    Fields(Vec<FieldPath>),
    /// The values at these paths, each by itself: the least value equal to each suffices, unless
    /// the reader asks for the document.
    Columns(Vec<FieldPath>),
    /// The distinct values at a path. It does not matter which document has them. If `ordered`,
    /// maps with another order of fields are other values, which no sort key tells.
    Distinct { path: FieldPath, ordered: bool },
    /// The values at these paths, for a group. If `equal`, the least value equal to each suffices:
    /// `1.1` for `1.10`.
    Values { paths: Vec<FieldPath>, equal: bool },
}

impl Wanted {
    /// What a cursor of the query takes.
    pub(super) fn of(projection: Option<&Projection>) -> Self {
        match projection {
            Some(fields) if fields.is_inclusion() => Self::Fields(fields.paths().to_vec()),
            _ => Self::Document,
        }
    }

    /// The paths of the values that are taken; `None` if that is not all.
    pub(super) fn paths(&self) -> Option<&[FieldPath]> {
        match self {
            Self::Key => Some(&[]),
            Self::Document => None,
            Self::Fields(paths) | Self::Columns(paths) | Self::Values { paths, .. } => Some(paths),
            Self::Distinct { path, .. } => Some(std::slice::from_ref(path)),
        }
    }

    /// Returns whether the documents themselves are read, unless an index covers what is taken.
    pub(super) const fn reads_documents(&self) -> bool {
        !matches!(self, Self::Key)
    }
}
