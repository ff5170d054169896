//! Reports: every figure appears, and the page needs nothing beside it.

mod fixture;

mod page;
