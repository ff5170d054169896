//! Charts of bars in groups, of percentiles on a scale of factors, and of points.

use super::axes::{Axis, Frame, Panel, Scale};
use super::number::{Unit, width};
use super::svg::{Anchor, Figure, INK, LegendEntry, QUIET, Svg, Swatch, WIDTH, draw_legend, step};

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

const HEAD: f64 = 52.0;
const BAR: f64 = 17.0;
const STEP: f64 = 21.0;
const GROUP_TITLE: f64 = 22.0;
const GROUP_GAP: f64 = 12.0;

/// The scales of groups of bars.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scales {
    Shared,
    /// Each group fills the width.
    Own,
}

/// Draws bars of rates.
pub(crate) fn draw_bars(
    id: &str,
    title: &str,
    subtitle: &str,
    groups: &[Group],
    scales: Scales,
) -> Figure {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let head = groups.len() as f64 * (GROUP_TITLE + GROUP_GAP);
    let mut svg = Svg::new(title, subtitle, HEAD + head + bars().count() as f64 * STEP);
    let left = bars().map(|bar| width(&bar.label, 12.0)).fold(40.0, f64::max).min(300.0) + 14.0;
    let behind = |bar: &Bar| format!("{}  {}", Unit::Rate.show(bar.value), bar.note);
    let behind = bars().map(|bar| width(&behind(bar), 12.0)).fold(40.0, f64::max);
    let right = (WIDTH - behind - 14.0).max(left + 120.0);
    let all = most(bars());
    let mut y = HEAD;
    for group in groups {
        let most = if scales == Scales::Own { most(group.bars.iter()) } else { all };
        let scale = Scale::linear((0.0, most), (left, right));
        svg.bold(0.0, y + 13.0, 13.0, &group.title);
        y += GROUP_TITLE;
        let count = group.bars.len() as f64;
        svg.line((left, y - 1.0), (left, y + count * STEP - 2.0), QUIET, 1.0);
        for bar in &group.bars {
            bar.draw(&mut svg, &scale, left, y);
            y += STEP;
        }
        y += GROUP_GAP;
    }
    svg.finish(id)
}

impl Bar {
    fn draw(&self, svg: &mut Svg, scale: &Scale, left: f64, y: f64) {
        let middle = y + BAR / 2.0;
        let end = scale.at(self.value);
        let value = Unit::Rate.show(self.value);
        svg.text(left - 8.0, middle + 4.0, Anchor::End, INK, &self.label);
        let tip = format!("{}: {value}", self.label);
        svg.rect([left, y, (end - left).max(0.5), BAR], self.color, 1.0, &tip);
        let mut text = end + 8.0;
        if let Some((low, high)) = self.spread {
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
        svg.text(text, middle + 4.0, Anchor::Start, QUIET, &self.note);
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
    /// One time in microseconds for each name of the chart.
    pub(crate) values: Vec<f64>,
}

const LEGEND_HEAD: f64 = 82.0;
const ROW: f64 = 20.0;
const GROUP: f64 = 26.0;

/// Draws rows of times, each with a mark for each of the names, on a logarithmic scale.
pub(crate) fn draw_dumbbells(
    id: &str,
    title: &str,
    subtitle: &str,
    names: &[&str],
    rows: &[Dumbbell],
) -> Figure {
    let begins = |at: usize| at == 0 || rows[at].group != rows[at - 1].group;
    let groups = (0..rows.len()).filter(|at| begins(*at)).count();
    let inner = rows.len() as f64 * ROW + groups as f64 * GROUP + 6.0;
    let mut svg = Svg::new(title, subtitle, LEGEND_HEAD + inner + Panel::BELOW);
    let colors: Vec<_> = (0..names.len()).map(|at| step(at, names.len())).collect();
    let entries = names.iter().zip(&colors);
    let entries: Vec<_> =
        entries.map(|(name, color)| (Swatch::Color(color), (*name).to_owned())).collect();
    draw_legend(&mut svg, 60.0, &entries);
    let left = rows.iter().map(|row| width(&row.label, 12.0)).fold(60.0, f64::max) + 16.0;
    let frame = Frame { left, top: LEGEND_HEAD, width: WIDTH - left - 30.0, height: inner };
    let values = || rows.iter().flat_map(|row| &row.values).copied();
    let low = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let high = values().fold(0.0, f64::max);
    let scale = Scale::log((low * 0.8, high * 1.2), frame.across(0.0));
    let x = Axis::round("Latency, logarithmic", Unit::Micros, scale, 10);
    let y = Scale::linear((0.0, 1.0), frame.up());
    let y = Axis { title: String::new(), scale: y, ticks: Vec::new() };
    let panel = Panel { frame, x, y };
    panel.draw_grid_across(&mut svg);
    panel.draw(&mut svg);
    let mut middle = frame.top + 2.0;
    for (at, row) in rows.iter().enumerate() {
        if begins(at) {
            svg.bold(0.0, middle + 17.0, 12.0, &row.group);
            middle += GROUP;
        }
        let y = middle + ROW / 2.0;
        svg.text(left - 8.0, y + 4.0, Anchor::End, INK, &row.label);
        if let (Some(first), Some(last)) = (row.values.first(), row.values.last()) {
            svg.line((scale.at(*first), y), (scale.at(*last), y), QUIET, 1.0);
        }
        for ((value, color), name) in row.values.iter().zip(&colors).zip(names) {
            let time = Unit::Micros.show(*value);
            let tip = format!("{} {}, {name}: {time}", row.group, row.label);
            svg.mark(0, (scale.at(*value), y), 5.0, color, &tip);
        }
        middle += ROW;
    }
    svg.finish(id)
}

#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Operations a second, and bytes.
    pub(crate) at: (f64, f64),
    pub(crate) color: &'static str,
    pub(crate) shape: usize,
    /// The text that a pointer over the point shows.
    pub(crate) tip: String,
}

const HEIGHT: f64 = 340.0;

/// Draws points; both axes begin at zero.
pub(crate) fn draw_points(
    id: &str,
    title: &str,
    subtitle: &str,
    points: &[Point],
    legend: &[Vec<LegendEntry>],
) -> Figure {
    let top = HEAD + legend.len() as f64 * 20.0 + Panel::ABOVE + 6.0;
    let mut svg = Svg::new(title, subtitle, top + HEIGHT + Panel::BELOW);
    for (line, entries) in legend.iter().enumerate() {
        draw_legend(&mut svg, HEAD + 8.0 + line as f64 * 20.0, entries);
    }
    let frame = Frame { left: Panel::LEFT, top, width: WIDTH - Panel::LEFT - 30.0, height: HEIGHT };
    let most = |axis: fn(&Point) -> f64| points.iter().map(axis).fold(0.0, f64::max);
    let x = Scale::from_zero(most(|p| p.at.0), frame.across(0.0));
    let y = Scale::from_zero(most(|p| p.at.1), frame.up());
    let panel = Panel {
        frame,
        x: Axis::round("Operations a second", Unit::Count, x, 8),
        y: Axis::round("Size on disk", Unit::Bytes, y, 5),
    };
    panel.draw_grid_across(&mut svg);
    panel.draw(&mut svg);
    for point in points {
        svg.mark(point.shape, panel.at(point.at), 5.5, point.color, &point.tip);
    }
    svg.finish(id)
}
