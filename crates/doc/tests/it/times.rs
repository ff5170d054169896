//! RFC 3339 text of points in time.
//!
//! An earlier parser refused what the standard allows: more than six digits of a second, and leap
//! seconds. Documents with such dates never expired by an index, and nothing said so.

use crate::random::check;
use flagstone_doc::DateTime;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;

fn micros(text: &str) -> Option<i64> {
    DateTime::parse_rfc3339(text).map(DateTime::as_micros)
}

/// Seconds since 1970 by `date -u -d TEXT +%s`, where GNU date reads the text; it reads no leap
/// seconds.
#[test]
fn all_that_the_standard_allows_is_read() {
    for (text, seconds, fraction) in [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1985-04-12T23:20:50.52Z", 482_196_050, 520_000),
        ("1996-12-19T16:39:57-08:00", 851_042_397, 0),
        ("1937-01-01T12:00:27.87+00:20", -1_041_337_173, 870_000),
        // A leap second is the first second of the next day, as in Unix time.
        ("1990-12-31T23:59:60Z", 662_688_000, 0),
        ("1990-12-31T15:59:60-08:00", 662_688_000, 0),
        ("2016-12-31T23:59:60.999999999Z", 1_483_228_800, 999_999),
        ("2017-01-01T00:59:60+01:00", 1_483_228_800, 0),
        ("2015-07-01T05:29:60+05:30", 1_435_708_800, 0),
        ("1972-06-30t23:59:60z", 78_796_800, 0),
        ("2024-02-29T23:59:60Z", 1_709_251_200, 0),
        // Lower case, and a space.
        ("2001-01-01t00:00:00z", 978_307_200, 0),
        ("2001-01-01 00:00:00z", 978_307_200, 0),
        ("2001-01-01 02:00:00+02:00", 978_307_200, 0),
        // Offsets.
        ("2001-01-01T00:00:00-00:00", 978_307_200, 0),
        ("2001-01-01T00:00:00+00:00", 978_307_200, 0),
        ("2001-01-01T23:59:00+23:59", 978_307_200, 0),
        ("2000-12-31T00:01:00-23:59", 978_307_200, 0),
        // What is finer than a microsecond is cut off, towards the past.
        ("2001-01-01T00:00:00.1Z", 978_307_200, 100_000),
        ("2001-01-01T00:00:00.1234567Z", 978_307_200, 123_456),
        ("2001-01-01T00:00:00.123456789Z", 978_307_200, 123_456),
        ("2001-01-01T02:00:00.000000001+02:00", 978_307_200, 0),
        ("2001-01-01T00:00:00.999999999999999999999999Z", 978_307_200, 999_999),
        ("1969-12-31T23:59:59.9999999Z", -1, 999_999),
        ("1969-12-31T23:59:59.0000009Z", -1, 0),
        ("1900-01-01T00:00:00.0000019Z", -2_208_988_800, 1),
        // The ends of the calendar.
        ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
        ("0000-02-29T00:00:00Z", -62_162_121_600, 0),
        ("0000-01-01T00:00:00+23:59", -62_167_305_540, 0),
        ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799, 999_999),
        ("9999-12-31T23:59:60Z", 253_402_300_800, 0),
        ("9999-12-31T23:59:59-23:59", 253_402_387_139, 0),
    ] {
        assert_eq!(micros(text), Some(seconds * SECOND + fraction), "{text}");
    }
}

#[test]
fn what_is_no_moment_is_refused() {
    for text in [
        "",
        "2001-01-01",
        "2001-01-01T00:00:00",
        "2001-01-01T00:00Z",
        "2001-01-01T00:00:00 Z",
        " 2001-01-01T00:00:00Z",
        "2001-01-01T00:00:00Z ",
        "2001-01-01T00:00:00.Z",
        "2001-01-01T00:00:00,5Z",
        "2001-01-01T00:00:00.5.5Z",
        "2001-01-01T00:00:00.-5Z",
        "2001-01-01T00:00:00.\u{663}Z",
        "2001-01-01T24:00:00Z",
        "2001-01-01T00:60:00Z",
        "2001-01-01T00:00:61Z",
        "2001-01-01T00:00:99Z",
        // No minute of these ends with a leap second.
        "2001-01-01T00:00:60Z",
        "2016-12-31T22:59:60Z",
        "2016-12-30T23:59:60Z",
        "2016-12-31T23:59:60+01:00",
        "2016-12-31T23:59:60-08:00",
        "2023-02-28T22:59:60Z",
        "2001-00-01T00:00:00Z",
        "2001-13-01T00:00:00Z",
        "2001-01-00T00:00:00Z",
        "2001-01-32T00:00:00Z",
        "2001-02-29T00:00:00Z",
        "2001-02-30T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2001-04-31T00:00:00Z",
        "2001-01-01T00:00:00+24:00",
        "2001-01-01T00:00:00+00:60",
        "2001-01-01T00:00:00+0200",
        "2001-01-01T00:00:00+02",
        "2001-01-01T00:00:00+2:00",
        "2001-01-01T00:00:00\u{2212}02:00",
        "2001-01-01T00:00:00Z+02:00",
        "2001-01-01_00:00:00Z",
        "2001-01-01\u{a0}00:00:00Z",
        "20010101T000000Z",
        "2001-001T00:00:00Z",
        "2001-W01-1T00:00:00Z",
        "+2001-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
        "+12001-01-01T00:00:00Z",
        "12001-01-01T00:00:00Z",
        "2001-1-1T00:00:00Z",
        "2001-01-01T0:00:00Z",
        "2001\u{2d}01-+1T00:00:00Z",
        "2001-01-01T00:00:0\u{e9}Z",
        "\u{1F553}2001-01-01T00:00:00Z",
    ] {
        assert_eq!(micros(text), None, "{text}");
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = match (year % 400, year % 100) {
        (0, _) => true,
        (_, 0) => false,
        _ => year % 4 == 0,
    };
    DAYS[month as usize - 1] + i64::from(is_leap && month == 2)
}

/// The days from 1970-01-01 to each January 1st of the years 0 to 9999, counted one year after the
/// other.
fn first_days() -> Vec<i64> {
    let of_year = |year| (1..=12).map(|month| days_of_month(year, month)).sum::<i64>();
    let before_1970: i64 = (0..1970).map(of_year).sum();
    let mut day = -before_1970;
    (0..10_000)
        .map(|year| {
            let first = day;
            day += of_year(year);
            first
        })
        .collect()
}

#[test]
fn every_day_of_ten_thousand_years_has_its_number() {
    let mut day = first_days()[0];
    for year in 0..10_000 {
        for month in 1..=12 {
            for of_month in 1..=31 {
                let text = format!("{year:04}-{month:02}-{of_month:02}T00:00:00Z");
                let expected = (of_month <= days_of_month(year, month)).then(|| {
                    day += 1;
                    (day - 1) * 86_400 * SECOND
                });
                assert_eq!(micros(&text), expected, "{text}");
                if let Some(micros) = expected {
                    assert_eq!(DateTime::from_micros(micros).to_string(), text);
                }
            }
        }
    }
}

#[test]
fn any_time_is_the_sum_of_its_parts() {
    let first_days = first_days();
    let date = (0_i64..10_000, 1_i64..=12, 1_i64..=31);
    let time = (0_i64..24, 0_i64..60, 0_i64..60);
    let offset = prop_oneof![Just(None), (any::<bool>(), 0_i64..24, 0_i64..60).prop_map(Some),];
    let form = (offset, "[Tt ]", any::<bool>());
    check("times", &(date, time, "[0-9]{0,12}", form), 20_000, |drawn| {
        let ((year, month, day), (hour, minute, second), fraction, form) = drawn;
        let (offset, separator, is_lower) = form;
        let (zone, ahead) = match offset {
            None => (if is_lower { "z".to_owned() } else { "Z".to_owned() }, 0),
            Some((is_behind, hours, minutes)) => {
                let sign = if is_behind { '-' } else { '+' };
                let seconds = (hours * 60 + minutes) * 60;
                (
                    format!("{sign}{hours:02}:{minutes:02}"),
                    if is_behind { -seconds } else { seconds },
                )
            }
        };
        let point = if fraction.is_empty() { "" } else { "." };
        let text = format!(
            "{year:04}-{month:02}-{day:02}{separator}{hour:02}:{minute:02}:{second:02}\
             {point}{fraction}{zone}"
        );
        let months: i64 = (1..month).map(|month| days_of_month(year, month)).sum();
        let days = first_days[year as usize] + months + day - 1;
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - ahead;
        let padded: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let expected = seconds * SECOND + padded.parse::<i64>().unwrap();
        let is_day = day <= days_of_month(year, month);
        assert_eq!(micros(&text), is_day.then_some(expected), "{text}");
        // What is written is read back, and no written text is a leap second.
        let written = DateTime::from_micros(expected).to_string();
        if is_day && written.len() <= 27 && !written.starts_with('-') {
            assert_eq!(micros(&written), Some(expected), "{text} {written}");
        }
    });
}

#[test]
fn a_leap_second_ends_a_month_in_utc() {
    let first_days = first_days();
    for year in [0, 1972, 1999, 2000, 2016, 2100, 9998] {
        let mut day = first_days[year as usize];
        for (month, of_month) in
            (1..=12).flat_map(|m| (1..=days_of_month(year, m)).map(move |d| (m, d)))
        {
            day += 1;
            let ends_month = of_month == days_of_month(year, month);
            let next = match (month, ends_month) {
                (_, false) => (year, month, of_month + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
            let of =
                |(year, month, day), rest: &str| format!("{year:04}-{month:02}-{day:02}T{rest}");
            let today = (year, month, of_month);
            for (text, is_leap) in [
                (of(today, "23:59:60Z"), ends_month),
                (of(today, "15:59:60.5-08:00"), ends_month),
                (of(today, "00:00:60-23:59"), ends_month),
                (of(next, "05:29:60+05:30"), ends_month),
                (of(next, "23:58:60+23:59"), ends_month),
                (of(today, "23:58:60Z"), false),
                (of(today, "23:59:60+00:01"), false),
                (of(today, "22:59:60Z"), false),
            ] {
                let half = if text.contains('.') { SECOND / 2 } else { 0 };
                let expected = is_leap.then_some(day * 86_400 * SECOND + half);
                assert_eq!(micros(&text), expected, "{text}");
            }
        }
    }
}
