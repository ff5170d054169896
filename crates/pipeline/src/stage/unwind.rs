//! `$unwind`: a row for each item of an array.

use super::row::{Rows, get, remove, set};
use crate::error::{Place, Result};
use crate::expression::{as_object, path_names};
use flagstone::Value;
use flagstone::internal::document::long;

/// An `$unwind`.
#[derive(Clone)]
pub(crate) struct Unwind {
    path: Box<[Box<str>]>,
    index: Option<Box<[Box<str>]>>,
    preserves_empty: bool,
}

impl Unwind {
    pub(super) fn parse(value: &Value, place: &Place<'_>) -> Result<Self> {
        let (mut path, mut index, mut preserves_empty) = (None, None, false);
        match value {
            Value::Text(text) if text.is_empty() => {}
            Value::Text(_) => path = Some(value),
            Value::Map(map) if as_object(value).is_some() => {
                for (key, value) in map {
                    match (key.as_str().unwrap_or_default(), value) {
                        ("path", _) => path = Some(value),
                        ("includeArrayIndex", Value::Text(name)) if !name.is_empty() => {
                            if name.starts_with('$') {
                                let text = "expected a path that does not begin with '$'";
                                return Err(place.field("includeArrayIndex").refuse(28822, text));
                            }
                            index = Some(path_names(name, place)?);
                        }
                        ("includeArrayIndex", _) => {
                            return Err(place
                                .field("includeArrayIndex")
                                .refuse(28810, "expected a path"));
                        }
                        ("preserveNullAndEmptyArrays", Value::Bool(given)) => {
                            preserves_empty = *given
                        }
                        ("preserveNullAndEmptyArrays", _) => {
                            let at = place.field("preserveNullAndEmptyArrays");
                            return Err(at.refuse(28809, "expected true or false"));
                        }
                        (other, _) => {
                            let text = format!(
                                "expected path, includeArrayIndex or \
                                 preserveNullAndEmptyArrays, found {other:?}"
                            );
                            return Err(place.refuse(28811, text));
                        }
                    }
                }
            }
            _ => return Err(place.refuse(15981, "expected a path or a map with one")),
        }
        let path = path.ok_or_else(|| place.refuse(28812, "expected a path"))?;
        let Some(path) = path.as_str() else {
            return Err(place.field("path").refuse(28808, "expected a path that is text"));
        };
        if path.is_empty() {
            return Err(place.refuse(28812, "expected a path"));
        }
        if path.contains('\0') {
            return Err(place.refuse(16419, "expected a path without a zero byte"));
        }
        let Some(path) = path.strip_prefix('$') else {
            return Err(place
                .refuse(28818, format!("expected a path that begins with '$', found {path:?}")));
        };
        Ok(Self { path: path_names(path, place)?, index, preserves_empty })
    }
}

impl Unwind {
    /// The name of the field with the array.
    pub(super) fn field(&self) -> Option<&str> {
        self.path.first().map(|name| &**name)
    }
}

/// The rows of an `$unwind`.
pub(super) struct Unwound<R> {
    pub(super) rows: R,
    pub(super) unwind: Unwind,
    /// The row without the array, and the items that are left.
    current: Option<(Value, std::iter::Enumerate<std::vec::IntoIter<Value>>)>,
}

impl<R> Unwound<R> {
    pub(super) const fn new(rows: R, unwind: Unwind) -> Self {
        Self { rows, unwind, current: None }
    }
}

impl<R: Rows> Rows for Unwound<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        let Unwind { path, index, preserves_empty } = &self.unwind;
        loop {
            if let Some((row, items)) = &mut self.current {
                if let Some((at, item)) = items.next() {
                    let mut row = if items.len() == 0 { std::mem::take(row) } else { row.clone() };
                    set(&mut row, path, item);
                    if let Some(index) = index {
                        set(&mut row, index, long(at as i64));
                    }
                    return Ok(Some(row));
                }
                self.current = None;
            }
            let Some(mut row) = self.rows.next()? else { return Ok(None) };
            let is_empty = match get(&row, path) {
                Some(Value::Array(items)) if !items.is_empty() => {
                    let mut items = Vec::new();
                    if let Some(Value::Array(found)) = get_mut(&mut row, path) {
                        std::mem::swap(found, &mut items);
                    }
                    self.current = Some((row, items.into_iter().enumerate()));
                    continue;
                }
                Some(Value::Array(_)) => {
                    if *preserves_empty {
                        remove(&mut row, path);
                    }
                    true
                }
                Some(value) => value.is_null(),
                None => true,
            };
            if is_empty && !*preserves_empty {
                continue;
            }
            if let Some(index) = index {
                set(&mut row, index, Value::Null);
            }
            return Ok(Some(row));
        }
    }

    fn park(&mut self) {
        self.rows.park();
    }
}

fn get_mut<'v>(row: &'v mut Value, names: &[Box<str>]) -> Option<&'v mut Value> {
    names.iter().try_fold(row, |value, name| match value {
        Value::Map(map) => map.get_mut(name),
        _ => None,
    })
}
