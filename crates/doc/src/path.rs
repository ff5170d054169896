//! Reads and changes the parts of a value in memory, given by dotted paths.
//!
//! `a.b` is the field `b` of the map at `a`; `tags.0` is the first element of the array at `tags`.
//! `$.a.b` is the same path as `a.b`. Of JSONPaths only that form is a dotted path.

use crate::depth::DEPTH_MAX;
use crate::field_name::without_root;
use crate::value::Value;
use flagstone_base::{Error, Result};

/// Returns the dotted path at which `text` changes a document. Other JSONPaths than `$.a.b`, and
/// JSON Pointers, would make fields of strange names.
///
/// # Errors
/// InvalidInput for them.
pub(crate) fn changed_path(text: &str) -> Result<&str> {
    let dotted = without_root(text);
    let is_json_path = dotted.len() < text.len()
        && (dotted.starts_with(['.', '$']) || dotted.contains(['[', '*']) || dotted.contains(".."));
    if is_json_path || dotted == "$" || dotted.starts_with("$[") || text.starts_with('/') {
        return Err(no_dotted_path(text));
    }
    Ok(dotted)
}

#[cold]
fn no_dotted_path(text: &str) -> Error {
    Error::invalid(format!(
        "{text:?}: expected a dotted path, as in author.name; a JSON Patch takes JSON Pointers, \
         and $./name is a field whose name begins with /"
    ))
}

impl Value {
    /// Returns the value at the dotted path `path`: `id`, `a.b`, `tags.0`. `$.a.b` is `a.b`.
    ///
    /// ```
    /// use flagstone_doc::doc;
    /// let post = doc!({ "author": { "name": "ada" }, "tags": ["a", "b"] });
    /// assert_eq!(post.path("author.name"), Some(&"ada".into()));
    /// assert_eq!(post.path("tags.1"), Some(&"b".into()));
    /// assert_eq!(post.path("tags.2"), None);
    /// ```
    pub fn path(&self, path: &str) -> Option<&Value> {
        without_root(path).split('.').try_fold(self, |value, step| match value {
            Value::Map(map) => map.get(step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Sets the value at `path` and returns the previous one. Creates the maps that are missing on
    /// the path; an index equal to the length of an array appends to it.
    ///
    /// ```
    /// use flagstone_doc::doc;
    /// let mut post = doc!({ "score": 7, "tags": ["a"] });
    /// assert_eq!(post.set("score", 8)?, Some(7.into()));
    /// assert_eq!(post.set("author.name", "ada")?, None);          // creates the map
    /// assert_eq!(post.set("tags.1", "b")?, None);                 // appends
    /// assert!(post.set("score.today", 1).is_err());               // 8 is no map
    /// assert_eq!(post, doc!({ "score": 8, "tags": ["a", "b"], "author": { "name": "ada" } }));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if the path leads through a value that is neither a map nor an array, leads
    /// beyond the end of an array, or has more than [`DEPTH_MAX`] steps, or is a JSON Pointer or a
    /// JSONPath other than `$.a.b`. The value is unchanged then.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> Result<Option<Value>> {
        let path = changed_path(path)?;
        if path.split('.').nth(DEPTH_MAX).is_some() {
            return Err(Error::invalid(format!("a path of more than {DEPTH_MAX} steps")));
        }
        self.set_at(path.split('.'), value).map_err(|step| no_way(path, step))
    }

    /// Does what [`Value::set`] does, for a path given as steps. The error is the step that fails.
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

    /// Removes the value at `path` and returns it; `None` if there is none.
    ///
    /// ```
    /// use flagstone_doc::doc;
    /// let mut post = doc!({ "author": { "name": "ada", "age": 36 }, "tags": ["a", "b", "c"] });
    /// assert_eq!(post.remove("author.age"), Some(36.into()));
    /// assert_eq!(post.remove("tags.1"), Some("b".into()));        // "c" moves up
    /// assert_eq!(post.remove("tags.7"), None);
    /// assert_eq!(post, doc!({ "author": { "name": "ada" }, "tags": ["a", "c"] }));
    /// ```
    pub fn remove(&mut self, path: &str) -> Option<Value> {
        self.remove_at(without_root(path).split('.'))
    }

    /// Does what [`Value::remove`] does, for a path given as steps.
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

    /// Returns a mutable reference to the value at the dotted path `path`.
    ///
    /// ```
    /// use flagstone_doc::{Value, doc};
    /// let mut post = doc!({ "lines": [{ "text": "a" }, { "text": "b" }] });
    /// if let Some(Value::Text(text)) = post.path_mut("lines.1.text") {
    ///     text.push('!');
    /// }
    /// assert_eq!(post, doc!({ "lines": [{ "text": "a" }, { "text": "b!" }] }));
    /// assert!(post.path_mut("lines.2").is_none());
    /// ```
    pub fn path_mut(&mut self, path: &str) -> Option<&mut Value> {
        self.at_mut(without_root(path).split('.'))
    }

    /// Does what [`Value::path_mut`] does, for a path given as steps.
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

    /// Returns the step at which [`Value::set_at`] would fail, as the error.
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
            // A missing step is created, and a created map or element takes any further step.
            let Some(next) = next else { return Ok(()) };
            here = next;
        }
        Ok(())
    }
}

/// Returns the element `step` of an array, and creates it if it is the next one.
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
        "path {path:?} cannot be set: {step:?} is neither a field of a map nor a place in an array"
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

    /// `$.x` was the field `x` of a field named `$`, and the change was reported as done.
    #[test]
    fn a_json_path_is_a_dotted_path_or_refused() {
        let mut value = doc!({ "a": { "b": 1 }, "/z": 2, "$ref": 3 });
        value.set("$.a.c", 4).unwrap();
        value.set("$./y", 5).unwrap();
        value.set("$ref", 6).unwrap();
        let expected = doc!({ "a": { "b": 1, "c": 4 }, "/z": 2, "$ref": 6, "/y": 5 });
        assert_eq!(value, expected);
        let refused = ["$", "$[0]", "$['a']", "$.a[0]", "$..a", "$.a..b", "$.*", "$.$[0]", "/z"];
        for path in refused {
            let error = value.set(path, 1).unwrap_err().to_string();
            assert!(error.contains("expected a dotted path"), "{error}");
            assert_eq!(value, expected, "{path}");
        }
        // What is there is found by either form.
        assert_eq!(value.path("$.a.b"), value.path("a.b"));
        assert_eq!((value.path("/z"), value.path("$./z")), (Some(&2.into()), Some(&2.into())));
        *value.path_mut("$.a.b").unwrap() = 7.into();
        assert_eq!(value.remove("$.a.b"), Some(7.into()));
        assert_eq!(value.remove("/z"), Some(2.into()));
    }
}
