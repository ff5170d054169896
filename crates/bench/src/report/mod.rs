//! Reports: from result files to one HTML page, and to pictures.
//!
//! Modules are listed from the lowest up: charts know nothing of trials, and data nothing of
//! figures. Each section takes its data and draws charts of them.

mod chart;

mod data;

mod model;

mod page;
#[cfg(feature = "png")]
mod png;

mod sections;

mod build;

pub use build::Report;
pub use chart::Figure;
pub(crate) use chart::Unit;
pub use data::DocumentSizes;
#[cfg(feature = "png")]
pub use png::Painter;
