//! The nodes of a query on a document, one after the other.

use super::filter::Evaluation;
use super::model::{CacheSlot, Query};
use super::node::Node;
use super::walk::{Position, QueryWalk, follow};
use crate::view::View;
use flagstone_base::Malformed;

/// An iterator over the nodes that a [`JsonPath`](super::JsonPath) selects. It finds each when it
/// is asked for, and ends after an error.
#[derive(Debug)]
pub struct Nodes<'p, 'a> {
    root: View<'a>,
    state: NodesState<'p, 'a>,
}

#[derive(Debug)]
enum NodesState<'p, 'a> {
    /// A query of names and indexes needs no state.
    Single(&'p Query),
    Walk(Box<(QueryWalk<'p, 'a>, Evaluation<'a>)>),
    Ended,
}

impl<'p, 'a> Nodes<'p, 'a> {
    /// Returns the nodes of a query that uses `slots` slots.
    pub(super) fn new(
        query: &'p Query,
        is_single: bool,
        slots: CacheSlot,
        root: &View<'a>,
    ) -> Self {
        let state = if is_single {
            NodesState::Single(query)
        } else {
            let walk = QueryWalk::new(query, root, Position::Outer);
            NodesState::Walk(Box::new((walk, Evaluation::new(root, slots))))
        };
        Self { root: *root, state }
    }
}

impl<'a> Iterator for Nodes<'_, 'a> {
    type Item = Result<Node<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match &mut self.state {
            NodesState::Single(query) => {
                let found = follow(query, &self.root);
                self.state = NodesState::Ended;
                found
            }
            NodesState::Walk(walk) => {
                let (walk, evaluation) = &mut **walk;
                walk.next(evaluation)
            }
            NodesState::Ended => return None,
        };
        if !matches!(found, Ok(Some(_))) {
            self.state = NodesState::Ended;
        }
        found.transpose().map(|found| found.map(|found| Node::new(self.root, found)))
    }
}

impl std::iter::FusedIterator for Nodes<'_, '_> {}
