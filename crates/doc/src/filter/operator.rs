//! The names of the operators that the parser reads and the printer writes. Those that test each
//! value by itself are in the table of [`ValueTest`](super::value_test::ValueTest).

pub(super) const AND: &str = "$and";
pub(super) const OR: &str = "$or";
pub(super) const NOR: &str = "$nor";
pub(super) const NOT: &str = "$not";
pub(super) const EQUAL: &str = "$eq";
pub(super) const NOT_EQUAL: &str = "$ne";
pub(super) const LESS: &str = "$lt";
pub(super) const LESS_OR_EQUAL: &str = "$lte";
pub(super) const GREATER: &str = "$gt";
pub(super) const GREATER_OR_EQUAL: &str = "$gte";
pub(super) const IN: &str = "$in";
pub(super) const NOT_IN: &str = "$nin";
pub(super) const ALL: &str = "$all";
pub(super) const EXISTS: &str = "$exists";
pub(super) const SIZE: &str = "$size";
pub(super) const ELEMENT: &str = "$elemMatch";
