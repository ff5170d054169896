//! The cursor of a query whose documents are read as Rust values.

use super::cursor::Cursor;
use flagstone_base::Result;
use flagstone_doc::Value;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;

/// The documents that a query finds, as Rust values: an iterator over primary keys and values. See
/// [`Find::as_`](super::Find::as_).
pub struct CursorAs<'t, T> {
    cursor: Cursor<'t>,
    read: PhantomData<fn() -> T>,
}

impl<'t, T: DeserializeOwned> CursorAs<'t, T> {
    pub(super) const fn new(cursor: Cursor<'t>) -> Self {
        Self { cursor, read: PhantomData }
    }

    fn read(&mut self) -> Result<(Value, T)> {
        let key = self.cursor.key()?;
        match self.cursor.view()?.to() {
            Ok(value) => Ok((key, value)),
            Err(error) => Err(error.context(format_args!("the document of key {key}"))),
        }
    }
}

impl<T: DeserializeOwned> Iterator for CursorAs<'_, T> {
    type Item = Result<(Value, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.cursor.advance() {
            Ok(true) => Some(self.read()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl<T: DeserializeOwned> std::iter::FusedIterator for CursorAs<'_, T> {}

impl<T> fmt::Debug for CursorAs<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cursor.fmt(f)
    }
}
