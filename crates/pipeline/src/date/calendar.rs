//! The proleptic Gregorian calendar, and the weeks of ISO 8601.

use flagstone::doc::DateTime;

/// Microseconds.
pub(super) const MILLI: i64 = 1_000;
pub(super) const SECOND: i64 = 1_000 * MILLI;
pub(super) const DAY: i64 = 86_400 * SECOND;

/// A day and a time of one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1 to 12.
    pub(crate) month: i64,
    /// From 1 to 31.
    pub(crate) day: i64,
    /// Microseconds since midnight.
    pub(crate) time: i64,
}

impl Civil {
    /// Returns the day and time of a point in a zone that is `offset` seconds ahead of UTC.
    pub(crate) fn of(time: DateTime, offset: i64) -> Self {
        let micros = i128::from(time.as_micros()) + i128::from(offset * SECOND);
        let days = micros.div_euclid(i128::from(DAY)) as i64;
        let (year, month, day) = of_days(days);
        Self { year, month, day, time: micros.rem_euclid(i128::from(DAY)) as i64 }
    }

    /// Returns the point in time, if it can be represented; the day may be beyond those of its
    /// month, and the month beyond those of its year.
    pub(crate) fn point(&self, offset: i64) -> Option<DateTime> {
        let months = i128::from(self.year) * 12 + i128::from(self.month) - 1;
        let year = i64::try_from(months.div_euclid(12)).ok()?;
        if year.unsigned_abs() > 400_000 {
            return None;
        }
        let first = days_before(year, months.rem_euclid(12) as i64 + 1, 1);
        let days = i128::from(first) + i128::from(self.day) - 1;
        let micros = days * i128::from(DAY) + i128::from(self.time) - i128::from(offset * SECOND);
        i64::try_from(micros).ok().map(DateTime::from_micros)
    }

    pub(crate) const fn hour(&self) -> i64 {
        self.time / (3_600 * SECOND)
    }

    pub(crate) const fn minute(&self) -> i64 {
        self.time / (60 * SECOND) % 60
    }

    pub(crate) const fn second(&self) -> i64 {
        self.time / SECOND % 60
    }

    pub(crate) const fn millisecond(&self) -> i64 {
        self.time / MILLI % 1_000
    }

    /// Days since 1970-01-01.
    pub(crate) const fn days(&self) -> i64 {
        days_before(self.year, self.month, self.day)
    }

    /// From 1 on.
    pub(crate) const fn day_of_year(&self) -> i64 {
        self.days() - days_before(self.year, 1, 1) + 1
    }

    /// From 1 for Monday to 7 for Sunday.
    pub(crate) const fn iso_weekday(&self) -> i64 {
        weekday(self.days()) + 1
    }

    /// The year and the week of ISO 8601: a week belongs to the year of its Thursday.
    pub(crate) const fn iso_week(&self) -> (i64, i64) {
        let thursday = self.days() - weekday(self.days()) + 3;
        let (year, _, _) = of_days(thursday);
        (year, (thursday - days_before(year, 1, 1)) / 7 + 1)
    }

    /// The week of the year, from 0 on: week 1 begins with the first Sunday.
    pub(crate) const fn week(&self) -> i64 {
        let from_sunday = (weekday(self.days()) + 1) % 7;
        (self.day_of_year() + 6 - from_sunday) / 7
    }
}

/// From 0 for Monday to 6 for Sunday.
pub(super) const fn weekday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 3).rem_euclid(7)
}

/// Returns year, month and day of the day `days` after 1970-01-01.
const fn of_days(days: i64) -> (i64, i64, i64) {
    // A year counts from March, so that the leap day is its last day. An era has 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Returns the number of days from 1970-01-01 to a day.
pub(super) const fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let (era, of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the number of days from 1970-01-01 to a day of a week of ISO 8601; weeks and days beyond
/// those of their year or week count on.
pub(crate) const fn days_before_iso(year: i64, week: i64, day: i64) -> i64 {
    let fourth = days_before(year, 1, 4);
    fourth - weekday(fourth) + (week - 1) * 7 + day - 1
}

/// Returns the number of days of a month.
pub(super) const fn days_of_month(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_before(next_year, next, 1) - days_before(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_weeks() {
        let civil = |text: &str| Civil::of(DateTime::parse_rfc3339(text).unwrap(), 0);
        for (text, iso, week, weekday, of_year) in [
            ("1970-01-01T00:00:00Z", (1970, 1), 0, 4, 1),
            ("2016-01-01T12:00:00Z", (2015, 53), 0, 5, 1),
            ("2016-01-03T12:00:00Z", (2015, 53), 1, 7, 3),
            ("2020-12-31T23:59:59Z", (2020, 53), 52, 4, 366),
            ("2021-01-04T00:00:00Z", (2021, 1), 1, 1, 4),
            ("1900-03-01T00:00:00Z", (1900, 9), 8, 4, 60),
        ] {
            let found = civil(text);
            let all = (found.iso_week(), found.week(), found.iso_weekday(), found.day_of_year());
            assert_eq!(all, (iso, week, weekday, of_year), "{text}");
            assert_eq!(found.point(0), DateTime::parse_rfc3339(text));
        }
        assert_eq!(days_of_month(2024, 2), 29);
        assert_eq!(days_of_month(1900, 2), 28);
        let extreme = Civil::of(DateTime::from_micros(i64::MIN), -86_000);
        assert_eq!(extreme.point(-86_000), Some(DateTime::from_micros(i64::MIN)));
        assert_eq!(Civil { year: i64::MAX, ..extreme }.point(0), None);
        let beyond = Civil { year: 2020, month: 14, day: 31, time: 0 }.point(0).unwrap();
        assert_eq!(beyond.to_string(), "2021-03-03T00:00:00Z");
    }
}
