//! Reports: from result files to one page that anyone can read, and to pictures.
//!
//! Modules are listed from the ground up: charts know nothing of trials, data nothing of figures;
//! each section takes its data and draws them by the charts.

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
