//! Charts of curves: one or several panels, each with the names of its curves at their ends.

use super::axes::{Axis, Frame, Panel, Scale};
use super::number::{Unit, width};
use super::svg::{Anchor, Figure, INK, Svg, WIDTH};

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// A line with a mark at each point: few points, measured one by one.
    Marked,
    /// A line alone.
    #[default]
    Plain,
    /// A step at each point: a distribution.
    Steps,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) color: &'static str,
    pub(crate) shape: usize,
    pub(crate) style: Style,
    pub(crate) points: Vec<(f64, f64)>,
    /// The lowest and the highest of repeated trials at each point; or empty.
    pub(crate) spread: Vec<(f64, f64)>,
    /// The single values that the curve smoothes; or empty.
    pub(crate) dots: Vec<(f64, f64)>,
}

/// The kinds of a horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Across {
    /// Equal steps for equal factors, with a tick at each value measured: threads, partitions.
    Measured,
    /// From zero to an end, in seconds.
    Seconds(f64),
    /// Equal steps for equal factors, in bytes.
    Bytes,
    /// Names in an order; x is their index.
    Names(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct CurvePanel {
    pub(crate) title: String,
    pub(crate) across: (Across, String),
    pub(crate) up: (Unit, String),
    pub(crate) curves: Vec<Curve>,
    /// Points with a text next to them.
    pub(crate) notes: Vec<((f64, f64), String)>,
}

/// The height of title and subtitle.
const HEAD: f64 = 50.0;
/// The height of the title of a panel.
const PANEL_TITLE: f64 = 22.0;

/// Draws panels in this many columns, each with a frame of this height.
pub(crate) fn draw_curves(
    id: &str,
    title: &str,
    subtitle: &str,
    columns: usize,
    height: f64,
    panels: &[CurvePanel],
) -> Figure {
    let columns = columns.clamp(1, panels.len().max(1));
    let rows = panels.len().div_ceil(columns);
    let titled = panels.iter().any(|panel| !panel.title.is_empty());
    let above = Panel::ABOVE + if titled { PANEL_TITLE } else { 0.0 };
    let cell = (WIDTH / columns as f64, above + height + Panel::BELOW + 12.0);
    let mut svg = Svg::new(title, subtitle, HEAD + rows as f64 * cell.1);
    for (at, panel) in panels.iter().enumerate() {
        let (left, top) = ((at % columns) as f64 * cell.0, HEAD + (at / columns) as f64 * cell.1);
        let frame = Frame {
            left: left + Panel::LEFT,
            top: top + above,
            width: (cell.0 - Panel::LEFT - panel.gutter()).max(80.0),
            height,
        };
        if !panel.title.is_empty() {
            svg.bold(left + 10.0, top + 14.0, 13.0, &panel.title);
        }
        panel.draw(&mut svg, frame);
    }
    svg.finish(id)
}

impl CurvePanel {
    /// A panel without a title: what its axes count, and its curves.
    pub(crate) fn new(
        across: Across,
        across_title: &str,
        up: Unit,
        up_title: &str,
        curves: Vec<Curve>,
    ) -> Self {
        let (across, up) = ((across, across_title.to_owned()), (up, up_title.to_owned()));
        Self { title: String::new(), across, up, curves, notes: Vec::new() }
    }

    /// The width at the right for the names of the curves.
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
        draw_labels(svg, frame.right(), (frame.top, frame.bottom()), labels);
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

/// A label for something at height `y`.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub(crate) y: f64,
    pub(crate) text: String,
    pub(crate) color: &'static str,
    /// The shape of the marks of the curve.
    pub(crate) shape: usize,
}

/// Height of a line of text.
const LINE: f64 = 15.0;

/// Draws `labels` to the right of `x`, with a thin line to each that had to be moved.
fn draw_labels(svg: &mut Svg, x: f64, bounds: (f64, f64), mut labels: Vec<Label>) {
    labels.sort_by(|a, b| a.y.total_cmp(&b.y));
    let wanted: Vec<f64> = labels.iter().map(|label| label.y).collect();
    for (label, y) in labels.iter().zip(apart(&wanted, LINE, bounds)) {
        if (y - label.y).abs() > 2.0 {
            svg.path(&[(x + 4.0, label.y), (x + 9.0, y), (x + 11.0, y)], label.color, 0.8);
        }
        svg.mark(label.shape, (x + 17.0, y), 4.5, label.color, "");
        svg.text(x + 25.0, y + 4.0, Anchor::Start, INK, &label.text);
    }
}

/// Moves ascending places at least `gap` apart, and inside `bounds` where there is room. Neighbours
/// that touch form a block around the mean of their wanted places.
fn apart(wanted: &[f64], gap: f64, bounds: (f64, f64)) -> Vec<f64> {
    // A block: the index of its first place, the number of places, the sum of the wanted places of
    // the first.
    let mut blocks: Vec<(usize, usize, f64)> = Vec::new();
    let top = |&(_, count, sum): &(usize, usize, f64)| {
        let most = (bounds.1 - (count - 1) as f64 * gap).max(bounds.0);
        (sum / count as f64).clamp(bounds.0, most)
    };
    for (at, &place) in wanted.iter().enumerate() {
        let mut block = (at, 1, place);
        while let Some(above) = blocks.last().copied() {
            if top(&above) + above.1 as f64 * gap <= top(&block) {
                break;
            }
            // In the joined block the first of `block` is `above.1` gaps below the first of both.
            let lift = above.1 as f64 * gap * block.1 as f64;
            block = (above.0, above.1 + block.1, above.2 + block.2 - lift);
            blocks.pop();
        }
        blocks.push(block);
    }
    blocks
        .iter()
        .flat_map(|block| {
            let first = top(block);
            (0..block.1).map(move |at| first + at as f64 * gap)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_room_stay() {
        assert_eq!(apart(&[10.0, 40.0, 80.0], 15.0, (0.0, 100.0)), [10.0, 40.0, 80.0]);
        assert!(apart(&[], 15.0, (0.0, 100.0)).is_empty());
    }

    #[test]
    fn labels_that_touch_move_evenly_to_both_sides() {
        assert_eq!(apart(&[50.0, 50.0], 10.0, (0.0, 100.0)), [45.0, 55.0]);
        assert_eq!(apart(&[50.0, 50.0, 50.0], 10.0, (0.0, 100.0)), [40.0, 50.0, 60.0]);
    }

    #[test]
    fn labels_stay_inside() {
        assert_eq!(apart(&[1.0, 2.0], 10.0, (5.0, 100.0)), [5.0, 15.0]);
        assert_eq!(apart(&[99.0, 100.0], 10.0, (0.0, 95.0)), [85.0, 95.0]);
    }
}
