//! Reports: from result files to one page that anyone can read, and to pictures.
//!
//! Modules stand from the ground up: charts know nothing of trials, data nothing of figures; each
//! section takes what it shows from the data and draws it by the charts.

mod chart;

mod data;

mod model;

mod sections;

mod page;
#[cfg(feature = "png")]
mod png;

mod build;

pub use build::Report;
pub use chart::Figure;
pub(crate) use chart::Unit;
pub use data::DocumentSizes;
#[cfg(feature = "png")]
pub use png::Painter;
