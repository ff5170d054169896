//! What an error of kind Duplicate is about, for programs: its text is for people.

use crate::index::{
    Computed, Definition, IndexField, component_len, decode_component, put_component,
};
use flagstone_base::{Error, Malformed};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{Reached, Value, View};
use std::ops::ControlFlow;

/// A value of a unique index that a document cannot have, since another one has it.
#[derive(Debug)]
pub struct DuplicateValue {
    index: String,
    key: Vec<u8>,
    fields: Vec<DuplicateField>,
}

/// The value of one field of the index.
#[derive(Debug)]
struct DuplicateField {
    field: IndexField,
    /// As it is in the entry, or its beginning.
    component: Vec<u8>,
    is_cut: bool,
}

impl DuplicateValue {
    /// Reads the entry that the document of `key` cannot have.
    pub(super) fn new(definition: &Definition, entry: &[u8], key: &[u8]) -> Self {
        let (mut rest, mut fields) = (entry, Vec::with_capacity(definition.fields.len()));
        for field in &definition.fields {
            let Ok((len, is_cut)) = component_len(rest, field.direction) else { break };
            let (component, behind) = rest.split_at(len);
            fields.push(DuplicateField {
                field: field.clone(),
                component: component.to_vec(),
                is_cut,
            });
            rest = behind;
        }
        Self { index: definition.name.clone(), key: key.to_vec(), fields }
    }

    /// Returns what an error is about; `None` if it is about something else.
    pub fn of(error: &Error) -> Option<&Self> {
        error.detail()
    }

    /// Returns the name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Returns the stored key of the document that was refused.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the fields of the index, as [`IndexInfo`](crate::report::IndexInfo) has them, with
    /// their values: as they are in the document that was refused, if `document` is that one, or
    /// equal to them. A missing value is null. A value is `None` if it is too long for an entry and
    /// not found in `document`.
    pub fn values(&self, document: Option<&View<'_>>) -> Vec<(String, Option<Value>)> {
        let value = |field: &DuplicateField| {
            // What cannot be read has the value of the entry.
            let found = document.and_then(|root| field.value_in(root).ok().flatten());
            (field.field.to_string(), found.or_else(|| field.value()))
        };
        self.fields.iter().map(value).collect()
    }
}

impl DuplicateField {
    /// Returns the value in a document that has this component.
    fn value_in(&self, root: &View<'_>) -> Result<Option<Value>, Malformed> {
        if self.field.computed != Computed::Value {
            return Ok(None);
        }
        let mut found = None;
        self.field.path.reach(root, |reached| {
            let Reached::Value(value) = reached else { return Ok(ControlFlow::Continue(())) };
            if value.is_array() {
                for item in value.items()? {
                    let item = item?;
                    if found.is_none() && self.is_of(&item)? {
                        found = Some(item.to_value()?);
                    }
                }
            }
            if found.is_none() && self.is_of(&value)? {
                found = Some(value.to_value()?);
            }
            let is_found = found.is_some();
            Ok(if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(found)
    }

    /// Returns whether a value has this component.
    fn is_of(&self, value: &View<'_>) -> Result<bool, Malformed> {
        let (mut key, mut component) = (Vec::new(), Vec::new());
        sort_key::encode_view(value, Direction::Ascending, &mut key)?;
        put_component(&key, self.field.direction, &mut component);
        Ok(component == self.component)
    }

    fn value(&self) -> Option<Value> {
        if self.is_cut {
            return None;
        }
        let value = decode_component(&self.component, self.field.direction).ok()?;
        Some(value.unwrap_or(Value::Null))
    }
}
