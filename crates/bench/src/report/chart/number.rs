//! Numbers for readers: three digits, a prefix, a unit; and text in charts.

use std::borrow::Cow;

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Things: `12.3k`.
    Count,
    /// Things a second: `12.3k/s`.
    Rate,
    /// Bytes, decimal: `1.5 GB`.
    Bytes,
    /// Bytes a second, decimal: `1.5 GB/s`.
    BytesRate,
    /// Seconds: `90 s`.
    Seconds,
    /// Microseconds, shown as the time unit that fits: `1.2 ms`.
    Micros,
    /// A share, 1 for all: `35%`.
    Share,
    /// A factor: `1.52x`.
    Factor,
}

impl Unit {
    /// `value` alone, with its own prefix.
    pub(crate) fn show(self, value: f64) -> String {
        self.show_on(value, value)
    }

    /// `value` on an axis that reaches `most`, so that all of its ticks have one prefix.
    pub(crate) fn show_on(self, value: f64, most: f64) -> String {
        match self {
            Self::Count => prefixed(value, most, &COUNTS, ""),
            Self::Rate => prefixed(value, most, &COUNTS, "/s"),
            Self::Bytes => prefixed(value, most, &BYTES, ""),
            Self::BytesRate => prefixed(value, most, &BYTES, "/s"),
            Self::Micros => prefixed(value, most, &MICROS, ""),
            Self::Seconds => prefixed(value, most, &[(1.0, " s")], ""),
            Self::Share => format!("{}%", digits(value * 100.0)),
            Self::Factor => format!("{value:.2}\u{d7}"),
        }
    }
}

/// Factors and their names, from the largest.
type Prefixes = [(f64, &'static str)];

const COUNTS: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
const BYTES: [(f64, &str); 5] =
    [(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " KB"), (1.0, " B")];
const MICROS: [(f64, &str); 4] = [(1e6, " s"), (1e3, " ms"), (1.0, " \u{b5}s"), (1e-3, " ns")];

fn prefixed(value: f64, most: f64, prefixes: &Prefixes, after: &str) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // 999.6 would show as 1,000, so it takes the next prefix.
    let fits = |(factor, _): &&(f64, &str)| most.abs() >= factor * 0.9995;
    let Some((factor, name)) = prefixes.iter().find(fits).or(prefixes.last()) else {
        return digits(value);
    };
    format!("{}{name}{after}", digits(value / factor))
}

/// Three digits, no zeros at the end, thousands apart.
fn digits(value: f64) -> String {
    let size = value.abs();
    if size >= 999.5 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(size.round() as u64));
    }
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.01 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number with commas between thousands.
pub(crate) fn grouped(value: u64) -> String {
    let plain = value.to_string();
    let mut out = String::with_capacity(plain.len() * 4 / 3);
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Escapes `text` for HTML and SVG, between tags and inside double quotes. Characters that XML
/// forbids become U+FFFD.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || forbidden(c);
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if forbidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn forbidden(c: char) -> bool {
    (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The approximate width of `text` in a font of this size. The reader's font is not known: this is
/// a usual sans-serif one, rounded up.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let ems: f64 = text.chars().map(ems).sum();
    ems * size
}

fn ems(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' => 0.28,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' => 0.39,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.9,
        c if c.is_ascii_uppercase() => 0.66,
        _ => 0.57,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_prefix() {
        for (unit, value, expected) in [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 7.0, "7"),
            (Unit::Count, 999.4, "999"),
            (Unit::Count, 999.6, "1k"),
            (Unit::Count, 12_345.0, "12.3k"),
            (Unit::Rate, 1_234_567.0, "1.23M/s"),
            (Unit::Bytes, 1_500_000_000.0, "1.5 GB"),
            (Unit::Bytes, 12.0, "12 B"),
            (Unit::Micros, 0.25, "250 ns"),
            (Unit::Micros, 85.0, "85 \u{b5}s"),
            (Unit::Micros, 1_250.0, "1.25 ms"),
            (Unit::Micros, 3_000_000.0, "3 s"),
            (Unit::Seconds, 3600.0, "3,600 s"),
            (Unit::Share, 0.355, "35.5%"),
            (Unit::Share, 2.7, "270%"),
            (Unit::Factor, 1.517, "1.52\u{d7}"),
        ] {
            assert_eq!(unit.show(value), expected, "{unit:?} {value}");
        }
    }

    #[test]
    fn ticks_of_an_axis_share_a_prefix() {
        let shown: Vec<String> =
            [0.0, 0.5e6, 1e6, 1.5e6].map(|tick| Unit::Count.show_on(tick, 1.5e6)).into();
        assert_eq!(shown, ["0", "0.5M", "1M", "1.5M"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn nothing_escapes_from_text() {
        let hostile = "<script>\"a\" & 'b'</script>\u{0}";
        let expected = "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;\u{fffd}";
        assert_eq!(escape(hostile), expected);
        assert!(matches!(escape("plain text"), Cow::Borrowed("plain text")));
    }

    #[test]
    fn wider_text_is_wider() {
        assert!(width("WWW", 12.0) > width("iii", 12.0));
        assert!((width("00", 10.0) - 11.4).abs() < 1e-9);
    }
}
