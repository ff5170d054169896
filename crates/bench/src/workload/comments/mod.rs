//! Comments with indexes over engines that have a [`CommentStore`](crate::engine::CommentStore):
//! questions, the cost of indexes for writes, and the creation of an index beside writes. And keys
//! with many values, over every engine.

mod facts;

mod fill;

mod ask;
mod build;
mod postings;
mod write;

pub(super) use ask::Questions;
pub(super) use build::builds;
pub(super) use fill::comments_of;
pub(super) use postings::postings;
pub(super) use write::writes;
