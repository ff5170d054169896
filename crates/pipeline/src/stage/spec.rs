//! The stages of a pipeline, parsed.

use super::bucket::AutoBuckets;
use super::condition::Match;
use super::densify::Densify;
use super::fields::Fields;
use super::graph::Graph;
use super::group::Group;
use super::redact::Redact;
use super::sort::Sort;
use super::unwind::Unwind;
use super::window::Window;
use crate::expression::Node;
use std::sync::Arc;

/// The stages of a pipeline, in their order.
pub(crate) type Stages = Arc<[Stage]>;

/// A stage.
#[derive(Clone)]
pub(crate) enum Stage {
    Match(Arc<Match>),
    /// `$project`, `$addFields`, `$set`, `$unset`.
    Fields(Arc<Fields>),
    Sort(Sort),
    Skip(u64),
    Limit(u64),
    /// The name of the field with the number of rows.
    Count(Box<str>),
    Group(Arc<Group>),
    AutoBuckets(Arc<AutoBuckets>),
    Unwind(Unwind),
    /// The row that replaces each row.
    Replace(Arc<PlacedNode>),
    Redact(Arc<Redact>),
    Sample(u64),
    Lookup(Arc<Lookup>),
    Graph(Arc<Graph>),
    Window(Arc<Window>),
    Densify(Arc<Densify>),
    Union(Arc<Union>),
    Facet(Arc<[(Box<str>, Stages)]>),
    /// Rows that the pipeline itself has.
    Documents(Arc<PlacedNode>),
    /// The indexes of the collection.
    IndexStats,
}

/// An expression, and its place in the pipeline.
pub(crate) struct PlacedNode {
    pub(super) node: Node,
    pub(super) place: Box<str>,
}

/// A `$lookup`.
pub(crate) struct Lookup {
    /// The other collection; `None` if the stages begin with `$documents`.
    pub(super) from: Option<String>,
    /// A field of the row, and the field of the other collection that is to equal it.
    pub(super) equal: Option<Equal>,
    /// The variables of the stages.
    pub(super) variables: Vec<Node>,
    pub(super) stages: Stages,
    /// Where the rows found go.
    pub(super) into: Box<[Box<str>]>,
    pub(super) place: Box<str>,
}

/// The names of the path of a row, and a path of the documents of another collection.
type Equal = (Box<[Box<str>]>, Box<str>);

/// A `$unionWith`.
pub(crate) struct Union {
    pub(super) from: Option<String>,
    pub(super) stages: Stages,
}

/// Returns how many of the stages may spill, those of inner pipelines included.
pub(super) fn spilling(stages: &[Stage]) -> usize {
    let of = |stage: &Stage| match stage {
        Stage::Sort(_)
        | Stage::Group(_)
        | Stage::AutoBuckets(_)
        | Stage::Window(_)
        | Stage::Sample(_)
        | Stage::Densify(_) => 1,
        Stage::Lookup(lookup) => spilling(&lookup.stages),
        Stage::Union(union) => spilling(&union.stages),
        // One sorter holds the rows for a branch, while another one keeps them for the next.
        Stage::Facet(facets) => {
            2 + facets.iter().map(|(_, stages)| spilling(stages)).sum::<usize>()
        }
        _ => 0,
    };
    stages.iter().map(of).sum()
}

/// Returns how many of the stages call one another to make a row, those of inner pipelines
/// included.
pub(super) fn calling(stages: &[Stage]) -> usize {
    let of = |stage: &Stage| match stage {
        Stage::Match(_) | Stage::Fields(_) | Stage::Replace(_) | Stage::Redact(_) => 0,
        Stage::Lookup(lookup) => 1 + calling(&lookup.stages),
        Stage::Union(union) => 1 + calling(&union.stages),
        Stage::Facet(facets) => {
            1 + facets.iter().map(|(_, stages)| calling(stages)).max().unwrap_or(0)
        }
        _ => 1,
    };
    stages.iter().map(of).sum()
}
