//! A small chart layer: from numbers to SVG that needs nothing beside it.
//!
//! Modules stand from the ground up: numbers and text, then scales, then the canvas and what is drawn
//! on it, then whole charts.

mod number;
mod text;

mod palette;
mod scale;

mod svg;

mod labels;
mod legend;
mod panel;

mod bars;
mod curves;
mod dumbbell;
mod scatter;

pub(super) use bars::{Bar, BarChart, Group};
pub(super) use curves::{Across, Curve, CurveChart, CurvePanel, Style};
pub(super) use dumbbell::{Dumbbell, DumbbellChart};
pub(super) use legend::{Entry as LegendEntry, Swatch, draw as draw_legend};
pub(super) use number::{Unit, grouped};
pub(super) use palette::{PALE, hue, step};
pub(super) use panel::{Axis, Frame, Panel};
pub(super) use scale::Scale;
pub(super) use scatter::{Point, ScatterChart};
pub(super) use svg::Svg;
pub(super) use text::escape;

/// Units of a figure's width; a page shows it at its own width.
pub(super) const WIDTH: f64 = 920.0;
