//! Filters, sorts and projections of drivers in the library's terms: `_id` is the primary key.

use super::args::Args;
use super::id::ID;
use super::variables::Variables;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, FieldKey, FieldPath};
use flagstone::query::{Direction, Matcher, Projection, SortSpec};
use flagstone::{Filter, Value, View};
use flagstone_pipeline::{Condition, FindProjection};

/// Returns the filter that a document is. Expressions are refused.
pub(crate) fn filter(view: Option<&View<'_>>) -> Outcome<Filter> {
    match split(view, &Variables::default())? {
        (filter, None) => Ok(filter),
        (_, Some(_)) => Err(Failure::unsupported("$expr in this filter")),
    }
}

/// Returns the filter that a document is, and the conditions in it that are expressions.
pub(super) fn split(
    view: Option<&View<'_>>,
    variables: &Variables,
) -> Outcome<(Filter, Option<Condition>)> {
    let Some(view) = view else { return Ok((Filter::everything(), None)) };
    let (plain, condition) = Condition::split(&variables.in_filter(view.to_value()?)?)?;
    check(&plain)?;
    Ok((Filter::of_driver(&plain, Some(ID))?, condition))
}

/// Returns whether a filter has conditions that are expressions.
pub(crate) fn has_expression(view: Option<&View<'_>>) -> Outcome<bool> {
    let Some(view) = view.filter(|view| view.is_map()) else { return Ok(false) };
    for field in view.fields()? {
        let (FieldKey::Name(name), value) = field? else { continue };
        let has = match name {
            "$expr" => true,
            "$and" | "$or" | "$nor" if value.is_array() => {
                let mut has = false;
                for part in value.items()? {
                    has = has || has_expression(Some(&part?))?;
                }
                has
            }
            _ => false,
        };
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses operators that are known and not supported, in the filter and in those it consists of.
fn check(filter: &Value) -> Outcome {
    for (name, value) in filter.as_map().into_iter().flatten() {
        match name.as_str() {
            Some("$and" | "$or" | "$nor") => {
                value.as_array().into_iter().flatten().try_for_each(check)?;
            }
            Some(text @ ("$where" | "$text" | "$jsonSchema")) => {
                return Err(Failure::unsupported(format_args!("the operator {text}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a hint asks for the documents from the last to the first.
pub(super) fn is_backwards(args: &Args<'_>) -> Outcome<bool> {
    let Some(hint) = args.get("hint")?.filter(View::is_map) else { return Ok(false) };
    Ok(hint.get("$natural")?.and_then(|direction| direction.as_f64()) == Some(-1.0))
}

/// Returns the order that a document is, or a hint without one; `None` for no order.
pub(crate) fn sort(args: &Args<'_>) -> Outcome<Option<SortSpec>> {
    let Some(sort) = args.filled_map("sort")? else {
        let backwards = [(FieldPath::primary_key(), Direction::Descending)];
        return Ok(if is_backwards(args)? { Some(SortSpec::new(backwards)?) } else { None });
    };
    let mut parts = Vec::new();
    for field in sort.fields()? {
        let (FieldKey::Name(name), direction) = field? else {
            return Err(Failure::new(Code::BadValue, "a sort with a name that is no text"));
        };
        let direction = match direction.as_f64() {
            Some(1.0) => Direction::Ascending,
            Some(-1.0) => Direction::Descending,
            _ if direction.is_map() => {
                return Err(Failure::unsupported(format_args!("sort.{name}: $meta")));
            }
            _ => {
                let text = format!("sort.{name}: expected 1 or -1, found {direction}");
                return Err(Failure::new(Code::BadValue, text));
            }
        };
        if name == "$natural" {
            // The order of documents is that of their keys.
            parts.push((FieldPath::primary_key(), direction));
        } else {
            parts.push((path(name)?, direction));
        }
    }
    Ok(Some(SortSpec::new(parts)?))
}

/// Returns the path of a field; `_id` is the primary key.
pub(crate) fn path(name: &str) -> Outcome<FieldPath> {
    if name == ID {
        return Ok(FieldPath::primary_key());
    }
    if name.is_empty() || name.starts_with('$') {
        let text = format!("expected the path of a field, found {name:?}");
        return Err(Failure::new(Code::BadValue, text));
    }
    FieldPath::parse(name).map_err(|error| Failure::new(Code::BadValue, error.to_string()))
}

/// What a find returns of each document.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// `None` for everything.
    projection: Option<FindProjection>,
}

impl Fields {
    /// Returns the fields that the argument `name` asks for.
    pub(super) fn parse(args: &Args<'_>, name: &str, variables: &Variables) -> Outcome<Self> {
        let projection = match args.filled_map(name)? {
            Some(spec) => Some(FindProjection::parse(&variables.in_fields(spec.to_value()?)?)?),
            None => None,
        };
        Ok(Self { projection })
    }

    /// Returns the projection that the library does while it reads.
    pub(crate) fn plain(&self) -> Option<Projection> {
        self.projection.as_ref().and_then(FindProjection::plain)
    }

    /// Returns whether the key is returned.
    pub(crate) fn has_key(&self) -> bool {
        self.projection.as_ref().is_none_or(FindProjection::keeps_id)
    }

    /// Returns whether fields are computed, or chosen within arrays: the library cannot do that.
    pub(crate) fn is_computed(&self) -> bool {
        self.projection.is_some() && self.plain().is_none()
    }

    /// Returns the projection of a document as drivers see it. `matched` is the filter that it
    /// matched, and the stored document.
    pub(crate) fn project(
        &self,
        document: &Value,
        matched: Option<(&Matcher, &View<'_>)>,
    ) -> Outcome<Value> {
        let Some(projection) = &self.projection else { return Ok(document.clone()) };
        let position = match (projection.matched_array(), matched) {
            (Some(array), Some((matcher, root))) => matcher.position(root, &path(array)?)?,
            _ => None,
        };
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        Ok(projection.apply(document, position, now)?)
    }
}
