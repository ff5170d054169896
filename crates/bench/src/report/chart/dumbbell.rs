//! Charts of percentiles: a row a thing, its percentiles as marks on one scale of factors.

use super::WIDTH;
use super::legend::{self, Swatch};
use super::number::Unit;
use super::palette::{INK, QUIET, step};
use super::panel::{Axis, Frame, Panel};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::text::width;

/// A row.
#[derive(Clone, Debug)]
pub(in crate::report) struct Dumbbell {
    /// A heading above the row; repeated ones are left out.
    pub(in crate::report) group: String,
    pub(in crate::report) label: String,
    /// As many as the chart has names.
    pub(in crate::report) values: Vec<f64>,
}

/// A chart of rows.
#[derive(Clone, Debug)]
pub(in crate::report) struct DumbbellChart {
    pub(in crate::report) title: String,
    pub(in crate::report) subtitle: String,
    pub(in crate::report) unit: Unit,
    /// Of the scale.
    pub(in crate::report) axis: String,
    /// Of the marks.
    pub(in crate::report) names: Vec<String>,
    pub(in crate::report) rows: Vec<Dumbbell>,
}

const HEAD: f64 = 82.0;
const ROW: f64 = 20.0;
const GROUP: f64 = 26.0;

impl DumbbellChart {
    /// The chart as SVG.
    pub(in crate::report) fn draw(&self) -> String {
        let begins = |at: usize| at == 0 || self.rows[at].group != self.rows[at - 1].group;
        let groups = (0..self.rows.len()).filter(|at| begins(*at)).count();
        let inner = self.rows.len() as f64 * ROW + groups as f64 * GROUP + 6.0;
        let about = format!("{}. {}", self.title, self.subtitle);
        let mut svg = Svg::new(WIDTH, HEAD + inner + Panel::BELOW, &about);
        svg.title(&self.title, &self.subtitle);
        let colors: Vec<_> = (0..self.names.len()).map(|at| step(at, self.names.len())).collect();
        let entries = self.names.iter().zip(&colors);
        let entries: Vec<_> =
            entries.map(|(name, color)| (Swatch::Color(color), name.clone())).collect();
        legend::draw(&mut svg, (0.0, 60.0), WIDTH, &entries);
        let left = self.rows.iter().map(|row| width(&row.label, 12.0)).fold(60.0, f64::max) + 16.0;
        let frame = Frame { left, top: HEAD, width: WIDTH - left - 30.0, height: inner };
        let values = || self.rows.iter().flat_map(|row| &row.values).copied();
        let low = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        let scale = Scale::log((low * 0.8, high * 1.2), frame.across(0.0));
        let x = Axis::round(&self.axis, self.unit, scale, 10);
        for (tick, _) in &x.ticks {
            let at = scale.at(*tick);
            svg.line((at, frame.top), (at, frame.bottom()), super::palette::FAINT, 1.0);
        }
        let y = Axis {
            title: String::new(),
            scale: Scale::linear((0.0, 1.0), frame.up()),
            ticks: Vec::new(),
        };
        Panel { frame, x, y }.draw(&mut svg);
        let mut middle = frame.top + 2.0;
        for (at, row) in self.rows.iter().enumerate() {
            if begins(at) {
                svg.bold(0.0, middle + 17.0, 12.0, &row.group);
                middle += GROUP;
            }
            self.row(&mut svg, &scale, (left, middle + ROW / 2.0), row, &colors);
            middle += ROW;
        }
        svg.finish()
    }

    fn row(
        &self,
        svg: &mut Svg,
        scale: &Scale,
        (left, y): (f64, f64),
        row: &Dumbbell,
        colors: &[&'static str],
    ) {
        svg.text(left - 8.0, y + 4.0, Anchor::End, INK, &row.label);
        if let (Some(first), Some(last)) = (row.values.first(), row.values.last()) {
            svg.line((scale.at(*first), y), (scale.at(*last), y), QUIET, 1.0);
        }
        for ((value, color), name) in row.values.iter().zip(colors).zip(&self.names) {
            let tip = format!("{} {}, {name}: {}", row.group, row.label, self.unit.show(*value));
            svg.mark(0, (scale.at(*value), y), 5.0, color, &tip);
        }
    }
}
