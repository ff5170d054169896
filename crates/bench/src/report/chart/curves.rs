//! Charts of curves: one panel or several side by side, each with its curves named at their ends.

use super::WIDTH;
use super::labels::{self, Label};
use super::number::Unit;
use super::palette::INK;
use super::panel::{Axis, Frame, Panel};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::text::width;

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Style {
    /// A line with a mark at each point: few points, measured one by one.
    Marked,
    /// A line alone.
    Plain,
    /// A step up at each point: a distribution.
    Steps,
}

/// A curve.
#[derive(Clone, Debug)]
pub(in crate::report) struct Curve {
    pub(in crate::report) label: String,
    pub(in crate::report) color: &'static str,
    pub(in crate::report) shape: usize,
    pub(in crate::report) style: Style,
    /// By x.
    pub(in crate::report) points: Vec<(f64, f64)>,
    /// Lowest and highest of repeated trials, at the point of the same place; or none.
    pub(in crate::report) spread: Vec<(f64, f64)>,
    /// Single values that the curve smoothes; or none.
    pub(in crate::report) dots: Vec<(f64, f64)>,
}

/// The kinds of a horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) enum Across {
    /// Equal steps for equal factors, with a tick at each value measured: threads, partitions.
    Measured,
    /// From zero to an end, in seconds.
    Seconds(f64),
    /// Equal steps for equal factors, in bytes.
    Bytes,
    /// Names in an order; x is their index.
    Names(Vec<String>),
}

/// A panel of curves.
#[derive(Clone, Debug)]
pub(in crate::report) struct CurvePanel {
    pub(in crate::report) title: String,
    pub(in crate::report) across: (Across, String),
    pub(in crate::report) up: (Unit, String),
    pub(in crate::report) curves: Vec<Curve>,
    /// Points with something said beside them.
    pub(in crate::report) notes: Vec<((f64, f64), String)>,
}

/// A chart of curves.
#[derive(Clone, Debug)]
pub(in crate::report) struct CurveChart {
    pub(in crate::report) title: String,
    pub(in crate::report) subtitle: String,
    pub(in crate::report) panels: Vec<CurvePanel>,
    /// Panels side by side.
    pub(in crate::report) columns: usize,
    /// Of a frame.
    pub(in crate::report) height: f64,
}

/// Below the title and subtitle.
const HEAD: f64 = 50.0;
/// Of the title of a panel.
const PANEL_TITLE: f64 = 22.0;

impl CurveChart {
    /// The chart as SVG.
    pub(in crate::report) fn draw(&self) -> String {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let titled = self.panels.iter().any(|panel| !panel.title.is_empty());
        let above = Panel::ABOVE + if titled { PANEL_TITLE } else { 0.0 };
        let cell = (WIDTH / columns as f64, above + self.height + Panel::BELOW + 12.0);
        let about = format!("{}. {}", self.title, self.subtitle);
        let mut svg = Svg::new(WIDTH, HEAD + rows as f64 * cell.1, &about);
        svg.title(&self.title, &self.subtitle);
        for (at, panel) in self.panels.iter().enumerate() {
            let (left, top) =
                ((at % columns) as f64 * cell.0, HEAD + (at / columns) as f64 * cell.1);
            let gutter = panel.gutter();
            let frame = Frame {
                left: left + Panel::LEFT,
                top: top + above,
                width: (cell.0 - Panel::LEFT - gutter).max(80.0),
                height: self.height,
            };
            if !panel.title.is_empty() {
                svg.bold(left + 10.0, top + 14.0, 13.0, &panel.title);
            }
            panel.draw(&mut svg, frame);
        }
        svg.finish()
    }
}

impl CurvePanel {
    /// Room at the right for the names of the curves.
    fn gutter(&self) -> f64 {
        let widest = self.curves.iter().map(|curve| width(&curve.label, 12.0)).fold(0.0, f64::max);
        if widest > 0.0 { widest + 34.0 } else { 24.0 }
    }

    fn draw(&self, svg: &mut Svg, frame: Frame) {
        let panel = Panel { frame, x: self.across_axis(frame), y: self.up_axis(frame) };
        panel.draw(svg);
        for curve in &self.curves {
            curve.draw(svg, &panel, self.up.0);
        }
        for (at, text) in &self.notes {
            let (x, y) = panel.at(*at);
            svg.mark(0, (x, y), 4.5, INK, text);
            svg.text(x + 8.0, y + 15.0, Anchor::Start, INK, text);
        }
        let label = |curve: &Curve| {
            let (_, y) = panel.at(*curve.points.last()?);
            let text = curve.label.clone();
            (!text.is_empty()).then_some(Label {
                y,
                text,
                color: curve.color,
                shape: if curve.style == Style::Marked { curve.shape } else { 1 },
            })
        };
        let labels = self.curves.iter().filter_map(label).collect();
        labels::draw(svg, frame.right(), (frame.top, frame.bottom()), labels);
    }

    fn across_axis(&self, frame: Frame) -> Axis {
        let mut values: Vec<f64> =
            self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) =
            (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
        let (kind, title) = &self.across;
        match kind {
            Across::Measured => {
                let scale = Scale::log((low, high), frame.across(18.0));
                let ticks = values.iter().map(|value| (*value, Unit::Count.show(*value))).collect();
                Axis { title: title.clone(), scale, ticks }
            }
            Across::Names(names) => {
                let last = names.len().saturating_sub(1).max(1) as f64;
                let scale = Scale::linear((0.0, last), frame.across(18.0));
                let ticks = names.iter().enumerate().map(|(at, name)| (at as f64, name.clone()));
                Axis { title: title.clone(), scale, ticks: ticks.collect() }
            }
            Across::Seconds(end) => {
                let scale = Scale::linear((0.0, end.max(high)), frame.across(0.0));
                Axis::round(title, Unit::Seconds, scale, (frame.width / 90.0) as usize)
            }
            Across::Bytes => {
                let scale = Scale::log((low, high), frame.across(0.0));
                Axis::round(title, Unit::Bytes, scale, (frame.width / 60.0) as usize)
            }
        }
    }

    fn up_axis(&self, frame: Frame) -> Axis {
        let (unit, title) = &self.up;
        let values = self.curves.iter().flat_map(|curve| {
            let most = curve.spread.iter().map(|spread| spread.1);
            let points = curve.points.iter().chain(&curve.dots).map(|point| point.1);
            points.chain(most)
        });
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Axis::round(title, *unit, Scale::from_zero(most, frame.up()), 5)
    }
}

impl Curve {
    fn draw(&self, svg: &mut Svg, panel: &Panel, unit: Unit) {
        let place = |points: &[(f64, f64)]| -> Vec<_> {
            points.iter().map(|point| panel.at(*point)).collect()
        };
        svg.dots(&place(&self.dots), 1.6, self.color, 0.35);
        let places = place(&self.points);
        for ((x, _), spread) in places.iter().zip(&self.spread) {
            let (low, high) = (panel.y.scale.at(spread.0), panel.y.scale.at(spread.1));
            if (low - high).abs() > 1.0 {
                svg.line((*x, low), (*x, high), self.color, 1.6);
                for y in [low, high] {
                    svg.line((x - 4.0, y), (x + 4.0, y), self.color, 1.6);
                }
            }
        }
        let line = if self.style == Style::Steps { steps(&places) } else { places.clone() };
        svg.path(&line, self.color, 2.0);
        if self.style == Style::Marked {
            for (place, (_, value)) in places.iter().zip(&self.points) {
                let tip = format!("{}: {}", self.label, unit.show(*value));
                svg.mark(self.shape, *place, 4.5, self.color, &tip);
            }
        }
    }
}

/// The corners of a line that goes right, then up.
fn steps(places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out = Vec::with_capacity(places.len() * 2);
    for (at, place) in places.iter().enumerate() {
        if at > 0 {
            out.push((place.0, places[at - 1].1));
        }
        out.push(*place);
    }
    out
}
