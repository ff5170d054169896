//! Units of time: steps, differences, and the beginning of a unit.

use super::calendar::{Civil, DAY, MILLI, SECOND, days_before, days_of_month, weekday};
use super::zone::Zone;
use flagstone::doc::DateTime;

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "millisecond" => Self::Millisecond,
            _ => return None,
        })
    }

    /// The months of a unit that is made of them.
    const fn months(self) -> Option<i64> {
        match self {
            Self::Year => Some(12),
            Self::Quarter => Some(3),
            Self::Month => Some(1),
            _ => None,
        }
    }

    /// The milliseconds of a unit that always has as many.
    pub(crate) fn fixed_millis(self) -> Option<i64> {
        self.months().is_none().then(|| self.micros() / MILLI)
    }

    /// The microseconds of a unit that always has as many.
    const fn micros(self) -> i64 {
        match self {
            Self::Week => 7 * DAY,
            Self::Hour => 3_600 * SECOND,
            Self::Minute => 60 * SECOND,
            Self::Second => SECOND,
            Self::Millisecond => MILLI,
            _ => DAY,
        }
    }
}

/// The day with which weeks begin, from 0 for Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weekday(i64);

impl Weekday {
    pub(crate) const SUNDAY: Self = Self(6);

    /// Parses the name of a day in English, or its first three letters, in any case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        const NAMES: [&str; 7] =
            ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
        let text = text.to_ascii_lowercase();
        let place = NAMES.iter().position(|name| *name == text || name[..3] == text)?;
        Some(Self(place as i64))
    }
}

/// Returns the point `count` units later, in a zone. A day that its month lacks is its last one.
/// `None` if it cannot be represented.
pub(crate) fn stepped(time: DateTime, unit: Unit, count: i64, zone: &Zone) -> Option<DateTime> {
    let is_of_days = matches!(unit, Unit::Week | Unit::Day);
    let Some(months) = unit.months() else {
        if let (true, Zone::Region(_)) = (is_of_days, zone) {
            // Days of a region may have 23 or 25 hours.
            let civil = zone.civil(time);
            let day = civil.day.checked_add(count.checked_mul(unit.micros() / DAY)?)?;
            return zone.point(&Civil { day, ..civil });
        }
        let micros = unit.micros().checked_mul(count)?;
        return time.as_micros().checked_add(micros).map(DateTime::from_micros);
    };
    let civil = zone.civil(time);
    let month = civil.month.checked_add(count.checked_mul(months)?)? - 1;
    let (year, month) = (civil.year.checked_add(month.div_euclid(12))?, month.rem_euclid(12) + 1);
    if year.unsigned_abs() > 400_000 {
        return None;
    }
    let day = civil.day.min(days_of_month(year, month));
    zone.point(&Civil { year, month, day, ..civil })
}

/// The index of the unit in which a point is. Units below a day are counted in the offset `ahead`,
/// so that no change of the offset counts.
fn index(time: DateTime, unit: Unit, zone: &Zone, ahead: i64, first: Weekday) -> i64 {
    let civil = zone.civil(time);
    match (unit.months(), unit) {
        (Some(months), _) => (civil.year * 12 + civil.month - 1).div_euclid(months),
        (None, Unit::Week) => {
            let days = civil.days();
            (days - (weekday(days) - first.0).rem_euclid(7) - first.0).div_euclid(7)
        }
        (None, Unit::Day) => civil.days(),
        _ => {
            let micros = i128::from(time.as_micros()) + i128::from(ahead * SECOND);
            micros.div_euclid(i128::from(unit.micros())) as i64
        }
    }
}

/// Returns how many beginnings of a unit lie between two points.
pub(crate) fn difference(
    start: DateTime,
    end: DateTime,
    unit: Unit,
    zone: &Zone,
    first: Weekday,
) -> i64 {
    let ahead = zone.offset_at(start);
    index(end, unit, zone, ahead, first) - index(start, unit, zone, ahead, first)
}

/// Returns the beginning of the span of `size` units in which a point is. Spans are counted from
/// 2000-01-01, weeks from the first such day from then on. `None` if it cannot be represented.
pub(crate) fn truncated(
    time: DateTime,
    unit: Unit,
    size: i64,
    zone: &Zone,
    first: Weekday,
) -> Option<DateTime> {
    let civil = zone.civil(time);
    if let Some(months) = unit.months() {
        let size = size.checked_mul(months)?;
        let since = (civil.year - 2000) * 12 + civil.month - 1;
        let month = since.div_euclid(size).checked_mul(size)?.checked_add(2000 * 12)?;
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        return zone.point(&Civil { year, month, day: 1, time: 0 });
    }
    let mut origin = days_before(2000, 1, 1);
    if unit == Unit::Week {
        origin += (first.0 - weekday(origin)).rem_euclid(7);
    }
    if matches!(unit, Unit::Week | Unit::Day) {
        let days = size.checked_mul(unit.micros() / DAY)?;
        let since = civil.days() - origin;
        let day = since.div_euclid(days).checked_mul(days)?.checked_add(origin + 1)?;
        return zone.point(&Civil { year: 1970, month: 1, day, time: 0 });
    }
    let midnight = Civil { year: 1970, month: 1, day: origin + 1, time: 0 };
    let origin = i128::from(zone.point(&midnight)?.as_micros());
    let span = i128::from(unit.micros()) * i128::from(size);
    let since = i128::from(time.as_micros()) - origin;
    let begin = since.div_euclid(span) * span + origin;
    i64::try_from(begin).ok().map(DateTime::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> DateTime {
        DateTime::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn a_step_keeps_the_day_where_the_month_has_it() {
        for (from, unit, count, to) in [
            ("2024-01-31T10:00:00Z", Unit::Month, 1, "2024-02-29T10:00:00Z"),
            ("2024-02-29T10:00:00Z", Unit::Year, 1, "2025-02-28T10:00:00Z"),
            ("2024-01-31T10:00:00Z", Unit::Quarter, -1, "2023-10-31T10:00:00Z"),
            ("2024-01-31T10:00:00Z", Unit::Week, 1, "2024-02-07T10:00:00Z"),
            ("2024-01-31T10:00:00Z", Unit::Millisecond, -1, "2024-01-31T09:59:59.999Z"),
        ] {
            assert_eq!(stepped(time(from), unit, count, &Zone::UTC), Some(time(to)), "{from}");
        }
        for unit in [Unit::Year, Unit::Day, Unit::Millisecond] {
            assert_eq!(stepped(time("2024-01-01T00:00:00Z"), unit, i64::MAX, &Zone::UTC), None);
        }
    }

    #[test]
    fn a_difference_counts_beginnings() {
        let between = |a: &str, b: &str, unit, first: &str| {
            difference(time(a), time(b), unit, &Zone::UTC, Weekday::parse(first).unwrap())
        };
        let (a, b) = ("2020-12-31T23:59:59Z", "2021-01-01T00:00:00Z");
        for unit in [Unit::Year, Unit::Quarter, Unit::Month, Unit::Day, Unit::Hour, Unit::Second] {
            assert_eq!(between(a, b, unit, "mon"), 1);
            assert_eq!(between(b, a, unit, "mon"), -1);
        }
        assert_eq!(between(a, b, Unit::Millisecond, "mon"), 1_000);
        // A Saturday and the Sunday behind it.
        let (a, b) = ("2021-01-02T00:00:00Z", "2021-01-03T00:00:00Z");
        assert_eq!(between(a, b, Unit::Week, "Sunday"), 1);
        assert_eq!(between(a, b, Unit::Week, "mon"), 0);
        assert_eq!(between(a, "2021-01-04T00:00:00Z", Unit::Week, "MON"), 1);
    }

    #[test]
    fn a_truncation_is_the_beginning_of_a_span() {
        let begin = |text: &str, unit, size, first: &str| {
            let first = Weekday::parse(first).unwrap();
            truncated(time(text), unit, size, &Zone::UTC, first).unwrap().to_string()
        };
        let text = "2021-03-20T11:30:05.123Z";
        assert_eq!(begin(text, Unit::Month, 1, "sun"), "2021-03-01T00:00:00Z");
        assert_eq!(begin(text, Unit::Year, 5, "sun"), "2020-01-01T00:00:00Z");
        assert_eq!(begin(text, Unit::Quarter, 1, "sun"), "2021-01-01T00:00:00Z");
        assert_eq!(begin(text, Unit::Week, 1, "sun"), "2021-03-14T00:00:00Z");
        assert_eq!(begin(text, Unit::Week, 1, "monday"), "2021-03-15T00:00:00Z");
        assert_eq!(begin(text, Unit::Hour, 2, "sun"), "2021-03-20T10:00:00Z");
        assert_eq!(begin("1999-12-31T23:00:00Z", Unit::Month, 7, "sun"), "1999-06-01T00:00:00Z");
        assert!(truncated(time(text), Unit::Year, i64::MAX, &Zone::UTC, Weekday::SUNDAY).is_none());
    }
}
