//! Walks a document along the segments of a query, and finds one node after the other.
//!
//! The order is that of the standard: all nodes that come from one node of the segment before come
//! before those of the next. Frames on a list of their own replace recursion: one for each
//! container around the current position, so as many as documents may nest.
//!
//! Several descending segments, or several lists of selectors, come to a value many times:
//! `$..*..*` selects it once for each array or map around it, and each further segment multiplies
//! that. Where the nodes are wanted, they are found one by one. But a container in which the rest
//! of the query finds nothing is not walked again, and to count nodes none is walked twice.

use super::children::{self, Child, Children};
use super::model::{FilterSelector, Query, Segment, Selector};
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::view::{Body, View};
use flagstone_base::Malformed;
use std::collections::HashMap;

/// What tests the candidates of filters.
pub(super) trait Tests<'a> {
    /// Returns whether `filter` selects `candidate`. If `again`, the same may be asked again.
    fn holds(
        &mut self,
        filter: &FilterSelector,
        candidate: &View<'a>,
        again: bool,
    ) -> Result<bool, Malformed>;
}

/// A node: a value, and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundNode<'a> {
    pub(super) value: View<'a>,
    /// The container of the value; `None` for the root.
    pub(super) parent: Option<Parent>,
}

/// A place in a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    /// The start of the container in the document.
    pub(super) at: usize,
    pub(super) index: usize,
}

/// A container on the way to the current position.
#[derive(Debug)]
struct WalkFrame<'a> {
    body: Body<'a>,
    /// The start of the container in the document.
    at: usize,
    segment: usize,
    /// The selector at work; after the last one, if the segment descends, the descent.
    selector: usize,
    /// The children that are not visited yet of those that `selector` chooses.
    children: Option<Children<'a>>,
    /// The number of nodes found before this container.
    found_before: u64,
    /// Whether the walk went on into a child.
    has_inner: bool,
}

/// Where the query of a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Outer,
    /// In a filter.
    Inner,
}

/// A walk along a query.
#[derive(Debug)]
pub(super) struct QueryWalk<'q, 'a> {
    segments: &'q [Segment],
    /// The root of the walk, before the walk begins.
    root: Option<View<'a>>,
    frames: Vec<WalkFrame<'a>>,
    found: u64,
    is_counting: bool,
    /// The number of nodes below a container from a segment on, where it is known. While nodes are
    /// listed, only zeros are kept. `None` if few ways lead to one container.
    known: Option<HashMap<(usize, usize), u64>>,
    /// Whether this walk and others of the same query may come to one container again.
    again: bool,
}

/// Returns the node of a query of names and indexes.
pub(super) fn follow<'a>(
    query: &Query,
    root: &View<'a>,
) -> Result<Option<FoundNode<'a>>, Malformed> {
    let mut found = FoundNode { value: *root, parent: None };
    for segment in &query.segments {
        if !found.value.is_full_container() {
            return Ok(None);
        }
        let body = Body::open(&found.value)?;
        let child = match &*segment.selectors {
            [Selector::Name(name)] => children::named(&body, name)?,
            [Selector::Index(index)] => children::at(&body, *index)?,
            _ => None,
        };
        let Some(Child { index, value }) = child else { return Ok(None) };
        found = FoundNode { value, parent: Some(Parent { at: found.value.range().start, index }) };
    }
    Ok(Some(found))
}

impl<'q, 'a> QueryWalk<'q, 'a> {
    /// Creates a walk. The query of an outer walk starts at one root; that of an inner one starts
    /// at the candidates of a filter, one of which may contain another.
    pub(super) fn new(query: &'q Query, root: &View<'a>, position: Position) -> Self {
        let branchings = query.branchings();
        Self {
            segments: &query.segments,
            root: Some(*root),
            frames: Vec::new(),
            found: 0,
            is_counting: false,
            known: (branchings > 1).then(HashMap::new),
            again: branchings > 1 || branchings == 1 && position == Position::Inner,
        }
    }

    /// Returns the next node. There is no further one after an error.
    pub(super) fn next<T: Tests<'a>>(
        &mut self,
        tests: &mut T,
    ) -> Result<Option<FoundNode<'a>>, Malformed> {
        let segments = self.segments;
        if let Some(value) = self.root.take() {
            if segments.is_empty() {
                self.found = 1;
                return Ok(Some(FoundNode { value, parent: None }));
            }
            self.enter(&value, 0)?;
        }
        while let Some(frame) = self.frames.last_mut() {
            let segment = &segments[frame.segment];
            let Some(children) = &mut frame.children else {
                frame.children = opened(frame, segment)?;
                if frame.children.is_none() {
                    self.leave();
                }
                continue;
            };
            let Some(Child { index, value }) = children.next()? else {
                frame.children = None;
                frame.selector += 1;
                continue;
            };
            let (at, number) = (frame.at, frame.segment);
            match segment.selectors.get(frame.selector) {
                Some(Selector::Filter(filter)) if !tests.holds(filter, &value, self.again)? => {}
                Some(_) if number + 1 == segments.len() => {
                    self.found = self.found.saturating_add(1);
                    return Ok(Some(FoundNode { value, parent: Some(Parent { at, index }) }));
                }
                Some(_) => self.enter(&value, number + 1)?,
                None => self.enter(&value, number)?,
            }
        }
        Ok(None)
    }

    /// Returns the number of all nodes.
    pub(super) fn count<T: Tests<'a>>(mut self, tests: &mut T) -> Result<u64, Malformed> {
        self.is_counting = true;
        while self.next(tests)?.is_some() {}
        Ok(self.found)
    }

    /// Goes on to what `segment` selects in `value`.
    fn enter(&mut self, value: &View<'a>, segment: usize) -> Result<(), Malformed> {
        if !value.is_full_container() {
            return Ok(());
        }
        if let Some(outer) = self.frames.last_mut() {
            outer.has_inner = true;
        }
        let at = value.range().start;
        if let Some(count) = self.known.as_ref().and_then(|known| known.get(&(segment, at))) {
            self.found = self.found.saturating_add(*count);
            return Ok(());
        }
        if self.frames.len() == DEPTH_MAX {
            return Err(value.malformed(TOO_DEEP));
        }
        self.frames.push(WalkFrame {
            body: Body::open(value)?,
            at,
            segment,
            selector: 0,
            children: None,
            found_before: self.found,
            has_inner: false,
        });
        Ok(())
    }

    /// Goes back to the container around the current one.
    fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        let count = self.found - frame.found_before;
        // To visit a container without inner ones again costs what it costs to come to it.
        if let Some(known) = &mut self.known
            && frame.has_inner
            && (count == 0 || self.is_counting)
        {
            known.insert((frame.segment, frame.at), count);
        }
    }
}

/// Returns the children that the current selector of a frame chooses; `None` after the last.
fn opened<'a>(frame: &WalkFrame<'a>, segment: &Segment) -> Result<Option<Children<'a>>, Malformed> {
    let body = &frame.body;
    Ok(Some(match segment.selectors.get(frame.selector) {
        Some(Selector::Name(name)) => Children::One(children::named(body, name)?),
        Some(Selector::Index(index)) => Children::One(children::at(body, *index)?),
        Some(Selector::All | Selector::Filter(_)) => Children::all(body),
        Some(Selector::Slice(slice)) => Children::slice(body, *slice),
        None if segment.descends && frame.selector == segment.selectors.len() => {
            Children::all(body)
        }
        None => return Ok(None),
    }))
}
