//! MongoDB's updates: operators such as `$set` and `$push`, and documents that replace another one.
//!
//! ```text
//! {"$set": {"a.b": 1}, "$push": {"c.$[x]": 2}}        parse
//!     --> a tree of paths, with an action at each end     tree, action
//!     --> applied to a document                           apply
//!     --> of a collection, by its key or a filter         stored
//! ```
//! The tree makes the order of changes independent of the order of the operators: names in
//! lexicographic order, positions in numeric order and first. New fields get this order.
//!
//! A refused update leaves the document as it was.

mod path;

mod condition;

mod push;

mod action;

mod tree;

mod parse;

mod apply;

mod upsert;

mod stored;

pub use apply::Context;
pub use parse::Update;
