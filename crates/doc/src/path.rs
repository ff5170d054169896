//! Changing a value in memory at a dotted path.
//!
//! `a.b` is the field `b` of the map at `a`; `tags.0` the first element of the array at `tags`.

use crate::value::{DEPTH_MAX, Value};
use flagstone_base::{Error, Result};

impl Value {
    /// What stands at the dotted path `path`: `id`, `a.b`, `tags.0`.
    pub fn path(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, step| match value {
            Value::Map(map) => map.get(step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Sets what stands at `path` to `value` and returns what stood there. Maps that are missing on
    /// the way are made; an array grows by one when the index is its length.
    ///
    /// # Errors
    /// InvalidInput when the way leads through something that is neither map nor array, or beyond
    /// the end of an array, or has more than [`DEPTH_MAX`] steps; nothing is changed then.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> Result<Option<Value>> {
        if path.split('.').nth(DEPTH_MAX).is_some() {
            return Err(Error::invalid(format!("a path of more than {DEPTH_MAX} steps")));
        }
        self.set_at(path.split('.'), value).map_err(|step| no_way(path, step))
    }

    /// As [`Value::set`], by the steps of a path; the error is the step that leads nowhere.
    pub(crate) fn set_at<'p>(
        &mut self,
        steps: impl Iterator<Item = &'p str> + Clone,
        value: impl Into<Value>,
    ) -> Result<Option<Value>, &'p str> {
        self.check_way(steps.clone())?;
        let mut target = self;
        let mut steps = steps.peekable();
        while let Some(step) = steps.next() {
            let is_last = steps.peek().is_none();
            let next = match target {
                Value::Map(map) if is_last => return Ok(map.insert(step, value)),
                Value::Array(items) if is_last && step.parse() == Ok(items.len()) => {
                    items.push(value.into());
                    return Ok(None);
                }
                Value::Array(items) => element(items, step),
                Value::Map(map) => {
                    if map.get(step).is_none() {
                        map.insert(step, Value::object());
                    }
                    map.get_mut(step)
                }
                _ => None,
            };
            target = next.ok_or(step)?;
        }
        Ok(Some(std::mem::replace(target, value.into())))
    }

    /// Removes what stands at `path` and returns it; `None` when nothing does.
    pub fn remove(&mut self, path: &str) -> Option<Value> {
        self.remove_at(path.split('.'))
    }

    /// As [`Value::remove`], by the steps of a path.
    pub(crate) fn remove_at<'p>(
        &mut self,
        steps: impl Iterator<Item = &'p str> + Clone,
    ) -> Option<Value> {
        let above = steps.clone().count().checked_sub(1)?;
        let last = steps.clone().last()?;
        match self.at_mut(steps.take(above))? {
            Value::Map(map) => map.remove(last),
            Value::Array(items) => {
                let index = last.parse().ok().filter(|index| *index < items.len())?;
                Some(items.remove(index))
            }
            _ => None,
        }
    }

    /// What stands at the dotted path `path`, to be changed.
    pub fn path_mut(&mut self, path: &str) -> Option<&mut Value> {
        self.at_mut(path.split('.'))
    }

    /// As [`Value::path_mut`], by the steps of a path.
    pub(crate) fn at_mut<'p>(
        &mut self,
        mut steps: impl Iterator<Item = &'p str>,
    ) -> Option<&mut Value> {
        steps.try_fold(self, |value, step| match value {
            Value::Map(map) => map.get_mut(step),
            Value::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Refuses a path on which [`Value::set_at`] would get stuck.
    fn check_way<'p>(&self, steps: impl Iterator<Item = &'p str>) -> Result<(), &'p str> {
        let mut here = self;
        for step in steps {
            let next = match here {
                Value::Map(map) => map.get(step),
                Value::Array(items) => match step.parse::<usize>() {
                    Ok(index) if index <= items.len() => items.get(index),
                    _ => return Err(step),
                },
                _ => return Err(step),
            };
            // What is missing is made: only a map or one more element, so the rest is free.
            let Some(next) = next else { return Ok(()) };
            here = next;
        }
        Ok(())
    }
}

/// The element `step` of an array, made when it is the next one.
fn element<'a>(items: &'a mut Vec<Value>, step: &str) -> Option<&'a mut Value> {
    let index = step.parse::<usize>().ok()?;
    if index == items.len() {
        items.push(Value::object());
    }
    items.get_mut(index)
}

#[cold]
fn no_way(path: &str, step: &str) -> Error {
    Error::invalid(format!(
        "path {path:?} cannot be set: no map and no array with a place {step:?} is there"
    ))
}

#[cfg(test)]
mod tests {
    use crate::doc;

    #[test]
    fn a_path_is_set_and_removed() {
        let mut value = doc!({ "a": { "b": 1 }, "tags": ["x"] });
        assert_eq!(value.set("a.b", 2).unwrap(), Some(1.into()));
        assert_eq!(value.set("a.c.d", "new").unwrap(), None);
        assert_eq!(value.set("tags.1", "y").unwrap(), None);
        assert_eq!(value.set("tags.1", "y").unwrap(), Some("y".into()));
        value.set("tags.2.k", true).unwrap();
        assert_eq!(
            value,
            doc!({ "a": { "b": 2, "c": { "d": "new" } }, "tags": ["x", "y", { "k": true }] })
        );
        assert_eq!(value.remove("tags.0"), Some("x".into()));
        assert_eq!(value.remove("a.c"), Some(doc!({ "d": "new" })));
        assert_eq!(value.remove("a.nothing"), None);
        assert_eq!(value.remove("nothing.b"), None);
        let before = value.clone();
        assert!(value.set("a.b.c", 1).is_err());
        assert!(value.set("tags.7", 1).is_err());
        assert!(value.set("tags.x", 1).is_err());
        assert!(
            value.set(&"a.".repeat(1_000_000), 1).is_err(),
            "no nesting that cannot be dropped"
        );
        assert_eq!(value, before);
    }
}
