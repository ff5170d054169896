//! Moments at which entries expire: a `datetime` with a time zone, or a `timedelta` from now.

use crate::arg::out_of_range;
use flagstone::Moment;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDelta, PyTzInfo, PyTzInfoAccess};
use std::time::Duration;

/// Returns the moment at which an entry expires. `now` is the clock of the database.
pub(crate) fn expiry(
    expires: Option<&Bound<'_, PyAny>>,
    now: impl FnOnce() -> Moment,
) -> PyResult<Option<Moment>> {
    let Some(expires) = expires else { return Ok(None) };
    let moment = if expires.cast::<PyDelta>().is_ok() {
        let after = expires.extract::<Duration>();
        now()
            .after(after.map_err(|_negative| out_of_range("expires", "a time from 0 on", expires))?)
    } else if let Ok(at) = expires.cast::<PyDateTime>() {
        if at.get_tzinfo().is_none() {
            let text = "expires: expected a datetime with a time zone, found one without";
            return Err(PyTypeError::new_err(text));
        }
        Moment::since_1970(since_1970(at)?)
    } else {
        let found = expires.get_type().name()?;
        let text = format!("expires: expected a timedelta or a datetime, found {found}");
        return Err(PyTypeError::new_err(text));
    };
    Ok(Some(moment))
}

/// Returns the time from 1970 to `at`; none for a time before it.
fn since_1970(at: &Bound<'_, PyDateTime>) -> PyResult<Duration> {
    let py = at.py();
    let utc = PyTzInfo::utc(py)?.to_owned();
    let epoch = PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc))?;
    let delta = at.sub(epoch)?;
    Ok(delta.extract::<Duration>().unwrap_or(Duration::ZERO))
}

/// Returns the `datetime` of a moment, in UTC; the last one that Python has, if it is later.
pub(crate) fn datetime_of(py: Python<'_>, moment: Moment) -> PyResult<Bound<'_, PyAny>> {
    const DAY: u64 = 86_400_000;
    let utc = PyTzInfo::utc(py)?.to_owned();
    let millis = moment.millis();
    let days = i32::try_from(millis / DAY).unwrap_or(i32::MAX);
    // Less than a day each: they fit.
    let (seconds, micros) = ((millis % DAY / 1_000) as i32, (millis % 1_000 * 1_000) as i32);
    let epoch = PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc))?;
    match PyDelta::new(py, days, seconds, micros, true).and_then(|delta| epoch.add(delta)) {
        Ok(at) => Ok(at),
        Err(_too_late) => {
            Ok(PyDateTime::new(py, 9999, 12, 31, 23, 59, 59, 999_999, Some(&utc))?.into_any())
        }
    }
}
