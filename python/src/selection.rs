//! Paths of a reader, and what they select in a document.

use crate::decode::{self, Decimals};
use crate::error::{guarded, invalid, raised};
use flagstone::{JsonPath, Value, View};
use flagstone_arrow::Column;
use pyo3::prelude::*;

/// A path: dotted, or a JSONPath.
pub(crate) enum Selection {
    Dotted(String),
    Path(JsonPath),
}

/// What a path has selected.
pub(crate) enum Selected {
    One(Option<Value>),
    Many(Vec<Value>),
}

impl Selection {
    pub(crate) fn parse(py: Python<'_>, path: &str) -> PyResult<Self> {
        check_dotted(py, path)?;
        if !path.starts_with('$') {
            return Ok(Self::Dotted(path.to_owned()));
        }
        guarded(py, || {
            let parsed = JsonPath::parse(path).map_err(|error| invalid(py, error.to_string()))?;
            Ok(Self::Path(parsed))
        })
    }

    pub(crate) fn select(&self, root: &View<'_>) -> Result<Selected, flagstone::doc::Malformed> {
        Ok(match self {
            Self::Dotted(path) => {
                Selected::One(root.path(path)?.map(|view| view.to_value()).transpose()?)
            }
            Self::Path(path) if path.is_single() => {
                Selected::One(path.first(root)?.map(|view| view.to_value()).transpose()?)
            }
            Self::Path(path) => {
                let values = path.nodes(root).map(|node| node?.view().to_value());
                Selected::Many(values.collect::<Result<_, _>>()?)
            }
        })
    }
}

/// Refuses a dotted path in which a name is missing, as a column does.
pub(crate) fn check_dotted(py: Python<'_>, path: &str) -> PyResult<()> {
    if path.split('.').any(str::is_empty) && !path.starts_with('$') {
        Column::path("", path).map_err(|error| raised(py, &error))?;
    }
    Ok(())
}

impl Selected {
    pub(crate) fn into_python<'py>(
        self,
        py: Python<'py>,
        decimals: Decimals,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::One(Some(value)) => decode::value(py, &value, decimals),
            Self::One(None) => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
            Self::Many(values) => decode::value(py, &Value::Array(values), decimals),
        }
    }
}
