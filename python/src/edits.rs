//! Documents of a transaction, and the lists and dicts in them, whose changes are written there.

use crate::access::Documents;
use crate::decode::{self, Decimals};
use crate::fork::OfProcess;
use crate::opened::Opened;
use crate::value;
use flagstone::doc::Map;
use flagstone::{Value, View};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::{Arc, Mutex, PoisonError};

/// A document of a transaction.
pub(crate) struct Edited {
    opened: Arc<Opened>,
    documents: OfProcess<Documents>,
    key: Value,
    now: Mutex<flagstone::Document>,
}

impl Edited {
    pub(crate) fn new(
        opened: &Arc<Opened>,
        documents: &Documents,
        key: Value,
        document: flagstone::Document,
    ) -> Self {
        let documents = OfProcess::new(documents.clone());
        Self { opened: Arc::clone(opened), documents, key, now: Mutex::new(document) }
    }

    /// Returns the document with the changes that were made through this object.
    pub(crate) fn now(&self) -> flagstone::Document {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `change`, which writes, and remembers the document as it is then.
    fn write(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&Documents, &Value) -> flagstone::Result<()> + Send,
    ) -> PyResult<()> {
        let now = self.opened.run(py, || {
            change(&self.documents, &self.key)?;
            self.documents.get(&self.key)
        })?;
        if let Some(now) = now {
            *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        Ok(())
    }

    /// Sets the value at a path of names, or removes it.
    pub(crate) fn set(
        &self,
        py: Python<'_>,
        names: &[Box<str>],
        value: Option<Value>,
    ) -> PyResult<()> {
        self.write(py, |documents, key| documents.set_in(key.clone(), names, None, value))
    }
}

/// A part of a document of a transaction that Python has as a list or a dict.
#[pyclass(module = "flagstone._flagstone", name = "_Part", frozen)]
pub(crate) struct Part {
    of: Arc<Edited>,
    /// The names of the fields on the way from the root.
    names: Vec<Box<str>>,
    /// What the part was when it was read or written here.
    seen: Mutex<Value>,
    decimals: Decimals,
}

#[pymethods]
impl Part {
    /// Writes the part. It must be what it was.
    fn replace(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let path = value::path_of(self.names.iter().map(|name| &**name));
        let new = value::of_python(value, &path)?;
        self.of.write(py, |documents, key| {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let new = kept(&seen, new, self.decimals);
            documents.set_in(key.clone(), &self.names, Some(&seen), Some(new.clone()))?;
            *seen = new;
            Ok(())
        })
    }
}

/// Returns a part of a document as Python has it: a list or a dict writes its changes.
pub(crate) fn part<'py>(
    py: Python<'py>,
    of: &Arc<Edited>,
    names: Vec<Box<str>>,
    view: &View<'_>,
    decimals: Decimals,
) -> PyResult<Bound<'py, PyAny>> {
    let path = || value::path_of(names.iter().map(|name| &**name));
    let decoded = decode::view_at(py, view, decimals, path)?;
    if !view.is_array() && !view.is_map() {
        return Ok(decoded);
    }
    let seen = view.to_value().map_err(|error| decode::malformed(py, error))?;
    let part = Part { of: Arc::clone(of), names, seen: Mutex::new(seen), decimals };
    static TRACKED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    TRACKED.import(py, "flagstone.edits", "tracked")?.call1((decoded, part))
}

/// Returns `new` with the numbers of `old` where Python has them as floats that were not changed: a
/// float does not say with which digits it was written.
fn kept(old: &Value, new: Value, decimals: Decimals) -> Value {
    match (old, new) {
        (Value::Number(_), new) if is_same(old, &new, decimals) => old.clone(),
        (Value::Array(old), Value::Array(new)) => Value::Array(kept_items(old, new, decimals)),
        (Value::Map(old), Value::Map(new)) => {
            let pair = |(name, value): (Value, Value)| {
                let value = match old.get_value(&name) {
                    Some(old) => kept(old, value, decimals),
                    None => value,
                };
                (name, value)
            };
            Value::Map(new.into_iter().map(pair).collect::<Map>())
        }
        (_, new) => new,
    }
}

/// The items before and after those that were changed, added or removed stay what they are.
fn kept_items(old: &[Value], mut new: Vec<Value>, decimals: Decimals) -> Vec<Value> {
    let same = |(old, new): &(&Value, &Value)| is_same(old, new, decimals);
    let head = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    new[..head].clone_from_slice(&old[..head]);
    new[new_end..].clone_from_slice(&old[old_end..]);
    if old_end == new_end {
        for (old, new) in old[head..old_end].iter().zip(&mut new[head..new_end]) {
            *new = kept(old, std::mem::replace(new, Value::Null), decimals);
        }
    }
    new
}

/// Returns whether Python has the same object for both.
fn is_same(old: &Value, new: &Value, decimals: Decimals) -> bool {
    match (old, new) {
        (Value::Number(literal), Value::Float(float)) => {
            decode::float_of(literal.as_str(), decimals) == Some(*float)
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len()
                && old.iter().zip(new).all(|(old, new)| is_same(old, new, decimals))
        }
        (Value::Map(old), Value::Map(new)) => {
            old.len() == new.len()
                && old.iter().all(|(name, old)| {
                    new.get_value(name).is_some_and(|new| is_same(old, new, decimals))
                })
        }
        (old, new) => old == new,
    }
}
