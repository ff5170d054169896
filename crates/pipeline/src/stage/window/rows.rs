//! The rows of a `$setWindowFields`.

use super::buffer::{Buffer, Input};
use super::function::Live;
use super::stage::Window;
use crate::PipelineError;
use crate::error::{Result, code};
use crate::expression::EvalContext;
use crate::stage::row::{RowBytes, Rows, set};
use crate::stage::sort::Spill;
use flagstone::internal::document::sort_key;
use flagstone::internal::{Sorted, interrupt_check};
use flagstone::{Database, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The rows of a `$setWindowFields`.
pub(in crate::stage) struct Windowed<R> {
    window: Arc<Window>,
    context: Arc<EvalContext>,
    state: WindowState<R>,
}

enum WindowState<R> {
    Rows { rows: R, database: Database, spill: Spill },
    Running { buffer: Box<Buffer<R>>, lives: Vec<Live>, at: usize },
    Ended,
}

impl<R: Rows> Windowed<R> {
    pub(in crate::stage) const fn new(
        rows: R,
        window: Arc<Window>,
        context: Arc<EvalContext>,
        database: Database,
        spill: Spill,
    ) -> Self {
        Self { window, context, state: WindowState::Rows { rows, database, spill } }
    }

    fn begin(&self, rows: R, database: &Database, spill: Spill) -> Result<WindowState<R>> {
        let window = &self.window;
        let input = if window.partition.is_none() && window.sort.is_none() {
            Input::Rows(rows)
        } else {
            Input::Sorted(self.sorted(rows, database, spill)?)
        };
        let buffer = Buffer::new(input, self.context.memory.hold(), window.place.clone());
        Ok(WindowState::Running { buffer: Box::new(buffer), lives: Vec::new(), at: 0 })
    }

    /// Brings the rows of each partition together and in order.
    fn sorted(&self, mut rows: R, database: &Database, spill: Spill) -> Result<Sorted> {
        let (window, context) = (&self.window, &self.context);
        let mut sorter = spill.sorter(database, None);
        let (mut bytes, mut key, mut entry) = (RowBytes::default(), Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            interrupt_check()?;
            key.clear();
            if let Some(node) = &window.partition {
                let value = node.evaluate(&row, context).map_err(|error| error.of_row(&row))?;
                let value = value.unwrap_or(Cow::Owned(Value::Null));
                if value.as_array().is_some() {
                    let text = "expected partitionBy to give no arrays";
                    let error = PipelineError::new(code::TYPE_MISMATCH, &window.place, text);
                    return Err(error.of_row(&row));
                }
                sort_key::encode_ordered(&value, &mut key);
            }
            entry.clear();
            entry.extend(u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
            if let Some(sort) = &window.sort {
                sort.key(&row, &mut bytes, &mut key)?;
            }
            entry.extend(bytes.of(&row)?);
            sorter.push(&key, &entry)?;
        }
        Ok(sorter.finish()?)
    }
}

impl<R: Rows> Rows for Windowed<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let WindowState::Rows { .. } = self.state
            && let WindowState::Rows { rows, database, spill } =
                std::mem::replace(&mut self.state, WindowState::Ended)
        {
            self.state = self.begin(rows, &database, spill)?;
        }
        let WindowState::Running { buffer, lives, at } = &mut self.state else { return Ok(None) };
        let (window, context) = (&self.window, &self.context);
        interrupt_check()?;
        if !buffer.load(*at)? {
            if !buffer.begin()? {
                self.state = WindowState::Ended;
                return Ok(None);
            }
            let begin = |output: &super::stage::Output| output.function.begin(&context.memory);
            (*lives, *at) = (window.outputs.iter().map(begin).collect(), 0);
        }
        let (mut values, mut needed) = (Vec::with_capacity(lives.len()), *at + 1);
        for (output, live) in window.outputs.iter().zip(lives) {
            values.push(output.function.value(live, buffer, *at, context)?);
            needed = needed.min(output.function.needed(live, *at));
        }
        let mut row = buffer.take(*at, needed);
        for (output, value) in window.outputs.iter().zip(values) {
            set(&mut row, &output.into, value);
        }
        *at += 1;
        Ok(Some(row))
    }

    fn park(&mut self) {
        match &mut self.state {
            WindowState::Rows { rows, .. } => rows.park(),
            WindowState::Running { buffer, .. } => buffer.park(),
            WindowState::Ended => {}
        }
    }
}
