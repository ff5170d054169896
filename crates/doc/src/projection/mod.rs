//! Projections: the parts of documents that a query returns. The modules are listed from the
//! ground up.

mod tree;

mod spec;

mod apply;

mod compose;

pub use apply::Projector;
pub use compose::Composer;
pub use spec::Projection;
