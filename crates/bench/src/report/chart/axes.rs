//! Scales, ticks, axes, and the panel that curves and marks are drawn in.

use super::number::Unit;
use super::svg::{Anchor, FAINT, INK, QUIET, Svg};

/// Maps a domain of values to a range of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    log: bool,
    domain: (f64, f64),
    range: (f64, f64),
}

impl Scale {
    /// Equal steps for equal differences. An empty domain is widened.
    pub(crate) fn linear(domain: (f64, f64), range: (f64, f64)) -> Self {
        let (low, high) = finite(domain);
        let high = if high > low { high } else { low + 1.0 };
        Self { log: false, domain: (low, high), range }
    }

    /// Equal steps for equal factors. A start that is not above zero becomes a thousandth of the
    /// end.
    pub(crate) fn log(domain: (f64, f64), range: (f64, f64)) -> Self {
        let (low, high) = finite(domain);
        let high = if high > 0.0 { high } else { 1.0 };
        let low = if low > 0.0 { low.min(high) } else { high / 1000.0 };
        let (low, high) = if high > low { (low, high) } else { (low / 2.0, high * 2.0) };
        Self { log: true, domain: (low, high), range }
    }

    /// From zero to a round number at or above `most`, with a tick there.
    pub(crate) fn from_zero(most: f64, range: (f64, f64)) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = round_step(most / 5.0);
        Self::linear((0.0, step * (most / step - 1e-9).ceil()), range)
    }

    pub(crate) const fn most(&self) -> f64 {
        self.domain.1
    }

    /// The place of `value`, inside the range.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        let share = if self.log {
            (value.max(low) / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// About `count` round values over the domain; powers of ten, and between them where there are
    /// few, on a logarithmic scale.
    pub(crate) fn ticks(&self, count: usize) -> Vec<f64> {
        if self.log { self.log_ticks(count) } else { self.linear_ticks(count) }
    }

    fn linear_ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        let step = round_step((high - low) / count.max(1) as f64);
        let first = (low / step - 1e-9).ceil();
        let last = (high / step + 1e-9).floor();
        let ticks = ((last - first).max(0.0) as usize).min(1000);
        (0..=ticks).map(|at| (first + at as f64) * step).collect()
    }

    fn log_ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let decades = (high / low).log10();
        let between: &[f64] = if decades * 3.0 <= count as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = ((decades / count.max(1) as f64).ceil() as i32).max(1);
        let inside = |tick: &f64| *tick >= low * 0.999_999 && *tick <= high * 1.000_001;
        (first..=last)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| between.iter().map(move |digit| digit * 10f64.powi(power)))
            .filter(inside)
            .collect()
    }
}

fn finite((low, high): (f64, f64)) -> (f64, f64) {
    (if low.is_finite() { low } else { 0.0 }, if high.is_finite() { high } else { 1.0 })
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    if !power.is_normal() {
        return 1.0;
    }
    let fits = |digit: &f64| digit * power >= step * (1.0 - 1e-9);
    [1.0, 2.0, 2.5, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

/// The place of the plot, without axes and their labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Frame {
    pub(crate) const fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(crate) const fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The range of a scale from left to right, `inset` from both ends.
    pub(crate) const fn across(&self, inset: f64) -> (f64, f64) {
        (self.left + inset, self.right() - inset)
    }

    /// The range of a scale from the lower end up.
    pub(crate) const fn up(&self) -> (f64, f64) {
        (self.bottom(), self.top)
    }
}

/// An axis: a scale, its ticks and what they count.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// Values and their labels. A tick with an empty label is only a line of the grid.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis with about `count` round ticks.
    pub(crate) fn round(title: &str, unit: Unit, scale: Scale, count: usize) -> Self {
        let ticks = scale.ticks(count);
        let most = ticks.last().copied().unwrap_or(scale.most());
        // Ticks of factors are far apart: each has a prefix of its own.
        let own = ticks.first().is_some_and(|first| *first > 0.0 && most / first > 100.0);
        let show = |tick: f64| unit.show_on(tick, if own { tick } else { most });
        let ticks = ticks.into_iter().map(|tick| (tick, show(tick))).collect();
        Self { title: title.to_owned(), scale, ticks }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) frame: Frame,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
}

/// The space around the frame.
impl Panel {
    /// For the labels of the left axis.
    pub(crate) const LEFT: f64 = 62.0;
    /// For the title of the left axis.
    pub(crate) const ABOVE: f64 = 28.0;
    /// For the labels and the title of the lower axis.
    pub(crate) const BELOW: f64 = 42.0;

    /// Draws grid and axes.
    pub(crate) fn draw(&self, svg: &mut Svg) {
        let Self { frame, x, y } = self;
        for (tick, label) in &y.ticks {
            let at = y.scale.at(*tick);
            svg.line((frame.left, at), (frame.right(), at), FAINT, 1.0);
            svg.text(frame.left - 8.0, at + 4.0, Anchor::End, QUIET, label);
        }
        let bottom = frame.bottom();
        for (tick, label) in &x.ticks {
            let at = x.scale.at(*tick);
            svg.line((at, bottom), (at, bottom + 4.0), QUIET, 1.0);
            svg.text(at, bottom + 18.0, Anchor::Middle, QUIET, label);
        }
        svg.line((frame.left, bottom), (frame.right(), bottom), QUIET, 1.0);
        svg.text(frame.left - Self::LEFT + 10.0, frame.top - 14.0, Anchor::Start, INK, &y.title);
        let middle = frame.left + frame.width / 2.0;
        svg.text(middle, bottom + 36.0, Anchor::Middle, INK, &x.title);
    }

    /// Draws a line of the grid at each tick of the lower axis.
    pub(crate) fn draw_grid_across(&self, svg: &mut Svg) {
        for (tick, _) in &self.x.ticks {
            let at = self.x.scale.at(*tick);
            svg.line((at, self.frame.top), (at, self.frame.bottom()), FAINT, 1.0);
        }
    }

    /// Draws a second vertical axis at the right, without a grid.
    pub(crate) fn draw_right(&self, svg: &mut Svg, axis: &Axis, color: &str) {
        let right = self.frame.right();
        for (tick, label) in &axis.ticks {
            let at = axis.scale.at(*tick);
            svg.line((right, at), (right + 4.0, at), color, 1.0);
            svg.text(right + 8.0, at + 4.0, Anchor::Start, color, label);
        }
        svg.text(right + Self::LEFT - 4.0, self.frame.top - 14.0, Anchor::End, color, &axis.title);
    }

    /// The place of a pair of values.
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.scale.at(x), self.y.scale.at(y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(values: &[f64], expected: &[f64]) -> bool {
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
        values.len() == expected.len() && values.iter().zip(expected).all(close)
    }

    #[test]
    fn places_are_between_the_ends_and_never_outside() {
        let scale = Scale::linear((0.0, 200.0), (100.0, 0.0));
        assert_eq!([0.0, 50.0, 200.0].map(|v| scale.at(v)), [100.0, 75.0, 0.0]);
        assert_eq!([-5.0, 900.0, f64::NAN].map(|v| scale.at(v)), [100.0, 0.0, 100.0]);
        let scale = Scale::log((1.0, 100.0), (0.0, 10.0));
        assert!(near(&[1.0, 10.0, 100.0, 0.0].map(|v| scale.at(v)), &[0.0, 5.0, 10.0, 0.0]));
    }

    #[test]
    fn ticks_are_round() {
        let ticks = |low, high, count| Scale::linear((low, high), (0.0, 1.0)).ticks(count);
        assert!(near(&ticks(0.0, 100.0, 5), &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]));
        assert!(near(&ticks(3.0, 13.0, 5), &[4.0, 6.0, 8.0, 10.0, 12.0]));
        assert!(near(&ticks(0.0, 1.0, 4), &[0.0, 0.25, 0.5, 0.75, 1.0]));
    }

    #[test]
    fn ticks_of_factors_are_powers_of_ten_or_between() {
        let ticks = |low, high, count| Scale::log((low, high), (0.0, 1.0)).ticks(count);
        assert!(near(&ticks(1.0, 1e4, 6), &[1.0, 10.0, 100.0, 1e3, 1e4]));
        assert!(near(&ticks(10.0, 100.0, 6), &[10.0, 20.0, 50.0, 100.0]));
        assert!(near(&ticks(1.0, 1e8, 4), &[1.0, 100.0, 1e4, 1e6, 1e8]));
    }

    #[test]
    fn an_axis_from_zero_ends_at_a_tick() {
        let ends = |most| Scale::from_zero(most, (0.0, 1.0)).most();
        assert!(near(&[ends(87.0), ends(100.0), ends(101.0)], &[100.0, 100.0, 125.0]));
        assert!(near(&[ends(0.0), ends(f64::NAN)], &[1.0, 1.0]));
    }

    #[test]
    fn any_domain_makes_a_scale() {
        for end in [0.0, -1.0, 1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            for start in [0.0, f64::NAN, 5.0, -7.0] {
                for scale in [
                    Scale::linear((start, end), (0.0, 1.0)),
                    Scale::log((start, end), (0.0, 1.0)),
                    Scale::from_zero(end, (0.0, 1.0)),
                ] {
                    assert!(scale.ticks(5).len() < 1100, "{start} {end}");
                    assert!((0.0..=1.0).contains(&scale.at(1.0)), "{start} {end}");
                }
            }
        }
    }
}
