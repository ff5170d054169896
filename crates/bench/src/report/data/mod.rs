//! What the figures show, taken from result files: cells, medians, curves over time, sizes.

mod stats;

mod cell;
mod figure_name;
mod sizes;
mod time;

pub(super) use cell::{
    Cell, Cells, Lanes, TUNING, cells, engine_order, mix_order, options_that_vary, plural, shown,
};
pub(super) use figure_name::FigureName;
pub(super) use sizes::Distribution;
pub use sizes::DocumentSizes;
pub(super) use stats::{median, smooth};
pub(super) use time::{
    Moment, clip, held_back, moments, rates, sizes_over_time, thin, window_around_worst,
};
