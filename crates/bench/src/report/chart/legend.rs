//! A legend in a line, broken where the width ends.

use super::palette::{INK, QUIET};
use super::svg::{Anchor, Svg};
use super::text::width;

/// What stands before a name.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) enum Swatch {
    /// A square of a colour.
    Color(&'static str),
    /// A shape without a colour of its own.
    Shape(usize),
    /// Nothing: the name is a heading of those behind it.
    Heading,
}

/// A name and what stands before it.
pub(in crate::report) type Entry = (Swatch, String);

const LINE: f64 = 18.0;
const SWATCH: f64 = 14.0;
const GAP: f64 = 16.0;

/// Draws `entries` from `(x, y)` on, `y` being the middle of the first line, no wider than `room`;
/// answers the height used.
pub(in crate::report) fn draw(
    svg: &mut Svg,
    (x, y): (f64, f64),
    room: f64,
    entries: &[Entry],
) -> f64 {
    let (mut at, mut line) = (0.0, 0.0);
    for (swatch, name) in entries {
        let before = if matches!(swatch, Swatch::Heading) { 0.0 } else { SWATCH };
        let wide = before + width(name, 12.0);
        if at > 0.0 && at + wide > room {
            (at, line) = (0.0, line + LINE);
        }
        let (left, middle) = (x + at, y + line);
        let color = match swatch {
            Swatch::Color(color) => {
                svg.rect([left, middle - 5.0, 10.0, 10.0], color, 1.0, "");
                INK
            }
            Swatch::Shape(shape) => {
                svg.mark(*shape, (left + 5.0, middle), 4.5, QUIET, "");
                INK
            }
            Swatch::Heading => QUIET,
        };
        svg.text(left + before, middle + 4.0, Anchor::Start, color, name);
        at += wide + GAP;
    }
    line + LINE
}
