//! Charts of points: colour says one thing, shape another.

use super::WIDTH;
use super::legend::{self, Entry};
use super::number::Unit;
use super::palette::FAINT;
use super::panel::{Axis, Frame, Panel};
use super::scale::Scale;
use super::svg::Svg;

/// A point.
#[derive(Clone, Debug)]
pub(in crate::report) struct Point {
    pub(in crate::report) at: (f64, f64),
    pub(in crate::report) color: &'static str,
    pub(in crate::report) shape: usize,
    /// Shown by a pointer over it.
    pub(in crate::report) tip: String,
}

/// A chart of points; both axes begin at zero.
#[derive(Clone, Debug)]
pub(in crate::report) struct ScatterChart {
    pub(in crate::report) title: String,
    pub(in crate::report) subtitle: String,
    pub(in crate::report) x: (Unit, String),
    pub(in crate::report) y: (Unit, String),
    pub(in crate::report) points: Vec<Point>,
    pub(in crate::report) legend: Vec<Vec<Entry>>,
}

const HEAD: f64 = 52.0;
const HEIGHT: f64 = 340.0;

impl ScatterChart {
    /// The chart as SVG.
    pub(in crate::report) fn draw(&self) -> String {
        let top = HEAD + self.legend.len() as f64 * 20.0 + Panel::ABOVE + 6.0;
        let about = format!("{}. {}", self.title, self.subtitle);
        let mut svg = Svg::new(WIDTH, top + HEIGHT + Panel::BELOW, &about);
        svg.title(&self.title, &self.subtitle);
        for (line, entries) in self.legend.iter().enumerate() {
            legend::draw(&mut svg, (0.0, HEAD + 8.0 + line as f64 * 20.0), WIDTH, entries);
        }
        let frame =
            Frame { left: Panel::LEFT, top, width: WIDTH - Panel::LEFT - 30.0, height: HEIGHT };
        let most = |axis: fn(&Point) -> f64| self.points.iter().map(axis).fold(0.0, f64::max);
        let x = Scale::from_zero(most(|p| p.at.0), frame.across(0.0));
        let y = Scale::from_zero(most(|p| p.at.1), frame.up());
        let panel = Panel {
            frame,
            x: Axis::round(&self.x.1, self.x.0, x, 8),
            y: Axis::round(&self.y.1, self.y.0, y, 5),
        };
        for (tick, _) in &panel.x.ticks {
            let at = x.at(*tick);
            svg.line((at, frame.top), (at, frame.bottom()), FAINT, 1.0);
        }
        panel.draw(&mut svg);
        for point in &self.points {
            svg.mark(point.shape, panel.at(point.at), 5.5, point.color, &point.tip);
        }
        svg.finish()
    }
}
