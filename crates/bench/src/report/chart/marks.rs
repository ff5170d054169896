//! Charts of bars in groups, of percentiles on a scale of factors, and of points.

use super::axes::{Axis, Frame, Panel, Scale};
use super::number::{Unit, width};
use super::svg::{
    Anchor, FAINT, Figure, INK, LegendEntry, QUIET, Svg, Swatch, WIDTH, draw_legend, step,
};

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The lowest and the highest of repeated trials.
    pub(crate) spread: Option<(f64, f64)>,
    /// Text after the value.
    pub(crate) note: String,
    pub(crate) color: &'static str,
}

/// Bars under a heading.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// A chart of bars. All groups share a scale, unless each has its own and fills the width.
#[derive(Clone, Debug)]
pub(crate) struct BarChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) unit: Unit,
    pub(crate) groups: Vec<Group>,
    pub(crate) own_scales: bool,
}

const HEAD: f64 = 52.0;
const BAR: f64 = 17.0;
const STEP: f64 = 21.0;
const GROUP_TITLE: f64 = 22.0;
const GROUP_GAP: f64 = 12.0;

impl BarChart {
    pub(crate) fn figure(&self, id: &str) -> Figure {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let groups = self.groups.len() as f64;
        let height = HEAD + groups * (GROUP_TITLE + GROUP_GAP) + bars().count() as f64 * STEP;
        let mut svg = Svg::new(&self.title, &self.subtitle, height);
        let left = bars().map(|bar| width(&bar.label, 12.0)).fold(40.0, f64::max).min(300.0) + 14.0;
        let behind = bars().map(|bar| width(&self.behind(bar), 12.0)).fold(40.0, f64::max);
        let right = (WIDTH - behind - 14.0).max(left + 120.0);
        let all = most(bars());
        let mut y = HEAD;
        for group in &self.groups {
            let most = if self.own_scales { most(group.bars.iter()) } else { all };
            let scale = Scale::linear((0.0, most), (left, right));
            svg.bold(0.0, y + 13.0, 13.0, &group.title);
            y += GROUP_TITLE;
            let count = group.bars.len() as f64;
            svg.line((left, y - 1.0), (left, y + count * STEP - 2.0), QUIET, 1.0);
            for bar in &group.bars {
                self.bar(&mut svg, &scale, (left, y), bar);
                y += STEP;
            }
            y += GROUP_GAP;
        }
        svg.finish(id)
    }

    fn behind(&self, bar: &Bar) -> String {
        format!("{}  {}", self.unit.show(bar.value), bar.note)
    }

    fn bar(&self, svg: &mut Svg, scale: &Scale, (left, y): (f64, f64), bar: &Bar) {
        let middle = y + BAR / 2.0;
        let end = scale.at(bar.value);
        let value = self.unit.show(bar.value);
        svg.text(left - 8.0, middle + 4.0, Anchor::End, INK, &bar.label);
        let tip = format!("{}: {value}", bar.label);
        svg.rect([left, y, (end - left).max(0.5), BAR], bar.color, 1.0, &tip);
        let mut text = end + 8.0;
        if let Some((low, high)) = bar.spread {
            let (low, high) = (scale.at(low), scale.at(high));
            if high - low > 1.0 {
                svg.line((low, middle), (high, middle), INK, 1.2);
                for x in [low, high] {
                    svg.line((x, middle - 3.5), (x, middle + 3.5), INK, 1.2);
                }
            }
            text = text.max(high + 8.0);
        }
        svg.text(text, middle + 4.0, Anchor::Start, INK, &value);
        let text = text + width(&value, 12.0) + 6.0;
        svg.text(text, middle + 4.0, Anchor::Start, QUIET, &bar.note);
    }
}

fn most<'a>(bars: impl Iterator<Item = &'a Bar>) -> f64 {
    let highest = bars.map(|bar| bar.spread.map_or(bar.value, |spread| spread.1.max(bar.value)));
    highest.filter(|value| value.is_finite()).fold(0.0, f64::max)
}

#[derive(Clone, Debug)]
pub(crate) struct Dumbbell {
    /// A heading above the row, shown once for rows that share it.
    pub(crate) group: String,
    pub(crate) label: String,
    /// One value for each name of the chart.
    pub(crate) values: Vec<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct DumbbellChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) unit: Unit,
    /// The title of the scale.
    pub(crate) axis: String,
    /// The names of the marks.
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Dumbbell>,
}

const LEGEND_HEAD: f64 = 82.0;
const ROW: f64 = 20.0;
const GROUP: f64 = 26.0;

impl DumbbellChart {
    pub(crate) fn figure(&self, id: &str) -> Figure {
        let begins = |at: usize| at == 0 || self.rows[at].group != self.rows[at - 1].group;
        let groups = (0..self.rows.len()).filter(|at| begins(*at)).count();
        let inner = self.rows.len() as f64 * ROW + groups as f64 * GROUP + 6.0;
        let mut svg = Svg::new(&self.title, &self.subtitle, LEGEND_HEAD + inner + Panel::BELOW);
        let colors: Vec<_> = (0..self.names.len()).map(|at| step(at, self.names.len())).collect();
        let entries = self.names.iter().zip(&colors);
        let entries: Vec<_> =
            entries.map(|(name, color)| (Swatch::Color(color), name.clone())).collect();
        draw_legend(&mut svg, (0.0, 60.0), WIDTH, &entries);
        let left = self.rows.iter().map(|row| width(&row.label, 12.0)).fold(60.0, f64::max) + 16.0;
        let frame = Frame { left, top: LEGEND_HEAD, width: WIDTH - left - 30.0, height: inner };
        let values = || self.rows.iter().flat_map(|row| &row.values).copied();
        let low = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        let scale = Scale::log((low * 0.8, high * 1.2), frame.across(0.0));
        let x = Axis::round(&self.axis, self.unit, scale, 10);
        for (tick, _) in &x.ticks {
            let at = scale.at(*tick);
            svg.line((at, frame.top), (at, frame.bottom()), FAINT, 1.0);
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
        svg.finish(id)
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

#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) at: (f64, f64),
    pub(crate) color: &'static str,
    pub(crate) shape: usize,
    /// The text that a pointer over the point shows.
    pub(crate) tip: String,
}

/// A chart of points; both axes begin at zero.
#[derive(Clone, Debug)]
pub(crate) struct ScatterChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: (Unit, String),
    pub(crate) y: (Unit, String),
    pub(crate) points: Vec<Point>,
    pub(crate) legend: Vec<Vec<LegendEntry>>,
}

const HEIGHT: f64 = 340.0;

impl ScatterChart {
    pub(crate) fn figure(&self, id: &str) -> Figure {
        let top = HEAD + self.legend.len() as f64 * 20.0 + Panel::ABOVE + 6.0;
        let mut svg = Svg::new(&self.title, &self.subtitle, top + HEIGHT + Panel::BELOW);
        for (line, entries) in self.legend.iter().enumerate() {
            draw_legend(&mut svg, (0.0, HEAD + 8.0 + line as f64 * 20.0), WIDTH, entries);
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
        svg.finish(id)
    }
}
