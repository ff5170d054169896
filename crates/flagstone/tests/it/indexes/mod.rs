//! Indexes of collections: they agree with the documents, whatever happens.

mod build;
mod clock;
mod crashes;
mod dates;
mod edges;
mod model;
mod random;
mod resume;
mod unique;
