//! Filters, sorts and projections of drivers in the library's terms: `_id` is the primary key.

use super::args::{Args, is_document};
use super::id::ID;
use super::index;
use super::variables::Variables;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, FieldKey, FieldPath};
use flagstone::query::{Direction, Hint, Matcher, Projection, SortSpec};
use flagstone::report::IndexInfo;
use flagstone::{Collection, Filter, Value, View};
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
            "$expr" | "$sampleRate" => true,
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
            number => {
                let text = format!("sort.{name}: expected 1 or -1, found {direction}");
                // Servers of MongoDB tell types from values.
                let code = if number.is_some() { 15975 } else { 15974 };
                return Err(Failure::numbered(code, text));
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

    /// Returns whether everything is returned as it is.
    pub(super) const fn is_all(&self) -> bool {
        self.projection.is_none()
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

/// Returns the index that a hint names, or a scan; and the filter, which gets the condition of an
/// index that leaves documents out: it finds no others.
pub(crate) fn hint(
    args: &Args<'_>,
    collection: &Collection,
    filter: Filter,
) -> Outcome<(Filter, Option<Hint>)> {
    args.refuse_null("hint", Code::FailedToParse)?;
    let Some(hint) = args.get("hint")? else { return Ok((filter, None)) };
    let Some(index) = hinted(&hint, collection)? else {
        let is_scan = hint.as_str().is_some() || !hint.is_empty()?;
        return Ok((filter, is_scan.then_some(Hint::Scan)));
    };
    let filter = match &index.only {
        Some(only) => filter.and(Filter::parse(only)?),
        None => filter,
    };
    let filter = match &index.fields[..] {
        // Of several fields one is enough, which no condition on all documents says.
        [field] if index.is_sparse => {
            let path = FieldPath::parse(field.trim_start_matches('-'));
            let path = path.map_err(|error| Failure::new(Code::BadValue, error.to_string()))?;
            filter.and(Filter::field(path).exists())
        }
        _ => filter,
    };
    Ok((filter, Some(Hint::index(index.name))))
}

/// Returns the index that a hint names; `None` for the primary keys.
fn hinted(hint: &View<'_>, collection: &Collection) -> Outcome<Option<IndexInfo>> {
    let indexes = collection.indexes();
    if let Some(name) = hint.as_str() {
        if name == index::ID_INDEX {
            return Ok(None);
        }
        let found = indexes.into_iter().find(|index| index.name == name);
        let found = found.ok_or_else(|| no_index(name))?;
        return Ok((!index::is_of_key(&found)).then_some(found));
    }
    if !is_document(hint)? {
        let text = format!("hint: expected the name or the keys of an index, found {hint}");
        return Err(Failure::new(Code::FailedToParse, text));
    }
    if hint.is_empty()? {
        return Ok(None);
    }
    let fields = index::fields_of(hint).map_err(|_wrong| no_index(&hint.to_string()))?;
    let is_one = |field: &str| {
        let direction = hint.get(field.trim_start_matches('-')).ok().flatten();
        direction.and_then(|direction| direction.as_f64()).is_some_and(|number| number.abs() == 1.0)
    };
    if fields == ["$natural"] || fields == ["-$natural"] {
        if !is_one("$natural") {
            let text = format!("hint.$natural: expected 1 or -1, found {hint}");
            return Err(Failure::new(Code::BadValue, text));
        }
        return Ok(None);
    }
    if fields == [ID] {
        return Ok(None);
    }
    let found = indexes.into_iter().find(|index| index::fields_given(index) == fields);
    let found = found.filter(|_index| fields.iter().all(|field| is_one(field)));
    let found = found.ok_or_else(|| no_index(&hint.to_string()))?;
    Ok((!index::is_of_key(&found)).then_some(found))
}

fn no_index(hint: &str) -> Failure {
    let text = format!("hint {hint} does not correspond to an existing index");
    Failure::new(Code::BadValue, text)
}
