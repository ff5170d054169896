//! Parses pipelines.

use super::accumulate::Accumulator;
use super::bucket::AutoBuckets;
use super::condition::Match;
use super::densify::Densify;
use super::fields::{parse_add, parse_project, parse_unset};
use super::fill::parse_fill;
use super::graph::Graph;
use super::group::{By, Group, parse_bucket, positive};
use super::redact::Redact;
use super::sort::Sort;
use super::spec::{Lookup, PlacedNode, Stage, Stages, Union, calling};
use super::unwind::Unwind;
use super::window::Window;
use crate::error::{Place, Result, code};
use crate::expression::{Names, as_object, check_variable, parse as parse_expression, path_names};
use crate::number::{as_whole, to_whole};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::{Direction, extended_scalar};
use std::sync::Arc;

/// The most stages of a pipeline.
const STAGES_MAX: usize = 1_000;
/// The most stages that call one another to make a row: all but those that make one row of one row.
const CALLING_MAX: usize = 100;
/// The deepest nesting of pipelines.
const NESTING_MAX: usize = 20;

/// Stages that belong to a server, or that no version here has.
const REFUSED: [&str; 18] = [
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$currentOp",
    "$geoNear",
    "$listCatalog",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$search",
    "$searchMeta",
    "$shardedDataDistribution",
    "$vectorSearch",
];

/// Stages that can only be the first.
const FIRST: [&str; 4] = ["$collStats", "$currentOp", "$documents", "$indexStats"];

/// Parses the stages of a pipeline.
///
/// # Errors
/// If the value is no pipeline: the error has the code that drivers know, and the place.
pub(crate) fn parse(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Stages> {
    let stages = pipeline(value, place, names, &Inside::default())?;
    let count = calling(&stages);
    if count > CALLING_MAX {
        let text = format!(
            "expected at most {CALLING_MAX} stages other than $match, $project, $addFields, $unset \
             and $replaceRoot, found {count}"
        );
        return Err(place.refuse(code::FAILED_TO_PARSE, text));
    }
    Ok(stages)
}

/// Where a pipeline is.
#[derive(Clone, Copy, Default)]
struct Inside {
    depth: usize,
    is_facet: bool,
    /// Also if other pipelines are between.
    has_facet_around: bool,
    is_union: bool,
}

impl Inside {
    fn deeper(self, place: &Place<'_>) -> Result<Self> {
        if self.depth == NESTING_MAX {
            let text = format!("expected at most {NESTING_MAX} pipelines in one another");
            return Err(place.refuse(232, text));
        }
        let has_facet_around = self.has_facet_around || self.is_facet;
        Ok(Self { depth: self.depth + 1, is_facet: false, has_facet_around, is_union: false })
    }
}

fn pipeline(
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
    inside: &Inside,
) -> Result<Stages> {
    let Some(items) = value.as_array() else {
        return Err(place.refuse(code::TYPE_MISMATCH, "expected an array of stages"));
    };
    if items.len() > STAGES_MAX {
        let text = format!("expected at most {STAGES_MAX} stages, found {}", items.len());
        return Err(place.refuse(7749501, text));
    }
    let mut stages = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let at = place.item(index);
        let Some(map) = as_object(item) else {
            let code = if inside.is_facet { 40171 } else { code::TYPE_MISMATCH };
            return Err(at.refuse(code, "expected a stage such as {\"$limit\":5}"));
        };
        let Some((key, value)) = map.iter().next().filter(|_| map.len() == 1) else {
            return Err(at.refuse(40323, "expected a map with the name of one stage"));
        };
        let name = key.as_str().unwrap_or_default();
        let at = at.field(name);
        if FIRST.contains(&name) && index > 0 && !inside.is_facet {
            return Err(at.refuse(40602, format!("expected {name} to be the first stage")));
        }
        stage(name, value, &at, names, inside, &mut stages)?;
    }
    Ok(stages.into())
}

/// The stages that have numbers, and no expressions or conditions.
const CONSTANT: [&str; 4] = ["$limit", "$sample", "$skip", "$sort"];

/// Returns a value with the numbers that texts write as forms of Extended JSON.
fn plain_numbers(value: &Value) -> Value {
    let plain = |value: &Value| match value.as_map().and_then(extended_scalar) {
        Some(Ok(scalar)) => scalar,
        _ => value.clone(),
    };
    match plain(value) {
        Value::Map(map) => {
            Value::Map(map.iter().map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        other => other,
    }
}

/// Parses a stage and appends it, or the stages that it is made of.
fn stage(
    name: &str,
    value: &Value,
    at: &Place<'_>,
    names: &mut Names,
    inside: &Inside,
    stages: &mut Vec<Stage>,
) -> Result<()> {
    let plain;
    let value = if names.reads_forms() && CONSTANT.contains(&name) {
        plain = plain_numbers(value);
        &plain
    } else {
        value
    };
    let stage = match name {
        "$match" => Stage::Match(Arc::new(Match::parse(value, at, names)?)),
        "$project" => Stage::Fields(Arc::new(parse_project(value, at, names)?)),
        "$addFields" | "$set" => Stage::Fields(Arc::new(parse_add(value, at, names)?)),
        "$unset" => Stage::Fields(Arc::new(parse_unset(value, at)?)),
        "$sort" => Stage::Sort(Sort::parse(value, at)?),
        "$skip" => Stage::Skip(parse_skip(value, at)?),
        "$limit" => {
            let zero = if as_whole(value) == Some(0) { 15958 } else { 5107201 };
            Stage::Limit(positive(value, at, 5107201, zero)?)
        }
        "$count" => Stage::Count(parse_count(value, at)?),
        "$group" => Stage::Group(Arc::new(Group::parse(value, at, names)?)),
        "$bucket" => {
            stages.push(Stage::Group(Arc::new(parse_bucket(value, at, names)?)));
            return sorted_by("_id", Direction::Ascending, at, stages);
        }
        "$bucketAuto" => Stage::AutoBuckets(Arc::new(AutoBuckets::parse(value, at, names)?)),
        "$sortByCount" => {
            stages.push(Stage::Group(Arc::new(parse_sort_by_count(value, at, names)?)));
            return sorted_by("count", Direction::Descending, at, stages);
        }
        "$unwind" => Stage::Unwind(Unwind::parse(value, at)?),
        "$replaceRoot" => parse_replace_root(value, at, names)?,
        "$replaceWith" => parse_replace_with(value, at, names)?,
        "$redact" => Stage::Redact(Arc::new(Redact::parse(value, at, names)?)),
        "$sample" => Stage::Sample(parse_sample(value, at)?),
        "$lookup" => Stage::Lookup(Arc::new(parse_lookup(value, at, names, inside)?)),
        "$graphLookup" => Stage::Graph(Arc::new(Graph::parse(value, at, names)?)),
        "$setWindowFields" => Stage::Window(Arc::new(Window::parse(value, at, names)?)),
        "$fill" => {
            stages.extend(parse_fill(value, at, names)?);
            return Ok(());
        }
        "$densify" => Stage::Densify(Arc::new(Densify::parse(value, at, names)?)),
        "$unionWith" => Stage::Union(Arc::new(parse_union(value, at, names, inside)?)),
        "$facet" => parse_facet(value, at, names, inside)?,
        "$documents" if !inside.is_facet => {
            let node = parse_expression(value, at, names)?;
            Stage::Documents(Arc::new(PlacedNode { node, place: at.to_string().into() }))
        }
        "$documents" | "$indexStats" if inside.is_facet => {
            return Err(at.refuse(40600, format!("expected no {name} inside of $facet")));
        }
        "$indexStats" if as_object(value).is_some_and(Map::is_empty) => Stage::IndexStats,
        "$indexStats" => return Err(at.refuse(28803, "expected {}")),
        "$out" | "$merge" if inside.is_facet => {
            return Err(at.refuse(40600, format!("expected no {name} inside of $facet")));
        }
        "$out" | "$merge" if inside.depth > 0 => {
            let code = if inside.is_union { 31441 } else { 51047 };
            return Err(at.refuse(code, format!("expected no {name} inside of another stage")));
        }
        "$out" | "$merge" => {
            let text = format!("expected {name} as the last stage, and in a server");
            return Err(at.refuse(40601, text));
        }
        _ if REFUSED.contains(&name) && inside.is_facet => {
            return Err(at.refuse(40600, format!("expected no {name} inside of $facet")));
        }
        _ if REFUSED.contains(&name) => {
            return Err(at.refuse(code::NOT_SUPPORTED, format!("{name} is not supported here")));
        }
        _ => {
            // Programs look for these words.
            return Err(at.refuse(40324, format!("Unrecognized pipeline stage name: '{name}'")));
        }
    };
    stages.push(stage);
    Ok(())
}

fn sorted_by(
    name: &str,
    direction: Direction,
    at: &Place<'_>,
    stages: &mut Vec<Stage>,
) -> Result<()> {
    let sort = Sort::by(name, direction);
    stages.push(Stage::Sort(sort.ok_or_else(|| at.refuse(code::BAD_VALUE, "expected a sort"))?));
    Ok(())
}

fn parse_skip(value: &Value, at: &Place<'_>) -> Result<u64> {
    let whole = as_whole(value).and_then(|whole| u64::try_from(whole).ok());
    whole.ok_or_else(|| at.refuse(5107200, "expected a whole number from 0 on"))
}

fn parse_count(value: &Value, at: &Place<'_>) -> Result<Box<str>> {
    let Some(name) = value.as_str() else {
        return Err(at.refuse(40156, "expected the name of a field"));
    };
    let (code, text) = match name {
        "" => (40157, "expected the name of a field"),
        "_id" => (9039800, "expected another name than _id"),
        name if name.starts_with('$') => (40158, "expected a name that does not begin with '$'"),
        name if name.contains('\0') => (40159, "expected a name without a zero byte"),
        name if name.contains('.') => (40160, "expected a name without a point"),
        name => return Ok(name.into()),
    };
    Err(at.refuse(code, text))
}

fn parse_sort_by_count(value: &Value, at: &Place<'_>, names: &mut Names) -> Result<Group> {
    let is_operator = value.as_map().is_some_and(|map| {
        let first = map.iter().next().and_then(|(key, _)| key.as_str());
        first.is_some_and(|name| name.starts_with('$'))
    });
    let is_path = value.as_str().is_some_and(|text| text.starts_with('$'));
    if !is_operator && !is_path {
        let code = if as_object(value).is_some() { 40147 } else { 40149 };
        return Err(at.refuse(code, "expected a path that begins with '$', or an operator"));
    }
    let by = By::Value(parse_expression(value, at, names)?);
    Ok(Group { by, accumulators: vec![Accumulator::count("count")] })
}

fn parse_replace_with(value: &Value, at: &Place<'_>, names: &mut Names) -> Result<Stage> {
    let (node, place) = (parse_expression(value, at, names)?, at.to_string().into());
    Ok(Stage::Replace(Arc::new(PlacedNode { node, place })))
}

fn parse_replace_root(value: &Value, at: &Place<'_>, names: &mut Names) -> Result<Stage> {
    let place = at.to_string().into();
    let Some(map) = as_object(value) else {
        return Err(at.refuse(40229, "expected a map with newRoot"));
    };
    let mut node = None;
    for (key, value) in map {
        match key.as_str() {
            Some("newRoot") => node = Some(parse_expression(value, &at.field("newRoot"), names)?),
            _ => {
                let text = format!("expected newRoot, found {key}");
                return Err(at.refuse(code::UNKNOWN_FIELD, text));
            }
        }
    }
    let node = node.ok_or_else(|| at.refuse(code::MISSING_FIELD, "expected newRoot"))?;
    Ok(Stage::Replace(Arc::new(PlacedNode { node, place })))
}

fn parse_sample(value: &Value, at: &Place<'_>) -> Result<u64> {
    let Some(map) = as_object(value) else {
        return Err(at.refuse(28745, "expected a map with size"));
    };
    if let Some((key, _)) = map.iter().find(|(key, _)| key.as_str() != Some("size")) {
        return Err(at.refuse(28748, format!("expected size, found {key}")));
    }
    let size = map.get("size").ok_or_else(|| at.refuse(28749, "expected size"))?;
    let Some(whole) = to_whole(size) else {
        return Err(at.field("size").refuse(28746, "expected a number"));
    };
    let size = u64::try_from(whole).ok().filter(|size| *size > 0);
    size.ok_or_else(|| at.field("size").refuse(28747, "expected a number from 1 on"))
}

/// Returns the name of another collection.
fn collection(value: &Value, at: &Place<'_>) -> Result<String> {
    if let Some(map) = as_object(value) {
        for (key, value) in map {
            let (code, text) = match key.as_str() {
                Some("db" | "coll") if value.as_str().is_some() => continue,
                Some("db" | "coll") => (code::TYPE_MISMATCH, "expected text"),
                _ => (code::UNKNOWN_FIELD, "expected db and coll"),
            };
            return Err(at.refuse(code, text));
        }
    }
    let text = "expected the name of a collection; those of other databases are not supported";
    let name = value.as_str().ok_or_else(|| at.refuse(code::FAILED_TO_PARSE, text))?;
    if name.is_empty() || name.starts_with('.') || name.contains('\0') {
        return Err(at.refuse(code::INVALID_NAMESPACE, "expected the name of a collection"));
    }
    Ok(name.to_owned())
}

/// Returns the path of an argument that is text.
fn path_of(value: &Value, at: &Place<'_>) -> Result<Box<[Box<str>]>> {
    let Some(name) = value.as_str() else {
        return Err(at.refuse(code::TYPE_MISMATCH, "expected a path that is text"));
    };
    path_names(name, at)
}

fn begins_with_documents(stages: &Stages) -> bool {
    matches!(stages.first(), Some(Stage::Documents(_)))
}

fn parse_lookup(
    value: &Value,
    at: &Place<'_>,
    names: &mut Names,
    inside: &Inside,
) -> Result<Lookup> {
    let Some(map) = as_object(value) else {
        return Err(at.refuse(code::FAILED_TO_PARSE, "expected a map with from and as"));
    };
    // An empty path counts as none.
    let is_none = |value: &Value| value.is_null() || value.as_str() == Some("");
    let (mut from, mut local, mut foreign, mut into) = (None, None, None, None);
    let (mut outer, mut variables, mut inner) = (names.outer.clone(), Vec::new(), None);
    let mut unknown = None;
    for (key, value) in map {
        let name = key.as_str().unwrap_or_default();
        let at = at.field(name);
        match name {
            "from" => from = Some(collection(value, &at)?),
            "localField" | "foreignField" if is_none(value) => {}
            "let" | "as" if value.is_null() => {}
            "localField" => local = Some(path_of(value, &at)?),
            "foreignField" => {
                path_of(value, &at)?;
                foreign = value.as_str().map(Box::from);
            }
            "as" if value.as_str() == Some("") => {
                return Err(at.refuse(40352, "expected a path that is not empty"));
            }
            "as" => into = Some(path_of(value, &at)?),
            "let" => {
                let Some(map) = as_object(value) else {
                    return Err(at.refuse(code::TYPE_MISMATCH, "expected a map of variables"));
                };
                for (key, value) in map {
                    let name = key.as_str().unwrap_or_default();
                    check_variable(name, &at)?;
                    variables.push(parse_expression(value, &at.field(name), names)?);
                    outer.push(name.to_owned());
                }
            }
            "pipeline" => inner = Some(value),
            other => {
                let text = format!(
                    "expected from, localField, foreignField, let, pipeline or as, found {other:?}"
                );
                unknown = Some(at.refuse(code::UNKNOWN_FIELD, text));
            }
        }
    }
    let missing = |name: &str| at.refuse(code::FAILED_TO_PARSE, format!("expected {name}"));
    let equal = match (local, foreign) {
        (Some(local), Some(foreign)) => Some((local, foreign)),
        (None, None) => None,
        _ => return Err(missing("localField and foreignField together")),
    };
    if equal.is_none() && inner.is_none() {
        return Err(missing("localField and foreignField, or a pipeline"));
    }
    if inner.is_none() && !variables.is_empty() {
        return Err(missing("a pipeline beside let"));
    }
    let stages = match inner {
        Some(value) => {
            let mut names = names.inner(outer);
            pipeline(value, &at.field("pipeline"), &mut names, &inside.deeper(at)?)?
        }
        None => Stages::from([]),
    };
    match (&from, begins_with_documents(&stages)) {
        (None, false) => return Err(missing("from")),
        (Some(_), true) => return Err(missing("no from beside $documents")),
        _ => {}
    }
    // A misspelled name first means that another one is missing.
    if let Some(unknown) = unknown {
        return Err(unknown);
    }
    let into = into.ok_or_else(|| at.refuse(code::MISSING_FIELD, "expected as"))?;
    let place = at.to_string().into();
    Ok(Lookup { from, equal, variables, stages, into, place })
}

fn parse_union(value: &Value, at: &Place<'_>, names: &Names, inside: &Inside) -> Result<Union> {
    if value.as_str().is_some() {
        return Ok(Union { from: Some(collection(value, at)?), stages: Stages::from([]) });
    }
    let Some(map) = as_object(value) else {
        return Err(at.refuse(code::FAILED_TO_PARSE, "expected a collection, or a map with coll"));
    };
    let (mut from, mut stages) = (None, Stages::from([]));
    for (key, value) in map {
        let name = key.as_str().unwrap_or_default();
        let at = at.field(name);
        match name {
            "coll" => from = Some(collection(value, &at)?),
            "pipeline" => {
                let mut names = names.inner(names.outer.clone());
                let inner = Inside { is_union: true, ..inside.deeper(&at)? };
                stages = pipeline(value, &at, &mut names, &inner)?;
            }
            other => {
                let text = format!("expected coll or pipeline, found {other:?}");
                return Err(at.refuse(code::FAILED_TO_PARSE, text));
            }
        }
    }
    if from.is_none() && !begins_with_documents(&stages) {
        return Err(at.refuse(code::FAILED_TO_PARSE, "expected coll"));
    }
    Ok(Union { from, stages })
}

fn parse_facet(value: &Value, at: &Place<'_>, names: &Names, inside: &Inside) -> Result<Stage> {
    if inside.is_facet || inside.has_facet_around {
        return Err(at.refuse(40600, "expected no $facet inside of $facet"));
    }
    let Some(map) = as_object(value).filter(|map| !map.is_empty()) else {
        return Err(at.refuse(40169, "expected a map of at least one name and its pipeline"));
    };
    let mut facets = Vec::with_capacity(map.len());
    for (key, value) in map {
        let name = key.as_str().unwrap_or_default();
        let at = at.field(name);
        if name.is_empty() {
            return Err(at.refuse(15998, "expected names that are not empty"));
        }
        if path_names(name, &at)?.len() != 1 {
            return Err(at.refuse(16412, "expected the name of a field without a point"));
        }
        if value.as_array().is_none() {
            return Err(at.refuse(40170, "expected an array of stages"));
        }
        let inner = Inside { is_facet: true, ..inside.deeper(&at)? };
        let mut names = names.inner(names.outer.clone());
        facets.push((name.into(), pipeline(value, &at, &mut names, &inner)?));
    }
    Ok(Stage::Facet(facets.into()))
}
