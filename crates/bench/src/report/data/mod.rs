//! The data of the figures, taken from result files: cells, curves over time, sizes.

mod cell;
mod sizes;
mod time;

pub(super) use cell::{
    Cell, Cells, Lanes, TUNING, cells, engine_order, is_mix, mix_order, options_that_vary, plural,
    shown, spread, variant,
};
pub use sizes::DocumentSizes;
pub(super) use time::{
    Moment, clip, held_back, moments, rates, sizes_over_time, thin, window_around_worst,
};
