//! Time zones: UTC and fixed offsets.

/// A time zone: how many seconds it is ahead of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zone(pub(crate) i64);

impl Zone {
    pub(crate) const UTC: Self = Self(0);

    /// Parses `UTC`, `GMT`, `Z`, `+02`, `-0530` or `+05:30`. `None` for all else: names of regions
    /// need a table of zones, which this build does not have.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if ["UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT"].contains(&text) {
            return Some(Self::UTC);
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
        Some(Self(sign * (hours * 60 + minutes) * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_parsed_and_names_are_not() {
        for (text, seconds) in [
            ("UTC", Some(0)),
            ("+02", Some(7_200)),
            ("-0530", Some(-19_800)),
            ("+05:45", Some(20_700)),
            ("+5", None),
            ("+05:4", None),
            ("+05:70", Some(22_200)),
            ("+0:545", None),
            ("Europe/Berlin", None),
            ("+é0", None),
            ("", None),
        ] {
            assert_eq!(Zone::parse(text).map(|zone| zone.0), seconds, "{text}");
        }
    }
}
