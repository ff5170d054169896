//! A panel: a frame with two axes and a grid, that curves and marks are drawn in.

use super::number::Unit;
use super::palette::{FAINT, INK, QUIET};
use super::scale::Scale;
use super::svg::{Anchor, Svg};

/// Where the plot stands, axes and their labels left out.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Frame {
    pub(in crate::report) left: f64,
    pub(in crate::report) top: f64,
    pub(in crate::report) width: f64,
    pub(in crate::report) height: f64,
}

impl Frame {
    /// The right end.
    pub(in crate::report) const fn right(&self) -> f64 {
        self.left + self.width
    }

    /// The lower end.
    pub(in crate::report) const fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The range of a scale from left to right, `inset` from both ends.
    pub(in crate::report) const fn across(&self, inset: f64) -> (f64, f64) {
        (self.left + inset, self.right() - inset)
    }

    /// The range of a scale from the lower end up.
    pub(in crate::report) const fn up(&self) -> (f64, f64) {
        (self.bottom(), self.top)
    }
}

/// An axis: a scale, its ticks and what they count.
#[derive(Clone, Debug)]
pub(in crate::report) struct Axis {
    pub(in crate::report) title: String,
    pub(in crate::report) scale: Scale,
    /// Places and their labels; an empty label draws the line of the grid alone.
    pub(in crate::report) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis with about `count` round ticks.
    pub(in crate::report) fn round(title: &str, unit: Unit, scale: Scale, count: usize) -> Self {
        let ticks = scale.ticks(count);
        let most = ticks.last().copied().unwrap_or(scale.most());
        // Factors lie far apart: each has a prefix of its own.
        let own = ticks.first().is_some_and(|first| *first > 0.0 && most / first > 100.0);
        let show = |tick: f64| unit.show_on(tick, if own { tick } else { most });
        let ticks = ticks.into_iter().map(|tick| (tick, show(tick))).collect();
        Self { title: title.to_owned(), scale, ticks }
    }
}

/// A frame and its axes.
#[derive(Clone, Debug)]
pub(in crate::report) struct Panel {
    pub(in crate::report) frame: Frame,
    pub(in crate::report) x: Axis,
    pub(in crate::report) y: Axis,
}

/// Room that a panel takes around its frame.
impl Panel {
    /// For the labels of the left axis.
    pub(in crate::report) const LEFT: f64 = 62.0;
    /// For the title of the left axis.
    pub(in crate::report) const ABOVE: f64 = 28.0;
    /// For the labels and the title of the lower axis.
    pub(in crate::report) const BELOW: f64 = 42.0;

    /// Draws grid and axes.
    pub(in crate::report) fn draw(&self, svg: &mut Svg) {
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

    /// Draws another axis at the right, whose ticks have no grid.
    pub(in crate::report) fn draw_right(&self, svg: &mut Svg, axis: &Axis, color: &str) {
        let right = self.frame.right();
        for (tick, label) in &axis.ticks {
            let at = axis.scale.at(*tick);
            svg.line((right, at), (right + 4.0, at), color, 1.0);
            svg.text(right + 8.0, at + 4.0, Anchor::Start, color, label);
        }
        svg.text(right + Self::LEFT - 4.0, self.frame.top - 14.0, Anchor::End, color, &axis.title);
    }

    /// The place of a pair of values.
    pub(in crate::report) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.scale.at(x), self.y.scale.at(y))
    }
}
