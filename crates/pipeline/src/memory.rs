//! The memory that a pipeline may take, and what values take of it.

use crate::error::{PipelineError, Result, code};
use flagstone::Value;
use flagstone::internal::document::DEPTH_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one place of a list takes.
pub(crate) const SLOT: usize = size_of::<Value>();

/// Returns the bytes that a value takes in memory, about. A value that is nested deeper than
/// documents may be counts as more than any memory.
pub(crate) fn weight(value: &Value) -> usize {
    weight_within(value, DEPTH_MAX)
}

fn weight_within(value: &Value, depth: usize) -> usize {
    if depth == 0 {
        return usize::MAX;
    }
    let of = |value| weight_within(value, depth - 1);
    let inside = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Number(number) => number.as_str().len(),
        Value::Array(items) => items.iter().map(of).fold(0, usize::saturating_add),
        Value::Map(map) => {
            let pairs = map.iter().map(|(key, value)| of(key).saturating_add(of(value)));
            pairs.fold(0, usize::saturating_add)
        }
        _ => 0,
    };
    inside.saturating_add(SLOT)
}

/// The memory of a pipeline: how much it holds, and how much that may be. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    held: Arc<AtomicUsize>,
    limit: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), limit }
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Begins to hold memory.
    pub(crate) fn hold(&self) -> Hold {
        Hold { memory: self.clone(), bytes: 0 }
    }
}

/// Memory that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    memory: Memory,
    bytes: usize,
}

impl Hold {
    /// Holds `bytes` more, for what `place` makes.
    ///
    /// # Errors
    /// ExceededMemoryLimit.
    #[inline]
    pub(crate) fn add(&mut self, bytes: usize, place: &str) -> Result<()> {
        let held = &self.memory.held;
        if held.load(Ordering::Relaxed).saturating_add(bytes) > self.memory.limit {
            return Err(exceeded(place, self.memory.limit));
        }
        held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        Ok(())
    }

    /// Holds `bytes` less; no more than it holds.
    pub(crate) fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.held.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// The error of what needs more than `limit` bytes.
#[cold]
pub(crate) fn exceeded(place: &str, limit: usize) -> PipelineError {
    let text = format!(
        "expected to need at most the {limit} bytes of memory of the pipeline, for values nested \
         at most {DEPTH_MAX} deep"
    );
    PipelineError::new(code::EXCEEDED_MEMORY, place, text)
}
