//! Days, times and zones: parts of a datetime, steps and differences, and text.

mod calendar;
mod zone;

mod step;
mod text;

pub(crate) use calendar::{Civil, days_before_iso};
pub(crate) use step::{Unit, Weekday, difference, stepped, truncated};
pub(crate) use text::{parse_with, print, read};
pub(crate) use zone::Zone;
