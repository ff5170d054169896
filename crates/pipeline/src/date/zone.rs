//! Time zones: UTC, fixed offsets, and the regions of the IANA database, which this build holds.

use super::calendar::{Civil, SECOND};
use flagstone::doc::DateTime;
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// How many seconds it is ahead of UTC.
    Offset(i64),
    /// A region, whose offset changes.
    Region(TimeZone),
}

static REGIONS: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

impl Zone {
    pub(crate) const UTC: Self = Self::Offset(0);

    /// Parses what [`offset`](Self::offset) does, or the name of a region: `Europe/Berlin`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(offset) = Self::offset(text) {
            return Some(Self::Offset(offset));
        }
        // The database ignores case; drivers do not.
        let zone = REGIONS.get(text).ok()?;
        (zone.iana_name() == Some(text)).then_some(Self::Region(zone))
    }

    /// Parses `UTC`, `GMT`, `+02`, `-0530` or `+05:30` to the seconds ahead of UTC.
    pub(crate) fn offset(text: &str) -> Option<i64> {
        if ["UTC", "GMT", "Etc/UTC", "Etc/GMT"].contains(&text) {
            return Some(0);
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let digits: String = text[1..].chars().filter(|char| *char != ':').collect();
        let is_shaped = match text.len() {
            3 | 5 => !text.contains(':'),
            6 => text.as_bytes()[3] == b':',
            _ => false,
        };
        if !is_shaped || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: i64 = digits.parse().ok()?;
        let (hours, minutes) =
            if digits.len() == 2 { (number, 0) } else { (number / 100, number % 100) };
        Some(sign * (hours * 60 + minutes) * 60)
    }

    /// Returns how many seconds the zone is ahead of UTC at a point. Beyond the years from -9999 to
    /// 9999 it is as at the nearest of them.
    pub(crate) fn offset_at(&self, time: DateTime) -> i64 {
        match self {
            Self::Offset(offset) => *offset,
            Self::Region(zone) => {
                let seconds = time.as_micros().div_euclid(SECOND);
                let (least, most) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
                let at = Timestamp::from_second(seconds.clamp(least, most)).unwrap_or_default();
                zone.to_offset(at).seconds().into()
            }
        }
    }

    /// Returns the day and time of a point.
    pub(crate) fn civil(&self, time: DateTime) -> Civil {
        Civil::of(time, self.offset_at(time))
    }

    /// Returns the point of a day and time, if it can be represented. Of two points it is the
    /// earlier one; a time that a change skips counts from before the change.
    pub(crate) fn point(&self, civil: &Civil) -> Option<DateTime> {
        let zone = match self {
            Self::Offset(offset) => return civil.point(*offset),
            Self::Region(zone) => zone,
        };
        let local = civil.point(0)?;
        let exact = Civil::of(local, 0);
        let known = i16::try_from(exact.year).ok().filter(|year| (-9_999..=9_999).contains(year));
        let day = known.and_then(|year| {
            let (month, day) = (i8::try_from(exact.month).ok()?, i8::try_from(exact.day).ok()?);
            let [hour, minute, second] = [exact.hour(), exact.minute(), exact.second()];
            let [hour, minute, second] =
                [i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, i8::try_from(second).ok()?];
            civil::DateTime::new(year, month, day, hour, minute, second, 0).ok()
        });
        let found = day.and_then(|day| zone.to_ambiguous_timestamp(day).compatible().ok());
        let offset = match found {
            Some(point) => local.as_micros().div_euclid(SECOND) - point.as_second(),
            None => self.offset_at(local),
        };
        civil.point(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_names_are_parsed() {
        for (text, seconds) in [
            ("UTC", Some(0)),
            ("+02", Some(7_200)),
            ("-0530", Some(-19_800)),
            ("+05:45", Some(20_700)),
            ("+5", None),
            ("+05:4", None),
            ("+05:70", Some(22_200)),
            ("+0:545", None),
            ("+é0", None),
            ("", None),
        ] {
            assert_eq!(Zone::parse(text), seconds.map(Zone::Offset), "{text}");
        }
        assert!(matches!(Zone::parse("Europe/Berlin"), Some(Zone::Region(_))));
        for unknown in ["europe/berlin", "Europe/Nowhere", "EUROPE/BERLIN"] {
            assert_eq!(Zone::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_region_has_the_offset_of_the_point() {
        let zone = Zone::parse("America/New_York").unwrap();
        let time = |text: &str| DateTime::parse_rfc3339(text).unwrap();
        assert_eq!(zone.offset_at(time("2021-01-01T00:00:00Z")), -5 * 3_600);
        assert_eq!(zone.offset_at(time("2021-07-01T00:00:00Z")), -4 * 3_600);
        let at = |hour: i64, day: i64, month: i64| {
            let civil = Civil { year: 2021, month, day, time: hour * 3_600 * SECOND };
            zone.point(&civil).unwrap().to_string()
        };
        assert_eq!(at(1, 14, 3), "2021-03-14T06:00:00Z");
        // 2 o'clock does not exist on that day, and 1 o'clock comes twice on the other.
        assert_eq!(at(2, 14, 3), "2021-03-14T07:00:00Z");
        assert_eq!(at(1, 7, 11), "2021-11-07T05:00:00Z");
        assert_eq!(at(0, 33, 6), "2021-07-03T04:00:00Z");
        for far in [i64::MIN / 2, i64::MAX / 2] {
            let civil = zone.civil(DateTime::from_micros(far));
            assert_eq!(zone.point(&civil), Some(DateTime::from_micros(far)));
        }
    }
}
