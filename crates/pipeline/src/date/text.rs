//! The text of datetimes: formats with `%Y` and the like, and what is read without a format.

use super::calendar::{Civil, SECOND, days_before_iso, days_of_month};
use super::zone::Zone;
use flagstone::doc::DateTime;
use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Writes a point in time by a format. The error says what was expected.
pub(crate) fn print(time: DateTime, format: &str, zone: &Zone) -> Result<String, String> {
    let offset = zone.offset_at(time);
    let civil = Civil::of(time, offset);
    let mut out = String::with_capacity(format.len() + 16);
    let mut rest = format.chars();
    while let Some(char) = rest.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let letter = rest.next().ok_or("a letter behind the last '%' of the format")?;
        let is_year = matches!(letter, 'Y' | 'G');
        if is_year && !(0..=9_999).contains(&civil.year) {
            return Err(format!("a year from 0 to 9999, found {}", civil.year));
        }
        let month = MONTHS[(civil.month - 1).rem_euclid(12) as usize];
        // Writing to a string does not fail.
        let _infallible = match letter {
            '%' => write!(out, "%"),
            'Y' => write!(out, "{:04}", civil.year),
            'm' => write!(out, "{:02}", civil.month),
            'd' => write!(out, "{:02}", civil.day),
            'H' => write!(out, "{:02}", civil.hour()),
            'M' => write!(out, "{:02}", civil.minute()),
            'S' => write!(out, "{:02}", civil.second()),
            'L' => write!(out, "{:03}", civil.millisecond()),
            'j' => write!(out, "{:03}", civil.day_of_year()),
            'w' => write!(out, "{}", civil.iso_weekday() % 7 + 1),
            'u' => write!(out, "{}", civil.iso_weekday()),
            'U' => write!(out, "{:02}", civil.week()),
            'G' => write!(out, "{:04}", civil.iso_week().0),
            'V' => write!(out, "{:02}", civil.iso_week().1),
            'b' => write!(out, "{}", &month[..3]),
            'B' => write!(out, "{month}"),
            'z' => {
                let sign = if offset < 0 { '-' } else { '+' };
                let minutes = offset.abs() / 60;
                write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            'Z' => write!(out, "{}", offset / 60),
            other => return Err(format!("one of %YmdHMSLjwuUGVbBzZ%, found %{other}")),
        };
    }
    Ok(out)
}

/// What has been read of a date.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso: (Option<i64>, Option<i64>, Option<i64>),
    time: i64,
    offset: Option<i64>,
}

impl Parts {
    fn point(&self, zone: Option<&Zone>) -> Result<DateTime, String> {
        let incomplete = || "a year, a month and a day".to_owned();
        let zone = match (self.offset, zone) {
            (Some(_), Some(zone)) if *zone != Zone::UTC => {
                return Err("a time zone either in the text or beside it, not both".to_owned());
            }
            (Some(offset), _) => Zone::Offset(offset),
            (None, zone) => zone.cloned().unwrap_or(Zone::UTC),
        };
        let civil = match (self.year, self.day_of_year, self.iso) {
            (_, _, (Some(year), week, day)) => {
                let (week, day) = (week.unwrap_or(1), day.unwrap_or(1));
                let days = days_before_iso(year, week, day);
                Civil { year: 1970, month: 1, day: days + 1, time: self.time }
            }
            (Some(year), Some(day), _) => Civil { year, month: 1, day, time: self.time },
            (Some(year), None, _) => {
                let month = self.month.ok_or_else(incomplete)?;
                let day = self.day.ok_or_else(incomplete)?;
                if !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
                    return Err("a day that the calendar has".to_owned());
                }
                Civil { year, month, day, time: self.time }
            }
            _ => return Err(incomplete()),
        };
        zone.point(&civil).ok_or_else(|| "a date that can be represented".to_owned())
    }
}

/// The text that is being read.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    /// Reads a number of at least `least` and at most `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let len = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(len);
        let value = if len < least { None } else { digits.parse().ok() };
        self.rest = if value.is_some() { rest } else { self.rest };
        value
    }

    fn within(&mut self, (least, most): (usize, usize), range: (i64, i64)) -> Option<i64> {
        self.digits(least, most).filter(|value| (range.0..=range.1).contains(value))
    }

    fn skip(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Reads the name of a month, or its first three letters.
    fn month(&mut self) -> Option<i64> {
        let starts = |name: &str| {
            let head = self.rest.get(..name.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(name))
        };
        let place = MONTHS.iter().position(|name| starts(&name[..3]))?;
        let len = if starts(MONTHS[place]) { MONTHS[place].len() } else { 3 };
        self.rest = &self.rest[len..];
        Some(place as i64 + 1)
    }

    /// Reads an offset from UTC.
    fn offset(&mut self) -> Option<i64> {
        for name in ["Z", "z", "UTC", "GMT"] {
            if self.skip(name) {
                return Some(0);
            }
        }
        let len = self.rest.bytes().take(6).take_while(|byte| b"+-:0123456789".contains(byte));
        // The longest prefix that is one: `+02`, `+0200` or `+02:00`.
        let (most, text) = (len.count(), self.rest);
        let found = (3..=most)
            .rev()
            .find_map(|len| Zone::offset(text.get(..len)?).map(|offset| (offset, &text[len..])));
        let (offset, rest) = found?;
        self.rest = rest;
        Some(offset)
    }
}

/// Reads text by a format. The error says what was expected.
pub(crate) fn parse_with(
    text: &str,
    format: &str,
    zone: Option<&Zone>,
) -> Result<DateTime, String> {
    let (mut parts, mut reader) = (Parts::default(), Reader { rest: text });
    let mut letters = format.chars();
    while let Some(char) = letters.next() {
        let expected = || format!("text by the format {format:?}, found {text:?}");
        if char != '%' {
            let mut buffer = [0; 4];
            if !reader.skip(char.encode_utf8(&mut buffer)) {
                return Err(expected());
            }
            continue;
        }
        let letter = letters.next().ok_or("a letter behind the last '%' of the format")?;
        let mut time = |value: Option<i64>, unit| value.map(|value| parts.time += value * unit);
        let read = match letter {
            '%' => reader.skip("%").then_some(()),
            'H' => time(reader.within((1, 2), (0, 23)), 3_600 * SECOND),
            'M' => time(reader.within((1, 2), (0, 59)), 60 * SECOND),
            'S' => time(reader.within((1, 2), (0, 59)), SECOND),
            'L' => time(reader.within((1, 3), (0, 999)), 1_000),
            'Y' => set(&mut parts.year, reader.within((4, 4), (0, 9_999))),
            'm' => set(&mut parts.month, reader.within((1, 2), (1, 12))),
            'b' | 'B' => set(&mut parts.month, reader.month()),
            'd' => set(&mut parts.day, reader.within((1, 2), (1, 31))),
            'j' => set(&mut parts.day_of_year, reader.within((1, 3), (1, 366))),
            'G' => set(&mut parts.iso.0, reader.within((4, 4), (0, 9_999))),
            'V' => set(&mut parts.iso.1, reader.within((1, 2), (1, 53))),
            'u' => set(&mut parts.iso.2, reader.within((1, 1), (1, 7))),
            'z' => set(&mut parts.offset, reader.offset()),
            'Z' => {
                let is_negative = reader.skip("-");
                let _is_positive = !is_negative && reader.skip("+");
                let minutes = reader.digits(1, 4);
                let seconds = minutes.map(|minutes| minutes * if is_negative { -60 } else { 60 });
                set(&mut parts.offset, seconds)
            }
            other => return Err(format!("one of %YmdHMSLjuGVbBzZ%, found %{other}")),
        };
        read.ok_or_else(expected)?;
    }
    if !reader.rest.is_empty() {
        return Err(format!("text by the format {format:?}, found {text:?}"));
    }
    parts.point(zone)
}

fn set(part: &mut Option<i64>, value: Option<i64>) -> Option<()> {
    value.map(|value| *part = Some(value))
}

/// Reads the text of a point in time without a format: `2019-08-01`, `2019-08-01T02:00:00.5+02:00`
/// and forms between. The error says what was expected.
pub(crate) fn read(text: &str, zone: Option<&Zone>) -> Result<DateTime, String> {
    let expected =
        || format!("a date such as 2019-08-01 or 2019-08-01T02:00:00.5+02:00, found {text:?}");
    let (mut parts, mut reader) = (Parts::default(), Reader { rest: text.trim_ascii() });
    parts.year = reader.digits(4, 4);
    let is_dashed = reader.skip("-");
    parts.month = reader.digits(if is_dashed { 1 } else { 2 }, 2);
    let is_day = !is_dashed || reader.skip("-");
    parts.day = if is_day { reader.digits(if is_dashed { 1 } else { 2 }, 2) } else { None };
    if parts.day.is_none() {
        return Err(expected());
    }
    if reader.skip("T") || reader.skip("t") || reader.rest.starts_with([' ', '\t']) {
        reader.rest = reader.rest.trim_ascii_start();
        let hour = reader.within((1, 2), (0, 23)).ok_or_else(expected)?;
        let has_minute = reader.skip(":");
        let minute = if has_minute { reader.within((2, 2), (0, 59)) } else { None };
        let minute = if has_minute { minute.ok_or_else(expected)? } else { 0 };
        let has_second = has_minute && reader.skip(":");
        let second = if has_second { reader.within((2, 2), (0, 59)) } else { None };
        let second = if has_second { second.ok_or_else(expected)? } else { 0 };
        parts.time = ((hour * 60 + minute) * 60 + second) * SECOND;
        if has_second && reader.skip(".") {
            let len = reader.rest.bytes().take_while(u8::is_ascii_digit).count();
            if len == 0 {
                return Err(expected());
            }
            let (digits, rest) = reader.rest.split_at(len);
            let padded = digits.bytes().chain(std::iter::repeat(b'0')).take(6);
            parts.time += padded.fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
            reader.rest = rest;
        }
        reader.rest = reader.rest.trim_ascii_start();
    }
    if !reader.rest.is_empty() {
        parts.offset = Some(reader.offset().ok_or_else(expected)?);
    }
    if !reader.rest.is_empty() {
        return Err(expected());
    }
    parts.point(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_many_forms() {
        for (text, expected) in [
            ("2019-08-01", "2019-08-01T00:00:00Z"),
            ("20190801", "2019-08-01T00:00:00Z"),
            ("2019-08-01T02:00:00+02:00", "2019-08-01T00:00:00Z"),
            ("2019-08-01 02:00:00.5 -0030", "2019-08-01T02:30:00.500000Z"),
            ("2019-08-01T02:05Z", "2019-08-01T02:05:00Z"),
            ("2019-08-01T02:05:06.123456789", "2019-08-01T02:05:06.123456Z"),
        ] {
            assert_eq!(read(text, None).unwrap().to_string(), expected, "{text}");
        }
        for text in
            ["", "2019", "2019-08", "2019-02-30", "2019-08-01T", "2019-08-01x", "20:10", "é"]
        {
            assert!(read(text, None).is_err(), "{text}");
        }
        assert!(
            read("2019-08-01T00:00Z", Some(&Zone::Offset(60))).unwrap_err().contains("not both")
        );
        assert_eq!(
            read("2019-08-01", Some(&Zone::Offset(-3_600))).unwrap().to_string(),
            "2019-08-01T01:00:00Z"
        );
    }

    #[test]
    fn formats_read_what_they_write() {
        let time = DateTime::parse_rfc3339("2019-08-01T02:03:04.567Z").unwrap();
        for format in [
            "%Y-%m-%dT%H:%M:%S.%LZ",
            "%d.%m.%Y %H.%M.%S,%L",
            "%G-W%V-%u %H%M%S%L",
            "%Y %j %H:%M:%S.%L",
            "%B %d %Y %H:%M:%S:%L %z%%",
        ] {
            let text = print(time, format, &Zone::UTC).unwrap();
            assert_eq!(parse_with(&text, format, None), Ok(time), "{format} {text}");
        }
        assert_eq!(
            print(time, "%Y %b %w %U %z %Z", &Zone::Offset(19_800)).unwrap(),
            "2019 Aug 5 30 +0530 330"
        );
        for format in ["%", "%q", "%Y%"] {
            assert!(print(time, format, &Zone::UTC).is_err(), "{format}");
            assert!(parse_with("2019", format, None).is_err(), "{format}");
        }
        assert!(parse_with("2019-02-30", "%Y-%m-%d", None).is_err());
        assert!(parse_with("2019-02-3x", "%Y-%m-%d", None).is_err());
    }
}
