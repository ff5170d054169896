//! What users give as a filter, a projection or a sort: built in Rust, or as text.

use flagstone_base::Result;
use flagstone_doc::{Filter, Projection, SortSpec, Value};

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
