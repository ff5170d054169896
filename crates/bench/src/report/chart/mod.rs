//! A small chart layer: from numbers to self-contained SVG.
//!
//! Modules are listed from the ground up: numbers and text, then the canvas, then axes, then whole
//! charts.

mod number;

mod svg;

mod axes;

mod curves;
mod marks;

pub(super) use axes::{Axis, Frame, Panel, Scale};
pub(super) use curves::{Across, Curve, CurvePanel, Style, draw_curves};
pub(super) use marks::{
    Bar, Dumbbell, Group, Point, Scales, draw_bars, draw_dumbbells, draw_points,
};
pub(crate) use number::Unit;
pub(super) use number::{escape, grouped};
pub use svg::Figure;
pub(super) use svg::{LegendEntry, PALE, Svg, Swatch, WIDTH, draw_legend, hue, step};
