//! The fields of documents that a pipeline needs.

use super::spec::Stage;
use std::collections::BTreeSet;

/// Returns the names of the fields that stages read of their first rows; `None` if that may be any.
pub(super) fn fields<'s>(stages: &'s [Stage]) -> Option<BTreeSet<&'s str>> {
    let (mut names, mut is_whole) = (BTreeSet::new(), false);
    let mut found = |name: Option<&'s str>| match name {
        Some(name) => {
            names.insert(name);
        }
        None => is_whole = true,
    };
    let mut is_complete = false;
    for stage in stages {
        is_complete = needs(stage, &mut found)?;
        if is_complete {
            break;
        }
    }
    (is_complete && !is_whole).then_some(names)
}

/// Calls `found` with the fields that a stage reads. Returns whether the stages behind it see no
/// others; `None` if it may read any.
fn needs<'s>(stage: &'s Stage, found: &mut dyn FnMut(Option<&'s str>)) -> Option<bool> {
    match stage {
        Stage::Skip(_) | Stage::Limit(_) | Stage::Sample(_) => Some(false),
        Stage::Count(_) => Some(true),
        Stage::Fields(fields) => Some(fields.each_field(found)),
        Stage::Group(group) => {
            group.each_field(found);
            Some(true)
        }
        Stage::Unwind(unwind) => {
            found(unwind.field());
            Some(false)
        }
        Stage::Graph(graph) => {
            graph.start.each_field(found);
            Some(false)
        }
        Stage::Window(window) => {
            window.each_field(found);
            Some(false)
        }
        Stage::Replace(root) => {
            root.node.each_field(found);
            Some(true)
        }
        Stage::Lookup(lookup) => {
            if let Some((local, _)) = &lookup.equal {
                found(local.first().map(|name| &**name));
            }
            lookup.variables.iter().for_each(|node| node.each_field(found));
            Some(false)
        }
        _ => None,
    }
}
