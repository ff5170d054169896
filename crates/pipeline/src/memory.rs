//! The memory that a pipeline may take, and what values take of it.

use crate::error::{PipelineError, Result, code};
use flagstone::Value;
use flagstone::internal::QueryMemory;
use flagstone::internal::document::DEPTH_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// What of it counts among the memory of all queries, in steps.
    shared: Option<Arc<Shared>>,
    limit: usize,
}

#[derive(Debug)]
struct Shared {
    /// The bytes that count, to compare without the lock.
    bytes: AtomicUsize,
    memory: Mutex<QueryMemory>,
}

/// The steps in which the memory of a pipeline counts among that of all queries.
const STEP: usize = 256 << 10;

impl Memory {
    /// Memory of what is no query.
    pub(crate) fn new(limit: usize) -> Self {
        Self { held: Arc::default(), shared: None, limit }
    }

    /// Memory that counts among that of all queries.
    pub(crate) fn of_query(limit: usize, memory: QueryMemory) -> Self {
        let shared = Shared { bytes: AtomicUsize::new(STEP), memory: Mutex::new(memory) };
        Self { shared: Some(Arc::new(shared)), ..Self::new(limit) }
    }

    /// Counts `all` bytes among those of all queries.
    #[cold]
    fn share(&self, all: usize, place: &str) -> Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut memory = shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = all.next_multiple_of(STEP);
        if memory.grow(bytes) {
            shared.bytes.fetch_max(bytes, Ordering::Relaxed);
            return Ok(());
        }
        let most = memory.most();
        let text = format!("expected all queries together to need at most {most} bytes of memory");
        Err(PipelineError::new(code::EXCEEDED_MEMORY, place, text))
    }

    /// Counts no more than is held: the pipeline waits for its reader.
    pub(crate) fn park(&self) {
        let Some(shared) = &self.shared else { return };
        let mut memory = shared.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.held.load(Ordering::Relaxed).next_multiple_of(STEP).max(STEP);
        shared.bytes.store(bytes, Ordering::Relaxed);
        memory.set(if bytes == STEP { 0 } else { bytes });
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
        let all = held.load(Ordering::Relaxed).saturating_add(bytes);
        if all > self.memory.limit {
            return Err(exceeded(place, self.memory.limit));
        }
        if self.memory.shared.as_ref().is_some_and(|it| all > it.bytes.load(Ordering::Relaxed)) {
            self.memory.share(all, place)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone::internal::held_memory;

    /// Each pipeline had memory of its own, and nothing knew of the sum.
    #[test]
    fn pipelines_hold_no_more_than_all_queries_together_may() {
        let dir = tempfile::tempdir().unwrap();
        let db = flagstone::Database::open(dir.path()).unwrap();
        let most = held_memory(&db).most() as usize;
        let memory = Memory::of_query(2 * most, held_memory(&db));
        let (mut hold, mut other) = (memory.hold(), held_memory(&db));
        hold.add(STEP, "here").unwrap();
        assert_eq!(db.stats().query_bytes, 0, "few bytes do not count");
        hold.add(STEP, "here").unwrap();
        let held = db.stats().query_bytes as usize;
        assert!((STEP..=2 * STEP).contains(&held), "{held}");
        assert!(other.grow(most - held));
        let refused = hold.add(STEP, "here").unwrap_err();
        assert_eq!(refused.code(), code::EXCEEDED_MEMORY);
        assert!(refused.to_string().contains(&format!("at most {most} bytes")), "{refused}");
        drop(other);
        hold.add(STEP, "here").unwrap();
        hold.release(usize::MAX);
        memory.park();
        assert_eq!(db.stats().query_bytes, 0);
    }
}
