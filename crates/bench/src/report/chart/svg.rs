//! The canvas: colours, shapes and text, written down as SVG; and legends.

use super::number::{escape, width};

pub(crate) const INK: &str = "#1f2933";
/// The colour of text in the background.
pub(crate) const QUIET: &str = "#5f6b7a";
pub(crate) const FAINT: &str = "#e4e7eb";
pub(crate) const PALE: &str = "#f5f7fa";

/// Colours for things without an order, after Okabe and Ito, without yellow, which is too light for
/// a line.
const HUES: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#b6569a", "#c98a00", "#3ba3dc", "#5b4b8a", "#6b6b6b"];

/// Colours for things with an order, light to dark as viridis.
const STEPS: [&str; 7] =
    ["#a5c63b", "#4fb56a", "#25938b", "#2f708e", "#3d4e8a", "#46307e", "#2d0a3f"];

/// The colour of the `at`-th thing without an order.
pub(crate) fn hue(at: usize) -> &'static str {
    HUES[at % HUES.len()]
}

/// The colour of the `at`-th of `count` things in order.
pub(crate) fn step(at: usize, count: usize) -> &'static str {
    // Few steps are far apart, and in the middle of the scale, where contrast is good on white.
    let of = match count {
        0..=2 => [2, 4, 4, 4, 4, 4, 4],
        3 => [1, 3, 5, 5, 5, 5, 5],
        4 => [0, 2, 4, 5, 5, 5, 5],
        5 => [0, 1, 2, 4, 5, 5, 5],
        _ => [0, 1, 2, 3, 4, 5, 6],
    };
    STEPS[of[at.min(6)]]
}

/// Fonts of figures. The first is that of pictures.
const FONTS: &str = "Noto Sans, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";

/// Empty space around a figure.
const MARGIN: f64 = 8.0;

/// The width of a figure in units; a page scales it.
pub(crate) const WIDTH: f64 = 920.0;

/// A drawn figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A name for its file and its place in the page: letters, digits and dashes.
    pub id: String,
    /// A whole, self-contained SVG element.
    pub svg: String,
}

/// A figure being drawn. All text is escaped here.
#[derive(Debug)]
pub(crate) struct Svg {
    height: f64,
    /// The alternative text of the figure.
    label: String,
    body: String,
}

/// Which part of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// A canvas of this height with a title on it.
    pub(crate) fn new(title: &str, subtitle: &str, height: f64) -> Self {
        let mut svg = Self { height, label: format!("{title}. {subtitle}"), body: String::new() };
        svg.bold(0.0, 18.0, 16.0, title);
        svg.text(0.0, 37.0, Anchor::Start, QUIET, subtitle);
        svg
    }

    /// Ends the figure.
    pub(crate) fn finish(self, id: &str) -> Figure {
        let Self { height, label, body } = self;
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{} {} {} {}\" role=\"img\" \
             aria-label=\"{}\" font-family=\"{FONTS}\" font-size=\"12\" fill=\"{INK}\">\n\
             <rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"#fff\"/>\n\
             {body}</svg>\n",
            N(-MARGIN),
            N(-MARGIN),
            N(WIDTH + 2.0 * MARGIN),
            N(height + 2.0 * MARGIN),
            escape(&label),
        );
        Figure { id: id.to_owned(), svg }
    }

    /// Text in the usual size.
    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: Anchor, color: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let color = if color == INK { String::new() } else { format!(" fill=\"{color}\"") };
        let text = escape(text);
        self.body += &format!("<text x=\"{}\" y=\"{}\"{anchor}{color}>{text}</text>\n", N(x), N(y));
    }

    /// Bold text of a size.
    pub(crate) fn bold(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let text = escape(text);
        self.body += &format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"700\">{text}</text>\n",
            N(x),
            N(y),
            N(size),
        );
    }

    /// A filled rectangle; a pointer over it shows `tip`.
    pub(crate) fn rect(&mut self, area: [f64; 4], color: &str, opacity: f64, tip: &str) {
        let [x, y, width, height] = area.map(N);
        self.body += &format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"",
        );
        if opacity < 1.0 {
            self.body += &format!(" fill-opacity=\"{}\"", N(opacity));
        }
        self.close("rect", tip);
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, thick: f64) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(N);
        self.body += &format!(
            "<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{color}\" stroke-width=\"{}\"/>\n",
            N(thick),
        );
    }

    /// A line through places.
    pub(crate) fn path(&mut self, places: &[(f64, f64)], color: &str, thick: f64) {
        if places.is_empty() {
            return;
        }
        self.begin_path(places);
        self.body += &format!(
            "\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\" stroke-linejoin=\"round\" \
             stroke-linecap=\"round\"/>\n",
            N(thick),
        );
    }

    /// The area between a line and the height `base`.
    pub(crate) fn area(&mut self, places: &[(f64, f64)], base: f64, color: &str, opacity: f64) {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return };
        self.begin_path(places);
        let [start, end, base] = [first.0, last.0, base].map(N);
        self.body += &format!(
            "L{end} {base}L{start} {base}Z\" fill=\"{color}\" fill-opacity=\"{}\"/>\n",
            N(opacity),
        );
    }

    /// A mark of the `shape`-th kind around a place; `size` is half its height.
    pub(crate) fn mark(
        &mut self,
        shape: usize,
        (x, y): (f64, f64),
        size: f64,
        color: &str,
        tip: &str,
    ) {
        let corners: &[(f64, f64)] = match shape % 6 {
            0 => {
                let [x, y, size] = [x, y, size].map(N);
                self.body += &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{size}\" ");
                return self.finish_mark("circle", color, tip);
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            4 => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            _ => &[(-1.1, -0.4), (0.0, -1.2), (1.1, -0.4), (0.7, 1.0), (-0.7, 1.0)],
        };
        let places: Vec<_> = corners.iter().map(|c| (x + c.0 * size, y + c.1 * size)).collect();
        self.begin_path(&places);
        self.body.push_str("Z\" ");
        self.finish_mark("path", color, tip);
    }

    fn finish_mark(&mut self, name: &str, color: &str, tip: &str) {
        self.body += &format!("fill=\"{color}\" stroke=\"#fff\" stroke-width=\"1\"");
        self.close(name, tip);
    }

    /// Many small dots of one colour.
    pub(crate) fn dots(&mut self, places: &[(f64, f64)], radius: f64, color: &str, opacity: f64) {
        if places.is_empty() {
            return;
        }
        self.body.push_str("<path d=\"");
        for (x, y) in places {
            self.body += &format!("M{} {}h0", N(*x), N(*y));
        }
        self.body += &format!(
            "\" stroke=\"{color}\" stroke-width=\"{}\" stroke-linecap=\"round\" \
             stroke-opacity=\"{}\"/>\n",
            N(radius * 2.0),
            N(opacity),
        );
    }

    /// Writes the beginning of a path through places.
    fn begin_path(&mut self, places: &[(f64, f64)]) {
        self.body.push_str("<path d=\"");
        for (at, (x, y)) in places.iter().enumerate() {
            let step = if at == 0 { 'M' } else { 'L' };
            self.body += &format!("{step}{} {}", N(*x), N(*y));
        }
    }

    fn close(&mut self, name: &str, tip: &str) {
        if tip.is_empty() {
            self.body.push_str("/>\n");
        } else {
            let tip = escape(tip);
            self.body += &format!("><title>{tip}</title></{name}>\n");
        }
    }
}

/// A coordinate: two decimals at most, and always a finite number.
#[derive(Clone, Copy, Debug)]
struct N(f64);

impl std::fmt::Display for N {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if self.0.is_finite() { (self.0 * 100.0).round() / 100.0 } else { 0.0 };
        // Minus zero is zero.
        write!(f, "{}", value + 0.0)
    }
}

/// The mark before a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Swatch {
    /// A square of a colour.
    Color(&'static str),
    /// A shape without a colour of its own.
    Shape(usize),
    /// No mark: the name is a heading of those after it.
    Heading,
}

/// A name and the mark before it.
pub(crate) type LegendEntry = (Swatch, String);

const LINE: f64 = 18.0;
const SWATCH: f64 = 14.0;
const GAP: f64 = 16.0;

/// Draws `entries` in lines as wide as the figure. `y` is the middle of the first line.
pub(crate) fn draw_legend(svg: &mut Svg, y: f64, entries: &[LegendEntry]) {
    let (mut at, mut line) = (0.0, 0.0);
    for (swatch, name) in entries {
        let before = if matches!(swatch, Swatch::Heading) { 0.0 } else { SWATCH };
        let wide = before + width(name, 12.0);
        if at > 0.0 && at + wide > WIDTH {
            (at, line) = (0.0, line + LINE);
        }
        let (left, middle) = (at, y + line);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_always_numbers() {
        let shown = [1.0, 1.005, 0.333_333, -0.0, -0.001, f64::NAN, f64::INFINITY]
            .map(|v| N(v).to_string());
        assert_eq!(shown, ["1", "1", "0.33", "0", "0", "0", "0"]);
    }

    #[test]
    fn text_and_tips_are_escaped() {
        let mut svg = Svg::new("\"<&", "", 10.0);
        svg.text(1.0, 2.0, Anchor::End, INK, "<b>");
        svg.rect([0.0, 0.0, 1.0, 1.0], "red", 0.5, "</rect>");
        svg.mark(0, (1.0, 1.0), 2.0, "red", "<>");
        let svg = svg.finish("a").svg;
        assert!(svg.contains("&quot;&lt;&amp;") && svg.contains(">&lt;b&gt;</text>"), "{svg}");
        assert!(svg.contains("<title>&lt;/rect&gt;</title></rect>"), "{svg}");
        assert!(svg.contains("<title>&lt;&gt;</title></circle>"), "{svg}");
    }
}
