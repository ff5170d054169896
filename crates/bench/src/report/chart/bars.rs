//! Charts of bars lying in groups, each with its value and a note behind it.

use super::WIDTH;
use super::number::Unit;
use super::palette::{INK, QUIET};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::text::width;

/// A bar.
#[derive(Clone, Debug)]
pub(in crate::report) struct Bar {
    pub(in crate::report) label: String,
    pub(in crate::report) value: f64,
    /// Lowest and highest of repeated trials.
    pub(in crate::report) spread: Option<(f64, f64)>,
    /// Said behind the value.
    pub(in crate::report) note: String,
    pub(in crate::report) color: &'static str,
}

/// Bars under a heading.
#[derive(Clone, Debug)]
pub(in crate::report) struct Group {
    pub(in crate::report) title: String,
    pub(in crate::report) bars: Vec<Bar>,
}

/// A chart of bars. All groups share a scale, unless `own_scales` says that each fills the width.
#[derive(Clone, Debug)]
pub(in crate::report) struct BarChart {
    pub(in crate::report) title: String,
    pub(in crate::report) subtitle: String,
    pub(in crate::report) unit: Unit,
    pub(in crate::report) groups: Vec<Group>,
    pub(in crate::report) own_scales: bool,
}

const HEAD: f64 = 52.0;
const BAR: f64 = 17.0;
const STEP: f64 = 21.0;
const GROUP_TITLE: f64 = 22.0;
const GROUP_GAP: f64 = 12.0;

impl BarChart {
    /// The chart as SVG.
    pub(in crate::report) fn draw(&self) -> String {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let groups = self.groups.len() as f64;
        let height = HEAD + groups * (GROUP_TITLE + GROUP_GAP) + bars().count() as f64 * STEP;
        let about = format!("{}. {}", self.title, self.subtitle);
        let mut svg = Svg::new(WIDTH, height, &about);
        svg.title(&self.title, &self.subtitle);
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
        svg.finish()
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
