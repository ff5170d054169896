//! The canvas: shapes and text, written down as SVG.

use super::palette::INK;
use super::text::escape;
use std::fmt::Write;

/// Fonts of figures; the first is the one of their pictures.
const FONTS: &str = "Noto Sans, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif";

/// Empty space around a figure.
const MARGIN: f64 = 8.0;

/// A figure being drawn. All text is escaped here and nowhere else.
#[derive(Debug)]
pub(in crate::report) struct Svg {
    width: f64,
    height: f64,
    about: String,
    body: String,
}

/// Which end of a text stands at its place.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) enum Anchor {
    /// The first letter.
    Start,
    /// The middle.
    Middle,
    /// The last letter.
    End,
}

impl Svg {
    /// An empty canvas; `about` is what a reader who cannot see it is told.
    pub(in crate::report) fn new(width: f64, height: f64, about: &str) -> Self {
        Self { width, height, about: about.to_owned(), body: String::new() }
    }

    /// The whole as one element.
    pub(in crate::report) fn finish(self) -> String {
        let Self { width, height, about, body } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{} {} {} {}\" role=\"img\" \
             aria-label=\"{}\" font-family=\"{FONTS}\" font-size=\"12\" fill=\"{INK}\">\n\
             <rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"#fff\"/>\n{body}</svg>\n",
            N(-MARGIN),
            N(-MARGIN),
            N(width + 2.0 * MARGIN),
            N(height + 2.0 * MARGIN),
            escape(&about),
        )
    }

    /// What and how much is seen, above a chart.
    pub(in crate::report) fn title(&mut self, title: &str, subtitle: &str) {
        self.bold(0.0, 18.0, 16.0, title);
        self.text(0.0, 37.0, Anchor::Start, super::palette::QUIET, subtitle);
    }

    /// Text in the usual size.
    pub(in crate::report) fn text(
        &mut self,
        x: f64,
        y: f64,
        anchor: Anchor,
        color: &str,
        text: &str,
    ) {
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
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\"{anchor}{color}>{text}</text>\n",
            N(x),
            N(y)
        ));
    }

    /// Bold text of a size.
    pub(in crate::report) fn bold(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let text = escape(text);
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" font-weight=\"700\">{text}</text>\n",
            N(x),
            N(y),
            N(size),
        ));
    }

    /// A filled rectangle; `tip` is shown by a pointer over it.
    pub(in crate::report) fn rect(&mut self, area: [f64; 4], color: &str, opacity: f64, tip: &str) {
        let [x, y, width, height] = area.map(N);
        self.put(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"",
        ));
        if opacity < 1.0 {
            self.put(format_args!(" fill-opacity=\"{}\"", N(opacity)));
        }
        self.close("rect", tip);
    }

    /// A straight line.
    pub(in crate::report) fn line(
        &mut self,
        from: (f64, f64),
        to: (f64, f64),
        color: &str,
        thick: f64,
    ) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(N);
        self.put(format_args!(
            "<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"{color}\" stroke-width=\"{}\"/>\n",
            N(thick),
        ));
    }

    /// A line through places.
    pub(in crate::report) fn path(&mut self, places: &[(f64, f64)], color: &str, thick: f64) {
        if places.is_empty() {
            return;
        }
        self.put(format_args!("<path d=\""));
        self.places(places);
        self.put(format_args!(
            "\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\" stroke-linejoin=\"round\" \
             stroke-linecap=\"round\"/>\n",
            N(thick),
        ));
    }

    /// The ground between a line and the height `base`.
    pub(in crate::report) fn area(
        &mut self,
        places: &[(f64, f64)],
        base: f64,
        color: &str,
        opacity: f64,
    ) {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return };
        self.put(format_args!("<path d=\""));
        self.places(places);
        let [start, end, base] = [first.0, last.0, base].map(N);
        self.put(format_args!(
            "L{end} {base}L{start} {base}Z\" fill=\"{color}\" fill-opacity=\"{}\"/>\n",
            N(opacity),
        ));
    }

    /// The `shape`-th kind of mark around a place, `size` being half its height.
    pub(in crate::report) fn mark(
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
                self.put(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{size}\" "));
                return self.finish_mark("circle", color, tip);
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            4 => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            _ => &[(-1.1, -0.4), (0.0, -1.2), (1.1, -0.4), (0.7, 1.0), (-0.7, 1.0)],
        };
        self.put(format_args!("<path d=\""));
        let places: Vec<_> = corners.iter().map(|c| (x + c.0 * size, y + c.1 * size)).collect();
        self.places(&places);
        self.put(format_args!("Z\" "));
        self.finish_mark("path", color, tip);
    }

    fn finish_mark(&mut self, name: &str, color: &str, tip: &str) {
        self.put(format_args!("fill=\"{color}\" stroke=\"#fff\" stroke-width=\"1\""));
        self.close(name, tip);
    }

    /// Many small dots of one colour.
    pub(in crate::report) fn dots(
        &mut self,
        places: &[(f64, f64)],
        radius: f64,
        color: &str,
        opacity: f64,
    ) {
        if places.is_empty() {
            return;
        }
        self.put(format_args!("<path d=\""));
        for (x, y) in places {
            self.put(format_args!("M{} {}h0", N(*x), N(*y)));
        }
        self.put(format_args!(
            "\" stroke=\"{color}\" stroke-width=\"{}\" stroke-linecap=\"round\" \
             stroke-opacity=\"{}\"/>\n",
            N(radius * 2.0),
            N(opacity),
        ));
    }

    fn places(&mut self, places: &[(f64, f64)]) {
        for (at, (x, y)) in places.iter().enumerate() {
            let step = if at == 0 { 'M' } else { 'L' };
            self.put(format_args!("{step}{} {}", N(*x), N(*y)));
        }
    }

    fn close(&mut self, name: &str, tip: &str) {
        if tip.is_empty() {
            self.put(format_args!("/>\n"));
        } else {
            let tip = escape(tip);
            self.put(format_args!("><title>{tip}</title></{name}>\n"));
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // A String takes whatever is written to it.
        let _ = self.body.write_fmt(text);
    }
}

/// A coordinate: two decimals at most, and never anything but a number.
#[derive(Clone, Copy, Debug)]
struct N(f64);

impl std::fmt::Display for N {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if self.0.is_finite() { (self.0 * 100.0).round() / 100.0 } else { 0.0 };
        // Minus zero is zero.
        write!(f, "{}", value + 0.0)
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
        let mut svg = Svg::new(10.0, 10.0, "\"<&");
        svg.text(1.0, 2.0, Anchor::End, INK, "<b>");
        svg.rect([0.0, 0.0, 1.0, 1.0], "red", 0.5, "</rect>");
        svg.mark(0, (1.0, 1.0), 2.0, "red", "<>");
        let svg = svg.finish();
        assert!(svg.contains("&quot;&lt;&amp;") && svg.contains(">&lt;b&gt;</text>"), "{svg}");
        assert!(svg.contains("<title>&lt;/rect&gt;</title></rect>"), "{svg}");
        assert!(svg.contains("<title>&lt;&gt;</title></circle>"), "{svg}");
    }
}
