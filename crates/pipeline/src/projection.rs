//! Projections of `find`: fields to keep or to remove, parts of arrays, and computed fields.

use crate::error::{PipelineError, Result, code};
use crate::expression::{Expression, as_object};
use flagstone::doc::{DateTime, Map};
use flagstone::internal::document::DEPTH_MAX;
use flagstone::query::{Matcher, Projection};
use flagstone::{Document, Filter, Value};
use std::collections::BTreeMap;

/// The fields that `find` returns, as MongoDB's drivers say it.
///
/// ```
/// use flagstone::doc;
/// use flagstone_pipeline::FindProjection;
/// let projection = FindProjection::parse(&doc!({"title": 1, "votes": {"$slice": 2}}))?;
/// let post = doc!({"_id": 7, "title": "Looms", "votes": [3, 1, 2], "body": "long"});
/// let found = projection.apply(&post, None, Default::default())?;
/// assert_eq!(found, doc!({"_id": 7, "title": "Looms", "votes": [3, 1]}));
///
/// let plain = FindProjection::parse(&doc!({"_id": 0, "title": 1}))?;
/// assert_eq!(plain.plain().map(|plain| plain.to_string()), Some(r#"{"title":1}"#.to_owned()));
/// # Ok::<(), flagstone_pipeline::PipelineError>(())
/// ```
pub struct FindProjection {
    /// Only what is named is kept. Otherwise all but what is named.
    is_inclusion: bool,
    keeps_id: bool,
    root: Level,
    /// Paths to keep or to remove, without the `_id`, if nothing else is asked for.
    plain: Option<Vec<String>>,
    /// The path before a `$`.
    matched: Option<String>,
}

/// What is asked for of the fields of a map, with the order in which they were named.
type Level = BTreeMap<Box<str>, (usize, ProjectedField)>;

enum ProjectedField {
    Kept,
    Removed,
    Parts(Level),
    /// How many elements are skipped, from the end if negative, and how many are kept at most.
    Slice(i64, u64),
    /// The first element of an array that matches.
    Element(Matcher),
    /// The element of an array that the filter of the query matched.
    Matched,
    Computed(Expression),
}

/// The codes of two projections of one path, and of a path and a part of it.
const COLLISION: i32 = 31250;
const COLLISION_INSIDE: i32 = 31249;
/// The codes of what is no path.
const EMPTY_PATH: i32 = 40352;
const OPEN_PATH: i32 = 40353;
const EMPTY_NAME: i32 = 15998;
const DOLLAR_NAME: i32 = 16410;
const MATCHED_INSIDE: i32 = 31394;
/// The codes of fields to keep and fields to remove in one projection.
const KEPT_AMONG_REMOVED: i32 = 31253;
const REMOVED_AMONG_KEPT: i32 = 31254;
const ELEMENT_OF_NESTED: i32 = 31275;
const SECOND_MATCHED: i32 = 31276;
const OBJECT_OF_MATCHED: i32 = 31271;
const VALUE_OF_MATCHED: i32 = 31308;
const MATCHED_AMONG_REMOVED: i32 = 31395;
const NO_MATCHED: i32 = 51246;
const SHORT_ARRAY: i32 = 51247;
const MATCHED_BEFORE_ELEMENT: i32 = 31255;
const ELEMENT_BEFORE_MATCHED: i32 = 31256;
const NO_CONDITIONS: i32 = 31274;
const EMPTY_MAP: i32 = 51270;
const BAD_SLICE: i32 = 28724;
const SHORT_SLICE: i32 = 28667;

/// What was read so far.
#[derive(Default)]
struct Reading {
    root: Level,
    count: usize,
    is_inclusion: Option<bool>,
    id: Option<bool>,
    plain: Option<Vec<String>>,
    matched: Option<String>,
    has_element: bool,
}

#[cold]
fn refused<T>(code: i32, path: &str, text: impl Into<String>) -> Result<T> {
    let shown: String = path.chars().take(200).collect();
    Err(PipelineError::new(code, format_args!("projection.{shown}"), text))
}

impl std::fmt::Debug for FindProjection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { is_inclusion, keeps_id, plain, .. } = self;
        f.debug_struct("FindProjection")
            .field("is_inclusion", is_inclusion)
            .field("keeps_id", keeps_id)
            .field("plain", plain)
            .finish_non_exhaustive()
    }
}

impl FindProjection {
    /// Reads a projection.
    ///
    /// # Errors
    /// If it keeps some fields and removes others, names a path twice, or has an operand of a wrong
    /// form.
    pub fn parse(projection: &Value) -> Result<Self> {
        let Value::Map(map) = projection else {
            let text = format!("expected a map of paths, found {}", projection.type_name());
            return Err(PipelineError::new(code::TYPE_MISMATCH, "projection", text));
        };
        let mut reading = Reading { plain: Some(Vec::new()), ..Reading::default() };
        reading.read(map, "", 1)?;
        let Reading { mut root, is_inclusion, id, plain, matched, has_element, count } = reading;
        let is_inclusion = match (is_inclusion, id) {
            (Some(is_inclusion), _) => is_inclusion,
            (None, Some(true)) => true,
            // Without other fields a slice keeps them all, and an element of an array does not.
            (None, _) => has_element,
        };
        let keeps_id = id.unwrap_or(true);
        if !root.contains_key("_id") && is_inclusion == keeps_id {
            let field = if keeps_id { ProjectedField::Kept } else { ProjectedField::Removed };
            root.insert("_id".into(), (count, field));
        }
        Ok(Self { is_inclusion, keeps_id, root, plain, matched })
    }

    /// Returns the projection of the library, if it does all of it. The `_id` is a field of its
    /// own there, if documents have one.
    pub fn plain(&self) -> Option<Projection> {
        let paths = self.plain.as_ref()?.iter().map(String::as_str);
        let id = (self.is_inclusion == self.keeps_id).then_some("_id");
        let paths = paths.chain(id).map(|path| path.try_into().ok());
        let paths: Vec<_> = paths.collect::<Option<_>>()?;
        if self.is_inclusion { Projection::include(paths) } else { Projection::exclude(paths) }.ok()
    }

    /// Returns whether the `_id` is returned.
    pub const fn keeps_id(&self) -> bool {
        self.keeps_id
    }

    /// Returns the path of the array of which the element that the filter matched is returned: that
    /// before the `$`.
    pub fn matched_array(&self) -> Option<&str> {
        self.matched.as_deref()
    }

    /// Projects a document. `position` is the one that the filter matched in the array of
    /// [`FindProjection::matched_array`], `now` the time for expressions.
    ///
    /// # Errors
    /// If a position is needed and there is none, or an expression fails.
    pub fn apply(&self, document: &Value, position: Option<usize>, now: DateTime) -> Result<Value> {
        let applying = Applying { projection: self, document, position, now };
        match document {
            Value::Map(map) => {
                let made = applying.map(Some(map), &self.root);
                made.map(Value::Map).map_err(|error| error.of_row(document))
            }
            other => Ok(other.clone()),
        }
    }
}

impl Reading {
    /// Reads the fields of a map at `above`.
    fn read(&mut self, map: &Map, above: &str, depth: usize) -> Result<()> {
        for (name, value) in map {
            let name = name.as_str().unwrap_or_default();
            let path = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
            if depth > DEPTH_MAX {
                return refused(code::FAILED_TO_PARSE, &path, "expected fewer maps in one another");
            }
            match value {
                Value::Bool(is_kept) => self.whole(&path, *is_kept)?,
                value if path.ends_with(".$") && value.as_f64().is_none() => {
                    let is_object = as_object(value).is_some();
                    let code = if is_object { OBJECT_OF_MATCHED } else { VALUE_OF_MATCHED };
                    let text = format!("expected 1 for $, found {}", value.type_name());
                    return refused(code, &path, text);
                }
                Value::Map(inner) => {
                    let first = inner.iter().next().and_then(|(name, _)| name.as_str());
                    match first {
                        None => {
                            return refused(EMPTY_MAP, &path, "expected what to return, found {}");
                        }
                        Some(first) if first.starts_with('$') => {
                            self.operator(&path, first, inner, value)?
                        }
                        Some(_) => self.read(inner, &path, depth + 1)?,
                    }
                }
                value => match value.as_f64() {
                    Some(number) => self.whole(&path, number != 0.0)?,
                    None => self.computed(&path, value)?,
                },
            }
        }
        Ok(())
    }

    /// Notes that fields are kept, or removed.
    fn decide(&mut self, path: &str, is_kept: bool) -> Result<()> {
        let is_inclusion = *self.is_inclusion.get_or_insert(is_kept);
        if is_inclusion == is_kept {
            return Ok(());
        }
        let (code, expected) = if is_inclusion {
            (REMOVED_AMONG_KEPT, "expected fields to keep alone, found one to remove")
        } else {
            (KEPT_AMONG_REMOVED, "expected fields to remove alone, found one to keep")
        };
        refused(code, path, expected)
    }

    fn whole(&mut self, path: &str, is_kept: bool) -> Result<()> {
        if path == "_id" {
            self.id = Some(is_kept);
            return Ok(());
        }
        if let Some(array) = path.strip_suffix(".$")
            && is_kept
        {
            if self.matched.is_some() {
                return refused(SECOND_MATCHED, path, "expected one positional $ at most");
            }
            if self.has_element {
                return refused(ELEMENT_BEFORE_MATCHED, path, "expected $ or $elemMatch, not both");
            }
            if self.is_inclusion == Some(false) {
                return refused(
                    MATCHED_AMONG_REMOVED,
                    path,
                    "expected no fields to remove beside $",
                );
            }
            self.is_inclusion = Some(true);
            self.matched = Some(array.to_owned());
            self.plain = None;
            return self.add(array, ProjectedField::Matched);
        }
        self.decide(path, is_kept)?;
        if let Some(plain) = &mut self.plain {
            plain.push(path.to_owned());
        }
        self.add(path, if is_kept { ProjectedField::Kept } else { ProjectedField::Removed })
    }

    fn operator(&mut self, path: &str, name: &str, map: &Map, value: &Value) -> Result<()> {
        if name == "$elemMatch" && map.len() > 1 {
            return refused(DOLLAR_NAME, path, "expected $elemMatch alone in its map");
        }
        let operand = map.get(name).filter(|_| map.len() == 1);
        let field = match (name, operand) {
            ("$slice", Some(operand)) => match slice(path, operand)? {
                Some(field) => field,
                None => return self.computed(path, value),
            },
            ("$elemMatch", Some(operand)) => {
                check(path)?;
                if self.matched.is_some() {
                    return refused(
                        MATCHED_BEFORE_ELEMENT,
                        path,
                        "expected $ or $elemMatch, not both",
                    );
                }
                if path.contains('.') {
                    let text = "expected $elemMatch for a field of the document itself";
                    return refused(ELEMENT_OF_NESTED, path, text);
                }
                self.has_element = true;
                ProjectedField::Element(element(path, operand)?)
            }
            _ => return self.computed(path, value),
        };
        self.plain = None;
        self.add(path, field)
    }

    fn computed(&mut self, path: &str, value: &Value) -> Result<()> {
        let is_kept = true;
        self.decide(path, is_kept)?;
        self.plain = None;
        self.add(path, ProjectedField::Computed(Expression::parse(value)?))
    }

    fn add(&mut self, path: &str, field: ProjectedField) -> Result<()> {
        check(path)?;
        let order = self.count;
        self.count += 1;
        let mut level = &mut self.root;
        let mut names = path.split('.').peekable();
        for steps in 0.. {
            let Some(name) = names.next() else { return Ok(()) };
            if steps == DEPTH_MAX {
                let text = format!("expected a path of at most {DEPTH_MAX} steps");
                return refused(code::FAILED_TO_PARSE, path, text);
            }
            if names.peek().is_none() {
                if level.insert(name.into(), (order, field)).is_some() {
                    return refused(COLLISION, path, "expected each path once, and no part of it");
                }
                return Ok(());
            }
            let parts = || (order, ProjectedField::Parts(Level::new()));
            level = match &mut level.entry(name.into()).or_insert_with(parts).1 {
                ProjectedField::Parts(inner) => inner,
                _ => {
                    let text = "expected no path together with a part of it";
                    return refused(COLLISION_INSIDE, path, text);
                }
            };
        }
        Ok(())
    }
}

/// Refuses what is no path.
fn check(path: &str) -> Result<()> {
    let is_reference = |name: &str| matches!(name, "$id" | "$ref" | "$db");
    let mut names = path.split('.');
    match path {
        "" => refused(EMPTY_PATH, path, "expected a path"),
        _ if path.ends_with('.') => {
            refused(OPEN_PATH, path, "expected a name after the last point")
        }
        _ if names.any(str::is_empty) => refused(EMPTY_NAME, path, "expected no empty names"),
        _ if path.split('.').skip(1).any(|name| name == "$") => {
            refused(MATCHED_INSIDE, path, "expected $ at the end of a path")
        }
        _ if path.split('.').any(|name| name.starts_with('$') && !is_reference(name)) => {
            refused(DOLLAR_NAME, path, "expected names that do not begin with $")
        }
        _ => Ok(()),
    }
}

/// Reads `$slice` of a find; `None` if it is an expression.
fn slice(path: &str, operand: &Value) -> Result<Option<ProjectedField>> {
    let int = |value: &Value| value.as_f64().map(|number| number.trunc() as i64);
    match operand {
        Value::Array(items) => match items.iter().map(int).collect::<Option<Vec<_>>>().as_deref() {
            Some([skip, count @ (1..)]) => {
                Ok(Some(ProjectedField::Slice(*skip, count.unsigned_abs())))
            }
            Some([] | [_]) => refused(SHORT_SLICE, path, "expected [skip, count] of $slice"),
            Some(_) => {
                refused(BAD_SLICE, path, "expected [skip, count] of $slice, the count positive")
            }
            None => Ok(None),
        },
        value => match int(value) {
            Some(count) if count < 0 => {
                Ok(Some(ProjectedField::Slice(count, count.unsigned_abs())))
            }
            Some(count) => Ok(Some(ProjectedField::Slice(0, count.unsigned_abs()))),
            None => {
                let text = format!("expected numbers of $slice, found {}", value.type_name());
                refused(SHORT_SLICE, path, text)
            }
        },
    }
}

/// The name of an array in a document of its own.
const ARRAY: &str = "array";

/// Reads `$elemMatch`: a condition on an array of one element.
fn element(path: &str, operand: &Value) -> Result<Matcher> {
    if as_object(operand).is_none() {
        let text = format!("expected conditions of $elemMatch, found {}", operand.type_name());
        return refused(NO_CONDITIONS, path, text);
    }
    let condition: Map = [("$elemMatch", operand.clone())].into_iter().collect();
    let filter = Value::Map([(ARRAY, condition)].into_iter().collect());
    let matcher = Filter::of_driver(&filter, None).and_then(|filter| filter.compile());
    matcher.or_else(|error| refused(code::BAD_VALUE, path, error.to_string()))
}

/// A projection of a document that is under way.
struct Applying<'p> {
    projection: &'p FindProjection,
    document: &'p Value,
    position: Option<usize>,
    now: DateTime,
}

fn is_computed(field: &ProjectedField) -> bool {
    match field {
        ProjectedField::Computed(_) => true,
        ProjectedField::Parts(level) => level.values().any(|(_, field)| is_computed(field)),
        _ => false,
    }
}

impl Applying<'_> {
    /// Projects a map, which may be missing if fields of it are computed.
    fn map(&self, map: Option<&Map>, level: &Level) -> Result<Map> {
        let is_inclusion = self.projection.is_inclusion;
        let mut out: Vec<(Value, Value)> = Vec::new();
        for (key, value) in map.into_iter().flatten() {
            let field = key.as_str().and_then(|name| level.get(name));
            let kept = match field {
                None => (!is_inclusion).then(|| value.clone()),
                Some((_, field)) => self.field(Some(value), field)?,
            };
            out.extend(kept.map(|value| (key.clone(), value)));
        }
        let is_new = |name: &str| map.is_none_or(|map| map.get(name).is_none());
        let mut new: Vec<_> =
            level.iter().filter(|(name, (_, field))| is_computed(field) && is_new(name)).collect();
        new.sort_by_key(|(_, (order, _))| *order);
        for (name, (_, field)) in new {
            let made = self.field(None, field)?;
            out.extend(made.map(|value| (Value::from(&**name), value)));
        }
        Ok(out.into_iter().collect())
    }

    fn field(&self, value: Option<&Value>, field: &ProjectedField) -> Result<Option<Value>> {
        match (field, value) {
            (ProjectedField::Removed, _) => Ok(None),
            (ProjectedField::Parts(level), value) => self.parts(value, level, field),
            (ProjectedField::Slice(skip, count), Some(Value::Array(items))) => {
                let offset = usize::try_from(skip.unsigned_abs()).unwrap_or(usize::MAX);
                let skip = if *skip < 0 { items.len().saturating_sub(offset) } else { offset };
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                Ok(Some(items.iter().skip(skip).take(count).cloned().collect()))
            }
            (ProjectedField::Element(matcher), Some(Value::Array(items))) => {
                for item in items {
                    let array = Value::Map([(ARRAY, vec![item.clone()])].into_iter().collect());
                    let document = Document::from_value(&array).map_err(PipelineError::from)?;
                    if document.matches(matcher) {
                        return Ok(Some(vec![item.clone()].into()));
                    }
                }
                Ok(None)
            }
            (ProjectedField::Element(_), _) => Ok(None),
            (ProjectedField::Matched, Some(Value::Array(items))) => {
                match self.position.and_then(|position| items.get(position)) {
                    Some(item) => Ok(Some(vec![item.clone()].into())),
                    None => {
                        let path =
                            format!("{}.$", self.projection.matched.as_deref().unwrap_or(""));
                        let text = "expected a filter that matches an element of the array";
                        let is_short = self.position.is_some();
                        refused(if is_short { SHORT_ARRAY } else { NO_MATCHED }, &path, text)
                    }
                }
            }
            (ProjectedField::Computed(computed), _) => computed.evaluate(self.document, self.now),
            (ProjectedField::Kept | ProjectedField::Slice(..) | ProjectedField::Matched, value) => {
                Ok(value.cloned())
            }
        }
    }

    /// Projects what is inside of a value. `field` is the level as a field.
    fn parts(
        &self,
        value: Option<&Value>,
        level: &Level,
        field: &ProjectedField,
    ) -> Result<Option<Value>> {
        match value {
            Some(Value::Map(map)) => self.map(Some(map), level).map(|map| Some(Value::Map(map))),
            Some(Value::Array(items)) => {
                let mut out = Vec::new();
                for item in items {
                    out.extend(self.parts(Some(item), level, field)?);
                }
                Ok(Some(Value::Array(out)))
            }
            _ if is_computed(field) => self.map(None, level).map(|map| Some(Value::Map(map))),
            Some(scalar) => Ok((!self.projection.is_inclusion).then(|| scalar.clone())),
            None => Ok(None),
        }
    }
}
