//! What users give as a filter, a projection or a sort: built in Rust, or as text.

use flagstone_base::Result;
use flagstone_doc::{DocumentMut, Filter, Patch, Projection, SortSpec, Value};
use std::sync::Arc;

/// A filter, or what one is made of: its text, or a value with its conditions.
pub trait IntoFilter {
    /// Returns the filter.
    ///
    /// # Errors
    /// InvalidInput for a text or value that is no filter: the error names the position.
    fn into_filter(self) -> Result<Filter>;
}

/// A projection, or its text.
pub trait IntoProjection {
    /// Returns the projection.
    ///
    /// # Errors
    /// InvalidInput for a text that is no projection: the error names the position.
    fn into_projection(self) -> Result<Projection>;
}

/// A sort, or its text.
pub trait IntoSort {
    /// Returns the sort.
    ///
    /// # Errors
    /// InvalidInput for a text that is no sort: the error names the position.
    fn into_sort(self) -> Result<SortSpec>;
}

/// A change of documents, as [`Collection::update_many`](crate::Collection::update_many) takes it:
/// a [`Patch`], or a function of the primary key and the document.
///
/// A function must depend on these alone: it is called again if the write is done again. An error
/// that it returns refuses the change, and the document stays as it is.
pub trait IntoChange<'a> {
    /// Returns the change.
    #[doc(hidden)]
    fn into_change(self) -> Action<'a>;
}

/// What a write by filter does to each document.
#[derive(Clone)]
pub enum Action<'a> {
    Patch(Patch),
    Change(Arc<ChangeFunction<'a>>),
    Delete,
}

/// A change of a document by a function.
pub(super) type ChangeFunction<'a> =
    dyn Fn(&Value, &mut DocumentMut) -> Result<()> + Send + Sync + 'a;

impl<'a> IntoChange<'a> for &Patch {
    fn into_change(self) -> Action<'a> {
        Action::Patch(self.clone())
    }
}

impl<'a, F> IntoChange<'a> for F
where
    F: Fn(&Value, &mut DocumentMut) -> Result<()> + Send + Sync + 'a,
{
    fn into_change(self) -> Action<'a> {
        Action::Change(Arc::new(self))
    }
}

macro_rules! inputs {
    ($($trait:ident, $function:ident, $type:ty;)*) => {$(
        impl $trait for $type {
            fn $function(self) -> Result<$type> {
                Ok(self)
            }
        }

        impl $trait for &$type {
            fn $function(self) -> Result<$type> {
                Ok(self.clone())
            }
        }

        impl $trait for &str {
            fn $function(self) -> Result<$type> {
                Ok(<$type>::parse(self)?)
            }
        }

        impl $trait for &String {
            fn $function(self) -> Result<$type> {
                Ok(<$type>::parse(self)?)
            }
        }
    )*};
}

inputs! {
    IntoFilter, into_filter, Filter;
    IntoProjection, into_projection, Projection;
    IntoSort, into_sort, SortSpec;
}

impl IntoFilter for &Value {
    fn into_filter(self) -> Result<Filter> {
        Ok(Filter::from_value(self)?)
    }
}

impl IntoFilter for Value {
    fn into_filter(self) -> Result<Filter> {
        Ok(Filter::from_value(&self)?)
    }
}
